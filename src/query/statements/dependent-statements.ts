// Statements about records that depend on others through foreign keys, for deletions and their preview.
import { cast, castParts } from '../../db/types/column-types.ts';
import {
  EMPTY,
  identifier,
  join,
  quotedTable,
  raw,
  sql,
  value,
  valueList,
  type Fragment,
} from '../../db/fragment.ts';
import { type Statement, createStatement, isTrue, json, numbers, oneCell } from '../../db/rows.ts';
import { IS_ENFORCED } from '../../db/schema/catalog-sql.ts';
import type { Edge } from '../../db/schema/cascades.ts';
import {
  partsOf,
  reference,
  storedKey,
  typed,
  type Column,
  type Model,
  type OnDelete,
  foreignReference,
} from '../../db/schema/model.ts';
import { allRows, source, unmodeledRows, writtenTable } from '../source.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { fromWhere } from '../read.ts';

/** A foreign key that refers to a model's table, from the database's catalog. */
export interface CatalogReference {
  /** The position, from 1, of the referenced table in the statement's list. */
  readonly target: number;
  /** The position of the referring table, if it is in the list. */
  readonly from: number | null;
  readonly schema: string;
  readonly table: string;
  readonly fields: readonly string[];
  readonly targetFields: readonly string[];
  /** For each field: the collation of its target field as SQL if the two differ, else null. */
  readonly collations: readonly (string | null)[];
  readonly onDelete: OnDelete;
}

/** A foreign key that is not in the registry, most often of a table that is not in it either. */
export interface UnknownKey extends Pick<
  CatalogReference,
  'schema' | 'table' | 'fields' | 'targetFields' | 'collations'
> {
  /** The referenced model. */
  readonly model: Model;
  readonly onDelete: OnDelete;
  /** The referring model; undefined if its table is not in the registry. */
  readonly from: Model | undefined;
}

/** A path from a record to dependent records. Each step is a foreign key that refers to the step before. */
export interface DependentPath {
  readonly steps: readonly { readonly model: Model; readonly column: Column }[];
  /** A further step at the end, by a foreign key that is not in the registry. */
  readonly unknownKey?: UnknownKey;
}

/**
 * Reads which foreign keys refer to these tables, from any table that the service's role may read. `set default` counts as
 * `setNull`, because the reference is lost too.
 */
export function referencesStatement(tables: readonly string[]): Statement<CatalogReference[]> {
  const quoted = tables.map(quotedTable);
  const query = sql`
with wanted as (
  select position, to_regclass(quoted) as relation from unnest(${valueList(quoted)}) with ordinality w (quoted, position)
)
select coalesce(json_agg(json_build_object(
  'target', w.position,
  'from', (select min(o.position) from wanted o where o.relation = f.conrelid),
  'schema', n.nspname,
  'table', c.relname,
  'onDelete', case f.confdeltype when 'c' then 'cascade' when 'n' then 'setNull' when 'd' then 'setNull' else 'restrict' end,
  'fields', (select json_agg(a.attname order by k.n) from unnest(f.conkey) with ordinality k (attnum, n)
             join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attnum),
  'targetFields', (select json_agg(a.attname order by k.n) from unnest(f.confkey) with ordinality k (attnum, n)
                   join pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.attnum),
  'collations', (
    select json_agg((
      select quote_ident(y.nspname) || '.' || quote_ident(l.collname)
      from pg_collation l join pg_namespace y on y.oid = l.collnamespace
      where l.oid = t.attcollation and t.attcollation <> a.attcollation) order by k.n)
    from unnest(f.conkey, f.confkey) with ordinality k (attnum, target, n)
    join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attnum
    join pg_attribute t on t.attrelid = f.confrelid and t.attnum = k.target)
) order by n.nspname, c.relname, f.conname), '[]')
from wanted w
join pg_constraint f on f.confrelid = w.relation and f.contype = 'f' and f.conparentid = 0 and ${IS_ENFORCED}
join pg_class c on c.oid = f.conrelid
join pg_namespace n on n.oid = c.relnamespace
where has_schema_privilege(n.oid, 'USAGE')
and (select bool_and(has_column_privilege(f.conrelid, k, 'SELECT')) from unnest(f.conkey) k)
and (select bool_and(has_column_privilege(f.confrelid, k, 'SELECT')) from unnest(f.confkey) k)`;
  return createStatement(query, oneCell(json<CatalogReference[]>));
}

/** The CTE of the matched records' keys. A CTE hides a table of the same name, so it has a name that no table has. */
const KEYS = raw('"vitrine keys"');

/** The CTE of all records that would be deleted, at any distance: positions of models in the list, and keys. */
export const DELETED = raw('"vitrine deleted"');

