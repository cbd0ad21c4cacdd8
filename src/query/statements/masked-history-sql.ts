import { EMPTY, identifier, join, raw, sql, table, type Fragment } from '../../db/fragment.ts';
import type { Column, Model } from '../../db/schema/model.ts';

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

/**
 * Bytes of the longest value that is shown in full, and of all values of a change. When they have more, each has an equal share.
 * A longer value is cut to a quarter of the bytes in characters. A change with cut values fits into no address.
 */
const LONGEST = 8192;
const LONGEST_CHANGE = 4 * LONGEST;
const SHORTEST = 64;

/** The fields of the relation that have `before` and `after` with long values cut. */
const CUT_FIELDS: Readonly<Record<string, string>> = {
  before: 'vitrine cut before',
  after: 'vitrine cut after',
};

/** A column of the log for pages: its long values are cut, and have their sizes beside them as in `preview.ts`. */
export function cutColumn(column: Column): Column {
  const field = CUT_FIELDS[column.name];
  return field === undefined ? column : { ...column, field };
}

/** Whether PostgreSQL cuts what is in the column, and not the column itself. */
export const isCutInside = ({ field }: Column): boolean => Object.values(CUT_FIELDS).includes(field);

/** The JSON of a value, or its beginning and its size in bytes. */
function cutValue(): Fragment {
  const beginning = unescaped(raw('left(t, share.bytes / 4)'));
  const cut = sql`concat(to_json(${beginning}), ',"#', m.key, '":', octet_length(t))`;
  const plain = raw(
    `case json_typeof(m.value) when 'string' then replace(m.value #>> '{}', e'\\x01u', e'\\\\u') else m.value::text end`,
  );
  const text = sql`(select ${plain} offset 0) value (t)`;
  return sql`(select case when octet_length(t) > share.bytes then ${cut} else ${unescaped(raw('m.value::text'))} end from ${text})`;
}

/** The bytes of the longest value of a change that is not cut, as `share.bytes`. */
function shareOf(fields: readonly Fragment[]): Fragment {
  const bytes = fields.map((field) => sql`coalesce(octet_length(${field}), 0)`);
  const members = fields.map(
    (field) => sql`(select count(*) from json_object_keys(${escaped(field)}::json))::int`,
  );
  const equal = sql`${raw(String(LONGEST_CHANGE))} / greatest(1, ${join(members, ' + ')})`;
  const least = raw(String(SHORTEST));
  const most = raw(String(LONGEST));
  return sql`with share as materialized (select case when ${join(bytes, ' + ')} > ${raw(String(LONGEST_CHANGE))} then greatest(${least}, least(${most}, ${equal})) else ${most} end as bytes) `;
}

/** The JSON object of a column without the keys that are hidden now; NULL for a model that is hidden now. */
function maskedObject(
  field: Fragment,
  passwordMark: Fragment,
  shownValue: Fragment,
  share?: Fragment,
): Fragment {
  const kind = sql`${KEYS} ->> m.key`;
  const value = sql`case ${kind} when 'value' then ${shownValue} else ${passwordMark} end`;
  const isShown = sql`${kind} = 'value' or ${kind} = 'password' and ${raw(`${ROW}.action`)} = 'update'`;
  const all = sql`json_each(${escaped(field)}::json) m${share ? raw(' cross join share') : EMPTY}`;
  const members = sql`${share ?? EMPTY}select string_agg(concat('"', m.key, '":', ${value}), ',') from ${all} where ${isShown}`;
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
  const fieldOf = (field: string): Fragment => sql`${raw(ROW)}.${identifier(field)}`;
  const isValues = ({ name }: Column): boolean => name === 'before' || name === 'after';
  const share = shareOf(log.columns.filter(isValues).map(({ field }) => fieldOf(field)));
  const columns = [log.primaryKey, ...log.columns].flatMap(({ name, field }) => {
    const bare = fieldOf(field);
    if (name === 'before' || name === 'after') {
      const passwordMark = raw(name === 'before' ? `'false'` : `'true'`);
      const whole = maskedObject(bare, passwordMark, unescaped(raw('m.value::text')));
      const cut = maskedObject(bare, passwordMark, cutValue(), share);
      const cutField = identifier(CUT_FIELDS[name] ?? '');
      // PostgreSQL computes only the one that a statement uses.
      return [sql`${whole} as ${identifier(field)}`, sql`${cut} as ${cutField}`];
    }
    if (name === 'record' && only === undefined)
      return sql`case when ${KEYS} is null then '' else ${bare} end as ${identifier(field)}`;
    return bare;
  });
  const where = only === undefined ? EMPTY : sql` where ${raw(ROW)}.model = ${literal(only)}`;
  // A read of one record also takes the version of its row.
  return sql`(select ${join(columns, ', ')}, ${raw(`${ROW}.xmin`)} from ${table(log.table)} ${raw(ROW)} cross join (select ${literal(JSON.stringify(shown))}::jsonb as shown) v${where})`;
}
