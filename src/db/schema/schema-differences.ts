// Compares the registry with the database.
import {
  isKey,
  isTable,
  isUnique,
  lengthOf,
  sameFields,
  type Catalog,
  type CatalogTable,
} from './catalog.ts';
import { COLUMN_TYPES } from '../types/column-types.ts';
import {
  fieldOf,
  isAddable,
  isNullable,
  keyFieldOf,
  keyTypeOf,
  tableOf,
  typeOf,
  type ColumnDefinition,
  type ModelDefinition,
} from './model-definition.ts';

export type Privilege = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE';

/**
 * Lists every difference between the database and the registry, one text each.
 * @param privileges the privileges that each model needs; with INSERT, unmapped columns must not be required
 */
export function differences(
  definitions: readonly ModelDefinition[],
  catalog: Catalog,
  privileges: ReadonlyMap<string, readonly Privilege[]>,
): string[] {
  const served = new Map<number, string>();
  return definitions.flatMap((definition) => {
    const found = catalog.get(tableOf(definition));
    if (!found) return [`${definition.model}: there is no table ${tableOf(definition)}`];
    const other = served.get(found.oid);
    served.set(found.oid, definition.model);
    const needs = privileges.get(definition.model) ?? [];
    const prefix = `${definition.model} (table ${tableOf(definition)})`;
    return [
      ...(other === undefined ? [] : [`the model ${other} already uses this table`]),
      ...keyDifferences(definition, found),
      ...Object.entries(definition.columns).flatMap(([name, column]) =>
        columnDifferences(name, column, definitions, found),
      ),
      ...(needs.includes('INSERT') ? unmappedRequiredColumns(definition, found) : []),
      ...needs
        .filter((privilege) => !isGranted(privilege, definition, found))
        .map((privilege) => `the database role may not ${privilege}`),
      ...(needs.includes('INSERT') ? found.unusableSequences : []).map(
        (sequence) => `the database role may not use the sequence ${sequence}`,
      ),
      ...unusableTypes(definition, found),
    ].map((text) => `${prefix}: ${text}`);
  });
}

/** The names in the database of the key and all columns. */
const fieldsOf = (definition: ModelDefinition): ReadonlySet<string> =>
  new Set([
    keyFieldOf(definition),
    ...Object.entries(definition.columns).map(([name, column]) => fieldOf(name, column)),
  ]);

/** Faults for served columns with a type in a schema that the role may not use. */
function unusableTypes(definition: ModelDefinition, { columns }: CatalogTable): string[] {
  const served = fieldsOf(definition);
  return columns
    .filter(({ field }) => served.has(field))
    .flatMap(({ field, unusableSchemas }) =>
      unusableSchemas.map(
        (schema) => `the database role may not use the schema ${schema}, which contains the type of ${field}`,
      ),
    );
}

/**
 * Whether the role has a privilege: on the table, or on each column that needs it. Reads need every column; read-only columns
 * are not written.
 */
function isGranted(
  privilege: Privilege,
  definition: ModelDefinition & { readonly readonly?: readonly string[] },
  found: CatalogTable,
): boolean {
  if (found.privileges.includes(privilege)) return true;
  if (privilege === 'DELETE') return false;
  const written = Object.entries(definition.columns)
    .filter(([name]) => !definition.readonly?.includes(name))
    .map(([name, column]) => fieldOf(name, column));
  return found.columns
    .filter(({ field, generated }) => privilege === 'SELECT' || (written.includes(field) && !generated))
    .every(({ granted }) => granted.includes(privilege));
}

/** Length of a stored hash: `$argon2id$v=19$m=19456,t=2,p=1$`, 22 characters of salt, `$`, 43 of hash. */
const HASH_LENGTH = 97;

/** Why a table with child tables cannot be served. */
export const inheritance = ({ childTables }: CatalogTable): string =>
  `other tables inherit from it (${childTables.join(', ')}), and its key is not unique across their rows`;

