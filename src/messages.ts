// The catalog of messages: all texts of errors that clients of the API get, by code. A catalog in another language has the same codes.
// Names in braces are replaced. `{max:record|records}` is the form of a word for the number `max`.

export const ENGLISH_MESSAGES = {
  // What any statement can meet.
  busy: 'The database is busy. Try again.',
  unavailable: 'The database is unavailable. Try again.',
  statementLate: 'The database took too long. Try again.',
  canceled: 'The database took too long. Request less data, or try again.',
  writeCanceled:
    'The change took too long, perhaps because a record was locked, and other clients were waiting. Try again.',
  readTooLong: 'The query takes too long. Request less data, or try again.',
  tooMuchSpace: 'The database needs too much space for this. Request less data.',
  notReady: 'The data is not ready. Try again.',
  lostWrite:
    'The database did not answer. It is not known whether the change was made: check before you try again.',
  // Writes that the database refuses.
  notSupported: 'The database does not support this for a column of this type.',
  badValue: 'The database does not accept one of the values.',
  tooLarge: 'A value is too large for the database.',
  tooDeep: 'The database cannot process this: values are nested too deeply.',
  valueMissing: 'A value that the database requires is missing.',
  notAllowed: 'A rule of the database does not allow this.',
  valuesNotAllowed: 'A rule of the database does not allow these values.',
  conflict: 'The values conflict with those of another record.',
  invalidBody: 'The body has fields that cannot be used.',
  historyKeyTooLong: 'The key is too long for the history of changes.',
  // Duplicates and references.
  duplicate: 'A record with the same value already exists.',
  duplicateOfSelection: 'A record with the same value already exists. Nothing was changed.',
  referenced: 'Other records refer to this one.',
  referencedBy: 'Records of {models} refer to this one.',
  selectionReferenced: 'Other records refer to some of the selected records. Nothing was deleted.',
  badReference: 'Other records refer to this one, or a record that it refers to does not exist.',
  absentReference: 'A record that this one refers to does not exist.',
  absentReferences: 'At least one record refers with {fields} to a record that does not exist.',
  // Single fields.
  valueTaken: 'another record has this value',
  valuesTaken: 'another record has these values together ({fields})',
  valueMustBeUnique: 'must be unique, so two records cannot have the same value',
  valuesMustBeUnique: 'must be unique together ({fields}), so two records cannot have the same values',
  noSuchRecord: 'there is no such record',
  scopeLacks: 'this token may not read {model}',
  noSuchRecordOf: 'there is no such record ({fields})',
  ruleOfValue: 'a rule of the database does not allow this value',
  ruleOfValues: 'a rule of the database does not allow these values together',
  // Requests that HTTP or the service does not allow.
  internal: 'An internal error occurred.',
  noResource: 'There is no resource at this address.',
  starting: 'The service is starting.',
  closed: 'The service is closed.',
  notYetReady: 'The service is not ready.',
  overloaded: 'The service is overloaded. Try again.',
  tooManyRequests: 'You are sending too many requests. Try again later.',
  tooManyWaiting: 'Too many of your requests are already waiting. Try again later.',
  notAuthenticated: 'Authentication failed',
  tooManyLogins: 'Too many failed logins. Try again later.',
  tooManyChecks: 'Too many passwords are being checked. Try again.',
  tooManyOwnBodies: 'Your address is sending too many large request bodies at once. Try again later.',
  tooManyBodies: 'The service is receiving too many large request bodies. Try again later.',
  tooManyUnread: 'Too many responses are still unread by their clients. Try again later.',
  tooManyOwnChanges: 'Your earlier bulk changes are still running. Try again when they have finished.',
  tooManyChanges: 'Too many bulk changes are running. Try again.',
  tooManyOwnImports: 'Your earlier imports are still running. Try again when they have finished.',
  tooManyImports: 'Too many imports are running. Try again.',
  tooManyPanels: 'Too many panels are loading. Try again.',
  tooManyOwnStreams: 'You have reached your limit of concurrent streams. Finish reading one first.',
  tooManyStreams: 'Too many streams and exports are running. Try again.',
  slowStream: 'The stream was ended: it was too slow, and other clients wait for one.',
  longStream: 'The stream took too long and was ended.',
  processesSilent: 'The other processes of the service do not answer.',
  foreignHost:
    'The metrics are available under an IP address, localhost, a host name without a dot, and the host of METRICS.',
  lateRequest: 'The request did not arrive in time.',
  notHttp: 'The request is not valid HTTP.',
  longUrl: 'The URL is too long.',
  longQuery: 'The query string is longer than {max} {max:byte|bytes}.',
  longNeighborUrl: 'The URL of a neighboring page would be too long. Shorten the query.',
  largeHead: 'The URL and headers must be smaller than 32 KiB in total.',
  longHeader: '{name} must have at most {max} {max:character|characters}.',
  tooManyHeaders: 'The request has too many headers. The maximum is {max}.',
  noHost: 'The Host header is missing.',
  longHost: 'The Host header is longer than {max} {max:character|characters}.',
  severalHosts: 'The request has more than one Host header.',
  noTransferEncoding: 'HTTP/1.0 has no Transfer-Encoding.',
  notChunkedLast: 'The last Transfer-Encoding must be chunked.',
  notChunked: 'The Transfer-Encoding is not supported. Use chunked.',
  notAcceptable: 'Accept must allow one of {formats}.',
  methodNotAllowed: 'This path allows only {allow}.',
  otherOrigin:
    'Writes from the origin {origin} are not allowed, because the service was requested as {own}. If browsers reach it at that origin, add the origin to PUBLIC_URL{others}.',
  orCorsOrigins: ', or CORS_ORIGINS if it belongs to another application',
  otherSite: 'Writes from pages of other origins are not allowed (Sec-Fetch-Site: {site}).',
  // Callers and records.
  adminsOnly: 'Only admins may do this.',
  adminsWrite: 'Only admins may write here.',
  ownerChanges: 'Only the owner of a record may change or delete it.',
  rolesForbid: 'Your roles do not allow this.',
  scopeForbids: 'This token does not allow this, or its user may not do it.',
  tooManyTokens: 'You have {max} {max:token|tokens}, which is the maximum. Revoke one first.',
  tooManyNewTokens:
    'You have made {max} {max:token|tokens} in an hour, which is the maximum. Try again later.',
  noTokens: 'This needs your user name and password. A token cannot do it.',
  notChangeable: 'You may not change or delete this record.',
  notAllChangeable: 'You may not change {count} of the selected records ({names}). Nothing was changed.',
  outsideOfRules: 'You may not make the record what it would be.',
  noColumnOfCaller: 'there is no column {column} of the caller',
  notInRules: 'has no effect in a rule',
  noFilter: 'must have a filter',
  notSettable: 'may not be set',
  requiredNotSettable: 'is required but may not be set, so you cannot create records',
  ownerCreates: 'Only the owner of a record may create it.',
  userChanged: 'The user has changed twice. Try again.',
  formBusy: 'This form is already being processed. Try again to see the result.',
  noRecord: 'There is no such record.',
  exists: 'There is a record with this key already.',
  listedVersion: 'The record has a version that If-None-Match lists.',
  recordChanged: 'The record has changed since it was read.',
  badIdempotencyKey: 'Idempotency-Key must have 1 to {max} printable ASCII {max:character|characters}.',
  noIdempotencyKeys: 'The service cannot keep an Idempotency-Key: the database has no table for them.',
  otherRequest: 'Another request had this Idempotency-Key.',
  keyInUse: 'Another request with this Idempotency-Key is being carried out. Try again.',
  answerHidden: 'This request was carried out before, and you may no longer read its answer.',
  recordBusy: 'Other requests keep changing this record. Try again.',
  selectionChanged: 'The number of selected records has changed since the page was shown. Nothing was done.',
  repeatedKey: 'Several records have the same key as a selected one. Nothing was changed.',
  includesAdmin: 'The deletion now includes an admin. Nothing was deleted.',
  // Bodies.
  ofBody: 'The body {predicate}',
  largerThan: 'is larger than {max} {max:byte|bytes}.',
  notUtf8: 'is not UTF-8.',
  incompleteBody: 'The body is incomplete: the connection ended before its last byte.',
  smallChunks: 'The body arrives in too many small chunks.',
  notMultipart: 'The body is not valid multipart/form-data.',
  notJsonType: 'The body must be application/json, or a form with a field "data".',
  notUtf8Charset: 'The body must be UTF-8.',
  compressed: 'The body must not be compressed.',
  emptyBody: 'The body is empty.',
  bodyNotJson: 'The body is not valid JSON: {reason}.',
  bodyNotObject: 'The body must be a JSON object of fields and values.',
  noRecords: 'The body has no records.',
  tooManyRecords: 'The body has more than {max} {max:record|records}.',
  tooManyFields: 'The body has more than {max} {max:field|fields}.',
  notChecked: ' The records from position {position} on were not checked.',
  tooManyFormFields: 'The form has more than {max} {max:field|fields}.',
  noData: 'The form has no field "data".',
  severalData: 'The form has more than one field "data".',
  dataNotEncoded: 'The field "data" is not percent-encoded UTF-8.',
  // Query parameters.
  invalidQuery: 'The query has parameters that cannot be used.',
  moreParameters: 'and {count} more {count:parameter|parameters} cannot be used',
  onlyAfter: 'is not allowed: the change feed takes only after',
  noParameters: 'is not allowed: only GET on a collection takes parameters',
  noPages: 'cannot be used here: a stream has no pages',
  notWithPage: 'cannot be used with page',
  foreignCursor: 'is not from a link of this list: start without it',
  badFeedCursor: 'is not a cursor of this feed',
  onlyOnce: 'must be given only once',
  notEncoded: 'is not percent-encoded UTF-8',
  notEncodedKey: 'is not percent-encoded correctly',
  notPositive: 'must be a positive whole number',
  notPositiveOf: 'must be a positive whole number of at most {max} {max:digit|digits}',
  largePage:
    'the page exceeds {max} {max:byte|bytes}: use a lower limit, or stream all records (Accept: application/x-ndjson)',
  noColumn: 'there is no such column',
  noColumns: 'must name columns',
  neitherNor: '"{name}" is neither a column nor an operator here',
  noOperator: 'this column does not support the operator {operator}',
  didYouMean: '{fault}; did you mean {name}?',
  noSearch: 'there is no such column; search with a filter such as name__ilike=%word%',
  noRelated: 'there is no such column; read related records in their own collection, by id__in',
  notSortable: '{name}: this column cannot be sorted',
  named: '{name}: {fault}',
  longPath: 'must follow at most {max} foreign {max:key|keys}',
  tooManyJoins: 'makes the query join more than {max} {max:table|tables}',
  tooManyTables:
    'makes a page with cursors read {count} {count:table|tables}; at most {max} {max:is|are} allowed: order by fewer columns',
  longBoundary: 'has values that are too long for a cursor: order by other columns',
  tooManyOrderings: 'must have at most {max} {max:column|columns} (got {got})',
  tooManyFilters: 'is filter {count} of the query; at most {max} {max:is|are} allowed',
  tooManyPatterns: 'is pattern {count} of the query; at most {max} {max:is|are} allowed',
  longPatterns:
    'makes the patterns of the query {count} {count:character|characters} long; at most {max} {max:is|are} allowed',
  tooManyJsonValues:
    'makes the query look for {count} {count:value|values} in JSON; at most {max} {max:is|are} allowed',
  tooManyFilterElements:
    'makes the query look for {count} {count:element|elements} of arrays; at most {max} {max:is|are} allowed',
  tooManyDigits:
    'makes the exponents of the {whole} add {got} {got:digit|digits}; at most {max} {max:is|are} allowed',
  longSearch:
    'is too long: a search has at most {words} {words:word|words} and {characters} {characters:character|characters} (each word adds two, and the patterns of filters count too)',
  noValue: 'must have at least one value',
  notCsv: 'must be comma-separated values, quoted as in CSV',
  tooManyValues: 'must have at most {max} {max:value|values} (got {got})',
  notNullTrueOrFalse: 'must be null, true or false',
  onlyNull: 'must be null, because this column is not boolean',
  loneBackslash: 'must not end with a lone backslash',
  // Fields.
  moreFields: 'and {count} more {count:field|fields} cannot be used',
  moreUnknown: 'and {count} more {count:field does|fields do} not exist',
  noField: 'there is no such field',
  required: 'is required',
  requiredReadonly: 'is required but read-only, so clients cannot create records',
  readonly: 'is read-only',
  notInBulk: 'can be set for only one record at a time',
  tooLargeTogether: 'The selected records are too large together. Select fewer records.',
  notReplaceable: 'has no text of which a part can be replaced',
  longerThan: 'would get longer than {max} {max:character|characters}',
  wouldBeLarge: 'would get larger than {max} {max:byte|bytes}',
  largeTogether: 'would get larger than {max} {max:byte|bytes} in all records together: select fewer',
  largeValue: 'must be at most {max} {max:byte|bytes} (got {got})',
  otherName: 'differs from {name}, which is another name of the same field',
  notRecord: 'must be an object of fields and values',
  otherId: 'must equal the id of the record',
  otherKey: 'must equal the value in the address',
  generatedKey: 'is generated and must not be sent',
  madeKey: 'is made of {names}, and must not be sent',
  keyPart: 'is a part of the key and cannot be changed',
  longKeyPart: 'makes the key longer than {max} {max:byte|bytes}, which must fit into a URL (got {got})',
  longKey: 'must be at most {max} {max:byte|bytes} to fit into a URL (got {got})',
  noAddress: 'must not be empty, "." or "..", because no URL could name the record',
  notBasic: 'must not be empty or contain a colon, because Basic authentication could not send it',
  tooManyPlaces: 'must have at most {max} decimal {max:place|places} of seconds (got {got})',
  notParts: 'must be {count} {count:value|values} separated by commas ({names})',
  userName: 'must not be the user name',
  commonPassword: 'is one of the most common passwords',
  notPassword: 'is not your password',
  notFuture: 'must be in the future',
  noResourceNamed: 'there is no resource {name}',
  // Values of a type.
  notNull: 'must not be null',
  notOneOf: 'must be one of {names}',
  notLabel: 'must be one of {names}, which were the values of its type when the service started',
  notString: 'must be a string',
  nulCharacter: 'must not contain a NUL character',
  loneSurrogate: 'must not contain a lone surrogate',
  notMatching: 'must match the pattern {pattern}',
  tooLong: 'must be at most {max} {max:character|characters} (got {got})',
  tooShort: 'must be at least {min} {min:character|characters} (got {got})',
  passwordBytes: 'must be 1 to 1,024 bytes long',
  notBoolean: 'must be true or false',
  notWhole: 'must be a whole number',
  notInRange: 'must be from {min} to {max}',
  notNumber: 'must be a number',
  notDigits: 'must be a number or a string of digits',
  notDecimal: 'must be a decimal number',
  notFinite: 'must be a finite value',
  belowMin: 'must be at least {min}',
  aboveMax: 'must be at most {max}',
  tooEarly: 'must not be before {min}',
  tooLate: 'must not be after {max}',
  tooLargeNumber: 'is too large',
  outOfRange: 'is out of range',
  digitsBefore: 'must have at most {max} {max:digit|digits} before the decimal point',
  digitsAfter: 'must have at most {max} {max:digit|digits} after the decimal point',
  digitsInAll: 'has too many digits',
  digitsWritten: 'must have at most {max} {max:digit|digits} when written without an exponent (got {got})',
  notUuid: 'must be a UUID',
  notDateTime: 'must be a date and time such as 2024-05-31 18:30:00',
  lostPlus:
    'must be a date and time such as 2024-05-31 18:30:00; in an address or a form, write the + of the offset as %2B',
  invalidDateTime: 'is not a valid date and time',
  notUtc: 'cannot be converted to UTC: the offset must be below 16 hours and the year from 1 to 9999',
  notDate: 'must be a date such as 2024-05-31',
  invalidDate: 'is not a valid date',
  notYear: 'must have a year from 1 to 9999',
  notTime: 'must be a time such as 18:30:00',
  notAddress: 'must be an IP address such as 192.0.2.7, 2001:db8::7 or 192.0.2.7/24',
  notNetwork: 'must be a network such as 192.0.2.0/24 or 2001:db8::/32',
  hostBits: 'must have only zeros after the first {prefix:bit|{prefix} bits}',
  notMacAddress: 'must be a MAC address such as {example}',
  notJson: 'must be JSON: {reason}',
  unexpectedCharacter: 'unexpected character at line {line}, column {column}',
  unexpectedEnd: 'unexpected end at line {line}, column {column}',
  hugeNumber:
    'has a number that is too large or too small: a number with an exponent must have at most {max} {max:digit|digits} when written without one',
  tooDeepJson: 'must not nest deeper than {max} {max:level|levels}',
  notArray: 'must be an array',
  notJsonArray: 'must be a JSON array',
  nestedArray: 'must not be an array',
  tooManyElements: 'must have at most {max} {max:element|elements}',
  element: 'element {position}: {fault}',
} as const;

