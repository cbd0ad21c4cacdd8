// Checks of a body that only the database can make: as SQL inside the statements that write, and as separate statements.
import { randomUUID } from 'node:crypto';
import {
  EMPTY,
  exactText,
  IN_PLACE,
  join,
  literal,
  raw,
  sql,
  type Binder,
  type Fragment,
} from '../../db/fragment.ts';
import { booleans, createStatement, oneCell, type Statement } from '../../db/rows.ts';
import {
  output,
  partsOf,
  reference,
  typed,
  type Column,
  type Model,
  foreignReference,
} from '../../db/schema/model.ts';
import type { RowVisibility } from '../plan.ts';
import { allRows, source } from '../source.ts';
import { jsonText } from '../../db/types/column-type-parts.ts';
import { cast } from '../../db/types/column-types.ts';
import { cellAlias, cellOf, valueRows } from './value-rows.ts';
import type { Message } from '../../messages.ts';

/** A check that only the database can make. The statement that writes makes it too. */
export type Check = FieldCheck | ReferenceCheck;

interface CheckReport {
  /** The fields of the body that the error names. */
  readonly fieldNames: readonly string[];
  /** The error message if the check fails. */
  readonly fault: Message;
}

/** A check of one field. */
export interface FieldCheck extends CheckReport {
  readonly column: Column;
  /**
   * The value of the field. For `unchanged` of a password, its salt and digest as `salt:digest`. Null only for `unchanged`, if the
   * body has null: the column is not null by its model, but may be NULL in the database.
   */
  readonly value: string | null;
  /**
   * - `unchanged`: the column has this value already; as a new value it is not allowed
   * - `unchangedText`: the same for JSON that `jsonb` refuses, compared as text
   * - `recordKey`: the value is the record's key as in the output, or `urlKey` if there is no record
   * - `keyPart`: the value is that of a column of the record's key, if there is a record
   */
  readonly kind: 'unchanged' | 'unchangedText' | 'recordKey' | 'keyPart';
  /** The key in the request's URL. */
  readonly urlKey?: string;
}

/** A check of a foreign key of one column or several. It holds if the key is NULL (see `Column.isFull`). */
export interface ReferenceCheck extends CheckReport {
  /** The foreign key. */
  readonly column: Column;
  /** The values of its columns. Undefined is the present value of the record. */
  readonly values: readonly (string | null | undefined)[];
  /**
   * - `reference`: the related record exists
   * - `keptReference`: the same, or the record refers to it already: the database may hold references to nothing
   * - `sameReference`: the record refers to it already; as a new reference it is not allowed
   */
  readonly kind: 'reference' | 'keptReference' | 'sameReference';
}

export const isReferenceCheck = (check: Check): check is ReferenceCheck => 'values' in check;

/**
 * The alias of the row that a statement has found and locked. Its additional columns, such as "vitrine version" in
 * write.ts, have names that no table has.
 */
export const FOUND = 'f';

/** A check whose values are parameters. Undefined is the present value of the record. */
export interface BoundCheck extends Pick<Check, 'column' | 'kind'> {
  readonly values: readonly (Fragment | undefined)[];
  readonly mayBeNull: boolean;
  /** The records that a foreign key may refer to, as `r`. */
  readonly referred: Fragment | undefined;
}

const REFERRED = 'r';

/** The records of a model that a foreign key may refer to. */
const referredRows = (model: Model, visibility: RowVisibility): Fragment =>
  source(model, REFERRED, visibility);

export function bindCheck(check: Check, { add, take }: Binder, visibility: RowVisibility): BoundCheck {
  const { column, kind } = check;
  const texts = textsOf(check);
  const values = texts.map((text) => (text === undefined ? undefined : add(text)));
  const { references } = column;
  const isAsked = isReferenceCheck(check) && kind !== 'sameReference';
  const referred = isAsked && references ? take(referredRows(references, visibility)) : undefined;
  return { column, kind, values, mayBeNull: texts.some((text) => (text ?? null) === null), referred };
}

function textsOf(check: Check): readonly (string | null | undefined)[] {
  if (isReferenceCheck(check)) return check.values;
  const { kind, column, value: text, urlKey = null } = check;
  if (kind === 'recordKey') return [text, urlKey];
  return column.isPassword && text !== null ? text.split(':') : [text];
}

/** What the SQL of a check depends on. */
export const checkSqlKey = (check: Check): string => {
  const { kind, column } = check;
  const values = isReferenceCheck(check) ? check.values : [];
  return `${kind}:${column.key}:${values.map((text) => (typeof text === 'string' ? '' : String(text))).join('+')}`;
};

