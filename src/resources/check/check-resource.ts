// Checks the meaning of one resource: names of columns, and keys that belong together.
import { isOpen } from '../access/access.ts';
import {
  fieldOf,
  isFilled,
  jsonKeyOf,
  keyFieldsOf,
  keyNamesOf,
  type ColumnDefinition,
} from '../../db/schema/model-definition.ts';
import { faultIf, type FieldErrors, type KeyFault } from '../../errors.ts';
import { checkOrderingLength } from '../../query/parse/grammar.ts';
import type { Resource } from '../definition/resource.ts';
import { checkColumn } from './check-column.ts';
import {
  checkCompositeForeignKeys,
  checkCompositeKey,
  checkKeyless,
  checkUniques,
  checkView,
} from './check-keys.ts';

/** The types of columns that can hold the version of a row. */
const VERSION_TYPES: readonly string[] = ['integer', 'bigint', 'uuid', 'datetime', 'string'];

/** PostgreSQL's system columns, which every table has. */
const SYSTEM_FIELDS = ['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid'];

export function checkResource(resource: Resource, resources: readonly Resource[]): KeyFault[] {
  const { columns, exclude, readonly, admin, limit = 1, maxLimit = 1000, methods = [] } = resource;
  const names = { exclude, readonly, 'admin.readonly': admin?.readonly, 'admin.exclude': admin?.exclude };
  return [
    ...checkCompositeKey(resource),
    ...checkKeyless(resource),
    ...checkView(resource),
    ...checkUniques(resource),
    ...checkCompositeForeignKeys(resource, resources),
    ...checkNamedColumns('columns', columns, resources),
    ...checkActions(resource, resources),
    ...checkFields(resource),
    ...checkFormerNames(resource),
    ...Object.entries(names).flatMap(([key, listed = []]) =>
      listed.flatMap((name) =>
        faultIf(!Object.hasOwn(columns, name), key, `there is no column ${JSON.stringify(name)}`),
      ),
    ),
    ...checkVersion(resource),
    ...checkOrdering(resource),
    ...checkInlines(resource, resources),
    ...faultIf(
      resource.cache !== undefined && !isOpen(resource.read ?? 'default'),
      'cache',
      'has no effect, because caches may keep only what anyone may read: remove it',
    ),
    ...faultIf(
      resource.countLevel !== undefined && resource.maxCount === undefined,
      'countLevel',
      'has no effect without maxCount',
    ),
    ...faultIf(limit > maxLimit, 'limit', 'must not be greater than maxLimit'),
    ...faultIf(new Set(methods).size < methods.length, 'methods', 'must not name a method twice'),
  ];
}

const checkNamedColumns = (
  path: string,
  columns: Resource['columns'],
  resources: readonly Resource[],
): KeyFault[] =>
  Object.entries(columns).flatMap(([name, column]) => checkNamedColumn(`${path}.${name}`, column, resources));

function checkNamedColumn(key: string, column: ColumnDefinition, resources: readonly Resource[]): KeyFault[] {
  if (column.type === 'foreignKey') {
    const { references } = column;
    const target = resources.find(({ model }) => model === references);
    if (!target)
      return [{ key: `${key}.references`, text: `there is no model ${JSON.stringify(references)}` }];
    if (target.primaryKey === false)
      return [{ key: `${key}.references`, text: `${references} has no primaryKey to refer to` }];
    if (keyNamesOf(target))
      return [{ key: `${key}.references`, text: `${references} has primaryKey.columns: use foreignKeys` }];
  }
  return checkColumn(column, resources).map((fault) => ({ ...fault, key: `${key}.${fault.key}` }));
}

const NO_EFFECT = 'has no effect in a form: remove it';
/** Keys of a column that mean nothing in a form. */
const OF_TABLES = ['column', 'formerly', 'index', 'unique', 'read', 'write', 'onDelete'] as const;

function checkActions({ admin = {}, primaryKey }: Resource, resources: readonly Resource[]): KeyFault[] {
  const { actions = [] } = admin;
  const faults = faultIf(
    actions.length > 0 && primaryKey === false,
    'admin.actions',
    'need records with a primaryKey',
  );
  return [
    ...faults,
    ...actions.flatMap(({ name, fields = {} }, index) => {
      const path = `admin.actions.${index}`;
      return [
        ...faultIf(
          actions.findIndex((one) => one.name === name) < index,
          `${path}.name`,
          'another action has this name',
        ),
        ...checkNamedColumns(`${path}.fields`, fields, resources),
        ...Object.entries(fields).flatMap(([field, column]) => [
          ...faultIf(column.type === 'password', `${path}.fields.${field}.type`, 'must not be password'),
          ...faultIf(isFilled(column), `${path}.fields.${field}.default`, NO_EFFECT),
          ...OF_TABLES.flatMap((key) => faultIf(key in column, `${path}.fields.${field}.${key}`, NO_EFFECT)),
        ]),
      ];
    }),
  ];
}

