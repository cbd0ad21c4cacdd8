// Splits a query string or a form into parameters, filters, orderings and page numbers. Resolves no names.
import { addError, badQuery, Problem, type FieldErrors } from '../../errors.ts';
import { percentDecode } from './percent-decoding.ts';
import { messageOf } from '../../messages.ts';

/** Limits of one query: see docs/reading.md. */
export const MAX_QUERY_BYTES = 8192;
const MAX_FILTERS = 50;
export const MAX_ORDERINGS = 8;

export interface Parameter {
  readonly name: string;
  readonly value: string;
}

/** One filter of the request, before its names are resolved. */
export interface FilterQuery {
  /** The parameter's name as the client sent it, for error messages. */
  readonly parameter: string;
  /** `user__username__ilike` split at `__`. The planner decides which parts are columns and which is the operator. */
  readonly parts: readonly string[];
  readonly negated: boolean;
  /** More than one if the parameter is repeated. */
  readonly values: readonly string[];
}

export interface OrderingQuery {
  readonly parts: readonly string[];
  readonly descending: boolean;
}

/** The parsed query string of a request for a page. */
export interface ListQuery {
  readonly filters: readonly FilterQuery[];
  /** Undefined if the request has no `ordering`. */
  readonly orderings: readonly OrderingQuery[] | undefined;
  readonly page: bigint;
  /** The boundary of the page, as the service wrote it in a link; it replaces `page`. */
  readonly cursor: string | undefined;
  readonly limit: number;
  /** The filters and the ordering for links to other pages, each followed by `&`. */
  readonly link: string;
}

/** The page sizes of a resource. */
export interface PageLimits {
  readonly limit: number;
  readonly maxLimit: number;
  /** Whether `cursor` is a parameter and not the name of a column. */
  readonly hasCursors?: boolean;
}

export interface DecodedParameter {
  /** The whole parameter as the client sent it. */
  readonly encoded: string;
  /** The name as the client sent it, still percent-encoded. */
  readonly encodedName: string;
  readonly name: string | undefined;
  readonly value: string | undefined;
}

/** Decodes one parameter of a form or a query: `name=value` or `name`. */
function decodeParameter(encoded: string): DecodedParameter {
  const equals = encoded.indexOf('=');
  const encodedName = equals < 0 ? encoded : encoded.slice(0, equals);
  const value = equals < 0 ? '' : percentDecode(encoded.slice(equals + 1));
  return { encoded, encodedName, name: percentDecode(encodedName), value };
}

/**
 * The names and values of an `application/x-www-form-urlencoded` text, in order. A name or a value that cannot be decoded is undefined.
 * @returns undefined if the form has more than `maxFields` fields
 */
export function decodeForm(text: string, maxFields: number): DecodedParameter[] | undefined {
  const parameters: DecodedParameter[] = [];
  for (const encoded of encodedParameters(text)) {
    if (parameters.length === maxFields) return undefined;
    parameters.push(decodeParameter(encoded));
  }
  return parameters;
}

/** Matches the start of a field with this ASCII name. Each byte may be plain or percent-encoded. */
function fieldPattern(name: string): RegExp {
  const hexDigit = (digit: string): string => `[${digit}${digit.toUpperCase()}]`;
  const bytes = [...Buffer.from(name)].map((byte) => {
    const digits = [...byte.toString(16)].map(hexDigit);
    return `(?:${String.fromCharCode(byte)}|%${digits.join('')})`;
  });
  return new RegExp(`(?<=^|&)${bytes.join('')}(?=[=&]|$)`, 'g');
}

/**
 * The first values of one field of a form. Other fields are not split, because a body can hold half a million of them.
 * @param name in ASCII letters
 */
export function decodeField(text: string, name: string, maxValues: number): DecodedParameter[] {
  const found: DecodedParameter[] = [];
  for (const { index } of text.matchAll(fieldPattern(name))) {
    const end = text.indexOf('&', index);
    found.push(decodeParameter(text.slice(index, end < 0 ? text.length : end)));
    if (found.length === maxValues) break;
  }
  return found;
}

const AMPERSAND = 0x26;

/** The texts between the ampersands of a form or a query that are not empty. */
function* encodedParameters(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    if (text.charCodeAt(start) === AMPERSAND) {
      start += 1;
      continue;
    }
    const next = text.indexOf('&', start);
    const end = next < 0 ? text.length : next;
    yield text.slice(start, end);
    start = end + 1;
  }
}

/** The parameters of a query string. Its length is limited already, which also limits their number. */
export const decodeQuery = (query: string): DecodedParameter[] => decodeForm(query, Infinity) ?? [];

/** Whether a query string may have more than `max` parameters. Counts each `&`, even beside an empty part. */
export function hasMoreParameters(query: string, max: number): boolean {
  let left = max;
  for (let at = query.indexOf('&'); at >= 0 && left > 0; at = query.indexOf('&', at + 1)) left -= 1;
  return left === 0;
}

/**
 * The query string without what links and forms of pages add: paging, and parameters that begin with an underscore, as no column
 * does. These do not count for the length limit.
 */
const countedQuery = (query: string): string =>
  query
    .split('&')
    .filter((encoded) => !/^(_|(limit|page|cursor)=)/.test(encoded))
    .join('&');

/** A parameter, and the whole of it as the client sent it. */
type EncodedParameter = Parameter & Pick<DecodedParameter, 'encoded'>;

/**
 * The parameters of a query string, in order.
 * @throws Problem 414 if it is too long, 400 for bad percent-encoding and NUL characters
 */
