// Removes from an introspection what the service would refuse to serve.
import type { Catalog } from '../../db/schema/catalog.ts';
import { fieldOf, type ColumnDefinition } from '../../db/schema/model-definition.ts';
import { differences } from '../../db/schema/schema-differences.ts';
import type { Fault, KeyFault } from '../../errors.ts';
import { checkRegistry } from '../../resources/check/check-registry.ts';
import type { IntrospectedResource, Introspection } from './introspection.ts';
import { definitionOf } from './print-registry.ts';
import type { Resource } from '../../resources/definition/resource.ts';

/** The faults for which the service would refuse these definitions. */
function faultsOf(resources: readonly Resource[], catalog: Catalog): Fault[] {
  if (resources.length === 0) return [];
  const privileges = new Map(resources.map(({ model }) => [model, ['SELECT' as const]]));
  return [
    ...checkRegistry(resources, {}, { access: 'default', read: 'default', userModel: 'user' }),
    ...differences(resources, catalog, privileges),
  ];
}

/** Leaves out the faulty columns, with notes. */
function withoutColumns(
  one: IntrospectedResource,
  faults: readonly KeyFault[],
  catalog: Catalog,
): IntrospectedResource {
  const faulty = faults.map(({ key, text }) => ({ name: columnOf(key) ?? '', text }));
  const isKept = (name: string): boolean => !faulty.some((fault) => fault.name === name);
  const stored = catalog.get(one.table)?.columns ?? [];
  const isRequired = ({ name, definition }: IntrospectedResource['columns'][number]): boolean => {
    const field = fieldOf(name, definition as unknown as ColumnDefinition);
    const found = stored.find((column) => column.field === field);
    return found !== undefined && !found.nullable && !found.hasDefault && !found.generated;
  };
  return {
    ...one,
    isAddable:
      one.isAddable &&
      (one.isReadOnly || !one.columns.some((column) => !isKept(column.name) && isRequired(column))),
    columns: one.columns.filter(({ name }) => isKept(name)),
    foreignKeys: Object.fromEntries(
      Object.entries(one.foreignKeys).filter(([name, { columns }]) => isKept(name) && columns.every(isKept)),
    ),
    readonly: one.readonly.filter(isKept),
    proposed: one.proposed.every(isKept) ? one.proposed : [],
    secrets: one.secrets.filter(isKept),
    notes: [...one.notes, ...faulty.map(({ name, text }) => `${name} is left out: ${text}.`)],
  };
}

/** The column or foreign key of a key such as `columns.email.type`; undefined for a key of the whole resource. */
const columnOf = (key: string): string | undefined => {
  const [first = '', name] = key.split('.');
  return ['columns', 'foreignKeys'].includes(first) ? name : undefined;
};

/**
 * The part of an introspection that the service can serve. It runs the same checks as the start: a column or table that they
 * refuse is left out, with a note.
 */
export function servableIntrospection(
  { resources, notes, remarks }: Introspection,
  catalog: Catalog,
): Introspection {
  const faults = faultsOf(
    resources.map((one) => definitionOf(one)),
    catalog,
  );
  if (faults.length === 0) return { resources, notes, remarks };
  const tableFaults = new Map(
    faults
      .filter(({ key }) => columnOf(key) === undefined)
      .reverse()
      .map(({ model, text }) => [model, text]),
  );
  const servable = resources
    .filter(({ model }) => !tableFaults.has(model))
    .map((one) =>
      withoutColumns(
        one,
        faults.filter(({ model }) => model === one.model),
        catalog,
      ),
    );
  const refused = resources.flatMap(({ model, table }) => {
    const text = tableFaults.get(model);
    return text === undefined ? [] : [`${table} is not served: ${text}.`];
  });
  // Without these, others may have faults: foreign keys to them.
  return servableIntrospection({ resources: servable, notes: [...notes, ...refused], remarks }, catalog);
}
