// Checks of a body that only the database can make, as SQL for the statements that write and as statements of their own. Also finds
// duplicates, referring records, faults of keys, and the constraint that a rejected write violated.
import { randomUUID } from 'node:crypto';
import { EMPTY, exactText, join, literal, raw, sql, table, value } from '../../db/fragment.ts';
import type { Fragment } from '../../db/fragment.ts';
import { booleans, createStatement, isTrue, oneCell, text, type Statement } from '../../db/rows.ts';
import {
  output,
  partsOf,
  reference,
  typed,
  type Column,
  type Model,
  foreignReference,
} from '../../db/schema/model.ts';
import { ROOT } from '../plan.ts';
import type { Change } from './change.ts';
import { cast } from '../../db/types/column-types.ts';

/** A check of a body's field that only the database can make. The statement that writes makes it too. */
export interface Check {
  readonly column: Column;
  /** The value of the field; its salted digest for `unchanged` of a password. */
  readonly value: string;
  /**
   * - `reference`: the related record exists
   * - `unchanged`: the column has this value already; as a new value it is not allowed
   * - `recordKey`: the value is the record's key as in the output, or `urlKey` if there is no record
   * - `keyPart`: the value is that of a column of the record's key, if there is a record
   */
  readonly kind: 'reference' | 'unchanged' | 'recordKey' | 'keyPart';
  /** The key in the request's URL. */
  readonly urlKey?: string;
  /** The name of the field. */
  readonly key: string;
  /** The error message if the check fails. */
  readonly fault: string;
}

/** The alias of the row that a statement has found and locked. Its additional columns have names that no table has. */
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
    kind === 'recordKey' ? [text, urlKey ?? null] : column.isPassword ? text.split(':') : [text];
  return { column, kind, values: texts.map(add) };
}

/** Whether the column holds the text of this salt and digest: see `saltedDigest` in resources/passwords/password-hashing.ts. */
export const matchesDigest = (
  present: Fragment,
  [salt = EMPTY, digest = EMPTY]: readonly Fragment[],
): Fragment =>
  sql`coalesce(encode(sha256(convert_to(${salt} || ${present}, 'UTF8')), 'hex') = ${digest}, false)`;

function checkSql({ kind, column, values }: BoundCheck): Fragment {
  const [given = EMPTY, urlKey = EMPTY] = values;
  const cell = cast(given, column);
  if (kind === 'keyPart') {
    const isShown = sql`${output(FOUND, column)}::text = ${column.type.output(cell, column)}::text`;
    return sql`coalesce(${reference(FOUND, column)} = ${cell} or ${isShown}, true)`;
  }
  if (kind === 'recordKey' && column.parts)
    return sql`coalesce(${reference(FOUND, column)} = ${cell}, ${urlKey} = ${given})`;
  if (kind === 'recordKey') {
    const shown = column.type.output(cell, column);
    return sql`coalesce(${output(FOUND, column)}::text, ${urlKey}) = ${shown}::text`;
  }
  if (kind === 'unchanged') {
    const present = reference(FOUND, column);
    if (column.isPassword) return matchesDigest(present, values);
    const shown = (one: Fragment): Fragment =>
      column.type.comparedAs === undefined
        ? exactText(column.type.output(one, column))
        : (column.type.comparable?.(one, column) ?? one);
    return sql`coalesce(${shown(present)} = ${shown(cell)}, false)`;
  }
  if (!column.references) return sql`${cell} is not null`;
  const { table: target, primaryKey } = column.references;
  return sql`exists (select from ${table(target)} r where ${reference('r', primaryKey)} = ${cell})`;
}

/** The results of the checks as an array, in their order. The row to check has the alias FOUND. */
export const checksSql = (checks: readonly BoundCheck[]): Fragment =>
  sql`array[${join(checks.map(checkSql), ', ')}]::bool[]`;

