import type { Parsed } from '../../db/types/column-type.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { isSameNumber } from '../../db/types/json-values.ts';
import { addError, MAX_REPORTED, type FieldErrors } from '../../errors.ts';
import type { Change } from '../../query/statements/change.ts';
import type { Check } from '../../query/statements/check-statements.ts';
import type { JsonField, JsonFields } from './json-fields.ts';
import { saltedDigest } from '../passwords/password-hashing.ts';
import type { Caller, ServedResource } from '../serve/served-resource.ts';

/** What a body asks for: the columns to write, what the database must tell of it, and what is wrong with it. */
export interface CheckedBody {
  readonly changes: Change[];
  readonly checks: Check[];
  /** The fields that refer to records which the caller may not read. No check asks for these: the write itself does. */
  readonly hiddenReferences: string[];
  readonly errors: FieldErrors;
}

export interface Writing {
  /** The key of the record that a PUT changes; undefined for a POST. */
  readonly id: string | undefined;
  readonly caller: Caller;
  /** Whether the caller may read the records of a model; without it, those of every model. */
  readonly mayRead?: (model: Model) => boolean;
}

/** Members that say nothing to the write, so that what was read can be sent back: read-only columns and the owner. */
const isIgnored = (column: Column, resource: ServedResource): boolean =>
  resource.readonly.has(column) || column === resource.owner;

/** A value as the database takes it, by which 5 and "5" are the same key; what cannot be used, as it was sent. */
function textOf({ value, source }: JsonField, column: Column): string {
  const parsed = column.type.fromJson(value, source, column);
  return parsed.value ?? source;
}

/** The member that stands for a column; a foreign key has two names, which must agree. */
function memberOf(
  column: Column,
  members: JsonFields,
  errors: FieldErrors,
): [key: string, member: JsonField] | undefined {
  const byKey = members.get(column.key);
  const byName = column.name === column.key ? undefined : members.get(column.name);
  if (byKey && byName && textOf(byKey, column) !== textOf(byName, column)) {
    addError(errors, column.key, `differs from ${column.name}, which means the same`);
  }
  if (byKey) return [column.key, byKey];
  return byName && [column.name, byName];
}

/** What a member says for a column, or what is wrong with it; of a choice that it is none. */
export function parseMember({ value, source }: JsonField, column: Column): Parsed {
  const parsed = column.type.fromJson(value, source, column);
  if (parsed.fault !== undefined || !column.choices) return parsed;
  if (column.choices.some((choice) => isChoice(choice, parsed.value, column))) return parsed;
  const choices = column.choices.map((choice) =>
    typeof choice === 'string' ? choice : JSON.stringify(choice),
  );
  return { fault: `must be one of ${choices.join(', ')}`, value: parsed.value };
}

/** A choice is written as in the registry and a value as in JSON, so 1.5 is the same as "1.50". */
function isChoice(choice: unknown, value: string, column: Column): boolean {
  const allowed = column.type.fromJson(choice, JSON.stringify(choice), column).value;
  return (
    allowed === value ||
    (allowed !== undefined && column.type.bounded === true && isSameNumber(allowed, value))
  );
}

/** In Basic credentials the first colon ends the name. */
function checkLoginName(value: string): Parsed {
  if (/^[^:]+$/.test(value)) return { value };
  return { fault: 'must not be empty, nor have a colon: nobody could log in with it', value };
}

/** The most bytes of a key: encoded, which makes up to three of each, it is to fit into the first line of a request. */
const MOST_OF_KEY = 4096;

/** Clients take dots out of an address, and with nothing behind the slash it is the collection's. */
export function checkKey(value: string, { castType }: Column): Parsed {
  // What a text is padded with is no part of it.
  let length = value.length;
  while (castType === 'bpchar' && value[length - 1] === ' ') length -= 1;
  const known = value.slice(0, length);
  if (Buffer.byteLength(known) > MOST_OF_KEY)
    return { fault: 'has too many bytes for an address (at most 4,096)', value };
  if (!['', '.', '..'].includes(known)) return { value };
  return { fault: 'must not be empty, nor be one dot or two: no address could lead to it', value };
}

