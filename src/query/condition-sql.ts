// Turns the conditions of a plan into SQL.
import type { Operator } from '../db/types/column-type.ts';
import {
  compile,
  EMPTY,
  identifier,
  join,
  quotedTable,
  raw,
  sql,
  valueList,
  type Fragment,
} from '../db/fragment.ts';
import { reference, typed, type Column } from '../db/schema/model.ts';
import { cast } from '../db/types/column-types.ts';
import type { Condition, ListPlan } from './plan.ts';

type Comparison = 'eq' | 'ne' | 'lt' | 'lte' | 'gt' | 'gte';

const SYMBOLS: Readonly<Record<Exclude<Operator, 'in' | 'is'>, string>> = {
  eq: '=',
  ne: '<>',
  lt: '<',
  lte: '<=',
  gt: '>',
  gte: '>=',
  like: 'like',
  ilike: 'ilike',
  contains: '@>',
};

/**
 * Maximum values that are compared one by one. `contains`, and columns that store fractions of a second, use an index only for
 * such values. More values are one parameter, so that clients cannot cause a different statement with each number of values.
 */
const MAX_COMPARISONS = 8;

const isTextual = ({ castType }: Column): boolean => castType === 'text' || castType === 'varchar';

/** A column as text for LIKE, with a collation that LIKE supports. */
function patternText(column: Column, bare: Fragment): Fragment {
  if (column.isNondeterministic) return sql`${bare}::text collate "default"`;
  return isTextual(column) ? bare : sql`${bare}::text`;
}

/** The text without the marks of its letters: `García` is `Garcia`. An index can serve it. */
export const foldedText = (text: Fragment): Fragment =>
  sql`regexp_replace(normalize(${text}, NFKD), ${raw(String.raw`'[\u0300-\u036f]'`)}, '', 'g')`;

/** The index that serves a search of a column: for its texts, and for these without marks. */
export function searchIndex(table: string, field: string): string {
  const name = identifier(field);
  return compile(
    sql`create index on ${raw(quotedTable(table))} using gin (${name} gin_trgm_ops, ${foldedText(name)} gin_trgm_ops)`,
  ).text;
}

/** Whether a text with other letters than those of ASCII matches a folded pattern. Databases not in UTF-8 cannot normalize. */
function matchFolded(column: Column, bare: Fragment, [pattern = '']: readonly string[]): Fragment {
  const text = patternText(column, bare);
  const isOther = sql`getdatabaseencoding() = 'UTF8' and octet_length(${text}) <> length(${text})`;
  return sql`(${isOther} and ${foldedText(text)} ilike ${typed(pattern, { ...column, castType: 'text' })})`;
}

/**
 * Whether comparing two values reads each of them whole. For citext, PostgreSQL also copies them. Comparing a value of 1 MB with
 * 50 elements of an array takes a second, which PostgreSQL cannot cancel. It can cancel between the rows of a subselect.
 */
const isReadWhole = ({ castType, isNondeterministic }: Column): boolean =>
  castType === 'jsonb' || isNondeterministic === true || /(?:^|\.)citext$/.test(castType);

/** Whether a list of values is a subselect, and not an array of the column's type. */
const isSubselect = (column: Column): boolean => column.type.element !== undefined || isReadWhole(column);

/** The values as one parameter: an array of the column's type, or a subselect. */
const typedList = (values: readonly string[], column: Column): Fragment => {
  const { castType } = column;
  return isSubselect(column)
    ? sql`select one::${raw(castType)} from unnest(${valueList(values)}) one`
    : castType === 'text'
      ? valueList(values)
      : sql`${valueList(values)}::${raw(castType)}[]`;
};

/**
 * Compares in whole seconds, like the output of a column that stores fractions of a second: 18:30:00.25 equals 18:30:00.
 * Bounds on the bare column let PostgreSQL use an index, and work with infinity.
 */
function compareSeconds(column: Fragment, operator: Comparison, value: Fragment, isLast: boolean): Fragment {
  const last = isLast ? value : sql`${value} + interval '999999 microseconds'`;
  switch (operator) {
    case 'eq':
      return sql`(${column} >= ${value} and ${column} <= ${last})`;
    case 'ne':
      return sql`(${column} < ${value} or ${column} > ${last})`;
    case 'lte':
      return sql`${column} <= ${last}`;
    case 'gt':
      return sql`${column} > ${last}`;
    case 'lt':
      return sql`${column} < ${value}`;
    case 'gte':
      return sql`${column} >= ${value}`;
  }
}

/** A column in whole seconds, like its output. The cast to an interval keeps the time 24:00:00. */
const wholeSeconds = (bare: Fragment, isTime: boolean): Fragment =>
  isTime ? sql`date_trunc('second', ${bare}::interval)` : sql`date_trunc('second', ${bare})`;

