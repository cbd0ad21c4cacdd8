// Reads the definitions of tables from PostgreSQL's catalog.
import type { Catalog, CatalogTable } from './catalog.ts';
import {
  IS_ENFORCED,
  IS_SHARDED,
  IS_WRAPPED,
  ORIGINS,
  relationOf,
  RUNS_AFTER,
  sequencesBelow,
  sequencesOf,
  UNREADABLE,
} from './catalog-sql.ts';
import { HAS_XMIN } from './engine.ts';
import { quotedTable, raw, sql, valueList, type Fragment } from '../fragment.ts';
import { type Statement, createStatement, json } from '../rows.ts';

/** A requested table that exists, with its pg_class.oid and pg_class.relkind. */
interface FoundTable {
  readonly name: string;
  readonly oid: number;
  readonly kind: string;
}

/** What a view has from the relations below it. */
type ViewParts = Pick<CatalogTable, 'name' | 'isRewritten' | 'written' | 'unreadable' | 'unusableSequences'>;

/** Whether the role may not use the sequence `s`. */
const IS_UNUSABLE = raw(`case when s.relkind = 'S' then not has_sequence_privilege(s.oid, 'USAGE') end`);
const SEQUENCE_NAME = raw('s.oid::regclass::text');

/** The privileges in the list for which the condition is true. */
const grantedOf = (privileges: readonly string[], condition: (privilege: string) => string): Fragment =>
  raw(
    `array_remove(array[${privileges.map((one) => `case when ${condition(`'${one}'`)} then '${one}' end`).join(', ')}], null)`,
  );

function foundTablesStatement(tables: readonly string[]): Statement<FoundTable[]> {
  const query = sql`
select coalesce(json_agg(json_build_object('name', w.name, 'oid', c.oid::int8, 'kind', c.relkind)), '[]')
from unnest(${valueList(tables)}, ${valueList(tables.map(quotedTable))}) as w(name, quoted)
join pg_class c on c.oid = ${relationOf('w.quoted')}`;
  return createStatement(query, ([row]) => json<FoundTable[]>(row?.[0]));
}

/** A list of relations as the query `wanted (name, relation)`. */
const wantedOf = (relations: readonly FoundTable[]): Fragment =>
  sql`select name, relation
  from unnest(${valueList(relations.map(({ name }) => name))}, ${valueList(relations.map(({ oid }) => String(oid)))}::oid[]) w (name, relation)`;

