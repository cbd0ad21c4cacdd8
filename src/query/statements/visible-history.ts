// The history with only what the admin area shows now, as a relation that reads use instead of the table.
import { arrayText, EMPTY, identifier, join, literal, raw, sql, type Fragment } from '../../db/fragment.ts';
import { createStatement, text, type Statement } from '../../db/rows.ts';
import { output, requiredColumn, type Column, type Model } from '../../db/schema/model.ts';
import type { RowVisibility } from '../plan.ts';
import { allRows, source } from '../source.ts';
import { isReadable, UNREADABLE } from './history-entries.ts';
import { isInSpan, type Span } from './watermark-statements.ts';

/**
 * What the history shows of one model's changes, by the JSON key that an entry has: the value, or only that a password changed. A
 * column that has a new key is shown under that one, by the first of its keys that the entry has. With the key of `UNREADABLE`, each
 * update is shown: it changes at least one of these columns.
 */
type ShownKeys = Readonly<Record<string, readonly [shown: 'value' | 'password', key: string, order: number]>>;

/** What the history shows of one model. */
export interface ShownModel {
  readonly keys: ShownKeys;
  /** Of which records, if not of all: those that exist for the access. */
  readonly existing?: { readonly model: Model; readonly visibility: RowVisibility };
}

/** The alias of the history's table. */
const ROW = 'h';
/** The `ShownKeys` of the row's model; NULL for a hidden model. */
const KEYS = raw(`(v.shown -> ${ROW}.model)`);

/**
 * PostgreSQL's JSON functions fail on escapes that its texts cannot hold (`\u0000`, lone surrogates). So each `\u` becomes
 * `\u0001u`, which is always valid, before they run, and `\u` again afterwards.
 */
const escaped = (text: Fragment): Fragment => sql`replace(${text}, ${raw(`e'\\\\u', e'\\\\u0001u'`)})`;
const unescaped = (text: Fragment): Fragment => sql`replace(${text}, ${raw(`e'\\\\u0001u', e'\\\\u'`)})`;

/**
 * Maximum bytes of a value that is shown in full. A longer one is cut to a quarter as many characters, because a character has up
 * to 4 bytes.
 */
const MAX_VALUE_BYTES = raw('8192');
/**
 * Maximum bytes of all values of an added or deleted record. If none is cut, the page of a deleted record offers to add it again, with
 * a URL that holds all values and must not be too long.
 */
const MAX_CHANGE_BYTES = raw('32768');
/** Maximum bytes of the values before an update, and of those after it. */
const MAX_SIDE_BYTES = raw('16384');
/** A value of at most these bytes is always shown in full. */
const MIN_VALUE_BYTES = raw('64');

/** The relation's additional columns: `before` and `after` with long values cut. */
const CUT_FIELDS: Readonly<Record<string, string>> = {
  before: 'vitrine cut before',
  after: 'vitrine cut after',
};

/** A column of the history for pages: with long values cut and their sizes added, as in `labels/preview-sql.ts`. */
export function cutColumn(column: Column): Column {
  const field = CUT_FIELDS[column.name];
  return field === undefined ? column : { ...column, field };
}

/**
 * The size in bytes up to which a value of this column is shown in full. `m.count` is the number of its values.
 * @param other the column on the other side of the change, which is NULL for an added or deleted record
 */
function shareOf(field: Fragment, other: Fragment): Fragment {
  const all = sql`case when ${other} is null then ${MAX_CHANGE_BYTES} else ${MAX_SIDE_BYTES} end`;
  return sql`case when octet_length(${field}) > ${all} then greatest(${MIN_VALUE_BYTES}, least(${MAX_VALUE_BYTES}, ${all} / m.count)) else ${MAX_VALUE_BYTES} end`;
}

/** The parts of a column in `ShownKeys`, by the key in an entry. */
const shownPart = (key: string, part: 0 | 1 | 2): Fragment =>
  sql`(${KEYS} -> ${raw(key)} ->> ${raw(String(part))})`;
/** The key under which a value is shown. */
const SHOWN_KEY = shownPart('m.key', 1);

/** The JSON of a value, or for a long value its beginning and its size in bytes. */
function cutValue(share: Fragment): Fragment {
  // Values other than strings are still JSON with `\u0001u`. A parsed string has it, too, where it has a backslash before a `u`.
  const beginning = unescaped(raw('left(t, bytes::int / 4)'));
  const cut = sql`concat(to_json(${beginning}), ',"#', ${SHOWN_KEY}, '":', octet_length(t))`;
  // Parsing a string has turned the `\u0001` of other escapes into the character itself.
  const plain = raw(
    `case json_typeof(m.value) when 'string' then replace(m.value #>> '{}', e'\\x01u', e'\\\\u') else m.value::text end`,
  );
  const text = sql`(select ${plain}, ${share} offset 0) value (t, bytes)`;
  return sql`(select case when octet_length(t) > bytes then ${cut} else ${unescaped(raw('m.value::text'))} end from ${text})`;
}