/** Whether the column holds the text of this salt and digest: see `saltedDigest` in resources/users/password-hashing.ts. */
export const matchesDigest = (
  present: Fragment,
  [salt = EMPTY, digest = EMPTY]: readonly (Fragment | undefined)[],
): Fragment =>
  sql`coalesce(encode(sha256(convert_to(${salt} || ${present}, 'UTF8')), 'hex') = ${digest}, false)`;

/**
 * What an update stores. The type may combine the value with the present one, for instance to keep microseconds.
 * @param row the alias of the row before the update
 */
export const assigned = (value: Fragment, column: Column, row: string = FOUND): Fragment =>
  column.type.assign?.(value, reference(row, column), column) ?? value;

/** Whether the check holds. The row to check has the alias FOUND. */
export function checkSql(check: BoundCheck): Fragment {
  const { kind, column, values } = check;
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
  return referenceSql(check);
}

/** Whether PostgreSQL would accept the reference, or the record has it already. */
function referenceSql({ kind, column: foreignKey, values, mayBeNull, referred }: BoundCheck): Fragment {
  const { references, isFull } = foreignKey;
  const parts = partsOf(foreignKey);
  const newValues = parts.map((part, index) => {
    const given = values[index];
    if (given === undefined) return foreignReference(FOUND, part);
    return kind === 'reference' ? cast(given, part) : assigned(cast(given, part), part);
  });
  const joined = (conditions: readonly Fragment[], between: 'and' | 'or'): Fragment =>
    sql`(${join(conditions, ` ${between} `)})`;
  const isSame = (others: readonly Fragment[]): Fragment =>
    joined(
      newValues.map((newValue, index) => sql`${others[index] ?? raw('null')} = ${newValue}`),
      'and',
    );
  const isNull = newValues.map((newValue) => sql`${newValue} is null`);
  const alternatives: Fragment[] = mayBeNull ? [joined(isNull, isFull ? 'and' : 'or')] : [];
  if (kind !== 'reference')
    alternatives.push(sql`coalesce(${isSame(parts.map((part) => foreignReference(FOUND, part)))}, false)`);
  if (referred && references) {
    const keys = partsOf(references.primaryKey).map((key) => reference(REFERRED, key));
    alternatives.push(sql`exists (select from ${referred} where ${isSame(keys)})`);
  }
  return joined(alternatives, 'or');
}

/** Whether the column is NULL, and the body says null. */
function isNullAsBefore(
  present: Fragment,
  newValue: Fragment,
  { isUnchecked, nullable, type: { nullText } }: Column,
): Fragment {
  if (!isUnchecked && !nullable) return raw('false');
  const saysNull = nullText === undefined ? EMPTY : sql` or ${newValue}::text = ${literal(nullText)}`;
  return sql`${present} is null and (${newValue} is null${saysNull})`;
}

/** The results of the checks as an array, in their order. The row to check has the alias FOUND. */
export const checksSql = (checks: readonly BoundCheck[]): Fragment =>
  sql`array[${join(checks.map(checkSql), ', ')}]::bool[]`;

/** One row with the alias FOUND: the record's, or only NULLs if there is none. */
function rowToCheck(model: Model, id: string | undefined, visibility: RowVisibility): Fragment {
  const { primaryKey } = model;
  const key =
    id === undefined ? raw('false') : sql`${reference(FOUND, primaryKey)} = ${typed(id, primaryKey)}`;
  return sql`(select) one left join ${source(model, FOUND, visibility)} on ${key}`;
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
  visibility: RowVisibility,
): Statement<boolean[]> {
  const results = checksSql(checks.map((check) => bindCheck(check, IN_PLACE, visibility)));
  return createStatement(sql`select ${results} from ${rowToCheck(model, id, visibility)}`, oneCell(booleans));
}

/** The values of a row of `wanted`. */
const wantedValues = (columns: readonly unknown[]): Fragment[] =>
  columns.map((_, index) => sql`wanted.${cellAlias(index)}`);

/** Keys that must belong to records of the model that a foreign key refers to. */
export interface WantedKeys {
  readonly foreignKey: Column;
  /** The values of its columns, for each key. */
  readonly keys: readonly (readonly (string | null)[])[];
}

/** The values of several columns, see `cellOf`. */
const cellsOf = (columns: readonly Column[], rows: readonly (readonly (string | null)[])[]): Fragment[] =>
  columns.map((_, index) => cellOf(rows.map((row) => row[index] ?? null)));

const wantedCells = ({ foreignKey, keys }: WantedKeys): Fragment[] => cellsOf(partsOf(foreignKey), keys);

/**
 * Whether one of the rows has these values.
 * @param rows a relation of alias REFERRED
 * @param types the columns whose types the values have
 */
