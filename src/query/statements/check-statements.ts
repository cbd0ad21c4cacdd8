// Checks of a body that only the database can make: as SQL inside the statements that write, and as separate statements.
import { randomUUID } from 'node:crypto';
import { EMPTY, exactText, join, literal, raw, sql, table, value } from '../../db/fragment.ts';
import type { Fragment } from '../../db/fragment.ts';
import { booleans, createStatement, oneCell, type Statement } from '../../db/rows.ts';
import {
  isAmong,
  output,
  partsOf,
  reference,
  typed,
  type Column,
  type Model,
  foreignReference,
} from '../../db/schema/model.ts';
import { jsonText } from '../../db/types/column-type-parts.ts';
import { ROOT } from '../plan.ts';
import { cast, castParts } from '../../db/types/column-types.ts';

/** A check of a body's field that only the database can make. The statement that writes makes it too. */
export interface Check {
  readonly column: Column;
  /**
   * The value of the field. For `unchanged` of a password, its salt and digest as `salt:digest`. Null only for `unchanged`, if the
   * body has null: the column is not null by its model, but may be NULL in the database.
   */
  readonly value: string | null;
  /**
   * - `reference`: the related record exists
   * - `keptReference`: the same, or the record refers to it already: the database may hold references to nothing
   * - `unchanged`: the column has this value already; as a new value it is not allowed
   * - `unchangedText`: the same for JSON that `jsonb` refuses, compared as text
   * - `recordKey`: the value is the record's key as in the output, or `urlKey` if there is no record
   * - `keyPart`: the value is that of a column of the record's key, if there is a record
   */
  readonly kind: 'reference' | 'keptReference' | 'unchanged' | 'unchangedText' | 'recordKey' | 'keyPart';
  /** The key in the request's URL. */
  readonly urlKey?: string;
  /** The name of the field in the body. */
  readonly fieldName: string;
  /** The error message if the check fails. */
  readonly fault: string;
}

/** Whether the result depends on the record's present value, so that it would reveal a hidden one. */
export const dependsOnPresent = ({ kind }: Pick<Check, 'kind'>): boolean =>
  kind === 'unchanged' || kind === 'unchangedText' || kind === 'keptReference';

/**
 * The alias of the row that a statement has found and locked. Its additional columns, such as "vitrine version" in
 * write-sql.ts, have names that no table has.
 */
export const FOUND = 'f';

/** A check whose values are parameters. */
export interface BoundCheck extends Pick<Check, 'column' | 'kind'> {
  readonly values: readonly Fragment[];
}

/** @param add turns a value into a parameter */
export function bindCheck(
  { column, kind, value: text, urlKey }: Check,
  add: (text: string | null) => Fragment,
): BoundCheck {
  const texts: readonly (string | null)[] =
    kind === 'recordKey'
      ? [text, urlKey ?? null]
      : column.isPassword && text !== null
        ? text.split(':')
        : [text];
  return { column, kind, values: texts.map(add) };
}

/** Whether the column holds the text of this salt and digest: see `saltedDigest` in resources/passwords/password-hashing.ts. */
export const matchesDigest = (
  present: Fragment,
  [salt = EMPTY, digest = EMPTY]: readonly Fragment[],
): Fragment =>
  sql`coalesce(encode(sha256(convert_to(${salt} || ${present}, 'UTF8')), 'hex') = ${digest}, false)`;

/**
 * What an update stores. The type may combine the value with the present one, for instance to keep microseconds.
 * @param row the alias of the row before the update
 */
export const assigned = (value: Fragment, column: Column, row: string = FOUND): Fragment =>
  column.type.assign?.(value, reference(row, column), column) ?? value;

