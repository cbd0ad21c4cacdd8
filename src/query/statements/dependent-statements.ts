import { cast } from '../../db/types/column-types.ts';
import {
  compile,
  EMPTY,
  identifier,
  join,
  raw,
  sql,
  table,
  value,
  valueList,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { reference, typed, type Column, type Model, type OnDelete } from '../../db/schema/model.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { source } from './read-statements.ts';

/** A foreign key of the database that refers to a model's table, as the catalog has it. */
export interface CatalogReference {
  /** The table to which it refers, and the one that has it where that was asked for, too: places in the list, from 1. */
  readonly target: number;
  readonly from: number | null;
  readonly schema: string;
  readonly table: string;
  readonly fields: readonly string[];
  readonly targetFields: readonly string[];
  readonly onDelete: OnDelete;
}

/** A foreign key that the registry does not know, most often of a table that it does not know either. */
export interface UnknownKey extends Pick<CatalogReference, 'schema' | 'table' | 'fields' | 'targetFields'> {
  readonly model: Model;
  readonly onDelete: OnDelete;
  /** Whose table has it, where the registry knows that. */
  readonly from: Model | undefined;
}

/** A way from a record to those that go with it, or that keep it: each step is a foreign key of another model. */
export interface Trail {
  readonly steps: readonly { readonly model: Model; readonly column: Column }[];
  /** What refers to the end of the steps. */
  readonly last?: UnknownKey;
}

/**
 * Reads which foreign keys refer to these tables, of any table that the service's role may read. What a default takes the place
 * of has lost its reference, too.
 * @returns one cell of JSON
 */
export function referencesStatement(tables: readonly string[]): Statement {
  const quoted = tables.map((name) => table(name).text.join(''));
  return compile(sql`
with wanted as (
  select place, to_regclass(quoted) as relation from unnest(${valueList(quoted)}) with ordinality w (quoted, place)
)
select coalesce(json_agg(json_build_object(
  'target', w.place,
  'from', (select min(o.place) from wanted o where o.relation = f.conrelid),
  'schema', n.nspname,
  'table', c.relname,
  'onDelete', case f.confdeltype when 'c' then 'cascade' when 'n' then 'setNull' when 'd' then 'setNull' else 'restrict' end,
  'fields', (select json_agg(a.attname order by k.n) from unnest(f.conkey) with ordinality k (attnum, n)
             join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attnum),
  'targetFields', (select json_agg(a.attname order by k.n) from unnest(f.confkey) with ordinality k (attnum, n)
                   join pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.attnum)
) order by n.nspname, c.relname, f.conname), '[]')
from wanted w
join pg_constraint f on f.confrelid = w.relation and f.contype = 'f' and f.conparentid = 0
join pg_class c on c.oid = f.conrelid
join pg_namespace n on n.oid = c.relnamespace
where has_schema_privilege(n.oid, 'USAGE')
and (select bool_and(has_column_privilege(f.conrelid, k, 'SELECT')) from unnest(f.conkey) k)
and (select bool_and(has_column_privilege(f.confrelid, k, 'SELECT')) from unnest(f.confkey) k)`);
}

/** A name that no table has: it must not stand in front of one. */
const KEYS = raw('"vitrine keys"');

/** A foreign key of a model. */
export interface Edge {
  readonly model: Model;
  readonly column: Column;
  readonly target: Model;
}

/** All that goes with the records of the plan, however far away: places of models in the list, and keys. */
const GOING = raw('"vitrine going"');

/** The keys of the records of one model that go. The case keeps those of others from the cast. */
function goingOf({ primaryKey }: Model, place: number): Fragment {
  const key = sql`case when g.place = ${raw(String(place))} then g.key end`;
  return cast(key, primaryKey);
}

/** The keys that the plan matches, and along foreign keys that cascade all records that go with those. */
function closure(plan: ListPlan, cascades: readonly Edge[], models: readonly Model[]): Fragment {
  const place = (model: Model): Fragment => raw(String(models.indexOf(model)));
  const keys = sql`${KEYS} as materialized (select ${reference(ROOT, plan.model.primaryKey)} as key${source(plan)})`;
  const steps = cascades.map(
    ({ model, column, target }) =>
      sql`select ${place(model)} as place, ${reference('d', model.primaryKey)}::text as key from ${table(model.table)} d where ${reference('d', column)} = ${goingOf(target, models.indexOf(target))}`,
  );
  const first = sql`select ${place(plan.model)}, key::text from ${KEYS}`;
  const further = sql`select e.place, e.key from ${GOING} g cross join lateral (${join(steps, ' union all ')}) e`;
  return sql`with recursive ${keys}, ${GOING} (place, key) as (${first}${steps.length > 0 ? sql` union ${further}` : EMPTY})`;
}

/**
 * Whether deleting what the plan matches deletes this record as well.
 * @param cascades the foreign keys that cascade
 * @returns one cell: `t` or `f`
 */
export function goesStatement(
  plan: ListPlan,
  cascades: readonly Edge[],
  models: readonly Model[],
  model: Model,
  id: string,
): Statement {
  const own = sql`g.place = ${raw(String(models.indexOf(model)))} and ${goingOf(model, models.indexOf(model))} = ${typed(id, model.primaryKey)}`;
  return compile(sql`${closure(plan, cascades, models)} select exists (select from ${GOING} g where ${own})`);
}

/**
 * Whether deleting what the plan matches deletes a record whose boolean column is true.
 * @param cascades the foreign keys that cascade
 * @param holders the models whose table has the column
 * @returns one cell: `t` or `f`
 */
export function goesWithStatement(
  plan: ListPlan,
  cascades: readonly Edge[],
  models: readonly Model[],
  holders: readonly Model[],
  { field }: Column,
): Statement {
  const each = holders.map((model) => {
    const place = models.indexOf(model);
    const isSame = sql`${reference('d', model.primaryKey)} = ${goingOf(model, place)}`;
    return sql`exists (select from ${GOING} g join ${table(model.table)} d on ${isSame} where g.place = ${raw(String(place))} and d.${identifier(field)})`;
  });
  return compile(sql`${closure(plan, cascades, models)} select ${join(each, ' or ')}`);
}

/**
 * Whether a deletion can reach a table along foreign keys that cascade, at least one of which the registry does not know.
 * @param known the foreign keys that cascade and are followed anyway
 * @returns one cell: `t` or `f`
 */
export function reachStatement(from: Model, known: readonly Edge[], to: Model): Statement {
  const quoted = (names: readonly string[]): Fragment =>
    valueList(names.map((name) => table(name).text.join('')));
  const relation = (model: Model): Fragment => sql`to_regclass(${value(table(model.table).text.join(''))})`;
  return compile(sql`
with recursive known as (
  select to_regclass(k.relation) as relation, to_regclass(k.target) as target, k.field
  from unnest(${quoted(known.map(({ model }) => model.table))}, ${quoted(known.map(({ target }) => target.table))}, ${valueList(known.map(({ column }) => column.field))}) k (relation, target, field)
), reach (relation, is_unknown) as (
  select ${relation(from)}::oid, false
  union
  select f.conrelid, r.is_unknown or not exists (
    select from known k join pg_attribute a on a.attrelid = k.relation and a.attname = k.field
    where k.relation = f.conrelid and k.target = f.confrelid and f.conkey = array[a.attnum]
  )
  from reach r join pg_constraint f on f.confrelid = r.relation and f.contype = 'f' and f.confdeltype = 'c'
)
select exists (select from reach r where r.is_unknown and r.relation = ${relation(to)})`);
}

/**
 * How many records refer by each of these foreign keys to what goes, without those at the end of the trails and those that the
 * plan matches; each counted no further than one past the cap.
 */
export function furtherStatement(
  plan: ListPlan,
  edges: readonly Edge[],
  trails: readonly Trail[],
  models: readonly Model[],
  cap: number,
): Statement {
  const cascades = edges.filter(({ column }) => column.onDelete === 'cascade');
  const counts = edges.map(({ model, column, target }) => {
    const key = reference('d', model.primaryKey);
    const own = model === plan.model ? withoutStart(model) : EMPTY;
    const told = trails
      .filter(({ steps, last }) => !last && steps.at(-1)?.column === column)
      .map((trail) => sql` and ${key} not in (select ${key} ${endOf(trail, plan.model)})`);
    const place = models.indexOf(target);
    const going = sql`select ${goingOf(target, place)} from ${GOING} g where g.place = ${raw(String(place))}`;
    return sql`(select count(*) from (select from ${table(model.table)} d where ${reference('d', column)} in (${going})${own}${join(told, '')} limit ${raw(String(cap + 1))}) c)`;
  });
  return compile(sql`${closure(plan, cascades, models)} select array[${join(counts, ', ')}]::int8[]`);
}

const withoutStart = ({ primaryKey }: Model): Fragment =>
  sql` and not exists (select from ${KEYS} c where c.key = ${reference('d', primaryKey)})`;

/** The rows `d` at the end of a trail: what stands behind `select`. */
function endOf({ steps, last }: Trail, start: Model): Fragment {
  let parents = sql`select key from ${KEYS}`;
  let inner = EMPTY;
  for (const { model, column } of steps) {
    inner = sql`from ${table(model.table)} d where ${reference('d', column)} in (${parents})`;
    // What refers to those that the plan matches has been told by the shorter way.
    parents = sql`select ${reference('d', model.primaryKey)} ${inner}${model === start ? withoutStart(model) : EMPTY}`;
  }
  if (!last) return inner;
  const { model } = last;
  const same = last.fields.map(
    (field, index) => sql`d.${identifier(field)} = p.${identifier(last.targetFields[index] ?? '')}`,
  );
  return sql`from ${identifier(last.schema)}.${identifier(last.table)} d join ${table(model.table)} p on ${join(same, ' and ')} where ${reference('p', model.primaryKey)} in (${parents})`;
}

/**
 * How many records stand at the end of each trail of the records that the plan matches, each counted no further than one past
 * the cap; those that the plan matches itself are not counted.
 * @param isDeletion whether those do not count as staying that go by another foreign key
 */
export function dependentsStatement(
  plan: ListPlan,
  trails: readonly Trail[],
  cap: number,
  isDeletion: boolean,
): Statement {
  const goingTo = (model: Model): Trail[] =>
    trails.filter(({ steps, last }) => {
      const end = steps.at(-1);
      return !last && end?.model === model && end.column.onDelete === 'cascade';
    });
  const keys = sql`select ${reference(ROOT, plan.model.primaryKey)} as key${source(plan)}`;
  const counts = trails.map((trail) => {
    const end = trail.last ? trail.last.from : trail.steps.at(-1)?.model;
    const isOwn = end === plan.model;
    const others = isOwn ? withoutStart(plan.model) : EMPTY;
    const effect = trail.last ? trail.last.onDelete : trail.steps.at(-1)?.column.onDelete;
    const key = end && reference('d', end.primaryKey);
    const gone =
      isDeletion && key && effect === 'setNull'
        ? goingTo(end).map((one) => sql` and ${key} not in (select ${key} ${endOf(one, plan.model)})`)
        : [];
    return sql`(select count(*) from (select ${endOf(trail, plan.model)}${others}${join(gone, '')} limit ${raw(String(cap + 1))}) c)`;
  });
  return compile(sql`with ${KEYS} as materialized (${keys}) select array[${join(counts, ', ')}]::int8[]`);
}
