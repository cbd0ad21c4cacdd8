// Reads the definitions of tables from PostgreSQL's catalog: columns, indexes, foreign keys and privileges.
import {
  IS_ENFORCED,
  IS_SHARDED,
  IS_WRAPPED,
  ORIGINS,
  relationOf,
  RUNS_AFTER,
  sequencesOf,
  UNREADABLE,
} from './catalog-sql.ts';
import type { OnDelete } from './model.ts';
import { HAS_XMIN } from './engine.ts';
import { quotedTable, raw, sql, valueList } from '../fragment.ts';
import { type Statement, createStatement, json } from '../rows.ts';

export interface CatalogColumn {
  readonly field: string;
  /** pg_type.typname; the base type of a domain; `enum` for every enum; for an array that of its elements with `[]`. */
  readonly type: string;
  /** Whether the type is a domain; of an array, whether that of its elements is one. */
  readonly isDomain: boolean;
  /** The type to cast a text parameter to; qualified and quoted unless it is a built-in type. */
  readonly castType: string;
  /** The type as psql prints it, for messages. */
  readonly printed: string;
  /** pg_attribute.atttypmod, or the type modifier of the domain. */
  readonly modifier: number;
  /** The name of its collation as SQL; null for types without one. */
  readonly collation: string | null;
  /** False if its collation treats some different texts as equal. */
  readonly isDeterministic: boolean;
  /** The labels of an enum, also of an array of it. */
  readonly labels: readonly string[] | null;
  readonly nullable: boolean;
  /** It is NOT NULL, but rows from before that constraint may hold NULL (NOT VALID, since PostgreSQL 18). */
  readonly mayHoldNulls: boolean;
  readonly hasDefault: boolean;
  readonly generated: boolean;
  /** Schemas of its type that the service's role may not use. */
  readonly unusableSchemas: readonly string[];
  /** The role's privileges on the column, also those through the table: SELECT, INSERT, UPDATE. */
  readonly granted: readonly string[];
}

/** Whether it is an ordinary or partitioned table, not a view, foreign table or other relation. */
export const isTable = ({ kind }: Pick<CatalogTable, 'kind'>): boolean => kind === 'r' || kind === 'p';

/** The other relations that can be served, by pg_class.relkind. */
export const VIEW_KINDS: Readonly<Record<string, string>> = {
  v: 'a view',
  m: 'a materialized view',
  f: 'a foreign table',
};

/** Whether it exists and is no table, so that no foreign key can refer to it. */
export const isView = (found: CatalogTable | undefined): boolean => found !== undefined && !isTable(found);

/** The type of a column, or of the elements of an array. */
export const scalarOf = ({ type }: CatalogColumn): string => type.replace(/\[\]$/, '');

/** Whether it has a time whose seconds may have decimal places. */
export const isWithTime = ({ type }: Pick<CatalogColumn, 'type'>): boolean =>
  ['timestamp', 'timestamptz', 'time'].includes(type.replace(/\[\]$/, ''));

/** The decimal places of its seconds: by default, microseconds. */
export const MICROSECONDS = 6;
export const fractionalSecondDigitsOf = ({ modifier }: Pick<CatalogColumn, 'modifier'>): number =>
  modifier < 0 ? MICROSECONDS : modifier;

/** The length of a varchar or char, or of such elements; its type modifier includes four bytes of header. */
export const lengthOf = (column: CatalogColumn): number | undefined =>
  ['varchar', 'bpchar'].includes(scalarOf(column)) && column.modifier > 4 ? column.modifier - 4 : undefined;

export interface CatalogIndex {
  readonly name: string;
  readonly fields: readonly string[];
  readonly unique: boolean;
  readonly primary: boolean;
  /** Covers only some rows, indexes expressions, or is invalid. */
  readonly partial: boolean;
}

export interface CatalogForeignKey {
  readonly name: string;
  readonly fields: readonly string[];
  /** The referenced table, by the name in the request; null if it was not requested. */
  readonly target: string | null;
  readonly targetFields: readonly string[];
  readonly onDelete: OnDelete | 'setDefault';
  /** Whether all columns must be NULL if one is (MATCH FULL). */
  readonly isFull: boolean;
}