function checkSql({ kind, column, values }: BoundCheck): Fragment {
  const [given = EMPTY, urlKey = EMPTY] = values;
  const newValue = cast(given, column);
  if (kind === 'keyPart') {
    const isShown = sql`${output(FOUND, column)}::text = ${column.type.output(newValue, column)}::text`;
    return sql`coalesce(${reference(FOUND, column)} = ${newValue} or ${isShown}, true)`;
  }
  if (kind === 'recordKey' && column.parts)
    return sql`coalesce(${reference(FOUND, column)} = ${newValue}, ${urlKey} = ${given})`;
  if (kind === 'recordKey') {
    const shown = column.type.output(newValue, column);
    return sql`coalesce(${output(FOUND, column)}::text, ${urlKey}) = ${shown}::text`;
  }
  if (kind === 'unchangedText') return sql`coalesce(${jsonText(reference(FOUND, column))} = ${given}, false)`;
  if (kind === 'unchanged') {
    const present = reference(FOUND, column);
    if (column.isPassword) return matchesDigest(present, values);
    const shown = (one: Fragment): Fragment =>
      column.type.comparedAs === undefined
        ? exactText(column.type.output(one, column))
        : (column.type.comparable?.(one, column) ?? one);
    return sql`coalesce(${shown(present)} = ${shown(newValue)}, ${isNullAsBefore(present, newValue, column)})`;
  }
  // For the compiler: the column of a `reference` check is a foreign key.
  if (!column.references) return sql`${newValue} is not null`;
  const { table: target, primaryKey } = column.references;
  const refersTo = (key: Fragment): Fragment =>
    sql`exists (select from ${table(target)} r where ${reference('r', primaryKey)} = ${key})`;
  if (kind === 'reference') return refersTo(newValue);
  const stored = castParts(given, column).map((one, index) =>
    assigned(one, partsOf(column)[index] ?? column),
  );
  const key = sql`(${join(stored, ', ')})`;
  return sql`(coalesce(${foreignReference(FOUND, column)} = ${key}, false) or ${refersTo(key)})`;
}

/** Whether the column is NULL although it must not be, and the body says null. */
function isNullAsBefore(
  present: Fragment,
  newValue: Fragment,
  { isUnchecked, type: { nullText } }: Column,
): Fragment {
  if (!isUnchecked) return raw('false');
  const saysNull = nullText === undefined ? EMPTY : sql` or ${newValue}::text = ${literal(nullText)}`;
  return sql`${present} is null and (${newValue} is null${saysNull})`;
}

/** The results of the checks as an array, in their order. The row to check has the alias FOUND. */
export const checksSql = (checks: readonly BoundCheck[]): Fragment =>
  sql`array[${join(checks.map(checkSql), ', ')}]::bool[]`;

/** One row with the alias FOUND: the record's, or only NULLs if there is none. */
function rowToCheck(model: Model, id: string | undefined): Fragment {
  const { primaryKey } = model;
  const key =
    id === undefined ? raw('false') : sql`${reference(FOUND, primaryKey)} = ${typed(id, primaryKey)}`;
  return sql`(select) one left join ${table(model.table)} ${raw(FOUND)} on ${key}`;
}

/**
 * Makes the checks without writing. A body with other errors needs it, so that one response reports all of them.
 * @param id the record that would be changed, if any
 * @returns the results in the order of the checks
 */
export function checkStatement(
  model: Model,
  id: string | undefined,
  checks: readonly Check[],
): Statement<boolean[]> {
  const results = checksSql(checks.map((check) => bindCheck(check, value)));
  return createStatement(sql`select ${results} from ${rowToCheck(model, id)}`, oneCell(booleans));
}

/** A foreign key of several columns, and what a body says about it. */
export interface CompositeReferenceCheck {
  readonly foreignKey: Column;
  /** The values of its columns. Undefined is the present value of the record. */
  readonly values: readonly (string | null | undefined)[];
  /** The key of a new record, which may refer to itself; undefined for a stored record. */
  readonly ownKey: readonly string[] | undefined;
  /** Whether the record may keep its values, also a reference to nothing, as in `keptReference`. */
  readonly mayKeep?: boolean;
}

