import { EMPTY, identifier, join, raw, sql, table, type Fragment } from '../db/fragment.ts';
import type { Model } from '../db/model.ts';

/** What the history shows of the changes of one model, by JSON key: a value, or of a password only that it changed. */
export type ShownKeys = Readonly<Record<string, 'value' | 'password'>>;

const literal = (text: string): Fragment => raw(`'${text.replaceAll("'", "''")}'`);

/** The alias of the table, and what `shown` says of the row's model. */
const ROW = 'h';
const KEYS = raw(`(v.shown -> ${ROW}.model)`);

/**
 * Functions for JSON fail on escapes that no text can hold (`\u0000`, lone surrogates). Each `\u` becomes `\u0001u` before they
 * run, which is valid wherever `\u` was, and becomes `\u` again behind them.
 */
const escaped = (text: Fragment): Fragment => sql`replace(${text}, ${raw(`e'\\\\u', e'\\\\u0001u'`)})`;
const unescaped = (text: Fragment): Fragment => sql`replace(${text}, ${raw(`e'\\\\u0001u', e'\\\\u'`)})`;

/** The JSON object of a column without the keys that are hidden now; NULL for a model that is hidden now. */
function maskedObject(field: Fragment, passwordMark: Fragment): Fragment {
  const kind = sql`${KEYS} ->> m.key`;
  const value = sql`case ${kind} when 'value' then ${unescaped(raw('m.value::text'))} else ${passwordMark} end`;
  const isShown = sql`${kind} = 'value' or ${kind} = 'password' and ${raw(`${ROW}.action`)} = 'update'`;
  const members = sql`select string_agg(concat('"', m.key, '":', ${value}), ',') from json_each(${escaped(field)}::json) m where ${isShown}`;
  return sql`case when ${field} is not null and ${KEYS} is not null then concat('{', (${members}), '}') end`;
}

/**
 * The history as today's registry lets it be seen, as a relation that reads take in place of the table. No filter, ordering,
 * search or export can reach what is not in it.
 * @param shown by model; of a model that is not among them the record's key is hidden as well
 * @param only the name of one of these models, when no other model's changes are wanted: an index finds those of a record then
 */
export function maskedHistory(
  log: Model,
  shown: Readonly<Record<string, ShownKeys>>,
  only?: string,
): Fragment {
  const columns = [log.primaryKey, ...log.columns].map(({ name, field }) => {
    const bare = sql`${raw(ROW)}.${identifier(field)}`;
    if (name === 'before' || name === 'after') {
      const passwordMark = raw(name === 'before' ? `'false'` : `'true'`);
      return sql`${maskedObject(bare, passwordMark)} as ${identifier(field)}`;
    }
    if (name === 'record' && only === undefined)
      return sql`case when ${KEYS} is null then '' else ${bare} end as ${identifier(field)}`;
    return bare;
  });
  const where = only === undefined ? EMPTY : sql` where ${raw(ROW)}.model = ${literal(only)}`;
  // A read of one record also takes the version of its row.
  return sql`(select ${join(columns, ', ')}, ${raw(`${ROW}.xmin`)} from ${table(log.table)} ${raw(ROW)} cross join (select ${literal(JSON.stringify(shown))}::jsonb as shown) v${where})`;
}