/** One row: that of the record with the alias FOUND, or NULLs if there is none. */
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
  /** The key of a new record, to which it may refer itself. */
  readonly ownKey: readonly string[] | undefined;
}

/** Whether PostgreSQL would accept the values: there is such a record, or some of them are NULL. */
export function compositeReferenceSql(
  { foreignKey, values, ownKey }: CompositeReferenceCheck,
  alias = FOUND,
): Fragment {
  const { references, isFull } = foreignKey;
  if (!references) return raw('true');
  const keys = partsOf(references.primaryKey);
  const cells = partsOf(foreignKey).map((part, index) => {
    const given = values[index];
    return given === undefined ? foreignReference(alias, part) : typed(given, part);
  });
  const all = (conditions: readonly Fragment[], between: string): Fragment =>
    sql`(${join(conditions, ` ${between} `)})`;
  const nulls = all(
    cells.map((cell) => sql`${cell} is null`),
    isFull ? 'and' : 'or',
  );
  const isSame = (other: (key: Column, index: number) => Fragment): Fragment =>
    all(
      keys.map((key, index) => sql`${other(key, index)} = ${cells[index] ?? raw('null')}`),
      'and',
    );
  const isItself = ownKey
    ? sql` or coalesce(${isSame((key, index) => typed(ownKey[index] ?? null, key))}, false)`
    : EMPTY;
  const isStored = sql`exists (select from ${table(references.table)} r where ${isSame((key) => reference('r', key))})`;
  return sql`${nulls} or ${isStored}${isItself}`;
}

/** SQLSTATE of a text that is not of its type. */
const INVALID_TEXT = '22P02';

/** A text whose cast to a number ends a statement, and the check whether an error is that of the cast. */
export function createMarker(reason: string) {
  // Random, because the error of a trigger's cast may quote a client's value.
  const marker = `vitrine ${reason} ${randomUUID()}`;
  return {
    sql: literal(marker),
    // Without quotation marks, which depend on the language of the server.
    isIn: ({ code, message }: { readonly code: string; readonly message: string }): boolean =>
      code === INVALID_TEXT && message.includes(marker),
  };
}

const MISSING = createMarker('missing');

/** Whether the statement ended because a written row refers to no record. */
export const isMissingReference = MISSING.isIn;

/** Whether a written row refers to records. The statement does not see the row itself, to which it may refer. */
export function refersSql(foreignKeys: readonly Column[], { primaryKey }: Model): Fragment {
  const each = foreignKeys.map((foreignKey) => {
    const isItself = sql`coalesce(${foreignReference(ROOT, foreignKey)} = ${reference(ROOT, primaryKey)}, false)`;
    const isOwn = foreignKey.references?.primaryKey === primaryKey;
    return sql`(${compositeReferenceSql({ foreignKey, values: [], ownKey: undefined }, ROOT)}${isOwn ? sql` or ${isItself}` : EMPTY})`;
  });
  return join(each, ' and ');
}

/** SQL that is a number if the condition holds. Else it raises the error that `isMissingReference` recognizes, which undoes the statement. */
export const assertSql = (holds: Fragment): Fragment =>
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

/** Asks which conditions hold for any row `r` of their table. @returns the answers in the order of the conditions */
const anyRow = (conditions: readonly { model: Model; condition: Fragment }[]): Statement<boolean[]> => {
  const each = conditions.map(
    ({ model, condition }) => sql`exists (select from ${table(model.table)} r where ${condition})`,
  );
  return createStatement(sql`select array[${join(each, ', ')}]::bool[]`, oneCell(booleans));
};

const isOther = ({ primaryKey }: Model, id: string): Fragment =>
  sql` and ${reference('r', primaryKey)} <> ${typed(id, primaryKey)}`;

/**
 * Asks which of these combinations of values another record has already.
 * @param id the record that is being changed, which is not its own duplicate
 */