/** Whether PostgreSQL would accept the values: there is such a record, or some of them are NULL. */
export function compositeReferenceSql(
  { foreignKey, values, ownKey, mayKeep = false }: CompositeReferenceCheck,
  alias = FOUND,
): Fragment {
  const { references, isFull } = foreignKey;
  if (!references) return raw('true');
  const keys = partsOf(references.primaryKey);
  const newValues = partsOf(foreignKey).map((part, index) => {
    const given = values[index];
    if (given === undefined) return foreignReference(alias, part);
    // The answer may depend on the present value only if the caller may read it.
    return mayKeep ? assigned(typed(given, part), part) : typed(given, part);
  });
  const joined = (conditions: readonly Fragment[], between: string): Fragment =>
    sql`(${join(conditions, ` ${between} `)})`;
  const nulls = joined(
    newValues.map((newValue) => sql`${newValue} is null`),
    isFull ? 'and' : 'or',
  );
  const isSame = (other: (key: Column, index: number) => Fragment): Fragment =>
    joined(
      keys.map((key, index) => sql`${other(key, index)} = ${newValues[index] ?? raw('null')}`),
      'and',
    );
  const isItself = ownKey
    ? sql` or coalesce(${isSame((key, index) => typed(ownKey[index] ?? null, key))}, false)`
    : EMPTY;
  const kept = newValues.map(
    (newValue, index) =>
      sql`${foreignReference(alias, partsOf(foreignKey)[index] ?? foreignKey)} = ${newValue}`,
  );
  const isKept = mayKeep ? sql` or coalesce(${joined(kept, 'and')}, false)` : EMPTY;
  const isStored = sql`exists (select from ${table(references.table)} r where ${isSame((key) => reference('r', key))})`;
  return sql`${nulls} or ${isStored}${isItself}${isKept}`;
}

/** SQLSTATE of a text that is not of its type. */
const INVALID_TEXT = '22P02';

/**
 * Makes a text, as SQL, that ends a statement on purpose: it is no number, so casting it to one is an error. `isIn` recognizes
 * that error, which quotes the text.
 */
export function createErrorMarker(reason: string) {
  // Random, because the error of a trigger's cast may quote a client's value.
  const marker = `vitrine ${reason} ${randomUUID()}`;
  return {
    sql: literal(marker),
    // Without quotation marks, which depend on the language of the server.
    isIn: ({ code, message }: { readonly code: string; readonly message: string }): boolean =>
      code === INVALID_TEXT && message.includes(marker),
  };
}

const INCOMPLETE = createErrorMarker('incomplete');

/** Whether the statement undid its writes on purpose: a trigger canceled one of them, or it was a dry run. */
export const isRolledBack = INCOMPLETE.isIn;

/** SQL that is a number if the condition holds. Else it raises the error that `isRolledBack` recognizes. */
export const assertWrittenSql = (holds: Fragment): Fragment =>
  sql`(case when ${holds} then '1' else ${INCOMPLETE.sql} end)::int8`;

const MISSING = createErrorMarker('missing');

/** Whether the statement ended because a written row refers to no record. */
export const isMissingReference = MISSING.isIn;

/**
 * SQL: each foreign key of the written row refers to a record, or to the row itself, which `exists` cannot see yet.
 * @param kept the columns in which the row FOUND may keep its references to nothing, because the caller has read them there
 */
export function referencesHoldSql(
  foreignKeys: readonly Column[],
  { primaryKey }: Model,
  kept: readonly Column[] = [],
): Fragment {
  const each = foreignKeys.map((foreignKey) => {
    const isItself = sql`coalesce(${foreignReference(ROOT, foreignKey)} = ${reference(ROOT, primaryKey)}, false)`;
    const isOwn = foreignKey.references?.primaryKey === primaryKey;
    const isKept = sql`coalesce(${foreignReference(ROOT, foreignKey)} = ${foreignReference(FOUND, foreignKey)}, false)`;
    const others = [...(isOwn ? [isItself] : []), ...(isAmong(foreignKey, kept) ? [isKept] : [])];
    const exists = compositeReferenceSql({ foreignKey, values: [], ownKey: undefined }, ROOT);
    return sql`(${join([exists, ...others], ' or ')})`;
  });
  return join(each, ' and ');
}

/** SQL that is a number if the condition holds. Else it raises the error that `isMissingReference` recognizes, which undoes the statement. */
export const assertReferencesSql = (holds: Fragment): Fragment =>
  sql`(case when ${holds} then '1' else ${MISSING.sql} end)::int8`;

/**
 * Asks which foreign keys of several columns a write would satisfy.
 * @param id the record that would be changed, if any
 * @returns the answers in the order of the checks
 */
export function compositeReferencesStatement(
  model: Model,
  id: string | undefined,
  checks: readonly CompositeReferenceCheck[],
): Statement<boolean[]> {
  const results = sql`array[${join(
    checks.map((check) => compositeReferenceSql(check)),
    ', ',
  )}]::bool[]`;
  return createStatement(sql`select ${results} from ${rowToCheck(model, id)}`, oneCell(booleans));
}
