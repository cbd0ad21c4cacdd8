// SQL that queries of the catalog share: where views read and write, and what defaults and types rest on.
import { raw, sql, type Fragment } from '../fragment.ts';

/**
 * The relation with a quoted name, which may have a schema; NULL if it does not exist. `to_regclass` fails for a schema that the
 * role may not use.
 */
export const relationOf = (quoted: string): Fragment =>
  raw(`(case when ${quoted} like '%.%' then (
    select r.oid from pg_class r join pg_namespace s on s.oid = r.relnamespace
    where s.nspname = (parse_ident(${quoted}))[1]::name and r.relname = (parse_ident(${quoted}))[2]::name)
    else to_regclass(${quoted})::oid end)`);

/** Whether the type (d) is a domain or an array of another type, which is read next. Arrays inside of arrays are not. */
export const IS_WRAPPED = raw(`(d.typtype = 'd' or base.brackets = ''
          and exists (select from pg_type e where e.oid = d.typelem and e.typarray = d.oid))`);

/** Whether a constraint is enforced. Since PostgreSQL 18 it may not be, and nothing relies on it then. */
export const isEnforced = (constraint: string): Fragment =>
  raw(`coalesce(to_jsonb(${constraint}) ->> 'conenforced', 'true') = 'true'`);

/** Whether the foreign key `f` is enforced. */
export const IS_ENFORCED = isEnforced('f');

/** How a view's rule says where a column comes from, up to the relation: a pattern for `format`, with the column's number. */
export const VIEW_ORIGIN =
  ':resno %s :resname (?:[^ \\\\]|\\\\.)+ :ressortgroupref [0-9]+ :resorigtbl ([0-9]+) ';

/**
 * The view `c` and the relations that a write to it goes through, if it is updatable. Such a view has the columns of one relation, and its rule
 * records where each of them comes from. A subquery may have columns with the same number, so only sole origins count.
 */
export const ORIGINS = originsWhere('true');

/** @param condition whether to look below the relation `v` */
function originsWhere(condition: string): Fragment {
  return raw(`with recursive origins (relation) as (
      select c.oid
      union
      select o.relation from origins v cross join lateral (
        select min(m[1])::oid as relation
        from pg_attribute a, pg_rewrite w, regexp_matches(w.ev_action::text, format(
          '${VIEW_ORIGIN}', a.attnum), 'g') m
        where a.attrelid = v.relation and a.attnum > 0 and w.ev_class = v.relation and w.ev_type = '1'
        group by a.attnum having pg_catalog.count(distinct m[1]) = 1) o
      where o.relation <> 0 and ${condition})`);
}

/**
 * The relations whose column defaults an INSERT into `c` may use: its own, and those behind a view. What a trigger or a rule does
 * instead of an INSERT is unknown.
 */
export const FILLING = originsWhere(`not exists (
        select from pg_trigger t where t.tgrelid = v.relation and t.tgtype & 68 = 68) and not exists (
        select from pg_rewrite r where r.ev_class = v.relation and r.ev_type = '3' and r.is_instead)`);

/**
 * Selects the sequences (s, in the schema sn) of the relations in `origins` that an INSERT may use for defaults of columns and of
 * their domains. The role needs USAGE on them: PostgreSQL does not ask whether the owner of a view has it.
 */
const sequences = (origins: string, name: Fragment, condition: Fragment): Fragment =>
  sql`select coalesce(json_agg(distinct ${name}), '[]')
    from ${raw(origins)} join pg_attribute a on a.attrelid = relation and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = relation and d.adnum = a.attnum
    left join pg_type t on t.oid = a.atttypid and t.typtype = 'd' and d.oid is null
    cross join lateral (values ('pg_attrdef'::regclass, d.oid), ('pg_type'::regclass, t.oid)) f (class, oid)
    join pg_depend p on p.classid = f.class and p.objid = f.oid and p.refclassid = 'pg_class'::regclass
    join pg_class s on s.oid = p.refobjid and s.relkind = 'S'
    join pg_namespace sn on sn.oid = s.relnamespace
    where ${condition}`;

/** Selects the sequences for the defaults of `c` itself, whatever is below it. */
export const sequencesOf = (name: Fragment, condition: Fragment): Fragment =>
  sequences('(select c.oid as relation) origins', name, condition);

/** Selects the sequences for the defaults of `c`, and of the relations behind it if it is a view. */
export const sequencesBelow = (name: Fragment, condition: Fragment = raw('true')): Fragment =>
  sql`${FILLING} ${sequences('origins', name, condition)}`;

/** The relations below the view `c` that PostgreSQL reads with the role's own privileges, and that the role may not read. */
export const UNREADABLE = raw(`with recursive invoked (relation, is_readable) as (
      select c.oid, true
      union
      select d.refobjid, case when d.refobjsubid > 0 then has_column_privilege(d.refobjid, d.refobjsubid::int2, 'SELECT')
        else has_any_column_privilege(d.refobjid, 'SELECT') end
      from invoked i join pg_class v on v.oid = i.relation and v.relkind = 'v'
      join pg_options_to_table(v.reloptions) o on o.option_name = 'security_invoker' and o.option_value::boolean
      join pg_rewrite w on w.ev_class = v.oid and w.ev_type = '1'
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
        and d.refclassid = 'pg_class'::regclass and d.refobjid <> v.oid)
    select coalesce(json_agg(distinct relation::regclass::text), '[]') from invoked where not is_readable`);

/** Whether the table `c` has a foreign partition. Such a table can have no key and no foreign key, so it is a foreign table itself. */
export const IS_SHARDED = raw(`(c.relkind = 'p' and exists (
    select from pg_partition_tree(c.oid) p join pg_class l on l.oid = p.relid and l.relkind = 'f'))`);

/** Whether the trigger `t` runs after an INSERT or UPDATE. */
export const RUNS_AFTER = raw(
  `(t.tgtype & 66 = 0 and t.tgtype & 20 > 0 and not t.tgisinternal and t.tgenabled not in ('D', 'R'))`,
);
