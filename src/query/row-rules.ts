// Rules for rows in the grammar of filters, such as `team=$me.team`: from text to a condition of SQL.
import { identifier, join, raw, sql, type Fragment } from '../db/fragment.ts';
import { partsOf, type Column, type Model } from '../db/schema/model.ts';
import { addError, type FieldErrors } from '../errors.ts';
import { messageOf } from '../messages.ts';
import { conditionSql } from './condition-sql.ts';
import { filterValues } from './parse/filter-values.ts';
import { parseListQuery } from './parse/grammar.ts';
import { planList, ROOT, type Condition, type Join, type Visibility, type VisibleRows } from './plan.ts';
import { joinedRows } from './source.ts';

/** A record matches if it matches one of the rules, all of them, or a query. */
export type RowRule =
  { readonly anyOf: readonly RowRule[] } | { readonly allOf: readonly RowRule[] } | RuleQuery;

/** The filters of a rule. Its joins read all rows: a rule that followed the rules of other models could need itself. */
interface RuleQuery {
  readonly joins: readonly Join[];
  readonly where: readonly RuleCondition[];
}

interface RuleCondition {
  readonly condition: Condition;
  /** The texts of the values, some of which may be `$me`; undefined if none is. */
  readonly texts: readonly string[] | undefined;
}

/** `$me`, or `$me.team` for a column of the caller's record. */
const ME = /^\$me(?:\.(.+))?$/;

/** Whether a value is the caller's: their key, or the column with this name of their record; undefined for other values. */
export function columnOfMe(value: string): { readonly name: string | undefined } | undefined {
  const found = ME.exec(value);
  return found ? { name: found[1] } : undefined;
}

const valuesOf = (text: string): readonly string[] =>
  parseListQuery(text, { limit: 1, maxLimit: 1 }, {}).filters.flatMap((filter) => filter.values);

/** The columns of the caller's record that the rules name. */
export const columnsOfMe = (texts: readonly string[]): string[] => [
  ...new Set(texts.flatMap(valuesOf).flatMap((value) => ME.exec(value)?.[1] ?? [])),
];

/** Whether the rule names the caller, so that it matches nothing without credentials. */
export const namesMe = (text: string): boolean => valuesOf(text).some((value) => ME.test(value));

/** Finds the value in place of `$me`. @returns undefined for a column that the caller's record does not have */
export type SampleOfMe = (column: string | undefined) => string | undefined;

/**
 * Parses a rule.
 * @param visibility what the role may read, whose columns the rule may name
 * @param errors receives what is wrong with it, by parameter
 */
export function parseRule(
  text: string,
  model: Model,
  visibility: Visibility,
  sample: SampleOfMe,
  errors: FieldErrors,
): RowRule {
  const query = parseListQuery(text, { limit: 1, maxLimit: 1 }, errors);
  const { filters } = query;
  for (const { parameter, values } of filters)
    for (const value of values) {
      const [isMe, column] = ME.exec(value) ?? [];
      if (isMe !== undefined && sample(column) === undefined)
        addError(errors, parameter, messageOf('noColumnOfCaller', { column: String(column) }));
    }
  for (const name of ['ordering', 'limit', 'page'])
    if (new RegExp(`(?:^|&)${name}=`).test(text)) addError(errors, name, messageOf('notInRules'));
  if (filters.length === 0 && Object.keys(errors).length === 0) addError(errors, '', messageOf('noFilter'));
  const sampled = filters.map((filter) => ({
    ...filter,
    values: filter.values.map((value) => {
      const [isMe, column] = ME.exec(value) ?? [];
      return isMe === undefined ? value : (sample(column) ?? value);
    }),
  }));
  const plan = planList({ ...query, filters: sampled }, model, visibility, [], errors);
  return {
    joins: plan.joins,
    where: plan.where.flatMap((condition, index) => {
      const texts = filters[index]?.values ?? [];
      // A rule has no search, and so no alternatives.
      return 'anyOf' in condition || 'rule' in condition
        ? []
        : [{ condition, texts: texts.some((value) => ME.test(value)) ? texts : undefined }];
    }),
  };
}

/** The columns of the model whose values decide whether a record matches. */
export function columnsOf(rule: RowRule): readonly Column[] {
  if ('anyOf' in rule) return rule.anyOf.flatMap(columnsOf);
  if ('allOf' in rule) return rule.allOf.flatMap(columnsOf);
  const used = [
    ...rule.where.map(({ condition: { alias, column } }) => ({ from: alias, column })),
    ...rule.joins,
  ];
  return used.flatMap(({ from, column }) => (from === ROOT ? [column] : []));
}

/** Whether the rule reads only the row itself. */
export function isOfRow(rule: RowRule): boolean {
  if ('anyOf' in rule) return rule.anyOf.every(isOfRow);
  if ('allOf' in rule) return rule.allOf.every(isOfRow);
  return rule.joins.length === 0;
}

/** The value of `$me` or `$me.team`; null without a caller, and if the column is NULL. */
export type ValueOfMe = (column?: string) => string | null;

/** A condition with the caller's values; undefined if no record can match. */
function boundCondition({ condition, texts }: RuleCondition, me: ValueOfMe): Condition | undefined {
  if (!texts) return condition;
  const values: string[] = [];
  for (const text of texts) {
    const [isMe, column] = ME.exec(text) ?? [];
    const value = isMe === undefined ? text : me(column);
    if (value === null) return undefined;
    values.push(value);
  }
  const parsed = filterValues(condition.operator, values, condition.column);
  return 'fault' in parsed ? undefined : { ...condition, values: parsed.values };
}

function querySql({ joins, where }: RuleQuery, me: ValueOfMe): Fragment {
  const conditions: Fragment[] = [];
  for (const one of where) {
    const bound = boundCondition(one, me);
    if (!bound) return raw('false');
    conditions.push(conditionSql(bound));
  }
  const all = join(conditions, ' and ');
  return joins.length === 0
    ? sql`(${all})`
    : sql`exists (select from (select) one${joinedRows(joins)} where ${all})`;
}

/** The condition of a rule about the row of alias ROOT. It is false where a value of the caller is missing. */
export function ruleSql(rule: RowRule, me: ValueOfMe): Fragment {
  if (!('anyOf' in rule) && !('allOf' in rule)) return querySql(rule, me);
  const [parts, between, none] =
    'anyOf' in rule ? [rule.anyOf, ' or ', 'false'] : [rule.allOf, ' and ', 'true'];
  const [only = raw(none), ...others] = parts.map((part) => ruleSql(part, me));
  return others.length === 0 ? only : sql`(${join([only, ...others], between)})`;
}

/** Which records exist for an access, and the columns that have values only in some of them. */
export interface ReadRule {
  readonly where: RowRule | undefined;
  readonly columns: ReadonlyMap<Column, RowRule>;
}

/** The rows of the model that exist for a caller. */
export function visibleRows({ where, columns }: ReadRule, model: Model, me: ValueOfMe): VisibleRows {
  const fields = new Map([...partsOf(model.primaryKey), ...model.columns].map((one) => [one.field, one]));
  const shown = [...fields].map(([field, column]) => {
    const value = sql`${raw(ROOT)}.${identifier(field)}`;
    const rule = columns.get(column);
    return rule ? sql`case when ${ruleSql(rule, me)} then ${value} end as ${identifier(field)}` : value;
  });
  return {
    where: where ? ruleSql(where, me) : raw('true'),
    columns: columns.size > 0 ? join(shown, ', ') : undefined,
    partial: new Set(columns.keys()),
    isPlain: [...columns.values(), ...(where ? [where] : [])].every(isOfRow),
  };
}
