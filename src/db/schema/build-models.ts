// Builds the models from the registry's definitions and what the catalog says about existing tables.
import type { ColumnType } from '../types/column-type.ts';
import { COLUMN_TYPES, KEY_TYPES } from '../types/column-types.ts';
import { areUnique, isInPrimaryKey, isKeyMade, sameFields } from './catalog-keys.ts';
import {
  isTable,
  type Catalog,
  type CatalogColumn,
  type CatalogForeignKey,
  type CatalogTable,
} from './catalog.ts';
import { factsOf, storedFacts } from './column-facts.ts';
import {
  choiceValues,
  fieldOf,
  firstOfTables,
  isFilled,
  isLabeled,
  isNullable,
  jsonKeyOf,
  keyFieldsOf,
  keyNamesOf,
  keyTypeOf,
  tableOf,
  typeOf,
  type ColumnDefinition,
  type CompositeForeignKey,
  type ModelDefinition,
} from './model-definition.ts';
import { compositeType } from './composite-key.ts';
import { unfilledFields } from './schema-differences.ts';
import { foreignKeysOf, humanize, partsOf, ruleKey, type Column, type Model } from './model.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function buildColumn(
  name: string,
  definition: ColumnDefinition,
  type: ColumnType,
  stored: CatalogColumn | undefined,
): Mutable<Column> {
  const { choices } = definition;
  return {
    ...factsOf(definition, type, stored),
    name,
    key: jsonKeyOf(name, definition),
    formerKeys: definition.formerly?.map((old) => jsonKeyOf(old, definition)),
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
    ...(stored?.mayHoldNulls ? { isUnchecked: true } : {}),
    choices: definition.type === 'array' ? undefined : choiceValues(choices, type),
    choiceLabels: isLabeled(choices) ? new Map(Object.entries(choices)) : undefined,
    tones: 'tones' in definition && definition.tones ? new Map(Object.entries(definition.tones)) : undefined,
    widget: 'widget' in definition ? definition.widget : undefined,
    references: undefined,
    onDelete: definition.type === 'foreignKey' ? (definition.onDelete ?? 'restrict') : 'restrict',
  };
}

/** The fields of a form that no table has. Foreign keys refer to these models. */
export const buildFields = (
  fields: Readonly<Record<string, ColumnDefinition>>,
  definitions: readonly ModelDefinition[],
  models: ReadonlyMap<string, Model>,
): readonly Column[] =>
  Object.entries(fields).map(([name, definition]) => ({
    ...buildColumn(name, definition, typeOf(definition, definitions), undefined),
    references: definition.type === 'foreignKey' ? models.get(definition.references) : undefined,
  }));

function buildKey(
  definition: ModelDefinition,
  found: CatalogTable | undefined,
  columns: readonly Column[],
): Column {
  const names = keyNamesOf(definition);
  const common = {
    name: 'id',
    key: 'id',
    title: 'Id',
    help: undefined,
    isPassword: false,
    nullable: false,
    initial: undefined,
    indexed: true,
    choices: undefined,
    references: undefined,
    onDelete: 'restrict',
  } as const;
  if (names) {
    const parts = namedColumns(names, columns);
    const isMade = ({ hasDefault, generated }: Column): boolean => hasDefault || generated;
    return {
      ...common,
      ...compositeFacts(parts),
      isPrimary: parts.every(({ isPrimary }) => isPrimary),
      hasDefault: parts.some(isMade),
      generated: false,
    };
  }
  const type = KEY_TYPES[keyTypeOf(definition)];
  const [field = ''] = keyFieldsOf(definition);
  const stored = found?.columns.find((column) => column.field === field);
  return {
    ...common,
    ...(stored ? storedFacts(stored) : { castType: type.castType }),
    field,
    type,
    isPrimary: !found || isInPrimaryKey(found, field),
    hasDefault: isKeyMade(definition, found),
    generated: stored?.generated ?? false,
  };
}

const namedColumns = (names: readonly string[], columns: readonly Column[]): Column[] =>
  names.flatMap((name) => columns.filter((column) => column.name === name));

/** What follows from the columns of a key or foreign key that has several. */
function compositeFacts(parts: readonly Column[]) {
  const type = compositeType(parts);
  return { parts, type, castType: type.castType, field: parts.map(({ field }) => field).join() };
}

/** The constraint of a foreign key. */
function constraintOf(
  fields: readonly string[],
  references: string,
  found: CatalogTable | undefined,
  definitions: readonly ModelDefinition[],
): CatalogForeignKey | undefined {
  const referenced = definitions.find(({ model }) => model === references);
  const table = referenced && tableOf(referenced);
  return found?.foreignKeys.find(
    (one) => one.target === table && sameFields(one.fields.toSorted(), fields.toSorted()),
  );
}

function buildForeignKey(
  name: string,
  { columns: names, references, onDelete }: CompositeForeignKey,
  columns: readonly Column[],
  found: CatalogTable | undefined,
  definitions: readonly ModelDefinition[],
): Mutable<Column> {
  const parts = namedColumns(names, columns);
  const fields = parts.map(({ field }) => field);
  const constraint = constraintOf(fields, references, found, definitions);
  return {
    ...compositeFacts(parts),
    name,
    key: name,
    title: humanize(name),
    help: undefined,
    isPassword: false,
    nullable: parts.some(({ nullable }) => nullable),
    hasDefault: false,
    initial: undefined,
    indexed: false,
    generated: false,
    choices: undefined,
    references: undefined,
    onDelete: onDelete ?? 'restrict',
    constraint: constraint?.name,
    isFull: constraint?.isFull,
  };
}

