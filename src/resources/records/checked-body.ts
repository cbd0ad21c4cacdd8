// Checks the JSON body of a write against the columns of its resource.
import { SERVICE, type YieldIfDue } from '../../db/lanes/requester.ts';
import type { Parsed } from '../../db/types/column-type.ts';
import { hasNaturalKey, isKeyPart, isWholeKey, type Column, type Model } from '../../db/schema/model.ts';
import { checkChoice } from '../../db/types/choices.ts';
import { DigitBudget } from '../../db/types/exponents.ts';
import { addError, MAX_REPORTED, type FieldErrors } from '../../errors.ts';
import type { Change } from '../../query/statements/write-plan.ts';
import type { Check } from '../../query/statements/check-statements.ts';
import { addReferenceChecks } from './reference-checks.ts';
import type { JsonField, JsonFields } from './json-fields.ts';
import { saltedDigest } from '../users/password-hashing.ts';
import { isAlwaysShown, type ResourceView } from '../access/resource-view.ts';
import { messageOf, type Message } from '../../messages.ts';
import type { Caller } from '../access/access.ts';

/** A checked body: the columns to write, the checks left to the database, and the faults found so far. */
export interface CheckedBody {
  readonly changes: Change[];
  readonly checks: Check[];
  readonly errors: FieldErrors;
  readonly digits: DigitBudget;
}

/** The write that a body is for. */
export interface Writing {
  /** The key of the record that a PUT changes; undefined for a POST. */
  readonly id: string | undefined;
  readonly caller: Caller;
  /** Whether read-only columns are faults; otherwise they are ignored. */
  readonly isStrict?: boolean | undefined;
  /** Whether a new record gets the `id` of the body although the database makes such keys, as it had it before it was deleted. */
  readonly keepsKey?: boolean | undefined;
  /** Shared by all records of a request. */
  readonly digits?: DigitBudget;
}

/** Whether a body's value is ignored, so that clients can send back what they have read: read-only columns and the owner. */
const isIgnored = (
  column: Column,
  { readonly, owner, settable }: ResourceView,
  action: 'create' | 'update',
): boolean => readonly.has(column) || (column === owner && !settable[action].has(column));

/** A value as the database takes it, so that 5 and "5" are the same key. An invalid value stays as it was sent. */
function textOf({ value, source }: JsonField, column: Column): string {
  const parsed = column.type.fromJson(value, source, column);
  return parsed.value ?? source;
}

/** The JSON field of a column. A foreign key has two names, and both must have the same value. */
function sentFieldOf(
  column: Column,
  fields: JsonFields,
  errors: FieldErrors,
): [key: string, field: JsonField] | undefined {
  const byKey = fields.get(column.key);
  const byName = column.name === column.key ? undefined : fields.get(column.name);
  if (byKey && byName && textOf(byKey, column) !== textOf(byName, column)) {
    addError(errors, column.key, messageOf('otherName', { name: column.name }));
  }
  if (byKey) return [column.key, byKey];
  return byName && [column.name, byName];
}

/** Parses a JSON field for a column, or says why it is invalid. Checks `choices` and the bytes of the value as well. */
export function parseField({ value, source, exact }: JsonField, column: Column, max = Infinity): Parsed {
  const parsed = checkChoice(
    column.type,
    column,
    column.choices,
  )(column.type.fromJson(value, source, column));
  if (parsed.fault !== undefined) return parsed;
  const text = exact ?? parsed.value;
  const got = text.length * 3 > max ? Buffer.byteLength(text) : 0;
  return got > max
    ? { fault: messageOf('largeValue', { max, got }), value: text }
    : { ...parsed, value: text };
}

/** Basic credentials end the user name at the first colon. */
function checkLoginName(value: string): Parsed {
  if (/^[^:]+$/.test(value)) return { value };
  return {
    fault: messageOf('notBasic'),
    value,
  };
}

/** Maximum bytes of a key. Percent-encoding can triple them, and the URL must still fit into a request line. */
const MAX_KEY_BYTES = 4096;

/** Refuses a key of several columns that is too long for a URL, by its longest column. */
function checkKeyLength({ primaryKey: { parts = [] } }: Model, { changes, errors }: CheckedBody): void {
  const sent = changes
    .filter(({ column }) => parts.includes(column))
    .map(({ column, value }) => ({ key: column.key, bytes: Buffer.byteLength(value ?? '') }))
    .toSorted((a, b) => b.bytes - a.bytes);
  const bytes = sent.reduce((sum, one) => sum + one.bytes, 0);
  const [longest] = sent;
  if (longest && bytes > MAX_KEY_BYTES)
    addError(errors, longest.key, messageOf('longKeyPart', { max: MAX_KEY_BYTES, got: bytes }));
}