export function parseParameters(query: string, maxBytes = MAX_QUERY_BYTES): EncodedParameter[] {
  if (Buffer.byteLength(query) > maxBytes && Buffer.byteLength(countedQuery(query)) > maxBytes)
    throw new Problem(414, messageOf('longQuery', { max: maxBytes }));
  const errors: FieldErrors = {};
  const parameters: EncodedParameter[] = [];
  for (const { encoded, encodedName, name, value } of decodeQuery(query)) {
    if (name === undefined || value === undefined)
      addError(errors, name ?? encodedName, messageOf('notEncoded'));
    else if (name.includes('\0') || value.includes('\0')) addError(errors, name, messageOf('nulCharacter'));
    else parameters.push({ name, value, encoded });
  }
  if (Object.keys(errors).length > 0) throw badQuery(errors);
  return parameters;
}

/** Splits `-pub_date,user__username` into columns, and their paths at `__`. */
export function parseOrdering(text: string): OrderingQuery[] {
  return text.split(',').map(parseOrderingItem);
}

function parseOrderingItem(item: string): OrderingQuery {
  const descending = item.startsWith('-');
  return { parts: (descending ? item.slice(1) : item).split('__'), descending };
}

/** Adds an error if the ordering has too many columns. */
export function checkOrderingLength(columns: number, errors: FieldErrors): void {
  if (columns > MAX_ORDERINGS)
    addError(errors, 'ordering', messageOf('tooManyOrderings', { max: MAX_ORDERINGS, got: columns }));
}

/** Encodes a name or a value for a link. Commas stay: encoding those of a long list would exceed the length limit. */
const encode = (text: string): string => encodeURIComponent(text).replaceAll('%2C', ',');

/** The parameters that are never filters. `cursor` is one of them, too, unless a column has this name. */
const RESERVED: ReadonlySet<string> = new Set(['ordering', 'limit', 'page']);

/** Numbers of tens of thousands of digits take milliseconds to read and to write, and paging does not count for the length limit. */
const MAX_DIGITS = 1_000;

const isPositive = (text: string): boolean =>
  text.length <= MAX_DIGITS && /^\d+$/.test(text) && /[1-9]/.test(text);

/**
 * Parses the query string of a collection. The planner resolves the names later.
 * @param errors receives the errors of `ordering`, `limit`, `page` and of too many filters
 * @param maxBytes the longest query, which is not limited if a page of the admin area makes it
 */
export function parseListQuery(
  query: string,
  { limit, maxLimit, hasCursors = false }: PageLimits,
  errors: FieldErrors,
  maxBytes?: number,
): ListQuery {
  const filters = new Map<string, string[]>();
  const reserved = new Map<string, string>();
  const normalized: string[] = [];
  const sent: string[] = [];
  let filterCount = 0;
  for (const { name, value, encoded } of parseParameters(query, maxBytes)) {
    const isReserved = RESERVED.has(name) || (hasCursors && name === 'cursor');
    if (isReserved && reserved.has(name)) addError(errors, name, messageOf('onlyOnce'));
    if (isReserved) reserved.set(name, value);
    else {
      filterCount += 1;
      if (filterCount === MAX_FILTERS + 1)
        addError(errors, name, messageOf('tooManyFilters', { count: filterCount, max: MAX_FILTERS }));
      const values = filters.get(name);
      if (values) values.push(value);
      else filters.set(name, [value]);
    }
    // A query with more filters has an error, so its link is never used.
    const mayBeValid = normalized.length <= MAX_FILTERS;
    if (mayBeValid && (!isReserved || name === 'ordering')) {
      normalized.push(`${encode(name)}=${encode(value)}&`);
      sent.push(`${encoded}&`);
    }
  }
  const limitText = reserved.get('limit');
  const pageText = reserved.get('page');
  for (const [name, text] of [
    ['limit', limitText],
    ['page', pageText],
  ] as const) {
    if (text !== undefined && !isPositive(text))
      addError(
        errors,
        name,
        text.length > MAX_DIGITS ? messageOf('notPositiveOf', { max: MAX_DIGITS }) : messageOf('notPositive'),
      );
  }
  const cursor = reserved.get('cursor');
  if (cursor !== undefined && pageText !== undefined) addError(errors, 'cursor', messageOf('notWithPage'));
  const ordering = reserved.get('ordering');
  // A text of thousands of commas is counted, but not parsed.
  const orderings = ordering?.split(',');
  checkOrderingLength(orderings?.length ?? 0, errors);
  return {
    // Filters past the limit have an error already and are not planned.
    filters: [...filters].slice(0, MAX_FILTERS).map(([parameter, values]) => {
      const negated = parameter.startsWith('-');
      return { parameter, parts: (negated ? parameter.slice(1) : parameter).split('__'), negated, values };
    }),
    orderings: orderings?.slice(0, MAX_ORDERINGS).map(parseOrderingItem),
    page: pageText !== undefined && isPositive(pageText) ? BigInt(pageText) : 1n,
    cursor,
    limit: limitText !== undefined && isPositive(limitText) ? Math.min(Number(limitText), maxLimit) : limit,
    link: linkOf(normalized, sent),
  };
}

/** Encoding what the client sent unencoded can make the link too long. Then the link keeps the client's spelling. */
function linkOf(normalized: readonly string[], sent: readonly string[]): string {
  const link = normalized.join('');
  return link.length <= MAX_QUERY_BYTES ? link : sent.join('');
}