function isStoredSql(
  rows: Fragment,
  columns: readonly Column[],
  values: readonly Fragment[],
  types = columns,
  others: Fragment = EMPTY,
): Fragment {
  const same = columns.map(
    (column, index) =>
      sql`${reference(REFERRED, column)} = ${cast(values[index] ?? EMPTY, types[index] ?? column)}`,
  );
  return sql`exists (select from ${rows} where ${join(same, ' and ')}${others})`;
}

/** Wanted keys whose values are parameters. */
export interface BoundKeys {
  readonly wanted: WantedKeys;
  /** See `wantedCells`. */
  readonly cells: readonly Fragment[];
  /** The records that the foreign key may refer to. */
  readonly referred: Fragment | undefined;
}

export function bindKeys(wanted: WantedKeys, { take }: Binder, visibility: RowVisibility): BoundKeys {
  const { references } = wanted.foreignKey;
  const cells = wantedCells(wanted).map(take);
  return { wanted, cells, referred: references && take(referredRows(references, visibility)) };
}

/** Which of the keys exist, as an array in their order. */
export function existingSql({ wanted: { foreignKey, keys }, cells, referred }: BoundKeys): Fragment {
  const { references } = foreignKey;
  if (!references || !referred) return raw('array[]::bool[]');
  const isOne = keys.length === 1;
  const values = isOne ? cells : wantedValues(cells);
  const isStored = isStoredSql(referred, partsOf(references.primaryKey), values, partsOf(foreignKey));
  if (isOne) return sql`array[${isStored}]`;
  return sql`array(select ${isStored} from ${valueRows('wanted', cells, keys.length)} order by position)`;
}

/** Asks which of the keys exist. @returns for each foreign key the answers in the order of its keys */
export function existingKeysStatement(
  wanted: readonly WantedKeys[],
  visibility: RowVisibility,
): Statement<boolean[][]> {
  const results = wanted.map((one) => existingSql(bindKeys(one, IN_PLACE, visibility)));
  return createStatement(sql`select ${join(results, ', ')}`, ([row]) =>
    wanted.map((_, index) => booleans(row?.[index])),
  );
}

/**
 * Asks which of these combinations of values a stored record or an earlier row has.
 * @param columns of a unique index, which finds each combination
 * @param rows the values of the columns
 * @param id of a record that does not count
 */
export function duplicatesStatement(
  model: Model,
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  id?: string,
): Statement<boolean[]> {
  const values = wantedValues(columns);
  const key = model.primaryKey;
  const others = id === undefined ? EMPTY : sql` and ${reference(REFERRED, key)} <> ${typed(id, key)}`;
  const cells = columns.map((column, index) => cast(values[index] ?? EMPTY, column));
  const occurrence = sql`row_number() over (partition by ${join(cells, ', ')} order by position)`;
  const wanted = sql`(select wanted.*, ${occurrence} as n from ${valueRows('wanted', cellsOf(columns, rows), rows.length)}) wanted`;
  return createStatement(
    sql`select array(select n > 1 or ${isStoredSql(allRows(model, REFERRED), columns, values, columns, others)} from ${wanted} order by position)`,
    oneCell(booleans),
  );
}

/** SQLSTATE of a text that is not of its type. */
const INVALID_TEXT = '22P02';

/**
 * A text that ends a statement on purpose: it is no number, so casting it to one is an error, which quotes the text. Random, because
 * the error of a trigger's cast may quote a client's value.
 */
const INCOMPLETE = `vitrine incomplete ${randomUUID()}`;
const FORBIDDEN = `vitrine forbidden ${randomUUID()}`;

interface ErrorText {
  readonly code: string;
  readonly message: string;
}

/** Whether the statement raised the error of `assertSql` with this text. */
const hasRaised = ({ code, message }: ErrorText, text: string): boolean =>
  // Without quotation marks, which depend on the language of the server.
  code === INVALID_TEXT && message.includes(text);

/** Whether the statement undid its writes on purpose: a trigger canceled one of them, or it was a dry run. */
export const isRolledBack = (error: ErrorText): boolean => hasRaised(error, INCOMPLETE);

/** Whether the statement undid its writes because a row is now one that its author may not write. */
export const isForbidden = (error: ErrorText): boolean => hasRaised(error, FORBIDDEN);

/**
 * SQL that is a number if the condition holds. Else it raises the error that `isRolledBack` recognizes.
 * @param isAllowed the condition of what was written, whose error `isForbidden` recognizes
 */
export const assertWrittenSql = (holds: Fragment, isAllowed?: Fragment): Fragment => {
  const forbidden = isAllowed ? sql` when not (${isAllowed}) then ${literal(FORBIDDEN)}` : EMPTY;
  return sql`(case${forbidden} when ${holds} then '1' else ${literal(INCOMPLETE)} end)::int8`;
};
