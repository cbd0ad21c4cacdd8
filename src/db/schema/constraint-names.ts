// Finds names of constraints that the registry mentions and no rule of the database has.
import { relationOf } from './catalog-sql.ts';
import { quotedTable, sql, valueList } from '../fragment.ts';
import { type Statement, createStatement, json } from '../rows.ts';

/** The name of a constraint, and the table whose writes it may refuse. */
export interface ConstraintName {
  readonly table: string;
  readonly name: string;
}

/**
 * The positions of the names that no write to their table can report: neither constraints, domains nor unique indexes of the table
 * or its partitions have them. Triggers can break rules of other tables, and raise errors with any name in their source.
 */
export function unknownConstraintsStatement(names: readonly ConstraintName[]): Statement<number[]> {
  const quoted = names.map((one) => quotedTable(one.table));
  const query = sql`
select coalesce(json_agg(w.n - 1 order by w.n), '[]')
from unnest(${valueList(quoted)}, ${valueList(names.map(({ name }) => name))}) with ordinality as w(quoted, name, n)
join pg_class c on c.oid = ${relationOf('w.quoted')} and c.relkind in ('r', 'p')
cross join lateral (
  select array_agg(p.relid::oid) || c.oid as relations from pg_partition_tree(c.oid) p) t
cross join lateral (
  select exists (select from pg_trigger g where g.tgrelid = any(t.relations) and not g.tgisinternal) as has_triggers) g
where not exists (
  select from pg_constraint k where k.conname = w.name and (g.has_triggers or k.conrelid = any(t.relations) or k.contypid <> 0))
and not exists (
  select from pg_index i join pg_class ic on ic.oid = i.indexrelid
  where i.indisunique and ic.relname = w.name and (g.has_triggers or i.indrelid = any(t.relations)))
and not (g.has_triggers and exists (select from pg_proc f where position(w.name in f.prosrc) > 0))`;
  return createStatement(query, ([row]) => json<number[]>(row?.[0]));
}