export interface CatalogTable {
  readonly name: string;
  /** The schema where it was found, even if `name` has none. */
  readonly schema: string;
  /** Whether the service's role may use that schema. */
  readonly hasUsage: boolean;
  /** pg_class.oid, to detect two names for one table. */
  readonly oid: number;
  /** pg_class.relkind; `f` also for a partitioned table with a foreign partition. */
  readonly kind: string;
  /** Whether all of its rows have `xmin`. Views and foreign tables do not, nor does a table with a foreign partition, or of another storage. */
  readonly hasXmin: boolean;
  /** Whether the role may read it: with SELECT on the table, or on this system column. Null without such a column. */
  readonly isXminReadable: boolean | null;
  /** Whether policies may hide rows from the service's role. */
  readonly hasPolicies: boolean;
  /** The methods that PostgreSQL can run on it, apart from GET. */
  readonly writable: readonly string[];
  /** Whether SELECT ... FOR UPDATE can lock its rows. It cannot in views that are only writable by triggers. */
  readonly isLockable: boolean;
  /** Whether triggers run before its rows are deleted. They may delete or change the rows that refer to these. */
  readonly hasDeleteTriggers: boolean;
  /** Whether triggers INSTEAD OF make the writes to this view or to one below it, or AFTER triggers may change the rows again. */
  readonly isRewritten: boolean;
  /** pg_class.oid of the other tables and views that a write changes: those behind a view, and their partitions. */
  readonly written: readonly number[];
  /** The tables that inherit from it, without partitions. */
  readonly childTables: readonly string[];
  readonly columns: readonly CatalogColumn[];
  readonly indexes: readonly CatalogIndex[];
  readonly foreignKeys: readonly CatalogForeignKey[];
  /** The columns of each foreign key that is NOT ENFORCED, which is not among these. */
  readonly unenforced: readonly (readonly string[])[];
  /** Check and exclusion constraints, also those of domains, with the columns that they use. `domain` is the type. */
  readonly rules: readonly {
    readonly name: string;
    readonly domain: { readonly schema: string; readonly name: string } | null;
    readonly fields: readonly string[];
  }[];
  /** The role's privileges on the whole table: SELECT, INSERT, UPDATE, DELETE. */
  readonly privileges: readonly string[];
  /** The relations that this view reads with the role's own privileges (`security_invoker`) although it lacks them. */
  readonly unreadable: readonly string[];
  /** Sequences of its defaults that the service's role may not use. */
  readonly unusableSequences: readonly string[];
}

/** The requested tables by name; missing tables are left out. */
export type Catalog = ReadonlyMap<string, CatalogTable>;

/** Whether the role may not use the sequence `s`. */
const IS_UNUSABLE = raw(`case when s.relkind = 'S' then not has_sequence_privilege(s.oid, 'USAGE') end`);