export function duplicatesStatement(
  model: Model,
  id: string | undefined,
  combinations: readonly (readonly Change[])[],
): Statement<boolean[]> {
  const other = id === undefined ? EMPTY : isOther(model, id);
  const conditions = combinations.map((changes) => {
    const same = changes.map(({ column, value }) => sql`${reference('r', column)} = ${typed(value, column)}`);
    return { model, condition: sql`${join(same, ' and ')}${other}` };
  });
  return anyRow(conditions);
}

/** Asks which of these foreign keys refer to the record from another row. A record that refers to itself can be deleted. */
export const referrersStatement = (
  foreignKeys: readonly { model: Model; column: Column }[],
  id: string,
): Statement<boolean[]> =>
  anyRow(
    foreignKeys.map(({ model, column }) => {
      const other = model === column.references ? isOther(model, id) : EMPTY;
      return { model, condition: sql`${reference('r', column)} = ${typed(id, column)}${other}` };
    }),
  );

/** Asks which of these values are equal in the type of their column, such as 1.5 and 1.50. */
export const equalValuesStatement = (
  pairs: readonly { readonly column: Column; readonly one: string; readonly other: string }[],
): Statement<boolean[]> => {
  const each = pairs.map(({ column, one, other }) => sql`${typed(one, column)} = ${typed(other, column)}`);
  return createStatement(sql`select array[${join(each, ', ')}]::bool[]`, oneCell(booleans));
};

/** Asks whether a row lacks the key, and whether two rows have the same key. NULL is not the same as NULL. */
export const keyFaultsStatement = ({ table: name, primaryKey }: Model): Statement<KeyFaults> => {
  const key = reference('r', primaryKey);
  const rows = sql`from ${table(name)} r`;
  return createStatement(
    sql`select exists (select ${rows} where not (${key} is not null)), exists (select ${rows} where ${key} is not null group by ${key} having count(*) > 1)`,
    ([row]) => ({ isNull: isTrue(row?.[0]), isDuplicate: isTrue(row?.[1]) }),
  );
};

export interface KeyFaults {
  readonly isNull: boolean;
  readonly isDuplicate: boolean;
}

/** Where PostgreSQL reports a violation. */
export interface ConstraintPlace {
  readonly schema: string;
  readonly table: string;
  readonly name: string;
}

/**
 * Finds the unique index, foreign key or check constraint of the partitioned table from which a partition inherited a violated one.
 * @returns undefined if the place is no partition of this table
 */
export function ownConstraintStatement(
  model: Model,
  { schema, table: name, name: constraint }: ConstraintPlace,
): Statement<string | undefined> {
  const root = sql`to_regclass(${value(table(model.table).text.join(''))})`;
  const query = sql`with recursive
    place as (select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = ${value(schema)} and c.relname = ${value(name)}),
    indexes (oid) as (
      select i.indexrelid from place join pg_index i on i.indrelid = place.oid join pg_class c on c.oid = i.indexrelid where c.relname = ${value(constraint)}
      union all select h.inhparent from indexes join pg_inherits h on h.inhrelid = indexes.oid),
    keys (oid) as (
      select o.oid from place join pg_constraint o on o.conrelid = place.oid where o.contype = 'f' and o.conname = ${value(constraint)}
      union all select o.conparentid from keys join pg_constraint o on o.oid = keys.oid where o.conparentid <> 0)
    select c.relname::text from indexes join pg_index i on i.indexrelid = indexes.oid join pg_class c on c.oid = i.indexrelid where i.indrelid = ${root}
    union all select o.conname::text from keys join pg_constraint o on o.oid = keys.oid where o.conrelid = ${root}
    union all select o.conname::text from place join pg_constraint o on o.conrelid = ${root} and o.contype = 'c' and o.conname = ${value(constraint)}
      where ${root} in (select relid from pg_partition_ancestors(place.oid))`;
  return createStatement(query, ([row]) => text(row?.[0] ?? null) ?? undefined);
}
