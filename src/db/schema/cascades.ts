// The foreign keys that a deletion follows: those of the registry, and what only PostgreSQL's catalog shows of them.
import { quotedTable, sql, value, valueList, type Fragment } from '../fragment.ts';
import { createStatement, isTrue, oneCell, type Statement } from '../rows.ts';
import { IS_ENFORCED, ORIGINS } from './catalog-sql.ts';
import { foreignKeysOf, type Column, type Model } from './model.ts';

/** A foreign key and the models that it connects. */
export interface Edge {
  readonly model: Model;
  readonly column: Column;
  readonly target: Model;
}

/** The foreign keys of all models that refer to this one. Views have none: nothing in the database follows those of the registry. */
export const edgesTo = (target: Model, models: readonly Model[]): Edge[] =>
  models
    .filter(({ isTable }) => isTable && target.isTable)
    .flatMap((model) =>
      foreignKeysOf(model).flatMap((column) =>
        column.references === target ? [{ model, column, target }] : [],
      ),
    );

/** The foreign keys that refer to a model, directly or through any number of cascading ones. */
export function edgesBelow(model: Model, models: readonly Model[]): Edge[] {
  const edges = edgesTo(model, models);
  const seen = new Set([model]);
  for (const { model: next, column } of edges) {
    if (column.onDelete !== 'cascade' || seen.has(next)) continue;
    seen.add(next);
    edges.push(...edgesTo(next, models)); // The loop visits these, too.
  }
  return edges;
}

const relation = (model: Model): Fragment => sql`to_regclass(${value(quotedTable(model.table))})`;

/**
 * Whether deleting rows of `from` can also delete rows of `to` in a way that the registry does not show: along a foreign key that
 * it lacks, or through another table with the same rows (a table behind a view, a parent of a partition).
 * @param known the cascading foreign keys of the registry
 */
export function reachesTableStatement(from: Model, known: readonly Edge[], to: Model): Statement<boolean> {
  const names = (tables: readonly string[]): Fragment => valueList(tables.map(quotedTable));
  const query = sql`
with recursive known (key) as (
  select f.oid
  from unnest(${names(known.map(({ model }) => model.table))}, ${names(known.map(({ target }) => target.table))}, ${valueList(known.map(({ column }) => column.field))}) k (relation, target, field)
  join pg_constraint f on f.conrelid = to_regclass(k.relation) and f.confrelid = to_regclass(k.target) and f.contype = 'f'
  join pg_attribute a on a.attrelid = f.conrelid and a.attname = k.field and f.conkey = array[a.attnum]
  union
  -- PostgreSQL has a copy for each partition.
  select f.oid from known k join pg_constraint f on f.conparentid = k.key
), reach (relation, is_unknown, is_below) as (
  select o.relation, false, false
  from pg_class c cross join lateral (${ORIGINS} select relation from origins) o
  where c.oid = ${relation(from)} and (o.relation = c.oid or pg_relation_is_updatable(c.oid, false) > 0)
  union
  select n.relation, r.is_unknown or n.is_unknown, r.is_below or n.is_below
  from reach r cross join lateral (
    select f.conrelid as relation, f.oid not in (select key from known) as is_unknown, true as is_below
    from pg_constraint f where f.confrelid = r.relation and f.contype = 'f' and f.confdeltype = 'c' and ${IS_ENFORCED}
    union all
    select i.inhrelid, false, false from pg_inherits i where i.inhparent = r.relation) n
), same (relation) as (
  select o.relation from pg_class c cross join lateral (${ORIGINS} select relation from origins) o
  where c.oid = ${relation(to)} and o.relation <> c.oid
  union
  select i.inhparent from pg_inherits i where i.inhrelid = ${relation(to)}
  union
  select i.inhparent from same s join pg_inherits i on i.inhrelid = s.relation
), parts (relation) as (
  select o.relation from pg_class c cross join lateral (${ORIGINS} select relation from origins) o
  where c.oid = ${relation(to)}
  union
  select i.inhrelid from parts p join pg_inherits i on i.inhparent = p.relation
)
select exists (
  select from reach r
  where r.is_below and r.relation in (select relation from same)
  or r.is_unknown and r.relation in (select relation from parts))`;
  return createStatement(query, oneCell(isTrue));
}
