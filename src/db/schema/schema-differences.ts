// Compares the registry with the database.
import { areUnique, isKey, keyAdvice } from './catalog-keys.ts';
import {
  isTable,
  isWithTime,
  MICROSECONDS,
  fractionalSecondDigitsOf,
  VIEW_KINDS,
  type Catalog,
  type CatalogTable,
} from './catalog.ts';
import {
  columnDifferences,
  compositeForeignKeyDifference,
  NARROWER,
  REWRITES,
} from './column-differences.ts';
import { KEY_TYPES } from '../types/column-types.ts';
import { faultIf, type Fault, type KeyFault } from '../../errors.ts';
import { quotedName } from '../fragment.ts';
import {
  fieldOf,
  keyFieldsOf,
  keyNamesOf,
  keyTypeOf,
  tableOf,
  type ModelDefinition,
} from './model-definition.ts';
import { alter, uniqueFieldsOf } from './missing-schema.ts';
import { fillingTrigger } from './trigger-columns.ts';
import { missingPrivileges, type Privilege } from './missing-privileges.ts';

/**
 * Every difference between the database and the registry.
 * @param privileges the privileges that each model needs; with INSERT, unmapped columns must not be required
 * @param addable models to which the admin area adds records, which does not make INSERT necessary
 */
export function differences(
  definitions: readonly ModelDefinition[],
  catalog: Catalog,
  privileges: ReadonlyMap<string, readonly Privilege[]>,
  addable: ReadonlySet<string> = new Set(),
): Fault[] {
  const served = new Map<number, string>();
  return definitions.flatMap((definition) => {
    const { model } = definition;
    const table = tableOf(definition);
    const found = catalog.get(table);
    if (!found)
      return definition.view
        ? [{ model, key: 'view', text: `there is no view ${table}: make it in SQL, the service does not` }]
        : [{ model, key: '', text: `there is no table ${table}` }];
    const first = served.get(found.oid) ?? table;
    served.set(found.oid, first);
    const needs = privileges.get(model) ?? [];
    const mayInsert = needs.includes('INSERT');
    return [
      ...faultIf(first !== table, 'table', `another resource calls this table ${first}: use this name`),
      ...keyDifferences(definition, found),
      ...Object.keys(definition.columns).flatMap((name) =>
        columnDifferences(name, definition, definitions, found, catalog).map((difference) => ({
          key: `columns.${name}`,
          ...difference,
        })),
      ),
      ...versionDifferences(definition, found),
      ...uniqueDifferences(definition, found),
      ...Object.entries(definition.foreignKeys ?? {}).flatMap(([name, foreignKey]) => {
        const difference = compositeForeignKeyDifference(foreignKey, definition, definitions, found, catalog);
        return difference ? [{ key: `foreignKeys.${name}`, ...difference }] : [];
      }),
      ...[
        ...(mayInsert || addable.has(model)
          ? unfilledFields(definition, found).map((field) =>
              unfilledFault(field, 'leave out POST in methods'),
            )
          : []),
        ...missingPrivileges(needs, definition, found),
      ].map((text) => ({ key: 'table', text })),
      ...unusableTypes(definition, found),
    ].map((fault) => ({ model, ...fault }));
  });
}

/** The names in the database of the key and all columns. */
const fieldsOf = (definition: ModelDefinition): ReadonlySet<string> =>
  new Set([
    ...keyFieldsOf(definition),
    ...Object.entries(definition.columns).map(([name, column]) => fieldOf(name, column)),
  ]);

/** Faults for served columns with a type in a schema that the role may not use. */
const unusableTypes = (definition: ModelDefinition, { columns }: CatalogTable): KeyFault[] =>
  [
    ...(keyNamesOf(definition) ? [] : keyFieldsOf(definition).map((field) => ['primaryKey', field])),
    ...Object.entries(definition.columns).map(([name, column]) => [`columns.${name}`, fieldOf(name, column)]),
  ].flatMap(([key = '', field]) =>
    (columns.find((column) => column.field === field)?.unusableSchemas ?? []).map((schema) => ({
      key,
      text: `the database role may not use the schema ${schema}, which contains the type of ${field}`,
    })),
  );

/** Why a table with child tables cannot be served. */
export const inheritance = ({ childTables }: CatalogTable): string =>
  `other tables inherit from it (${childTables.join(', ')}), and its key is not unique across their rows`;

/** The faults of a view or foreign table. No constraint enforces its key, so the registry must name it. */
function viewDifferences(
  definition: ModelDefinition & { readonly methods?: readonly string[] },
  found: CatalogTable,
  kind: string,
): KeyFault[] {
  const { methods = [], primaryKey } = definition;
  const refused = methods.filter((method) => method !== 'GET' && !found.writable.includes(method));
  return [
    ...faultIf(
      primaryKey === undefined,
      'primaryKey',
      `is missing: it is ${kind}, so name the column that identifies a row, such as { type: 'integer', column: 'id' }, or set it to false`,
    ),
    ...(primaryKey && !keyNamesOf(definition) ? keyTypeDifferences(definition, found) : []),
    ...faultIf(
      refused.length > 0,
      'methods',
      `PostgreSQL cannot write to it (it is ${kind}): remove ${refused.join(', ')}`,
    ),
  ];
}