/** Whether a URL can name the key: clients remove `.` and `..` from a path, and an empty key gives the collection's URL. */
export const hasAddress = (key: string): boolean => !['', '.', '..'].includes(key);

/** Refuses keys that no URL can name. */
export function checkKey(value: string, { castType }: Column): Parsed {
  // PostgreSQL ignores the padding of `char(n)`.
  let length = value.length;
  while (castType === 'bpchar' && value[length - 1] === ' ') length -= 1;
  const key = value.slice(0, length);
  const bytes = Buffer.byteLength(key);
  if (bytes > MAX_KEY_BYTES)
    return { fault: messageOf('longKey', { max: MAX_KEY_BYTES, got: bytes }), value };
  if (hasAddress(key)) return { value };
  return { fault: messageOf('noAddress'), value };
}

/** The check that a value is the present one. @param fault of any other value */
const isKept = (
  column: Column,
  key: string,
  value: string | null,
  fault: Message,
  isText = false,
): Check => ({
  ...{ column, fieldNames: [key], fault, kind: isText ? 'unchangedText' : 'unchanged' },
  value: column.isPassword && value !== null ? saltedDigest(value) : value,
});

/** Checks a field of a PUT that the caller may not set. As it was read, it is ignored. */
function checkKept(
  column: Column,
  [key, sent]: [string, JsonField],
  resource: ResourceView,
  { checks, errors, digits }: CheckedBody,
): void {
  const { value: given, addedDigits, isText } = parseField(sent, column);
  const value = sent.value === null ? null : given;
  const fault = messageOf('notSettable');
  if (value !== undefined && isAlwaysShown(resource, column) && digits.take(addedDigits) === undefined)
    checks.push(isKept(column, key, value, fault, isText));
  else addError(errors, key, fault);
}

/** Checks one field. A PUT may keep a value that breaks a rule if the record has it already (see `Parsed`). */
function checkField(
  column: Column,
  [key, sent]: [string, JsonField],
  resource: ResourceView,
  isUpdate: boolean,
  body: CheckedBody,
): void {
  const { loginName, model } = resource;
  // Accepting the present value of a column that the caller may not see would reveal it.
  const mayKeep = isUpdate && isAlwaysShown(resource, column);
  if (sent.value === null) {
    const { nullText } = column.type;
    const fault = messageOf('notNull');
    if (column.nullable) body.changes.push({ column, value: null });
    else if (mayKeep && (nullText !== undefined || (column.isUnchecked && !column.isPassword)))
      body.checks.push({ column, value: nullText ?? null, kind: 'unchanged', fieldNames: [key], fault });
    else addError(body.errors, key, fault);
    return;
  }
  const rule = column === loginName ? checkLoginName : isWholeKey(model, column) ? checkKey : undefined;
  const field = parseField(sent, column, resource.maxValue);
  const tooLong = body.digits.take(field.addedDigits);
  if (tooLong !== undefined) {
    addError(body.errors, key, tooLong);
    return;
  }
  const parsed = rule && field.fault === undefined ? rule(field.value, column) : field;
  if (parsed.fault === undefined) {
    body.changes.push({ column, value: parsed.value });
  } else if (mayKeep && parsed.value !== undefined) {
    body.checks.push(isKept(column, key, parsed.value, parsed.fault, parsed.isText));
  } else {
    addError(body.errors, key, parsed.fault);
  }
}

/** Whether the body of a new record has its key. */
const takesKey = (model: Model, { id, keepsKey }: Writing): boolean =>
  id === undefined && (hasNaturalKey(model) || (keepsKey === true && !model.primaryKey.parts));

function checkId(field: JsonField, { model }: ResourceView, writing: Writing, body: CheckedBody): void {
  const { primaryKey: column } = model;
  const { id } = writing;
  if (id === undefined) {
    if (takesKey(model, writing)) return;
    const names = column.parts?.map(({ key }) => key).join(', ');
    addError(
      body.errors,
      'id',
      names === undefined ? messageOf('generatedKey') : messageOf('madeKey', { names }),
    );
    return;
  }
  const fault = messageOf('otherId');
  const { value } = parseField(field, column);
  // Two strings can be the same key: with a case-insensitive type or collation, or with padding.
  if (value !== undefined && (column.type.sized || column.parts))
    body.checks.push({ column, value, kind: 'recordKey', fieldNames: ['id'], fault, urlKey: id });
  else if (value !== id) addError(body.errors, 'id', fault);
}