export type MessageCode = keyof typeof ENGLISH_MESSAGES;

type Param = string | number | bigint | Message;

/** A message as data. `Problem` and `addError` make its text. */
export interface Message {
  readonly code: MessageCode;
  /** What replaces the names in braces. */
  readonly params?: Readonly<Record<string, Param>>;
}

/** A whole catalog. */
export type Messages = Readonly<Record<MessageCode, string>>;

interface Source {
  readonly messages: Messages;
  readonly plurals: Intl.PluralRules;
  /** The decimal separator. */
  readonly decimal: '.' | ',';
}

const ENGLISH: Source = {
  messages: ENGLISH_MESSAGES,
  plurals: new Intl.PluralRules('en'),
  decimal: '.',
};

/** The catalog for the work that is going on: that of the page which is being answered. The API has English texts. */
let present = (): Source => ENGLISH;

/** Sets where the catalog for the work that is going on comes from. */
export const takeMessagesFrom = (source: () => Source): void => {
  present = source;
};

/** The names in braces, also those of numbers with forms. */
export type ParamsOf<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}`
  ? (Name extends `${infer Number}:${infer Forms}` ? Number | ParamsOf<`${Forms}}`> : Name) | ParamsOf<Rest>
  : never;
type Params<Code extends MessageCode> = Readonly<Record<ParamsOf<(typeof ENGLISH_MESSAGES)[Code]>, Param>>;

export const messageOf = <Code extends MessageCode>(
  code: Code,
  ...[params]: [keyof Params<Code>] extends [never] ? [] : [Params<Code>]
): Message => (params ? { code, params } : { code });

/** `{count:record|records}`: the forms of words for one, and for other numbers. A form may have names in braces. */
export const FORMS = /\{(\w+):((?:[^{}|]|\{\w+\})*)\|((?:[^{}|]|\{\w+\})*)\}/g;

/** Chooses the forms of a text for its numbers. `script.js` does the same. */
export const inForms = (
  text: string,
  params: Readonly<Record<string, unknown>>,
  plurals: Intl.PluralRules,
): string =>
  text.replace(FORMS, (_, name: string, one: string, other: string) =>
    plurals.select(Number(params[name])) === 'one' ? one : other,
  );

/** `1 record`, `2 records`: for what is only in English, such as commands and the log. */
export const counted = (count: number | bigint, one: string, other = `${one}s`): string =>
  `${count} ${Number(count) === 1 ? one : other}`;

/** @param message a text stays as it is: the words of the registry, of PostgreSQL or of a page */
export function textOf(message: Param): string {
  if (typeof message === 'number') return String(message).replace('.', present().decimal);
  if (typeof message !== 'object') return String(message);
  const { code, params } = message;
  const { messages, plurals } = present();
  if (!params) return messages[code];
  return inForms(messages[code], params, plurals).replace(/\{(\w+)\}/g, (_, name: string) =>
    textOf(params[name] ?? ''),
  );
}
