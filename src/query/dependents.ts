import {
  compile,
  EMPTY,
  identifier,
  join,
  raw,
  sql,
  table,
  valueList,
  type Fragment,
  type Statement,
} from '../db/fragment.ts';
import { reference, typed, type Column, type Model, type OnDelete } from '../db/model.ts';
import { ROOT, type ListPlan } from './plan.ts';
import { source } from './read.ts';

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

/** The rows `d` at the end of a trail: what stands behind `select`. */
function endOf({ steps, last }: Trail): Fragment {
  let parents = sql`select key from ${KEYS}`;
  let inner = EMPTY;
  for (const { model, column } of steps) {
    inner = sql`from ${table(model.table)} d where ${reference('d', column)} in (${parents})`;
    parents = sql`select ${reference('d', model.primaryKey)} ${inner}`;
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
 * @param only the key of the one record that is looked for, in each of the trails
 */
export function dependentsStatement(
  plan: ListPlan,
  trails: readonly Trail[],
  cap: number,
  only?: string,
): Statement {
  const keys = sql`select ${reference(ROOT, plan.model.primaryKey)} as key${source(plan)}`;
  const counts = trails.map((trail) => {
    const end = trail.last ? trail.last.from : trail.steps.at(-1)?.model;
    const isOwn = end === plan.model;
    const others = isOwn
      ? sql` and not exists (select from ${KEYS} c where c.key = ${reference('d', plan.model.primaryKey)})`
      : EMPTY;
    const one =
      only !== undefined && end
        ? sql` and ${reference('d', end.primaryKey)} = ${typed(only, end.primaryKey)}`
        : EMPTY;
    return sql`(select count(*) from (select ${endOf(trail)}${others}${one} limit ${raw(String(cap + 1))}) c)`;
  });
  return compile(sql`with ${KEYS} as materialized (${keys}) select array[${join(counts, ', ')}]::int8[]`);
}