/** The faults of columns that share one name in JSON, or one column of the database. */
function checkFields(resource: Resource): KeyFault[] {
  const users = new Map(SYSTEM_FIELDS.map((field) => [field, 'PostgreSQL itself']));
  const [keyField = ''] = keyNamesOf(resource) ? [] : keyFieldsOf(resource);
  const keyFaults = faultIf(
    users.has(keyField),
    'primaryKey.column',
    `${keyField} is a system column of PostgreSQL`,
  );
  users.set(keyField, 'the primary key');
  const columnFaults = Object.entries(resource.columns).flatMap(([name, column]) => {
    if (column.type === 'foreignKey' && Object.hasOwn(resource.columns, `${name}_id`))
      return [
        { key: `columns.${name}`, text: `its name in JSON, ${name}_id, is the name of another column` },
      ];
    const field = fieldOf(name, column);
    const other = users.get(field);
    users.set(field, name);
    return faultIf(
      other !== undefined,
      `columns.${name}`,
      `its database column ${field} is already used by ${other}`,
    );
  });
  return [...keyFaults, ...columnFaults];
}

/** The faults of names before that are names of columns now, or were those of several. */
function checkFormerNames({ columns, foreignKeys = {} }: Resource): KeyFault[] {
  const owners = new Map(Object.keys(foreignKeys).map((name) => [name, name]));
  for (const [name, column] of Object.entries(columns))
    owners.set(name, name).set(jsonKeyOf(name, column), name);
  return Object.entries(columns).flatMap(([name, column]) =>
    (column.formerly ?? []).flatMap((old) => {
      const names = [...new Set([old, jsonKeyOf(old, column)])];
      const owner = names.map((one) => owners.get(one)).find((one) => one !== undefined);
      for (const one of names) if (!owners.has(one)) owners.set(one, `${name}, which had it before`);
      return faultIf(
        owner !== undefined,
        `columns.${name}.formerly`,
        `${old} is the name of the column ${owner}`,
      );
    }),
  );
}

function checkVersion({ version, columns }: Resource): KeyFault[] {
  if (version === undefined) return [];
  const column = Object.hasOwn(columns, version) ? columns[version] : undefined;
  const fault = (text: string): KeyFault[] => [{ key: 'version', text: `must name a column${text}` }];
  if (!column) return fault('');
  if (!VERSION_TYPES.includes(column.type))
    return fault(` of type ${VERSION_TYPES.join(', ')} (got ${column.type})`);
  return column.null === true ? fault(' without null: true') : [];
}

/** The faults of child tables whose rows are on the form of a record. */
function checkInlines({ model, admin }: Resource, resources: readonly Resource[]): KeyFault[] {
  const inlines = admin?.inlines ?? [];
  return inlines.flatMap((inline, index) => {
    const key = `admin.inlines.${index}`;
    const child = resources.find((other) => other.model === inline.model);
    if (!child) return [{ key: `${key}.model`, text: `there is no model ${JSON.stringify(inline.model)}` }];
    const isRepeated = inlines.findIndex((other) => other.model === inline.model) < index;
    const foreignKeys = Object.entries(child.columns)
      .filter(([, column]) => column.type === 'foreignKey' && column.references === model)
      .map(([name]) => name);
    const { column = foreignKeys[0], columns = [] } = inline;
    return [
      ...faultIf(isRepeated, `${key}.model`, 'another inline has this model'),
      ...faultIf(child.admin?.hidden === true, `${key}.model`, `${child.model} is hidden in the admin area`),
      ...faultIf(
        inline.readonly !== true && child.primaryKey === false,
        `${key}.readonly`,
        `must be true, because ${child.model} has no primaryKey`,
      ),
      ...faultIf(
        column === undefined || !foreignKeys.includes(column),
        `${key}.column`,
        `must name a foreign key of ${child.model} to ${model}`,
      ),
      ...faultIf(
        inline.column === undefined && foreignKeys.length > 1,
        `${key}.column`,
        `${child.model} has several foreign keys to ${model}: name one of ${foreignKeys.join(', ')}`,
      ),
      ...columns.flatMap((name) =>
        faultIf(
          !Object.hasOwn(child.columns, name) || name === column,
          `${key}.columns`,
          `${child.model} has no column ${JSON.stringify(name)} for a row`,
        ),
      ),
    ];
  });
}

function checkOrdering({ ordering }: Resource): KeyFault[] {
  const errors: FieldErrors = {};
  checkOrderingLength(ordering?.split(',').length ?? 0, errors);
  return (errors['ordering'] ?? []).map((text) => ({ key: 'ordering', text }));
}