/** The key of a row `g` of `DELETED` as text, if it is a record of this model. The case keeps other keys out of the cast. */
const deletedKey = (modelIndex: number): Fragment =>
  sql`case when g.model_index = ${raw(String(modelIndex))} then g.key end`;

export const typedDeletedKey = ({ primaryKey }: Model, modelIndex: number): Fragment =>
  cast(deletedKey(modelIndex), primaryKey);

/** The key of a row as the text that `typedDeletedKey` casts. */
export const deletedKeyOf = (alias: string, { primaryKey }: Model): Fragment =>
  storedKey(
    primaryKey,
    partsOf(primaryKey).map((part) => sql`${reference(alias, part)}::text`),
  );

/** The columns of a key as those of a `select`. */
const keyList = (alias: string, { primaryKey }: Model): Fragment =>
  join(
    partsOf(primaryKey).map((part) => reference(alias, part)),
    ', ',
  );

/** The names of a key's columns in the CTE of matched keys. */
const matchedNames = ({ primaryKey }: Model, alias = ''): Fragment[] =>
  partsOf(primaryKey).map((_, index) => raw(`${alias}k${index}`));

/** The CTE of the keys that the plan matches. */
const matchedKeys = (plan: ListPlan): Fragment =>
  sql`${KEYS} (${join(matchedNames(plan.model), ', ')}) as materialized (select ${keyList(ROOT, plan.model)}${fromWhere(plan)})`;

/** The CTEs of the keys that the plan matches, and of all records that cascading foreign keys would delete. */
function deletionClosure(plan: ListPlan, cascades: readonly Edge[], models: readonly Model[]): Fragment {
  const modelIndex = (model: Model): Fragment => raw(String(models.indexOf(model)));
  const steps = cascades.map(
    ({ model, column, target }) =>
      sql`select ${modelIndex(model)} as model_index, ${deletedKeyOf('d', model)} as key from ${allRows(model, 'd')} where ${foreignReference('d', column)} = ${typedDeletedKey(target, models.indexOf(target))}`,
  );
  const texts = matchedNames(plan.model).map((name) => sql`${name}::text`);
  const first = sql`select ${modelIndex(plan.model)}, ${storedKey(plan.model.primaryKey, texts)} from ${KEYS}`;
  const further = sql`select e.model_index, e.key from ${DELETED} g cross join lateral (${join(steps, ' union all ')}) e`;
  return sql`with recursive ${matchedKeys(plan)}, ${DELETED} (model_index, key) as (${first}${steps.length > 0 ? sql` union ${further}` : EMPTY})`;
}

/** A boolean column of a model: `admin` of the user model, because no bulk deletion may delete an admin. */
export interface FlagColumn {
  readonly model: Model;
  /** Undefined for all records of the model. */
  readonly column: Column | undefined;
}

/**
 * Waits until no other transaction changes records of a model, and lets none change them until this one has ended. Otherwise a
 * user could become an admin between the check and the deletion.
 */
export const lockModelStatement = (model: Model): Statement<void> =>
  createStatement(sql`lock table ${writtenTable(model)} in share row exclusive mode`, () => undefined);

/**
 * Whether the service's role may lock a model's table with `lockModelStatement`. PostgreSQL requires a privilege on the whole
 * table, and cannot lock foreign tables.
 */
export const mayLockStatement = ({ table: name }: Model): Statement<boolean> =>
  createStatement(
    sql`select exists (select from pg_class c where c.oid = to_regclass(${value(quotedTable(name))}) and c.relkind in ('r', 'p', 'v') and has_table_privilege(c.oid, 'UPDATE, DELETE, TRUNCATE'))`,
    oneCell(isTrue),
  );

/**
 * Whether deleting the records that the plan matches would delete a record of these models: the one with a key, any whose boolean
 * column is true, or without a column any.
 * @param cascades the cascading foreign keys that can lead to one of the targets
 */
export function deletesStatement(
  plan: ListPlan,
  cascades: readonly Edge[],
  models: readonly Model[],
  targets: readonly Model[],
  which: { readonly id: string } | { readonly flag: Column | undefined },
): Statement<boolean> {
  const each = targets.map((model) => {
    const modelIndex = models.indexOf(model);
    const key = reference('d', model.primaryKey);
    const isMeant =
      'id' in which
        ? sql`${key} = ${typed(which.id, model.primaryKey)}`
        : which.flag
          ? sql`d.${identifier(which.flag.field)}`
          : raw('true');
    return sql`exists (select from ${DELETED} g join ${allRows(model, 'd')} on ${key} = ${typedDeletedKey(model, modelIndex)} where g.model_index = ${raw(String(modelIndex))} and ${isMeant})`;
  });
  const query = sql`${deletionClosure(plan, cascades, models)} select ${join(each, ' or ')}`;
  return createStatement(query, oneCell(isTrue));
}