/** The JSON object of a column without the keys that are hidden now. NULL if the model is hidden now. */
function maskedObject(field: Fragment, passwordPlaceholder: Fragment, shownValue: Fragment): Fragment {
  const kind = shownPart('m.key', 0);
  const value = sql`case ${kind} when 'value' then ${shownValue} else ${passwordPlaceholder} end`;
  const isShown = sql`${kind} = 'value' or ${kind} = 'password' and ${raw(`${ROW}.action`)} = 'update'`;
  // Counting the keys here instead of on their own saves parsing megabytes twice.
  const all = sql`(select e.*, count(*) over () from json_each(${escaped(field)}::json) e) m`;
  const isEarlier = sql`${shownPart('o', 1)} = ${SHOWN_KEY} and ${shownPart('o', 2)}::int < ${shownPart('m.key', 2)}::int`;
  const isRepeated = sql`case when ${shownPart('m.key', 2)} <> '0' then exists (select from json_object_keys(${escaped(field)}::json) o where ${isEarlier}) else false end`;
  const shownFields = sql`select string_agg(concat('"', ${SHOWN_KEY}, '":', ${value}), ',') from ${all} where (${isShown}) and not ${isRepeated}`;
  const unreadable = sql`case when ${raw(`${ROW}.action`)} <> 'update' or ${KEYS} ->> ${literal(UNREADABLE.key)} is not null then ${literal(UNREADABLE.json)} else '{}' end`;
  const object = sql`case when ${isReadable(ROW)} then concat('{', (${shownFields}), '}') else ${unreadable} end`;
  return sql`case when ${field} is not null and ${KEYS} is not null then ${object} end`;
}

/**
 * The history that the present registry shows, as a relation that reads use instead of the table. Filters, orderings, searches
 * and exports cannot reach anything else.
 * @param shown the visible keys by model; for other models the record's key is hidden too
 * @param only restricts the relation to these models: to one, so that an index finds the changes of a record
 * @param causes the models whose records a cause may name
 */
function maskedHistory(
  history: Model,
  shown: ReadonlyMap<string, ShownModel>,
  only: readonly string[] | 'all',
  causes: readonly string[],
): Fragment {
  const keys = Object.fromEntries([...shown].map(([name, one]) => [name, one.keys]));
  const fieldOf = (field: string): Fragment => sql`${raw(ROW)}.${identifier(field)}`;
  const columns = [history.primaryKey, ...history.columns].flatMap(({ name, field }) => {
    const bare = fieldOf(field);
    if (name === 'before' || name === 'after') {
      // As in `changedValues`: `false` before and `true` after say that the password changed.
      const passwordPlaceholder = raw(name === 'before' ? `'false'` : `'true'`);
      const whole = maskedObject(bare, passwordPlaceholder, unescaped(raw('m.value::text')));
      const share = shareOf(bare, fieldOf(name === 'before' ? 'after' : 'before'));
      const cut = maskedObject(bare, passwordPlaceholder, cutValue(share));
      const cutField = identifier(CUT_FIELDS[name] ?? '');
      // PostgreSQL computes only the columns that a statement uses.
      return [sql`${whole} as ${identifier(field)}`, sql`${cut} as ${cutField}`];
    }
    if (name === 'cause')
      return sql`case when ${bare} is null or split_part(${bare}, '/', 1) = any(${literal(arrayText(causes))}::text[]) then ${bare} else '' end as ${identifier(field)}`;
    if (name === 'record' && only === 'all')
      return sql`case when ${KEYS} is null then '' else ${bare} end as ${identifier(field)}`;
    return bare;
  });
  const ofModel = (name: string): Fragment => sql`${raw(`${ROW}.model`)} = ${literal(name)}`;
  const conditions = [
    ...(only === 'all' ? [] : [only.length === 0 ? raw('false') : sql`(${join(only.map(ofModel), ' or ')})`]),
    ...[...shown].flatMap(([name, { existing }]) => {
      if (!existing) return [];
      const { model, visibility } = existing;
      const isRecord = sql`${output('r', model.primaryKey)}::text = ${raw(`${ROW}.record`)}`;
      // A record that was added later under the same key is another one.
      const isOther = sql`exists (select from ${allRows(history, 'o')} where o.record = ${raw(`${ROW}.record`)} and o.model = ${raw(`${ROW}.model`)} and (o.action = 'delete' and o.id >= ${raw(`${ROW}.id`)} or o.action = 'create' and o.id > ${raw(`${ROW}.id`)}))`;
      return [sql`(${ofModel(name)} and exists (select from ${source(model, 'r', visibility)} where ${isRecord}) and not ${isOther}) is not distinct from ${ofModel(name)}`]; // prettier-ignore
    }),
  ];
  const where = conditions.length === 0 ? EMPTY : sql` where ${join(conditions, ' and ')}`;
  // Reading one record also selects the version of its row.
  return sql`(select ${join(columns, ', ')}, ${raw(`${ROW}.xmin`)} from ${allRows(history, ROW)} cross join (select ${literal(JSON.stringify(keys))}::jsonb as shown) v${where})`;
}