/** Whatever is the same for all columns of one type is read once for the type, which takes a tenth of the time. */
function tablesStatement(relations: readonly FoundTable[]): Statement<CatalogTable[]> {
  const query = sql`
with recursive wanted as (
  ${wantedOf(relations)}
), base (root, type, modifier, required, has_default, is_domain, brackets) as (
  select distinct a.atttypid, a.atttypid, null::int4, false, false, false, ''
  from wanted w join pg_attribute a on a.attrelid = w.relation and a.attnum > 0 and not a.attisdropped
  union all
  select base.root,
    case when d.typtype = 'd' then d.typbasetype else d.typelem end,
    case when d.typtype = 'd' then d.typtypmod else base.modifier end,
    base.required or d.typnotnull and base.brackets = '',
    base.has_default or d.typdefault is not null and base.brackets = '',
    d.typtype = 'd',
    case when d.typtype = 'd' then base.brackets else '[]' end
  from base join pg_type d on d.oid = base.type and ${IS_WRAPPED}
), types as materialized (
  select base.*,
    case when d.typtype = 'e' then 'enum' else d.typname end || base.brackets as name,
    case when s.nspname = 'pg_catalog' then d.typname
         else quote_ident(s.nspname) || '.' || quote_ident(d.typname) end || base.brackets as cast_type,
    (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = d.oid) as labels,
    array(
      select y.nspname from pg_namespace y
      where y.oid in (s.oid, (select o.typnamespace from pg_type o where o.oid = base.root))
      and not has_schema_privilege(y.oid, 'USAGE') order by y.nspname) as unusable_schemas
  from base join pg_type d on d.oid = base.type and not ${IS_WRAPPED}
  join pg_namespace s on s.oid = d.typnamespace
), domains (type, named, domain) as (
  -- Errors name the domain of the column or of its elements, also for a constraint of the domain below.
  select oid, oid, oid from pg_type where typtype = 'd'
  union all select typarray, oid, oid from pg_type where typtype = 'd' and typarray > 0
  union all select d.type, named, b.oid from domains d join pg_type t on t.oid = d.domain
    join pg_type b on b.oid = t.typbasetype and b.typtype = 'd'
)
select coalesce(json_agg(json_build_object(
  'name', w.name,
  'schema', n.nspname,
  'hasUsage', has_schema_privilege(n.oid, 'USAGE'),
  'oid', c.oid::int8,
  'kind', case when ${IS_SHARDED} then 'f' else c.relkind end,
  'isPopulated', c.relispopulated,
  'hasXmin', ${HAS_XMIN},
  'isXminReadable', has_column_privilege(c.oid, -2::int2, 'SELECT'),
  'hasPolicies', row_security_active(c.oid),
  'isLockable', c.relkind in ('r', 'p') or c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, false) & 4 > 0,
  'writable', (
    select coalesce(json_agg(method), '[]') from (values ('POST', 8), ('PUT', 4), ('DELETE', 16)) m (method, bit)
    where c.relkind in ('r', 'p') or c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, true) & bit > 0),
  'written', case when c.relkind in ('r', 'p', 'f') then (
    with recursive changed (relation) as (
      select c.oid union select i.inhrelid from changed join pg_inherits i on i.inhparent = changed.relation)
    select coalesce(json_agg(relation::int8), '[]') from changed where relation <> c.oid) else '[]' end,
  'hasDeleteTriggers', exists (
    select from pg_trigger t
    where t.tgrelid = c.oid and t.tgtype & 10 = 10 and not t.tgisinternal and t.tgenabled not in ('D', 'R')),
  'isRewritten', exists (
    select from pg_trigger t where ${RUNS_AFTER}
    and t.tgrelid = any(array(select c.oid union all select relid::oid from pg_partition_tree(c.oid)))),
  'childTables', (
    select coalesce(json_agg(i.inhrelid::regclass::text order by i.inhrelid::regclass::text), '[]')
    from pg_inherits i where i.inhparent = c.oid and c.relkind = 'r'),
  'privileges', ${grantedOf(['SELECT', 'INSERT', 'UPDATE', 'DELETE'], (one) => `has_table_privilege(c.oid, ${one})`)},
  'unreadable', '[]'::json,
  'unusableSequences', (${sequencesOf(SEQUENCE_NAME, IS_UNUSABLE)}),
  'columns', (
    select coalesce(json_agg(json_build_object(
      'field', a.attname,
      'type', t.name,
      'isDomain', t.is_domain,
      'castType', t.cast_type,
      'printed', format_type(a.atttypid, a.atttypmod),
      'modifier', coalesce(t.modifier, a.atttypmod),
      'collation', (
        select quote_ident(y.nspname) || '.' || quote_ident(l.collname) from pg_collation l
        join pg_namespace y on y.oid = l.collnamespace where l.oid = a.attcollation),
      'isDeterministic', coalesce((select l.collisdeterministic from pg_collation l where l.oid = a.attcollation), true),
      'labels', t.labels,
      'nullable', not (a.attnotnull or t.required),
      'mayHoldNulls', a.attnum in (
        select unnest(k.conkey) from pg_constraint k where k.conrelid = c.oid and k.contype = 'n' and not k.convalidated),
      'hasDefault', a.atthasdef or a.attidentity <> '' or t.has_default,
      'generated', a.attgenerated <> '' or a.attidentity = 'a' or case when c.relkind = 'v' then
        pg_relation_is_updatable(c.oid, true) & 20 = 20 and not pg_column_is_updatable(c.oid, a.attnum, true) else false end,
      'unusableSchemas', t.unusable_schemas,
      'granted', ${grantedOf(['SELECT', 'INSERT', 'UPDATE'], (one) => `has_column_privilege(c.oid, a.attnum, ${one})`)}
    ) order by a.attnum), '[]')
    from pg_attribute a join types t on t.root = a.atttypid
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
  'triggers', (
    select coalesce(json_agg(json_build_object(
      'name', g.tgname,
      'builtIn', case when l.lanname in ('internal', 'c') then p.prosrc end,
      'arguments', encode(g.tgargs, 'escape'),
      'isConditional', g.tgqual is not null
    ) order by g.tgname), '[]')
    from pg_trigger g join pg_proc p on p.oid = g.tgfoid join pg_language l on l.oid = p.prolang
    -- The bits of a trigger for each row, before, and for INSERT.
    where g.tgrelid = c.oid and not g.tgisinternal and g.tgtype & 7 = 7 and g.tgenabled in ('O', 'A')),
  'indexes', (
    select coalesce(json_agg(json_build_object(
      'name', ic.relname,
      'unique', i.indisunique,
      'primary', i.indisprimary,
      'deferred', exists (select from pg_constraint d where d.conindid = i.indexrelid and d.conrelid = c.oid and d.condeferred),
      'partial', i.indpred is not null or i.indexprs is not null or not i.indisvalid,
      'fields', (
        select coalesce(json_agg(a.attname order by k.n), '[]')
        from unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
        where k.n <= i.indnkeyatts),
      'inExpressions', array(
        select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum > 0
        and i.indexprs::text like '%:varattno ' || a.attnum || ' %')
    ) order by ic.relname), '[]')
    from pg_index i join pg_class ic on ic.oid = i.indexrelid
    where i.indrelid = c.oid),
  'foreignKeys', (
    select coalesce(json_agg(json_build_object(
      'name', f.conname,
      'target', (select min(o.name) from wanted o where o.relation = f.confrelid),
      'onDelete', case f.confdeltype when 'c' then 'cascade' when 'n' then 'setNull' when 'd' then 'setDefault'
                                     else 'restrict' end,
      'isFull', f.confmatchtype = 'f',
      'fields', (select json_agg(a.attname order by k.n) from unnest(f.conkey) with ordinality as k(attnum, n)
                 join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attnum),
      'targetFields', (select json_agg(a.attname order by k.n) from unnest(f.confkey) with ordinality as k(attnum, n)
                       join pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.attnum)
    ) order by f.conname), '[]')
    from pg_constraint f where f.conrelid = c.oid and f.contype = 'f'
    and ${IS_ENFORCED}
    -- PostgreSQL has a copy for each partition of the referenced table.
    and not exists (select from pg_constraint o where o.oid = f.conparentid and o.conrelid = f.conrelid)),
  'unenforced', (
    select coalesce(json_agg((
      select json_agg(a.attname) from pg_attribute a where a.attrelid = f.conrelid and a.attnum = any(f.conkey))), '[]')
    from pg_constraint f where f.conrelid = c.oid and f.contype = 'f' and not ${IS_ENFORCED}),
  'rules', (
    select coalesce(json_agg(json_build_object('name', name, 'domain', domain, 'fields', fields)), '[]') from (
      select o.conname, null::json, array(
        select a.attname from pg_attribute a
        where a.attrelid = c.oid and (a.attnum = any(o.conkey) or exists (
          -- The columns in the expressions of an exclusion constraint.
          select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = o.conindid
          and d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid and d.refobjsubid = a.attnum))
        order by a.attnum)
      from pg_constraint o where o.conrelid = c.oid and o.contype in ('c', 'x')
      union all
      select o.conname, json_build_object('schema', s.nspname, 'name', t.typname), array_agg(distinct a.attname)
      from pg_attribute a join domains d on d.type = a.atttypid
      join pg_constraint o on o.contypid = d.domain and o.contype = 'c'
      join pg_type t on t.oid = d.named join pg_namespace s on s.oid = t.typnamespace
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      group by o.conname, s.nspname, t.typname) r (name, domain, fields))
)), '[]')
from wanted w join pg_class c on c.oid = w.relation join pg_namespace n on n.oid = c.relnamespace`;
  return createStatement(query, ([row]) => json<CatalogTable[]>(row?.[0]));
}

