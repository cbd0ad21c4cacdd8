import { isKey, isTable, lengthOf, sameFields, type Catalog, type CatalogTable } from './catalog.ts';
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
 * Everything in which the database does not fit the registry, a sentence each.
 * @param privileges what is done with the records of each model; where they are inserted, the table may require nothing
 * that the registry does not know
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
      ...(other === undefined ? [] : [`it is also the table of ${other}`]),
      ...keyDifferences(definition, found),
      ...Object.entries(definition.columns).flatMap(([name, column]) =>
        columnDifferences(name, column, definitions, found),
      ),
      ...(needs.includes('INSERT') ? strangers(definition, found) : []),
      ...needs
        .filter((privilege) => !isGranted(privilege, definition, found))
        .map((privilege) => `the database role may not ${privilege}`),
      ...(needs.includes('INSERT') ? found.closed : []).map(
        (sequence) => `the database role may not use the sequence ${sequence}`,
      ),
      ...closedTypes(definition, found),
    ].map((text) => `${prefix}: ${text}`);
  });
}

/** What keeps the role from the types of columns that are served. */
function closedTypes(definition: ModelDefinition, { columns }: CatalogTable): string[] {
  const served = new Set([
    keyFieldOf(definition),
    ...Object.entries(definition.columns).map(([name, column]) => fieldOf(name, column)),
  ]);
  return columns
    .filter(({ field }) => served.has(field))
    .flatMap(({ field, closed }) =>
      closed.map((schema) => `the database role may not use the schema ${schema} of the type of ${field}`),
    );
}

/**
 * Whether the role may do it: with the table, or with each column that it is done with. Reading is done with whole rows; what
 * clients may not set is not written.
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

/** Characters of a hash as it is written: `$argon2id$v=19$m=19456,t=2,p=1$`, 22 of the salt, `$`, 43 of the hash. */
const HASH_LENGTH = 97;

/** What keeps a table with heirs from being served. */
export const inheritance = ({ heirs }: CatalogTable): string =>
  `its rows are also those of the tables that inherit from it (${heirs.join(', ')}), and no key is unique among all of them`;

function keyDifferences(definition: ModelDefinition, found: CatalogTable): string[] {
  if (!isTable(found)) return ['it is not a table'];
  if (found.heirs.length > 0) return [`${inheritance(found)}, so that it cannot be served`];
  const field = keyFieldOf(definition);
  const primary = found.indexes.find((index) => index.primary)?.fields ?? [];
  if (!isKey(found, field)) {
    if (primary.length > 1)
      return [`its key is made of several columns (${primary.join(', ')}), which cannot be served`];
    const hint = primary[0]
      ? `; its key is ${primary[0]}: say primaryKey: { type, column: '${primary[0]}' }`
      : '';
    return [`${field} is not a key of it (a primary key or a unique column that is NOT NULL)${hint}`];
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
        `the key ${field} is ${stored.printed}, which primaryKey type '${keyTypeOf(definition)}' does not serve`,
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
        : `there is no column ${field}: say null: true or a default for the records that are there, or add it yourself`,
    ];
  const texts: string[] = [];
  const type = typeOf(column, definitions);
  // PostgreSQL lets a foreign key be of another width than the key that it refers to.
  const widths = column.type === 'foreignKey' && type.accepts.includes('int4') ? ['int8'] : [];
  if (![...type.accepts, ...widths].includes(stored.type))
    texts.push(`${field} is ${stored.printed}, which type '${column.type}' does not serve`);
  const length = lengthOf(stored);
  if (column.type === 'password' && length !== undefined && length < HASH_LENGTH)
    texts.push(`${field} holds ${length} characters, and a hash takes ${HASH_LENGTH}`);
  if (stored.nullable && !isNullable(column)) texts.push(`${field} may be NULL there: say null: true`);
  if (!stored.nullable && isNullable(column) && !stored.generated)
    texts.push(`${field} is NOT NULL there: take null: true away`);
  if (column.default !== undefined && !stored.hasDefault) texts.push(`${field} has no default there`);
  if (
    column.unique &&
    !found.indexes.some(({ unique, partial, fields }) => unique && !partial && sameFields(fields, [field]))
  ) {
    texts.push(`${field} is not unique there`);
  }
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
        ? `${field} leads to ${other.targetFields.join(', ')} of ${tableOf(target)} there, not to its key ${key}`
        : `${field} has no foreign key to ${tableOf(target)} there`,
    ];
  }
  const declared = column.onDelete ?? 'restrict';
  return foreignKey.onDelete === declared
    ? []
    : [
        `the foreign key of ${field} is on delete ${foreignKey.onDelete} there, and ${declared} in the registry`,
      ];
}

/** Columns that the registry does not know and that every INSERT would have to fill. */
function strangers(definition: ModelDefinition, found: CatalogTable): string[] {
  const known = new Set(Object.entries(definition.columns).map(([name, column]) => fieldOf(name, column)));
  known.add(keyFieldOf(definition));
  return found.columns
    .filter(
      ({ field, nullable, hasDefault, generated }) =>
        !known.has(field) && !nullable && !hasDefault && !generated,
    )
    .map(
      ({ field }) => `its column ${field} is NOT NULL without a default, and the registry does not have it`,
    );
}
