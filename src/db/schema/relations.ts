// Reads relations and their comments for `introspect`, and facts about the database for `check`.
import { isEnforced, ORIGINS, relationOf, sequencesBelow, VIEW_ORIGIN } from './catalog-sql.ts';
import { quotedName, quotedTable, raw, sql, valueList } from '../fragment.ts';
import { type Statement, createStatement, json, oneCell, text } from '../rows.ts';

/** A column of a relation, from which a column of a view may come. */
export interface ColumnOrigin {
  readonly field: string;
  /** Whether the view's rule has the name of the column too. It keeps the old one if the column was renamed. */
  readonly isNamed: boolean;
  /** pg_class.oid and the column; null where the view computes a value. */
  readonly relation: number | null;
  readonly source: string | null;
}

/** A table, view or foreign table with its comments. */
export interface Relation {
  readonly schema: string;
  readonly name: string;
  /** pg_class.relkind: r table, p partitioned table, v view, m materialized view, f foreign table. */
  readonly kind: string;
  readonly isPartition: boolean;
  /** How many partitions it has, also those of its partitions. */
  readonly partitions: number;
  /** The partitioned table that a partition belongs to, also through others; null for other relations. */
  readonly root: { readonly schema: string; readonly name: string } | null;
  /** Row-level security is on. */
  readonly hasPolicies: boolean;
  /** The bare name does not find it: its schema is not in the search path, or an earlier schema has the same name. */
  readonly isHidden: boolean;
  /** The role may read the whole table. Column privileges do not suffice: row versions need the table's. */
  readonly isReadable: boolean;
  readonly comment: string | null;
  /** The columns of an updatable view that identify a row: they are unique and NOT NULL in its table. */
  readonly keys: readonly (readonly string[])[];
  /** Whether a materialized view could not be asked for its keys. */
  readonly isUnanswered?: boolean;
  /** Where the columns of a view may come from. A subquery may have a column with the same number, and even the same name. */
  readonly origins: readonly ColumnOrigin[];
  readonly columns: readonly {
    readonly field: string;
    readonly comment: string | null;
    /** The expression of its default, null without one. */
    readonly default: string | null;
    /** pg_attribute.attidentity: `a` always, `d` by default, or empty. */
    readonly identity: string;
    readonly isGenerated: boolean;
    /** The expressions of the enforced check constraints of this column alone, and of its domain. */
    readonly checks: readonly string[];
  }[];
}

/**
 * The keys of an updatable view `c`: the unique indexes of its table whose columns it has. Such a view has one row for each row
 * of the table. Its rule records where each column comes from; a subquery in it may have columns with the same number, and
 * columns with several origins do not count.
 */
const KEYS_OF_VIEW = raw(`
  with origins as (
    select distinct on (b.attrelid, b.attnum) a.attname as name, b.attrelid as relation, b.attnum
    from pg_attribute a
    cross join lateral (
      select min(m[1])::oid as relation, min(m[2])::int2 as attnum, pg_catalog.count(distinct m) as origins
      from pg_rewrite w, regexp_matches(w.ev_action::text, format(
        '${VIEW_ORIGIN}:resorigcol ([0-9]+) ', a.attnum), 'g') m
      where w.ev_class = c.oid and w.ev_type = '1'
    ) o
    join pg_class t on t.oid = o.relation and (t.relkind = 'p' or t.relkind = 'r' and not exists (
      select from pg_inherits h where h.inhparent = t.oid))
    join pg_attribute b on b.attrelid = t.oid and b.attnum = o.attnum and b.attnotnull
    where a.attrelid = c.oid and a.attnum > 0 and o.origins = 1 and pg_column_is_updatable(c.oid, a.attnum, false)
    order by b.attrelid, b.attnum, a.attnum
  )
  select coalesce(json_agg(k.names order by not k.indisprimary, k.indexrelid), '[]')
  from (
    select i.indexrelid, i.indisprimary, json_agg(o.name order by u.place) as names
    from pg_index i
    cross join lateral unnest(i.indkey::int2[]) with ordinality as u(attnum, place)
    join origins o on o.relation = i.indrelid and o.attnum = u.attnum
    where i.indisunique and i.indisvalid and i.indimmediate and i.indpred is null and i.indexprs is null
    and u.place <= i.indnkeyatts
    group by i.indexrelid, i.indisprimary, i.indnkeyatts
    having count(*) = i.indnkeyatts
  ) k`);