function viewsStatement(views: readonly FoundTable[]): Statement<ViewParts[]> {
  const query = sql`
with wanted as (
  ${wantedOf(views)}
)
select coalesce(json_agg(json_build_object(
  'name', w.name,
  'written', case when pg_relation_is_updatable(c.oid, false) > 0 then (
    ${ORIGINS}, changed (relation) as (
      select relation from origins union select i.inhrelid from changed join pg_inherits i on i.inhparent = changed.relation)
    select coalesce(json_agg(relation::int8), '[]') from changed where relation <> c.oid) else '[]' end,
  'isRewritten', exists (
    ${ORIGINS} select from origins join pg_trigger t on t.tgrelid = relation and (t.tgtype & 64 > 0 or ${RUNS_AFTER})),
  'unreadable', (${UNREADABLE}),
  'unusableSequences', (${sequencesBelow(SEQUENCE_NAME, IS_UNUSABLE)})
)), '[]')
from wanted w join pg_class c on c.oid = w.relation`;
  return createStatement(query, ([row]) => json<ViewParts[]>(row?.[0]));
}

/**
 * Reads the catalog of the tables. The statements are long, and planning them takes longer than running them, so each runs only
 * where there is something to read.
 * @param run runs a statement in a transaction
 */
export async function readTables(
  run: <T>(statement: Statement<T>) => Promise<T>,
  names: readonly string[],
): Promise<Catalog> {
  const relations = await run(foundTablesStatement([...new Set(names)]));
  if (relations.length === 0) return new Map();
  const catalog = new Map((await run(tablesStatement(relations))).map((table) => [table.name, table]));
  const views = relations.filter(({ kind }) => kind === 'v');
  for (const view of views.length === 0 ? [] : await run(viewsStatement(views))) {
    const found = catalog.get(view.name);
    if (found)
      catalog.set(view.name, { ...found, ...view, isRewritten: found.isRewritten || view.isRewritten });
  }
  return catalog;
}