/** The column matches any of the values; for `ne`, none of them. */
function compare(
  column: Column,
  bare: Fragment,
  operator: Exclude<Operator, 'is'>,
  values: readonly string[],
): Fragment {
  const isPattern = operator === 'like' || operator === 'ilike';
  const comparison = operator === 'in' ? 'eq' : operator;
  const [only] = values;
  const symbol = raw(SYMBOLS[comparison]);
  const quantifier = raw(comparison === 'ne' ? 'all' : 'any');
  if (column.fractionalSecondDigits && !isPattern) {
    if (values.length <= MAX_COMPARISONS) {
      const each = values.map((text) => {
        const isLast = text === '24:00:00'; // the largest time: adding microseconds would wrap around
        return compareSeconds(bare, comparison as Comparison, typed(text, column), isLast);
      });
      return sql`(${join(each, comparison === 'ne' ? ' and ' : ' or ')})`;
    }
    const isTime = column.type.castType === 'time';
    const list = typedList(values, isTime ? { ...column, castType: 'interval' } : column);
    return sql`${wholeSeconds(bare, isTime)} ${symbol} ${quantifier}(${list})`;
  }
  const left = isPattern ? patternText(column, bare) : (column.type.comparable?.(bare, column) ?? bare);
  // The value must be cast to the type that the column is compared as.
  const compared = { ...column, castType: column.type.comparedAs ?? column.castType };
  if (operator === 'contains' && values.length <= MAX_COMPARISONS)
    return sql`(${join(
      values.map((text) => sql`${left} @> ${typed(text, compared)}`),
      ' or ',
    )})`;
  if (values.length === 1 && only !== undefined) {
    const value = isPattern ? typed(only, { ...column, castType: 'text' }) : typed(only, compared);
    return sql`${left} ${symbol} ${value}`;
  }
  const list = isPattern ? valueList(values) : typedList(values, compared);
  // PostgreSQL makes a hash table of such a subselect, but for `<> all` it compares with each of its rows.
  if (operator === 'ne' && isSubselect(compared)) return sql`(not ${left} = any(${list}))`;
  return sql`${left} ${symbol} ${quantifier}(${list})`;
}

/** Compares a key of several columns, as a row. Several values are one parameter. */
function compareRows(
  column: Column,
  row: Fragment,
  operator: Exclude<Operator, 'is'>,
  values: readonly string[],
): Fragment {
  const [only] = values;
  const isEquality = operator === 'eq' || operator === 'in';
  const symbol = raw(SYMBOLS[operator === 'in' ? 'eq' : operator]);
  // Without this, a row of which only some columns are NULL could match: (1, null) <> (2, 3) is true.
  const known = isEquality ? EMPTY : sql`${row} is not null and `;
  if (values.length === 1 && only !== undefined)
    return sql`(${known}${row} ${symbol} ${typed(only, column)})`;
  const isNone = operator === 'ne';
  const same = sql`${row} ${isNone ? raw('=') : symbol} ${cast(raw('k.value'), column)}`;
  return sql`(${known}${raw(isNone ? 'not ' : '')}exists (select from unnest(${valueList(values)}) k (value) where ${same}))`;
}

/** Whether a value is in one of these states: null, true or false. A key of several columns with a NULL refers to no record. */
function isState({ parts }: Column, value: Fragment, states: readonly string[]): Fragment {
  if (parts) return sql`not (${value} is not null)`;
  return sql`(${join(
    states.map((state) => sql`${value} is ${raw(state)}`),
    ' or ',
  )})`;
}

/** The SQL of one filter. A negated one keeps every row that the filter does not match, NULLs included. */
export function conditionSql(where: ListPlan['where'][number]): Fragment {
  if ('rule' in where) return where.rule;
  if ('anyOf' in where)
    return where.anyOf.length === 0 ? raw('false') : sql`(${join(where.anyOf.map(conditionSql), ' or ')})`;
  const { alias, column, operator, values, negated, isFolded } = where;
  const bare = reference(alias, column);
  if (isFolded) return matchFolded(column, bare, values);
  const compared = column.parts ? compareRows : compare;
  const condition =
    operator === 'is' ? isState(column, bare, values) : compared(column, bare, operator, values);
  return negated ? sql`(${condition}) is not true` : condition;
}

/** Characters of a text up to which a pattern is matched in a few milliseconds at most. */
const MAX_SHORT = 1000;

/**
 * Whether PostgreSQL may take long for one value, and cannot be canceled meanwhile: it matches a long text, searches JSON or an
 * array, or compares a value that it reads whole with several others.
 */
export function isUncancelable({ operator, column, values }: Condition): boolean {
  const { type, storedLength = Infinity } = column;
  if (type.input.json === 'json') return operator !== 'is';
  if (operator === 'like' || operator === 'ilike') return type.long === true && storedLength > MAX_SHORT;
  return values.length > 1 && isReadWhole(column);
}