/**
 * Counts the dependents that `dependentsStatement` does not reach: for each foreign key, the records that refer to a record that
 * would be deleted, without those at the end of the paths and those that the plan matches. Each count stops at one above the cap.
 */
export function furtherDependentsStatement(
  plan: ListPlan,
  edges: readonly Edge[],
  paths: readonly DependentPath[],
  models: readonly Model[],
  cap: number,
): Statement<number[]> {
  const cascades = edges.filter(({ column }) => column.onDelete === 'cascade');
  const counts = edges.map(({ model, column, target }) => {
    const key = reference('d', model.primaryKey);
    const others = model === plan.model ? exceptMatched(model) : EMPTY;
    const alreadyCounted = paths
      .filter(({ steps, unknownKey }) => !unknownKey && steps.at(-1)?.column === column)
      .map((path) => sql` and ${key} not in (select ${keyList('d', model)} ${endOf(path, plan)})`);
    const modelIndex = models.indexOf(target);
    const targets = sql`select ${join(castParts(deletedKey(modelIndex), target.primaryKey), ', ')} from ${DELETED} g where g.model_index = ${raw(String(modelIndex))}`;
    return sql`(select count(*) from (select from ${allRows(model, 'd')} where ${foreignReference('d', column)} in (${targets})${others}${join(alreadyCounted, '')} limit ${raw(String(cap + 1))}) c)`;
  });
  const query = sql`${deletionClosure(plan, cascades, models)} select array[${join(counts, ', ')}]::int8[]`;
  return createStatement(query, oneCell(numbers));
}

/** Excludes the records that the plan matches. */
function exceptMatched(model: Model): Fragment {
  const keys = join(matchedNames(model, 'c.'), ', ');
  return sql` and not exists (select from ${KEYS} c where (${keys}) = (${keyList('d', model)}))`;
}

/** FROM and WHERE of the rows `d` at the end of a path. */
function endOf({ steps, unknownKey }: DependentPath, { model: start, visibility }: ListPlan): Fragment {
  let parents = sql`select ${join(matchedNames(start), ', ')} from ${KEYS}`;
  let inner = EMPTY;
  for (const { model, column } of steps) {
    inner = sql`from ${source(model, 'd', visibility)} where ${foreignReference('d', column)} in (${parents})`;
    // A shorter path already counts what refers to the records that the plan matches.
    parents = sql`select ${keyList('d', model)} ${inner}${model === start ? exceptMatched(model) : EMPTY}`;
  }
  if (!unknownKey) return inner;
  const { model, fields, targetFields, collations } = unknownKey;
  const same = fields.map((field, index) => {
    const collation = collations[index];
    const collated = raw(typeof collation === 'string' ? ` collate ${collation}` : '');
    return sql`d.${identifier(field)}${collated} = p.${identifier(targetFields[index] ?? '')}`;
  });
  return sql`from ${unmodeledRows(unknownKey, 'd')} join ${allRows(model, 'p')} on ${join(same, ' and ')} where ${reference('p', model.primaryKey)} in (${parents})`;
}

/**
 * Counts the records at the end of each path from the records that the plan matches. Those records themselves do not count.
 * Each count stops at one more than the cap.
 * @param isDeletion whether a `setNull` path skips records that another path deletes
 */
export function dependentsStatement(
  plan: ListPlan,
  paths: readonly DependentPath[],
  cap: number,
  isDeletion: boolean,
): Statement<number[]> {
  const deletingPaths = (model: Model): DependentPath[] =>
    paths.filter(({ steps, unknownKey }) => {
      const end = steps.at(-1);
      return !unknownKey && end?.model === model && end.column.onDelete === 'cascade';
    });
  const counts = paths.map((path) => {
    const { steps, unknownKey } = path;
    const end = unknownKey ? unknownKey.from : steps.at(-1)?.model;
    const others = end === plan.model ? exceptMatched(plan.model) : EMPTY;
    const onDelete = unknownKey ? unknownKey.onDelete : steps.at(-1)?.column.onDelete;
    const key = end && reference('d', end.primaryKey);
    const deleted =
      isDeletion && key && onDelete === 'setNull'
        ? deletingPaths(end).map(
            (one) => sql` and ${key} not in (select ${keyList('d', end)} ${endOf(one, plan)})`,
          )
        : [];
    return sql`(select count(*) from (select ${endOf(path, plan)}${others}${join(deleted, '')} limit ${raw(String(cap + 1))}) c)`;
  });
  const query = sql`with ${matchedKeys(plan)} select array[${join(counts, ', ')}]::int8[]`;
  return createStatement(query, oneCell(numbers));
}