/** Reads the catalog of the tables. */
export function catalogStatement(names: readonly string[]): Statement<Catalog> {
  const tables = [...new Set(names)];
  const quoted = tables.map(quotedTable);
  const query = sql`
with wanted as (
  select name, ${relationOf('quoted')} as relation
  from unnest(${valueList(tables)}, ${valueList(quoted)}) as w(name, quoted)
)
select coalesce(json_agg(json_build_object(
  'name', w.name,
  'schema', n.nspname,
  'hasUsage', has_schema_privilege(n.oid, 'USAGE'),
  'oid', c.oid::int8,
  'kind', case when ${IS_SHARDED} then 'f' else c.relkind end,
  'hasXmin', ${HAS_XMIN},
  'isXminReadable', has_column_privilege(c.oid, -2::int2, 'SELECT'),
  'hasPolicies', row_security_active(c.oid),
  'isLockable', c.relkind in ('r', 'p') or c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, false) & 4 > 0,
  'writable', (
    select coalesce(json_agg(method), '[]') from (values ('POST', 8), ('PUT', 4), ('DELETE', 16)) m (method, bit)
    where c.relkind in ('r', 'p') or c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, true) & bit > 0),
  'written', case when c.relkind in ('r', 'p', 'f') or c.relkind = 'v' and pg_relation_is_updatable(c.oid, false) > 0 then (
    ${ORIGINS}, changed (relation) as (
      select relation from origins union select i.inhrelid from changed join pg_inherits i on i.inhparent = changed.relation)
    select coalesce(json_agg(relation::int8), '[]') from changed where relation <> c.oid) else '[]' end,
  'hasDeleteTriggers', exists (
    select from pg_trigger t
    where t.tgrelid = c.oid and t.tgtype & 10 = 10 and not t.tgisinternal and t.tgenabled not in ('D', 'R')),
  'isRewritten', exists (
    select from pg_trigger t where ${RUNS_AFTER} and (
      t.tgrelid = c.oid or t.tgrelid in (select relid from pg_partition_tree(c.oid)))) or c.relkind = 'v' and exists (
    ${ORIGINS} select from origins join pg_trigger t on t.tgrelid = relation and (t.tgtype & 64 > 0 or ${RUNS_AFTER})),
  'childTables', (
    select coalesce(json_agg(i.inhrelid::regclass::text order by i.inhrelid::regclass::text), '[]')
    from pg_inherits i where i.inhparent = c.oid and c.relkind = 'r'),
  'privileges', (
    select coalesce(json_agg(p), '[]') from unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p
    where has_table_privilege(c.oid, p)),
  'unreadable', (${UNREADABLE}),
  'unusableSequences', (${sequencesOf(raw('s.oid::regclass::text'), IS_UNUSABLE)}),
  'columns', (
    select coalesce(json_agg(json_build_object(
      'field', a.attname,
      'type', case when t.typtype = 'e' then 'enum' else t.typname end || b.brackets,
      'isDomain', b.is_domain,
      'castType', case when s.nspname = 'pg_catalog' then t.typname
                       else quote_ident(s.nspname) || '.' || quote_ident(t.typname) end || b.brackets,
      'printed', format_type(a.atttypid, a.atttypmod),
      'modifier', b.modifier,
      'collation', (
        select quote_ident(y.nspname) || '.' || quote_ident(l.collname) from pg_collation l
        join pg_namespace y on y.oid = l.collnamespace where l.oid = a.attcollation),
      'isDeterministic', coalesce((select l.collisdeterministic from pg_collation l where l.oid = a.attcollation), true),
      'labels', (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid),
      'nullable', not (a.attnotnull or b.required),
      'mayHoldNulls', exists (
        select from pg_constraint k
        where k.conrelid = c.oid and k.contype = 'n' and not k.convalidated and a.attnum = any(k.conkey)),
      'hasDefault', a.atthasdef or a.attidentity <> '' or b.has_default,
      'generated', a.attgenerated <> '' or a.attidentity = 'a' or case when c.relkind = 'v' then
        pg_relation_is_updatable(c.oid, true) & 20 = 20 and not pg_column_is_updatable(c.oid, a.attnum, true) else false end,
      'unusableSchemas', (
        select coalesce(json_agg(distinct y.nspname), '[]') from pg_namespace y
        where y.oid in (s.oid, (select o.typnamespace from pg_type o where o.oid = a.atttypid))
        and not has_schema_privilege(y.oid, 'USAGE')),
      'granted', (
        select coalesce(json_agg(p), '[]') from unnest(array['SELECT', 'INSERT', 'UPDATE']) p
        where has_column_privilege(c.oid, a.attnum, p))
    ) order by a.attnum), '[]')
    from pg_attribute a
    cross join lateral (
      with recursive base as (
        select a.atttypid as type, a.atttypmod as modifier, false as required, false as has_default,
          false as is_domain, '' as brackets
        union all
        select
          case when d.typtype = 'd' then d.typbasetype else d.typelem end,
          case when d.typtype = 'd' then d.typtypmod else base.modifier end,
          base.required or d.typnotnull and base.brackets = '',
          base.has_default or d.typdefault is not null and base.brackets = '',
          d.typtype = 'd',
          case when d.typtype = 'd' then base.brackets else '[]' end
        from base join pg_type d on d.oid = base.type and ${IS_WRAPPED}
      )
      select base.* from base join pg_type d on d.oid = base.type and not ${IS_WRAPPED}) b
    join pg_type t on t.oid = b.type
    join pg_namespace s on s.oid = t.typnamespace
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
  'indexes', (
    select coalesce(json_agg(json_build_object(
      'name', ic.relname,
      'unique', i.indisunique,
      'primary', i.indisprimary,
      'partial', i.indpred is not null or i.indexprs is not null or not i.indisvalid,
      'fields', (
        select coalesce(json_agg(a.attname order by k.n), '[]')
        from unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
        where k.n <= i.indnkeyatts)
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
    -- Errors name the domain of the column or of its elements, also for a constraint of the domain below.
    with recursive domains (type, named, domain) as (
      select oid, oid, oid from pg_type where typtype = 'd'
      union all select typarray, oid, oid from pg_type where typtype = 'd' and typarray > 0
      union all select d.type, named, b.oid from domains d join pg_type t on t.oid = d.domain
        join pg_type b on b.oid = t.typbasetype and b.typtype = 'd')
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
  return createStatement(
    query,
    ([row]) => new Map(json<CatalogTable[]>(row?.[0]).map((found) => [found.name, found])),
  );
}