/** Without the updates of columns of which nothing is shown, `c`. */
const withoutHidden = (relation: Fragment): Fragment =>
  sql`(select c.* from ${relation} c where not (c.action = 'update' and c.before = '{}' and c.after = '{}'))`;

/** The parts of a resource that decide what its history shows. */
interface ShownResource {
  readonly name: string;
  readonly model: Model;
  readonly output: readonly Column[];
  readonly passwords?: readonly Column[];
  readonly recorded?: readonly Column[] | undefined;
  readonly visibility: RowVisibility;
  readonly allows: ReadonlySet<string>;
  /** Whether only PostgreSQL knows which records exist for the caller. */
  readonly hasIdentity: boolean;
}

/** What the history shows of a resource: the columns that the access sees now, of the records that exist for it. */
function shownOf(
  { model, output, passwords = [], recorded, visibility, hasIdentity }: ShownResource,
  isWhole = false,
): ShownModel {
  const rows = visibility.rows(model);
  // Whether such a value may be seen depends on the record, which may have changed since.
  const columns = output.filter((column) => rows?.partial.has(column) !== true);
  const isComplete = isWhole || recorded?.every((column) => columns.includes(column)) === true;
  const keysOf = (shown: 'value' | 'password') => (column: Column) =>
    [column.key, ...(column.formerKeys ?? [])].map(
      (key, order) => [key, [shown, column.key, order]] as const,
    );
  return {
    keys: Object.fromEntries([
      ...(isComplete ? [[UNREADABLE.key, ['value', UNREADABLE.key, 0]] as const] : []),
      ...columns.flatMap(keysOf('value')),
      ...passwords.flatMap(keysOf('password')),
    ]),
    ...((rows || (hasIdentity && !isWhole)) && { existing: { model, visibility } }),
  };
}

const withRelation = <T extends ShownResource>(history: T, relation: Fragment): T => ({
  ...history,
  model: { ...history.model, relation },
});

/**
 * The history with only the values that the admin area shows now. It may have recorded more before.
 * @param history the resource of the history's table
 * @param hidden the models that the admin area does not show. Of their records the history shows admins only keys that the database
 * generates. Any other key is data, so the history hides it. Undefined if it shows nothing of them
 */
export function maskHistory<T extends ShownResource>(
  history: T,
  resources: readonly ShownResource[],
  hidden: readonly Model[] | undefined,
): T {
  const withGeneratedKeys = (hidden ?? []).filter(
    ({ primaryKey: { hasDefault, parts } }) => hasDefault && !parts,
  );
  const isWhole = hidden !== undefined;
  const shown = new Map<string, ShownModel>([
    ...withGeneratedKeys.map(({ name }) => [name, { keys: {} }] as const),
    ...resources
      .filter(({ allows }) => allows.has('history'))
      .map((resource) => [resource.name, shownOf(resource, isWhole)] as const),
  ]);
  const only = isWhole ? 'all' : [...shown.keys()];
  const relation = maskedHistory(history.model, shown, only, causesOf(resources, isWhole));
  return withRelation(history, isWhole ? relation : withoutHidden(relation));
}

/** The models whose deleted records an access may know: all of their records exist for it. */
const causesOf = (resources: readonly ShownResource[], isWhole: boolean): string[] =>
  resources
    .filter(
      ({ allows, model, visibility, hasIdentity }) =>
        allows.has('history') && !visibility.rows(model) && (isWhole || !hasIdentity),
    )
    .map(({ name }) => name);

/**
 * The history of one resource, with only the values that the admin area shows now.
 * @param resources all resources
 * @param isWhole whether an admin sees it, for whom the changes of all records exist
 */
export const historyOf = <T extends ShownResource>(
  history: T,
  resource: ShownResource,
  resources: readonly ShownResource[],
  isWhole: boolean,
): T => {
  const shown = new Map([[resource.name, shownOf(resource, isWhole)]]);
  const causes = causesOf(resources, isWhole);
  const relation = maskedHistory(history.model, shown, [resource.name], causes);
  return withRelation(history, isWhole ? relation : withoutHidden(relation));
};

/** The columns that a reader of the feed sees of an entry, and their texts after its id. */
const FEED_COLUMNS = ['at', 'user_key', 'user_name', 'door', 'action', 'model', 'record', 'before', 'after'];
export type SeenChange = readonly (string | null)[];

/**
 * The entries of a span that an access to the API sees. An update of columns that it does not see is left out.
 * @param resources those that it may read
 */
export function seenChanges(
  history: Model,
  resources: readonly ShownResource[],
  span: Span,
): Statement<SeenChange[]> {
  const shown = new Map(resources.map((one) => [one.name, shownOf(one)]));
  const cells = FEED_COLUMNS.map((name) => sql`(${output('c', requiredColumn(history, name))})::text`);
  return createStatement(
    sql`select c.id::text, ${join(cells, ', ')} from ${withoutHidden(maskedHistory(history, shown, [...shown.keys()], []))} c where ${isInSpan('c', span)} order by c.id`,
    (rows) => rows.map((row) => row.map(text)),
  );
}