/** A value that breaks a rule is taken by a PUT where the record has it already (see `Parsed`). */
function checkColumn(
  column: Column,
  [key, sent]: [string, JsonField],
  { excluded, loginName, model }: ServedResource,
  isUpdate: boolean,
  body: CheckedBody,
  mayRead?: Writing['mayRead'],
): void {
  // Of an excluded column nothing is told, not even by what is taken.
  const mayKeep = isUpdate && !excluded.has(column);
  if (sent.value === null) {
    const { nullText } = column.type;
    const fault = 'must not be null';
    if (column.nullable) body.changes.push({ column, value: null });
    else if (mayKeep && nullText)
      body.checks.push({ column, value: nullText, kind: 'unchanged', key, fault });
    else addError(body.errors, key, fault);
    return;
  }
  const rule = column === loginName ? checkLoginName : column === model.primaryKey ? checkKey : undefined;
  const member = parseMember(sent, column);
  const parsed = rule && member.fault === undefined ? rule(member.value, column) : member;
  if (parsed.fault === undefined) {
    // A new record may refer to itself by the key that comes with it.
    const isItself = (change: Change): boolean =>
      change.column === model.primaryKey && change.value === parsed.value;
    const isReference = column.references && !(column.references === model && body.changes.some(isItself));
    if (isReference && mayRead?.(column.references) === false) {
      body.hiddenReferences.push(key);
    } else if (isReference) {
      body.checks.push({
        column,
        value: parsed.value,
        kind: 'reference',
        key,
        fault: 'there is no such record',
      });
    }
    body.changes.push({ column, value: parsed.value });
  } else if (mayKeep && parsed.value !== undefined) {
    const value = column.isPassword ? saltedDigest(parsed.value) : parsed.value;
    body.checks.push({ column, value, kind: 'unchanged', key, fault: parsed.fault });
  } else {
    addError(body.errors, key, parsed.fault);
  }
}

function checkId(member: JsonField, { model }: ServedResource, { id }: Writing, body: CheckedBody): void {
  const { primaryKey: column } = model;
  if (id === undefined) {
    if (column.hasDefault) addError(body.errors, 'id', 'is given by the service');
    return;
  }
  const fault = "must be the record's own";
  const { value } = parseMember(member, column);
  // Only of a text can there be two for one key: where the database does not tell capitals from others, or pads it.
  if (value !== undefined && column.type.sized)
    body.checks.push({ column, value, kind: 'key', key: 'id', fault, asked: id });
  else if (value !== id) addError(body.errors, 'id', fault);
}

/** Checks all fields of a body and finds all its faults, except those that only the database can tell. */
export function checkBody(members: JsonFields, resource: ServedResource, writing: Writing): CheckedBody {
  const body: CheckedBody = { changes: [], checks: [], hiddenReferences: [], errors: {} };
  const { model, owner } = resource;
  const isUpdate = writing.id !== undefined;
  const known = new Set(['id']);
  const id = members.get('id');
  if (id) checkId(id, resource, writing, body);
  if (!isUpdate && !model.primaryKey.hasDefault) {
    // A natural key: nobody but the client can give it.
    if (id) checkColumn(model.primaryKey, ['id', id], resource, false, body);
    else addError(body.errors, 'id', 'is required');
  }
  for (const column of model.columns) {
    known.add(column.key).add(column.name);
    if (isIgnored(column, resource)) {
      // An excluded one is not named: the database refuses the record instead.
      if (!isUpdate && isMissing(column) && column !== owner && !resource.excluded.has(column))
        addError(body.errors, column.key, 'is required, and read-only');
      continue;
    }
    const member = memberOf(column, members, body.errors);
    if (member) checkColumn(column, member, resource, isUpdate, body, writing.mayRead);
    else if (!isUpdate && isMissing(column)) addError(body.errors, column.key, 'is required');
  }
  addUnknown(members, known, body.errors);
  if (!isUpdate && owner) body.changes.push({ column: owner, value: writing.caller.id });
  return body;
}

/** Reports the unknown fields: a body may have thousands, so only the first ones by name. */
function addUnknown(members: JsonFields, known: ReadonlySet<string>, errors: FieldErrors): void {
  let count = 0;
  let last = '';
  for (const name of members.keys()) {
    if (known.has(name)) continue;
    count += 1;
    if (count > MAX_REPORTED) continue;
    last = name;
    addError(errors, name, 'there is no such field');
  }
  if (count > MAX_REPORTED) addError(errors, last, `and ${count - MAX_REPORTED} more fields do not exist`);
}

/** Whether an INSERT that leaves the column out would fail. */
const isMissing = (column: Column): boolean => !column.nullable && !column.hasDefault && !column.generated;