function keyDifferences(definition: ModelDefinition, found: CatalogTable): string[] {
  if (!isTable(found)) return ['it is not a table; views and foreign tables cannot be served'];
  if (found.childTables.length > 0) return [`${inheritance(found)}; such a table cannot be served`];
  const field = keyFieldOf(definition);
  const primary = found.indexes.find((index) => index.primary)?.fields ?? [];
  if (!isKey(found, field)) {
    if (primary.length > 1)
      return [`its key is made of several columns (${primary.join(', ')}); such a table cannot be served`];
    const hint = primary[0]
      ? `; its key is ${primary[0]}: set primaryKey: { type, column: '${primary[0]}' }`
      : '';
    return [`${field} is not its key (a primary key, or a unique column that is NOT NULL)${hint}`];
  }
  const stored = found.columns.find((column) => column.field === field);
  const accepts = {
    integer: ['int4', 'int2'],
    bigint: ['int8', 'int4', 'int2'],
    uuid: ['uuid'],
    string: COLUMN_TYPES.string.accepts,
  };
  return stored && !accepts[keyTypeOf(definition)].includes(stored.type)
    ? [
        `the key ${field} is ${stored.printed}, which primaryKey type '${keyTypeOf(definition)}' does not support`,
      ]
    : [];
}

function columnDifferences(
  name: string,
  column: ColumnDefinition,
  definitions: readonly ModelDefinition[],
  found: CatalogTable,
): string[] {
  const field = fieldOf(name, column);
  const stored = found.columns.find((candidate) => candidate.field === field);
  if (!stored)
    return [
      isAddable(column)
        ? `there is no column ${field}`
        : `there is no column ${field}: set null: true or a default for the existing records, or add the column yourself`,
    ];
  const texts: string[] = [];
  const type = typeOf(column, definitions);
  // PostgreSQL allows a foreign key of another width than the referenced key.
  const widths = column.type === 'foreignKey' && type.accepts.includes('int4') ? ['int8'] : [];
  if (![...type.accepts, ...widths].includes(stored.type))
    texts.push(`${field} is ${stored.printed}, which type '${column.type}' does not support`);
  const length = lengthOf(stored);
  if (column.type === 'password' && length !== undefined && length < HASH_LENGTH)
    texts.push(`${field} holds ${length} characters, but a hash has ${HASH_LENGTH}`);
  if (stored.nullable && !isNullable(column))
    texts.push(`${field} may be NULL in the database: set null: true`);
  if (!stored.nullable && isNullable(column) && !stored.generated)
    texts.push(`${field} is NOT NULL in the database: remove null: true`);
  if (column.default !== undefined && !stored.hasDefault)
    texts.push(`${field} has no default in the database`);
  if (column.unique && !isUnique(found, field)) texts.push(`${field} is not unique in the database`);
  if (column.type === 'foreignKey') texts.push(...foreignKeyDifferences(field, column, definitions, found));
  return texts;
}

function foreignKeyDifferences(
  field: string,
  column: ColumnDefinition & { type: 'foreignKey' },
  definitions: readonly ModelDefinition[],
  found: CatalogTable,
): string[] {
  const target = definitions.find(({ model }) => model === column.references);
  if (!target) return [];
  const foreignKeys = found.foreignKeys.filter(
    ({ fields, target: table }) => sameFields(fields, [field]) && table === tableOf(target),
  );
  const key = keyFieldOf(target);
  const foreignKey = foreignKeys.find(({ targetFields }) => sameFields(targetFields, [key]));
  if (!foreignKey) {
    const [other] = foreignKeys;
    return [
      other
        ? `${field} references ${other.targetFields.join(', ')} of ${tableOf(target)} in the database, not its key ${key}`
        : `${field} has no foreign key to ${tableOf(target)} in the database`,
    ];
  }
  const declared = column.onDelete ?? 'restrict';
  return foreignKey.onDelete === declared
    ? []
    : [
        `the foreign key of ${field} has on delete ${foreignKey.onDelete} in the database, but ${declared} in the registry`,
      ];
}

/** Faults for columns that are not in the registry but that every INSERT must fill. */
function unmappedRequiredColumns(definition: ModelDefinition, found: CatalogTable): string[] {
  const known = fieldsOf(definition);
  return found.columns
    .filter(
      ({ field, nullable, hasDefault, generated }) =>
        !known.has(field) && !nullable && !hasDefault && !generated,
    )
    .map(({ field }) => `its column ${field} is NOT NULL without a default, but is not in the registry`);
}
