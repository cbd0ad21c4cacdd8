// Builds the models from the registry's definitions and what the catalog says about existing tables.
import type { ColumnType, Facts } from '../types/column-type.ts';
import { COLUMN_TYPES, KEY_TYPES } from '../types/column-types.ts';
import { lengthOf, type Catalog, type CatalogColumn, type CatalogTable } from './catalog.ts';
import {
  fieldOf,
  isFilled,
  isNullable,
  jsonKeyOf,
  keyFieldOf,
  keyTypeOf,
  tableOf,
  typeOf,
  type ColumnDefinition,
  type ModelDefinition,
} from './model-definition.ts';
import { humanize, type Column, type Model } from './model.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The facts of an existing column, from the catalog. */
function storedFacts(stored: CatalogColumn): Facts {
  const { type, modifier, castType, labels, isDomain } = stored;
  const numeric = type === 'numeric' && modifier > 4;
  // The type modifier of numeric(p,s) is p * 65536 + s + 4. Since PostgreSQL 15 the scale is a signed 11-bit number.
  const scale = (((modifier - 4) & 0x7ff) ^ 1024) - 1024;
  return {
    castType,
    labels: labels ?? undefined,
    isEnumDomain: type === 'enum' && isDomain,
    isNondeterministic: !stored.isDeterministic,
    maxLength: lengthOf(stored),
    precision: numeric ? ((modifier - 4) >> 16) & 0xffff : undefined,
    scale: numeric ? scale : undefined,
    fractional: ['timestamp', 'timestamptz', 'time'].includes(type) && modifier !== 0,
  };
}

/** The facts of a column that does not exist yet, as Vitrine would create it. */
function declaredFacts(column: ColumnDefinition, type: ColumnType): Facts {
  return {
    castType: type.castType,
    maxLength: column.type === 'string' ? (column.maxLength ?? 255) : undefined,
    precision: column.type === 'decimal' ? column.precision : undefined,
    scale:
      column.type === 'decimal'
        ? (column.scale ?? (column.precision === undefined ? undefined : 0))
        : undefined,
  };
}

const smaller = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);

function buildColumn(
  name: string,
  definition: ColumnDefinition,
  type: ColumnType,
  stored: CatalogColumn | undefined,
): Mutable<Column> {
  const facts = stored ? storedFacts(stored) : declaredFacts(definition, type);
  const bounds = definition as { maxLength?: number; minLength?: number; min?: number; max?: number };
  return {
    ...facts,
    maxLength: smaller(facts.maxLength, bounds.maxLength),
    minLength: bounds.minLength,
    min: bounds.min,
    max: bounds.max,
    name,
    key: jsonKeyOf(name, definition),
    field: fieldOf(name, definition),
    title: definition.label ?? humanize(name),
    help: definition.help,
    type,
    isPassword: type === COLUMN_TYPES.password,
    nullable: isNullable(definition),
    hasDefault: definition.default !== undefined || (stored?.hasDefault ?? false),
    initial: isFilled(definition) ? undefined : definition.default,
    indexed: false,
    generated: stored?.generated ?? false,
    choices: definition.choices,
    references: undefined,
    onDelete: definition.type === 'foreignKey' ? (definition.onDelete ?? 'restrict') : 'restrict',
  };
}

function buildKey(definition: ModelDefinition, found: CatalogTable | undefined): Column {
  const type = KEY_TYPES[keyTypeOf(definition)];
  const field = keyFieldOf(definition);
  const stored = found?.columns.find((column) => column.field === field);
  return {
    ...(stored ? storedFacts(stored) : { castType: type.castType }),
    name: 'id',
    key: 'id',
    field,
    title: 'Id',
    help: undefined,
    type,
    isPassword: false,
    nullable: false,
    hasDefault: stored ? stored.hasDefault : keyTypeOf(definition) !== 'string',
    initial: undefined,
    indexed: true,
    generated: stored?.generated ?? false,
    choices: undefined,
    references: undefined,
    onDelete: 'restrict',
  };
}

function uniquesOf(
  found: CatalogTable | undefined,
  columns: readonly Column[],
): Pick<Model, 'uniques' | 'wholeUniques'> {
  const uniques = (found?.indexes ?? [])
    .filter(({ unique }) => unique)
    .map((index) => ({ ...index, columns: columns.filter(({ field }) => index.fields.includes(field)) }));
  return {
    uniques: new Map(uniques.map((index) => [index.name, index.columns])),
    wholeUniques: uniques
      .filter(
        ({ partial, fields, columns: { length } }) => !partial && length > 0 && length === fields.length,
      )
      .map((index) => index.columns),
  };
}

/** Builds the models by name, with foreign keys resolved. For existing columns the catalog overrides the declared type. */
export function buildModels(
  definitions: readonly ModelDefinition[],
  catalog: Catalog = new Map(),
): ReadonlyMap<string, Model> {
  const models = new Map<string, Omit<Model, 'columns'> & { columns: Mutable<Column>[] }>();
  for (const definition of definitions) {
    const found = catalog.get(tableOf(definition));
    const primaryKey = buildKey(definition, found);
    const columns = Object.entries(definition.columns).map(([name, column]) => {
      const field = fieldOf(name, column);
      const stored = found?.columns.find((candidate) => candidate.field === field);
      const indexed = found?.indexes.some(({ partial, fields }) => !partial && fields[0] === field) ?? false;
      return { ...buildColumn(name, column, typeOf(column, definitions), stored), indexed };
    });
    const uniques = uniquesOf(found, [primaryKey, ...columns]);
    models.set(definition.model, {
      name: definition.model,
      table: tableOf(definition),
      schema: found?.schema,
      primaryKey,
      columns,
      ...uniques,
    });
  }
  for (const definition of definitions) {
    for (const column of models.get(definition.model)?.columns ?? []) {
      const declared = definition.columns[column.name];
      if (declared?.type === 'foreignKey') column.references = models.get(declared.references);
    }
  }
  return models;
}
