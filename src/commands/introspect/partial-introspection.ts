// Removes from an introspection what the service would refuse to serve.
import type { Catalog } from '../../db/schema/catalog.ts';
import { fieldOf, tableOf } from '../../db/schema/model-definition.ts';
import { differences } from '../../db/schema/schema-differences.ts';
import { checkRegistry } from '../../resources/check/check-registry.ts';
import type { IntrospectedResource, Introspection } from './introspection.ts';
import type { Resource } from '../../resources/definition/resource.ts';

/** The resource as the printed file defines it. */
export function definitionOf({ model, table, primaryKey, columns, readonly, secrets }: IntrospectedResource) {
  return {
    model,
    ...(table === model ? {} : { table }),
    ...(primaryKey ? { primaryKey } : {}),
    columns: Object.fromEntries(columns.map(({ name, definition }) => [name, definition])),
    ...(readonly.length > 0 ? { readonly } : {}),
    ...(secrets.length > 0 ? { exclude: secrets, admin: { exclude: secrets } } : {}),
  };
}

interface Fault {
  readonly model: string;
  /** Undefined for a fault of the whole resource. */
  readonly column: string | undefined;
  readonly text: string;
}

/** The column that a message begins with. Names can contain spaces, so the longest match counts. */
function columnNamed(text: string, { columns }: Resource): string | undefined {
  const named = Object.entries(columns)
    .map(([name, column]) => ({ name, field: fieldOf(name, column) }))
    .filter(({ field }) => text.startsWith(`${field} `) || text.startsWith(`the foreign key of ${field} `))
    .sort((one, other) => other.field.length - one.field.length);
  return named[0]?.name;
}

/** The faults for which the service would refuse these definitions, by resource and column. */
function faultsOf(resources: readonly Resource[], catalog: Catalog): Fault[] {
  const privileges = new Map(resources.map(({ model }) => [model, ['SELECT' as const]]));
  const registryFaults = checkRegistry(resources, { access: 'default', userModel: 'user' });
  return resources.flatMap((resource) => {
    const { model } = resource;
    const own = registryFaults
      .filter((text) => text.startsWith(`${model}: `))
      .map((text) => text.slice(model.length + 2));
    const prefix = `${model} (table ${tableOf(resource)}): `;
    const stored = differences(resources, catalog, privileges)
      .filter((text) => text.startsWith(prefix))
      .map((text) => text.slice(prefix.length));
    return [
      ...own.map((text) => ({ model, column: /^columns\.(\w+)/.exec(text)?.[1], text })),
      ...stored.map((text) => ({ model, column: columnNamed(text, resource), text })),
    ];
  });
}

function withoutColumns(
  one: IntrospectedResource,
  faults: readonly (Fault & { column: string })[],
): IntrospectedResource {
  const isKept = (name: string): boolean => !faults.some(({ column }) => column === name);
  return {
    ...one,
    columns: one.columns.filter(({ name }) => isKept(name)),
    readonly: one.readonly.filter(isKept),
    secrets: one.secrets.filter(isKept),
    notes: [...one.notes, ...faults.map(({ column, text }) => `${column} is left out: ${text}.`)],
  };
}

/**
 * The part of an introspection that the service can serve. It runs the same checks as the start: a column or table that they
 * refuse is left out, with a note.
 */
export function servableIntrospection(found: Introspection, catalog: Catalog): Introspection {
  let { resources, notes } = found;
  for (;;) {
    const definitions = resources.map(definitionOf) as unknown as Resource[];
    const faults = definitions.length === 0 ? [] : faultsOf(definitions, catalog);
    if (faults.length === 0) return { resources, notes };
    const tableFaults = faults.filter(({ column }) => column === undefined);
    notes = [
      ...notes,
      ...resources.flatMap(({ model, table }) => {
        const fault = tableFaults.find((one) => one.model === model);
        return fault ? [`${table} is not served: ${fault.text}.`] : [];
      }),
    ];
    resources = resources
      .filter(({ model }) => !tableFaults.some((one) => one.model === model))
      .map((one) =>
        withoutColumns(
          one,
          faults.flatMap((fault) =>
            fault.model === one.model && fault.column !== undefined
              ? [{ ...fault, column: fault.column }]
              : [],
          ),
        ),
      );
  }
}
