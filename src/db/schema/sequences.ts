// The sequences that fill columns: whether they are behind their tables, and how much of them is used.
import { boundText, identifier, raw, sql, value, valueList, type Fragment } from '../fragment.ts';
import { createStatement, json, oneCell, text, type Statement } from '../rows.ts';
import { FILLING, relationOf } from './catalog-sql.ts';

/** Percent of a sequence above which `vitrine check` warns. */
const MOSTLY_USED = 80;

/** A sequence that an INSERT into a table uses for a column. All names are quoted, except that of the column. */
export interface Sequence {
  readonly name: string;
  /** The table of the column: for a view, the one behind it. */
  readonly table: string;
  readonly field: string;
  /** The names of the unique indexes with the column. */
  readonly uniques: readonly string[];
  readonly isDescending: boolean;
  /** Its last value. Null if the role may not read it, or if the default computes something else from it. */
  readonly last: string | null;
  /** How much of it is used, in percent of what also fits the column. Null if `last` is, or if it begins again at its end. */
  readonly used: number | null;
}

/** @param tables quoted names */
export const sequencesStatement = (tables: readonly string[]): Statement<Sequence[]> =>
  createStatement(
    sql`
with filled as materialized (
  select distinct o.relation
  from unnest(${valueList(tables)}) w (quoted)
  join pg_class c on c.oid = ${relationOf('w.quoted')}
  cross join lateral (${FILLING} select relation from origins) o
), found as (
  select distinct s.oid, s.relname, sn.nspname, a.attrelid, a.attnum, a.attname,
    k.seqincrement < 0 as is_descending, k.seqcycle,
    case when k.seqincrement > 0 then k.seqmin else k.seqmax end as first,
    case when k.seqincrement > 0 then least(k.seqmax, 2::numeric ^ (8 * b.typlen - 1) - 1)
      else greatest(k.seqmin, - (2::numeric ^ (8 * b.typlen - 1))) end as last_fitting,
    case when has_sequence_privilege(s.oid, 'USAGE, SELECT')
      and (d.oid is null or pg_get_expr(d.adbin, d.adrelid) ~ '^nextval\\(''[^'']+''::regclass\\)$')
      then coalesce(pg_sequence_last_value(s.oid), k.seqstart - k.seqincrement) end as last
  from filled o
  join pg_attribute a on a.attrelid = o.relation and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
  join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  -- With one condition instead of three, PostgreSQL would compare each column with all dependencies of the database.
  cross join lateral (
    select p.objid as oid from pg_depend p where p.classid = 'pg_class'::regclass and p.deptype = 'i'
      and p.refclassid = 'pg_class'::regclass and p.refobjid = a.attrelid and p.refobjsubid = a.attnum
    union all
    select p.refobjid from pg_depend p where p.refclassid = 'pg_class'::regclass and p.deptype <> 'i'
      and p.classid = 'pg_attrdef'::regclass and p.objid = d.oid
    union all
    select p.refobjid from pg_depend p where p.refclassid = 'pg_class'::regclass and p.deptype <> 'i'
      and d.oid is null and p.classid = 'pg_type'::regclass and p.objid = t.oid
  ) p
  join pg_class s on s.relkind = 'S' and s.oid = p.oid
  join pg_namespace sn on sn.oid = s.relnamespace
  join pg_sequence k on k.seqrelid = s.oid
  where b.oid in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
)
select coalesce(json_agg(json_build_object(
  'name', quote_ident(f.nspname) || '.' || quote_ident(f.relname),
  'table', (select quote_ident(n.nspname) || '.' || quote_ident(c.relname)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = f.attrelid),
  'field', f.attname,
  'uniques', array(
    select x.relname from pg_index i join pg_class x on x.oid = i.indexrelid
    where i.indrelid = f.attrelid and i.indisunique and f.attnum = any(i.indkey)),
  'isDescending', f.is_descending,
  'last', f.last::text,
  'used', case when not f.seqcycle then floor(100 * (f.last - f.first) / nullif(f.last_fitting - f.first, 0)) end
) order by f.attrelid, f.attnum), '[]') from found f`,
    oneCell(json<Sequence[]>),
  );

/** The largest value of the column, as SQL. */
const largest = ({ field, table, isDescending }: Sequence): Fragment =>
  sql`(select ${raw(isDescending ? 'min' : 'max')}(${identifier(field)}) from ${raw(table)})`;

/** Whether the table is ahead of the sequence, or exactly where it is. PostgreSQL reads the table as it was before the sequence. */
function positionStatement(sequence: Sequence): Statement<'ahead' | 'equal' | undefined> {
  const { name, last, isDescending } = sequence;
  const query = sql`select case when v = l then 'equal' when v ${raw(isDescending ? '<' : '>')} l then 'ahead' end
    from (select ${largest(sequence)}, coalesce(pg_sequence_last_value(${value(name)}::regclass), ${value(last)}::int8)) r (v, l)`;
  return createStatement(
    query,
    ([row]) => (text(row?.[0] ?? null) ?? undefined) as 'ahead' | 'equal' | undefined,
  );
}

type Run = <T>(statement: Statement<T>) => Promise<T>;

/** The warnings of `vitrine check` about the sequences of tables. */
export async function sequenceWarnings(run: Run, tables: readonly string[]): Promise<string[]> {
  const warnings = new Set<string>();
  for (const sequence of await run(sequencesStatement(tables))) {
    const { name, table, field, last, used } = sequence;
    // The role may not read the table behind a view.
    const position =
      last === null ? undefined : await run(positionStatement(sequence)).catch(() => undefined);
    if (position === 'ahead')
      warnings.add(
        `the sequence ${name} is behind its table, so new records are refused: select setval('${name.replaceAll("'", "''")}', ${boundText(largest(sequence))})`,
      );
    if (used !== null && used > MOSTLY_USED)
      warnings.add(`the sequence ${name} of ${table}.${field} is used to ${used} %`);
  }
  return [...warnings];
}

/**
 * Why a sequence, and not the request, is the reason for the error of an INSERT: it has made a value that is taken, or one that
 * does not fit its column.
 * @param table the quoted name of the table
 * @param constraint the unique index that was violated; undefined if a value does not fit
 * @param isMade whether the sequence has made the value of the column; undefined if it may have, such as in a trigger
 */
export async function sequenceReason(
  run: Run,
  table: string,
  constraint: string | undefined,
  isMade: (field: string) => boolean | undefined,
): Promise<string | undefined> {
  for (const sequence of await run(sequencesStatement([table]))) {
    const { name, field, uniques, last, used } = sequence;
    const of = `${sequence.table}.${field}`;
    if (constraint === undefined) {
      if (isMade(field) && (used ?? 0) >= 100)
        return `the sequence ${name} has made a value that does not fit ${of}`;
      continue;
    }
    if (isMade(field) === false || !uniques.includes(constraint)) continue;
    const unknown = isMade(field) ? 'equal' : undefined;
    const position = last === null ? unknown : await run(positionStatement(sequence)).catch(() => unknown);
    if (position === 'ahead' || (position === 'equal' && isMade(field)))
      return `the sequence ${name} is behind its table: it has made a value of ${of} that is taken. Run "vitrine check", which prints how to move it`;
  }
  return undefined;
}
