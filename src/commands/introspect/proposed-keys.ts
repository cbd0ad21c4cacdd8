// Proposes keys for views without a proven key: the keys of the tables where their columns come from.
import { isKey } from '../../db/schema/catalog-keys.ts';
import type { CatalogTable } from '../../db/schema/catalog.ts';
import type { ColumnOrigin, Relation } from '../../db/schema/relations.ts';

/** Everything that was read, by pg_class.oid. */
export type ReadRelations = ReadonlyMap<
  number,
  { readonly relation: Relation; readonly found: CatalogTable }
>;

/** A table of which a view has columns, with the fields of the view for its columns. */
interface Source {
  readonly found: CatalogTable;
  readonly fields: ReadonlyMap<string, string>;
}

/** Key columns of a view, and the tables whose keys they are. */
export interface ProposedKey {
  readonly fields: readonly string[];
  readonly tables: readonly string[];
}

/** The only origin that a column can have; undefined if a subquery makes that unclear. */
function originOf(origins: readonly ColumnOrigin[], field: string): ColumnOrigin | undefined {
  const all = origins.filter((one) => one.field === field);
  const named = all.filter(({ isNamed }) => isNamed);
  const [first, ...others] = named.length > 0 ? named : all;
  const isSame = ({ relation, source }: ColumnOrigin): boolean =>
    relation === first?.relation && source === first.source;
  return others.every(isSame) ? first : undefined;
}

/** The table that a column of a view comes from, also through other views. */
function baseOf(
  view: Relation,
  field: string,
  relations: ReadRelations,
  passed: readonly Relation[] = [],
): { readonly found: CatalogTable; readonly field: string } | undefined {
  const { relation = null, source = null } = originOf(view.origins, field) ?? {};
  const known = relation === null ? undefined : relations.get(relation);
  // Two views can be defined by each other.
  if (!known || source === null || passed.includes(known.relation)) return undefined;
  return known.relation.origins.length > 0
    ? baseOf(known.relation, source, relations, [...passed, view])
    : { found: known.found, field: source };
}

/** The tables where the columns of a view come from. */
function sourcesOf(view: Relation, relations: ReadRelations): Source[] {
  const sources = new Map<CatalogTable, Map<string, string>>();
  for (const { field } of view.columns) {
    const base = baseOf(view, field, relations);
    if (!base) continue;
    const fields = sources.get(base.found) ?? new Map<string, string>();
    if (!fields.has(base.field)) fields.set(base.field, field);
    sources.set(base.found, fields);
  }
  return [...sources].map(([found, fields]) => ({ found, fields }));
}

/** The columns of the view that are a key of the table; undefined if the view has no whole key of it. */
function keyIn({ found, fields }: Source): readonly string[] | undefined {
  const keys = found.indexes
    .toSorted((one, other) => Number(other.primary) - Number(one.primary))
    .filter((index) => isKey(found, index.fields) && index.fields.every((field) => fields.has(field)));
  return keys[0]?.fields.map((field) => fields.get(field) ?? field);
}

/** Whether `one` has at most one row for each row of `other` (its foreign key is unique), and the view has the key of `other`. */
const extendsKeyOf = (one: Source, other: Source): boolean =>
  keyIn(other) !== undefined &&
  one.found.foreignKeys.some(({ target, fields }) => target === other.found.name && isKey(one.found, fields));

/** The names of the tables that a table refers to, also through others. */
function targetsOf({ found }: Source, tables: ReadonlyMap<string, CatalogTable>): Set<string> {
  const targets = new Set<string>();
  const queue = [found];
  for (const table of queue)
    for (const { target } of table.foreignKeys) {
      if (target === null || targets.has(target)) continue;
      targets.add(target);
      const next = tables.get(target);
      if (next) queue.push(next);
    }
  return targets;
}

/**
 * The key that a view probably has: the keys of its source tables together. A table that another source table refers to is left
 * out, because the referring row determines its row.
 */
export function proposedKey(view: Relation, relations: ReadRelations): ProposedKey | undefined {
  const sources = sourcesOf(view, relations);
  const tables = new Map([...relations.values()].map(({ found }) => [found.name, found]));
  const targets = new Map(sources.map((source) => [source, targetsOf(source, tables)]));
  const refersTo = (one: Source, other: Source): boolean => targets.get(one)?.has(other.found.name) ?? false;
  const isDetermined = (one: Source, other: Source): boolean =>
    refersTo(other, one) && !refersTo(one, other) && !extendsKeyOf(other, one);
  const needed = sources.filter(
    (one) =>
      !sources.some((other) => other !== one && (extendsKeyOf(one, other) || isDetermined(one, other))),
  );
  const keyed = needed.flatMap((source) => {
    const fields = keyIn(source);
    return fields ? [{ fields, table: source.found.name }] : [];
  });
  if (keyed.length === 0) return undefined;
  return {
    fields: [...new Set(keyed.flatMap(({ fields }) => fields))],
    tables: keyed.map(({ table }) => table),
  };
}