/** What the rule of a view `c` says of the origins of its columns. */
const ORIGINS_OF_VIEW = raw(`
  select coalesce(json_agg(json_build_object(
    'field', a.attname,
    'isNamed', regexp_replace(m[2], '\\\\(.)', '\\1', 'g') = a.attname,
    'relation', b.attrelid::int8,
    'source', b.attname)), '[]')
  from pg_rewrite w
  cross join regexp_matches(w.ev_action::text,
    ':resno ([0-9]+) :resname ((?:[^ \\\\]|\\\\.)+) :ressortgroupref [0-9]+ :resorigtbl ([0-9]+) :resorigcol ([0-9]+) ', 'g') m
  join pg_attribute a on a.attrelid = c.oid and a.attnum = m[1]::int
  left join pg_attribute b on b.attrelid = m[3]::oid and b.attnum = m[4]::int
  where w.ev_class = c.oid and w.ev_type = '1'`);

/**
 * Reads the relations of some schemas.
 * @param names only these relations; an empty list means all
 */
export function relationsStatement(
  schemas: readonly string[],
  names: readonly string[],
): Statement<Relation[]> {
  const wanted = names.length === 0 ? sql`` : sql` and c.relname = any(${valueList(names)})`;
  const query = sql`
select coalesce(json_agg(json_build_object(
  'schema', n.nspname,
  'name', c.relname,
  'kind', c.relkind,
  'isPartition', c.relispartition,
  'partitions', (select count(*) from pg_partition_tree(c.oid) where level > 0),
  'root', (
    select json_build_object('schema', rn.nspname, 'name', r.relname)
    from pg_class r join pg_namespace rn on rn.oid = r.relnamespace
    where c.relispartition and r.oid = pg_partition_root(c.oid)),
  'hasPolicies', c.relrowsecurity,
  'isHidden', not pg_table_is_visible(c.oid),
  'isReadable', has_table_privilege(c.oid, 'SELECT'),
  'comment', obj_description(c.oid, 'pg_class'),
  'keys', case when c.relkind = 'v' and pg_relation_is_updatable(c.oid, false) & 4 > 0
    then (${KEYS_OF_VIEW}) else '[]' end,
  'origins', case when c.relkind in ('v', 'm') then (${ORIGINS_OF_VIEW}) else '[]' end,
  'columns', (
    select coalesce(json_agg(json_build_object(
      'field', a.attname,
      'comment', col_description(c.oid, a.attnum),
      'default', pg_get_expr(d.adbin, d.adrelid),
      'identity', a.attidentity,
      'isGenerated', a.attgenerated <> '',
      'checks', (
        select coalesce(json_agg(pg_get_expr(k.conbin, k.conrelid) order by k.conname), '[]')
        from pg_constraint k
        where k.contype = 'c' and ${isEnforced('k')}
        and (k.conrelid = c.oid and k.conkey = array[a.attnum] or k.contypid = a.atttypid))
    ) order by a.attnum), '[]')
    from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)
) order by array_position(${valueList(schemas)}, n.nspname::text), c.relname), '[]')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = any(${valueList(schemas)}) and c.relkind = any(array['r', 'p', 'v', 'm', 'f']::"char"[])${wanted}`;
  return createStatement(query, oneCell(json<Relation[]>));
}

/** Reads the names of all schemas except the system's, and whether they have tables. */
export const SCHEMAS = createStatement(
  raw(`select coalesce(json_agg(json_build_object('name', nspname, 'hasTables', exists (
  select from pg_class c where c.relnamespace = n.oid and c.relkind = any(array['r', 'p', 'v', 'm', 'f']::"char"[])
)) order by nspname), '[]')
from pg_namespace n
where nspname <> 'information_schema' and nspname !~ '^pg_'`),
  oneCell(json<{ readonly name: string; readonly hasTables: boolean }[]>),
);

/** Facts about the database and its tables that affect safety and speed. */
export interface DatabaseInfo {
  readonly database: string;
  readonly isSuperuser: boolean;
  readonly tables: readonly {
    /** The name in the request. */
    readonly name: string;
    readonly schema: string;
    /** PostgreSQL's last row count, an estimate; -1 before the first count. */
    readonly rows: number;
    /** The role may change or delete rows: an UPDATE privilege on any column, DELETE or TRUNCATE. */
    readonly isChangeable: boolean;
    /** Columns with indexes for substring search (pg_trgm), with and without the marks of letters. */
    readonly searchable: readonly string[];
    /** Sequences that column defaults use (serial), quoted. */
    readonly sequences: readonly string[];
    /** The quoted tables whose changes PostgreSQL refuses: a publication has them, and nothing identifies their rows. */
    readonly unidentified: readonly string[];
    /** Schemas of the columns' types, without pg_catalog. */
    readonly typeSchemas: readonly string[];
    /** Columns of types such as citext whose own `=` the search path does not find, so that PostgreSQL takes another one. */
    readonly misread: readonly { readonly field: string; readonly type: string; readonly schema: string }[];
  }[];
}