/** The fault of a key that does not exist, or whose type differs. */
function keyTypeDifferences(definition: ModelDefinition, found: CatalogTable): KeyFault[] {
  const [field = ''] = keyFieldsOf(definition);
  const stored = found.columns.find((column) => column.field === field);
  if (!stored) return [{ key: 'primaryKey', text: `there is no column ${field}` }];
  const type = keyTypeOf(definition);
  const accepts: readonly string[] = KEY_TYPES[type].accepts;
  const is = `the key ${field} is ${stored.printed}`;
  if (!accepts.includes(stored.type))
    return [{ key: 'primaryKey', text: `${is}, which primaryKey type '${type}' does not support` }];
  if (!isTable(found) || !NARROWER[type]?.includes(stored.type)) return [];
  return [
    {
      key: 'primaryKey',
      text: `${is}, which holds fewer values than primaryKey type '${type}': set it to 'integer'`,
      alter: alter(
        tableOf(definition),
        `alter column ${quotedName(field)} type ${type}`,
        `${REWRITES} Foreign keys to it keep their types.`,
      ),
    },
  ];
}

function keyDifferences(definition: ModelDefinition, found: CatalogTable): KeyFault[] {
  const fault = (key: string, text: string): KeyFault[] => [{ key, text }];
  const kind = VIEW_KINDS[found.kind];
  if (kind !== undefined) return viewDifferences(definition, found, kind);
  if (!isTable(found)) return fault('table', 'it is not a table, a view or a foreign table');
  if (definition.view)
    return fault(
      'view',
      `${found.name} is a table, perhaps made by a start without view: true: drop it if it is empty, and make the view, or remove view: true`,
    );
  if (definition.primaryKey === false) return [];
  if (found.childTables.length > 0)
    return fault('table', `${inheritance(found)}; such a table cannot be served`);
  const fields = keyFieldsOf(definition);
  const names = keyNamesOf(definition);
  const field = fields.join(', ');
  const missing = names ? fields.filter((one) => !found.columns.some((column) => column.field === one)) : [];
  // Missing columns are reported as such.
  if (missing.length > 0) return [];
  if (!isKey(found, fields)) {
    const primary = found.indexes.find((index) => index.primary)?.fields ?? [];
    const isOne =
      fields.length === 1
        ? 'is not its key (a primary key, or a unique column that is NOT NULL)'
        : 'are not its key (a primary key, or unique columns that are NOT NULL)';
    return fault(
      'primaryKey',
      `${field} ${isOne}${primary.length > 0 ? `; its key is ${primary.join(', ')}: set ${keyAdvice(definition, found, primary)}` : ''}`,
    );
  }
  return names ? [] : keyTypeDifferences(definition, found);
}

/** A version must change with each change of a row, and several changes fit into a second. */
function versionDifferences(definition: ModelDefinition, found: CatalogTable): KeyFault[] {
  const { version, columns } = definition;
  const column = version === undefined ? undefined : columns[version];
  if (version === undefined || column?.type !== 'datetime') return [];
  const field = fieldOf(version, column);
  const stored = found.columns.find((candidate) => candidate.field === field);
  if (!stored || !isWithTime(stored) || fractionalSecondDigitsOf(stored) >= MICROSECONDS) return [];
  return [
    {
      key: 'version',
      text: `${field} is ${stored.printed}, but two changes within a second must give it different values: make it timestamp or timestamptz, without a precision`,
      alter: isTable(found)
        ? alter(tableOf(definition), `alter column ${quotedName(field)} type ${stored.type}`, REWRITES)
        : undefined,
    },
  ];
}

/** Columns that are not unique together. A missing column is reported as such, and a view has no constraints. */
function uniqueDifferences(definition: ModelDefinition, found: CatalogTable): KeyFault[] {
  const isThere = (field: string): boolean => found.columns.some((column) => column.field === field);
  return uniqueFieldsOf(definition).flatMap((fields) =>
    faultIf(
      isTable(found) && fields.every(isThere) && !areUnique(found, fields),
      'unique',
      `${fields.join(', ')} are not unique together in the database`,
    ),
  );
}

/** The columns that are not in the registry but that every INSERT must fill. */
export function unfilledFields(definition: ModelDefinition, found: CatalogTable): string[] {
  const known = fieldsOf(definition);
  return found.columns
    .filter(({ field }) => !known.has(field))
    .filter(({ nullable, hasDefault, generated }) => !nullable && !hasDefault && !generated)
    .map(({ field }) => field)
    .filter((field) => fillingTrigger(found.triggers, field) === undefined);
}

/** Why no record can be added to a table with such a column. @param wayOut a further way to end the fault */
export const unfilledFault = (field: string, wayOut: string): string =>
  `its column ${field} is NOT NULL without a default, but is not in the registry, so no record can be added: name it there with default: 'database' if a trigger fills it, give it a default in SQL, or ${wayOut}`;