/** Checks a column of the key in a PUT: it may be repeated, but not changed. */
function checkPart(column: Column, [key, field]: [string, JsonField], { checks, errors }: CheckedBody): void {
  const { value } = parseField(field, column);
  if (value === undefined) addError(errors, key, messageOf('keyPart'));
  else checks.push({ column, value, kind: 'keyPart', fieldNames: [key], fault: messageOf('keyPart') });
}

/**
 * Checks all fields of a body, and collects all faults and the checks that only the database can make.
 * @param yieldIfDue is called before each array, because checking arrays takes long
 */
export async function checkBody(
  fields: JsonFields,
  resource: ResourceView,
  writing: Writing,
  yieldIfDue: YieldIfDue = SERVICE.workInTurns(),
): Promise<CheckedBody> {
  const { digits = new DigitBudget('body') } = writing;
  const body: CheckedBody = { changes: [], checks: [], errors: {}, digits };
  const { model, owner } = resource;
  const isUpdate = writing.id !== undefined;
  const known = new Set(['id']);
  const id = fields.get('id');
  if (id) checkId(id, resource, writing, body);
  if (takesKey(model, writing)) {
    // The client must send a natural key.
    if (id) checkField(model.primaryKey, ['id', id], resource, false, body);
    else addError(body.errors, 'id', messageOf('required'));
  }
  for (const column of model.columns) {
    known.add(column.key).add(column.name);
    const action = isUpdate ? 'update' : 'create';
    if (isIgnored(column, resource, action)) {
      // An excluded column must not be named. The database rejects the record instead.
      if (!isUpdate && isRequired(column) && column !== owner && !resource.excluded.has(column))
        addError(body.errors, column.key, messageOf('requiredReadonly'));
      else if (
        writing.isStrict &&
        !resource.excluded.has(column) &&
        (fields.has(column.key) || fields.has(column.name))
      )
        addError(body.errors, column.key, messageOf('readonly'));
      continue;
    }
    const field = sentFieldOf(column, fields, body.errors);
    if (!resource.settable[action].has(column) && !(isUpdate && isKeyPart(model, column))) {
      if (field && isUpdate) checkKept(column, field, resource, body);
      else if (field) addError(body.errors, field[0], messageOf('notSettable'));
      else if (!isUpdate && isRequired(column) && column !== owner && !resource.excluded.has(column))
        addError(body.errors, column.key, messageOf('requiredNotSettable'));
      continue;
    }
    const pause = field && column.type.element ? yieldIfDue() : undefined;
    if (pause) await pause;
    if (field && isUpdate && isKeyPart(model, column)) checkPart(column, field, body);
    else if (field) checkField(column, field, resource, isUpdate, body);
    else if (!isUpdate && isRequired(column) && column !== owner)
      addError(body.errors, column.key, messageOf('required'));
  }
  addUnknown(fields, known, body.errors);
  if (!isUpdate) checkKeyLength(model, body);
  const isOwned = body.changes.some(({ column }) => column === owner);
  if (!isUpdate && owner && !isOwned) body.changes.push({ column: owner, value: writing.caller.id });
  const sentAs = ({ key, name }: Column): string => (fields.has(key) ? key : name);
  addReferenceChecks(body, resource, isUpdate, sentAs);
  return body;
}

/** Reports unknown fields, only the first ones by name: a body may have thousands. */
function addUnknown(fields: JsonFields, known: ReadonlySet<string>, errors: FieldErrors): void {
  let count = 0;
  let last = '';
  for (const name of fields.keys()) {
    if (known.has(name)) continue;
    count += 1;
    if (count > MAX_REPORTED) continue;
    last = name;
    addError(errors, name, messageOf('noField'));
  }
  if (count > MAX_REPORTED) addError(errors, last, messageOf('moreUnknown', { count: count - MAX_REPORTED }));
}

/** Whether an INSERT that leaves the column out would fail. */
export const isRequired = (column: Column): boolean =>
  !column.nullable && !column.hasDefault && !column.generated;