/** Reads facts about the database and its tables; missing tables are left out. */
export function databaseInfoStatement(tables: readonly string[]): Statement<DatabaseInfo> {
  const quoted = tables.map(quotedTable);
  const query = sql`
select json_build_object(
  'database', current_database(),
  'isSuperuser', (select rolsuper from pg_roles where rolname = current_user),
  'tables', (select coalesce(json_agg(json_build_object(
    'name', w.name,
    'schema', n.nspname,
    'rows', c.reltuples,
    'isChangeable', has_any_column_privilege(c.oid, 'UPDATE') or has_table_privilege(c.oid, 'DELETE, TRUNCATE'),
    'searchable', (
      select coalesce(json_agg(distinct a.attname), '[]')
      from pg_index i
      cross join lateral unnest(i.indkey::int2[], i.indclass::oid[]) as k(attnum, class)
      join pg_opclass o on o.oid = k.class and o.opcname like '%trgm%'
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
      where i.indrelid = c.oid and i.indpred is null and exists (
        select from pg_index e where e.indrelid = c.oid and e.indpred is null
          and pg_get_indexdef(e.indexrelid) ilike '%normalize(%' || a.attname || '%trgm%')),
    'typeSchemas', (
      select coalesce(json_agg(distinct y.nspname), '[]')
      from pg_attribute a
      join pg_type t on t.oid = a.atttypid
      left join pg_type b on b.oid = t.typbasetype
      join pg_namespace y on y.oid in (t.typnamespace, b.typnamespace) and y.nspname <> 'pg_catalog'
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
    'misread', (
      select coalesce(json_agg(json_build_object(
        'field', a.attname, 'type', t.typname, 'schema', y.nspname) order by a.attnum), '[]')
      from pg_attribute a
      join pg_type d on d.oid = a.atttypid
      join pg_type t on t.oid = case when d.typtype = 'd' then d.typbasetype else d.oid end
      join pg_operator o on o.oprname = '=' and o.oprleft = t.oid and o.oprright = t.oid
      join pg_namespace y on y.oid = o.oprnamespace and not pg_operator_is_visible(o.oid)
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
    'unidentified', (
      ${ORIGINS}, stored as (
        select relation as oid from origins union select p.relid from origins, pg_partition_tree(relation) p where p.isleaf)
      select coalesce(json_agg(distinct quote_ident(sn.nspname) || '.' || quote_ident(s.relname)), '[]')
      from stored join pg_class s using (oid) join pg_namespace sn on sn.oid = s.relnamespace
      where s.relkind = 'r' and not exists (
        select from pg_index i where i.indrelid = s.oid and i.indisvalid
        and case s.relreplident when 'd' then i.indisprimary and i.indimmediate when 'i' then i.indisreplident end)
      and s.relreplident <> 'f' and exists (
        select from pg_publication_tables t join pg_publication p using (pubname)
        where (p.pubupdate or p.pubdelete) and (t.schemaname, t.tablename) in (
          select an.nspname, a.relname from pg_class a join pg_namespace an on an.oid = a.relnamespace
          where a.oid = s.oid or a.oid in (select relid from pg_partition_ancestors(s.oid))))),
    'sequences', (${sequencesBelow(raw(`quote_ident(sn.nspname) || '.' || quote_ident(s.relname)`))})
  )), '[]')
  from unnest(${valueList(tables)}, ${valueList(quoted)}) as w(name, quoted)
  join pg_class c on c.oid = ${relationOf('w.quoted')}
  join pg_namespace n on n.oid = c.relnamespace))`;
  return createStatement(query, oneCell(json<DatabaseInfo>));
}

/** Whether a row has NULL in one of the fields. */
export const hasNullStatement = (table: string, fields: readonly string[]): Statement<boolean> =>
  createStatement(
    sql`select (exists (select from ${raw(quotedTable(table))} where ${raw(fields.map((field) => `${quotedName(field)} is null`).join(' or '))}))::text`,
    oneCell((cell) => text(cell) === 'true'),
  );

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