function uniquesOf(
  found: CatalogTable | undefined,
  columns: readonly Column[],
): Pick<Model, 'uniques' | 'wholeUniques' | 'lateUniques'> {
  const uniques = (found?.indexes ?? [])
    .filter(({ unique }) => unique)
    .map((index) => ({
      ...index,
      columns: columns.filter(({ field }) => [...index.fields, ...index.inExpressions].includes(field)),
    }));
  return {
    uniques: new Map(uniques.map((index) => [index.name, index.columns])),
    lateUniques: new Set(uniques.filter(({ deferred }) => deferred).map((index) => index.columns)),
    wholeUniques: uniques
      .filter(
        ({ partial, fields, columns: { length } }) => !partial && length > 0 && length === fields.length,
      )
      .map((index) => index.columns),
  };
}

/** How the service can read and write the rows of a model. */
function rowFacts(
  definition: ModelDefinition,
  found: CatalogTable | undefined,
  columns: readonly Column[],
  isFirst: boolean,
): Pick<
  Model,
  | 'isTable'
  | 'isFast'
  | 'mayHideRows'
  | 'unfilled'
  | 'isLockable'
  | 'isReadBack'
  | 'hasDeleteTriggers'
  | 'version'
> {
  const isStored = found ? isTable(found) : definition.view !== true;
  return {
    isTable: isStored && isFirst && keyNamesOf(definition)?.length !== 0,
    isFast: isStored ? !found?.hasPolicies : found?.kind === 'm' && areUnique(found, keyFieldsOf(definition)),
    mayHideRows: found !== undefined && (found.hasPolicies || !(isStored || found.kind === 'm')),
    unfilled: found ? unfilledFields(definition, found) : [],
    isLockable: found?.isLockable ?? true,
    isReadBack: found !== undefined && (found.isRewritten || !found.isLockable),
    hasDeleteTriggers: found?.hasDeleteTriggers ?? false,
    version:
      columns.find(({ name }) => name === definition.version) ??
      ((found?.hasXmin ?? true) ? 'xmin' : 'digest'),
  };
}

/** Builds the models by name, with foreign keys resolved. For existing columns the catalog overrides the declared type. */
export function buildModels(
  definitions: readonly ModelDefinition[],
  catalog: Catalog = new Map(),
): ReadonlyMap<string, Model> {
  type Building = { columns: Mutable<Column>[]; foreignKeys: Mutable<Column>[] };
  const models = new Map<string, Omit<Model, keyof Building> & Building>();
  const first = firstOfTables(definitions);
  for (const definition of definitions) {
    const found = catalog.get(tableOf(definition));
    const unchecked = found && !isTable(found) ? { isUnchecked: true } : {};
    const columns = Object.entries(definition.columns).map(([name, column]) => {
      const field = fieldOf(name, column);
      const stored = found?.columns.find((candidate) => candidate.field === field);
      const indexed = found?.indexes.some(({ partial, fields }) => !partial && fields[0] === field) ?? false;
      const isPrimary = found !== undefined && isInPrimaryKey(found, field);
      const built = buildColumn(name, column, typeOf(column, definitions), stored);
      const constraint =
        column.type === 'foreignKey'
          ? constraintOf([field], column.references, found, definitions)?.name
          : undefined;
      return { ...built, ...unchecked, indexed, isPrimary, constraint };
    });
    const primaryKey = { ...buildKey(definition, found, columns), ...unchecked };
    const foreignKeys = Object.entries(definition.foreignKeys ?? {}).map(([name, one]) =>
      buildForeignKey(name, one, columns, found, definitions),
    );
    const uniques = uniquesOf(found, primaryKey.parts ? columns : [primaryKey, ...columns]);
    models.set(definition.model, {
      name: definition.model,
      table: tableOf(definition),
      schema: found?.schema,
      primaryKey,
      columns,
      foreignKeys,
      ...rowFacts(definition, found, columns, first.get(tableOf(definition)) === definition),
      ...uniques,
      uniqueSets: (definition.unique ?? []).map((names) => namedColumns(names, columns)),
      rules: new Map(found?.rules.map(({ name, domain, fields }) => [ruleKey(name, domain), fields])),
    });
  }
  for (const definition of definitions) {
    for (const column of models.get(definition.model)?.columns ?? []) {
      const declared = definition.columns[column.name];
      if (declared?.type === 'foreignKey') column.references = models.get(declared.references);
    }
    for (const foreignKey of models.get(definition.model)?.foreignKeys ?? [])
      foreignKey.references = models.get(definition.foreignKeys?.[foreignKey.name]?.references ?? '');
  }
  for (const model of models.values()) foreignKeysOf(model).forEach(collateAsKeys);
  return models;
}

/** Lets a foreign key compare by the collation of the key, as PostgreSQL's own check does: it refuses two different ones. */
function collateAsKeys(foreignKey: Column): void {
  const keys = foreignKey.references ? partsOf(foreignKey.references.primaryKey) : [];
  partsOf(foreignKey).forEach((part: Mutable<Column>, index) => {
    const collation = keys[index]?.collation;
    if (collation !== undefined && part.collation !== undefined && part.collation !== collation)
      part.comparedBy = collation;
  });
}
