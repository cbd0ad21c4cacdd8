// Checks a registry before the start: all faults of all resources at once.
import { ACCESS_LEVELS } from '../../config.ts';
import { checkKeys, isBoolean, isIn, isObject, unknownKeys, type Loose } from '../definition/check-keys.ts';
import { buildModels } from '../../db/schema/build-models.ts';
import { RESERVED_NAMES } from '../../db/schema/model-definition.ts';
import { KEY_TYPE_NAMES } from '../../db/types/column-types.ts';
import { faultIf, type Fault, type KeyFault } from '../../errors.ts';
import { checkAdminNames, checkAdminShape } from './check-admin.ts';
import { checkColumn, checkNames, isText, isTooLong, NOT_TEXT, TOO_LONG } from './check-column.ts';
import { checkCompositeKey, checkForeignKeysShape } from './check-composite-keys.ts';
import {
  checkAcrossResources,
  otherUserModel,
  OWNER_FAULT,
  type AccessSettings,
} from './check-across-resources.ts';
import { SYSTEM_PREFIX } from '../definition/system-tables.ts';
import { METHODS } from '../definition/resource.ts';
import { checkOrderings, serveResources } from '../serve/served-resource.ts';
import { areMethods, partialResource, withoutUncertain } from './partial-resource.ts';

const RESOURCE_KEYS = [
  'model', 'table', 'primaryKey', 'columns', 'foreignKeys', 'access', 'read', 'costly', 'exclude', 'readonly', 'owner', 'limit', 'maxLimit',
  'maxCount', 'countLevel', 'cache', 'databaseErrors', 'constraints', 'methods', 'ordering', 'admin', 'history', 'version',
]; // prettier-ignore
const SYSTEM_NAME = `names that start with ${SYSTEM_PREFIX} are reserved for system tables`;

/**
 * Checks a registry, which may be anything, since a registry file need not use types.
 * @returns all faults, those inside of a resource first, in the registry's order; none for a valid `Resource[]`
 */
export function checkRegistry(registry: unknown, settings: AccessSettings): Fault[] {
  const unusable = (text: string): Fault[] => [{ model: 'the registry', key: '', text }];
  if (!Array.isArray(registry)) return unusable('its default export must be an array of resources');
  if (registry.length === 0) return unusable('it has no resources');
  const names = Array.from(
    registry as unknown[],
    (entry, index) => modelOf(entry) ?? `resource ${index + 1}`,
  );
  const checked = Array.from(registry as unknown[], (entry, index) => {
    const model = names[index] ?? '';
    const faults = [
      ...(isObject(entry) ? checkResource(entry) : [{ key: '', text: 'must be an object' }]),
      ...faultIf(
        names.indexOf(model) < index,
        'model',
        `another resource has this model${model === settings.userModel ? `. ${otherUserModel(model)}` : ''}`,
      ),
    ];
    return { entry, model, faults };
  });
  // Names are also checked in resources with other faults, as far as these allow it.
  const parts = checked.flatMap(({ entry, model, faults }) =>
    isObject(entry) ? [partialResource(entry, model, new Set(faults.map(({ key }) => key)))] : [],
  );
  const byModel = new Map(parts.toReversed().map((part) => [part.resource.model, part]));
  // References resolve to the first of two models with the same name. The second is checked under a unique name.
  const nameOf = new Map<string, string>();
  const resources = parts.map((part, index) => {
    const { model } = part.resource;
    const unique = byModel.get(model) === part ? model : `${model}\0${index}`;
    nameOf.set(unique, model);
    return { ...withoutUncertain(part, byModel), model: unique };
  });
  const models = buildModels(resources);
  const nameFaults = [
    ...checkOrderings(serveResources(resources, models, settings)),
    ...checkAdminNames(resources, models),
  ];
  const together = checkAcrossResources(parts, settings);
  const own = checked.flatMap(({ model, faults }) => faults.map((fault) => ({ model, ...fault })));
  return [
    ...own.filter((fault) => !together.some((other) => followsFrom(fault, other))),
    ...together,
    ...nameFaults.map((fault) => ({ ...fault, model: nameOf.get(fault.model) ?? fault.model })),
  ];
}

/** Whether a fault may be only a consequence of another fault: the wrong type of the same column. */
const followsFrom = (fault: Fault, { model, key }: Fault): boolean =>
  fault.model === model && key.endsWith('.type') && fault.key.startsWith(key.slice(0, -'type'.length));

/** The name of a resource's model, if it is printable in a message. */
const modelOf = (entry: unknown): string | undefined =>
  isObject(entry) && typeof entry['model'] === 'string' && /^[^\p{C}]+$/u.test(entry['model'])
    ? entry['model']
    : undefined;

const isWholeTo =
  (max: number) =>
  (value: unknown): value is number =>
    Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max;
const isLimit = isWholeTo(100_000);

function checkResource(entry: Loose): KeyFault[] {
  const { columns, foreignKeys, exclude, readonly, owner, admin, limit = 1, maxLimit = 1000 } = entry;
  const names = isObject(columns) ? Object.keys(columns) : undefined;
  const isOwner = typeof owner === 'string' && names?.includes(owner) !== false;
  return [
    ...unknownKeys(entry, RESOURCE_KEYS),
    ...checkModelNames(entry),
    ...checkPrimaryKey(entry),
    ...checkForeignKeysShape(foreignKeys, isObject(columns) ? columns : undefined, nameFault),
    ...(isObject(columns)
      ? checkColumns(columns)
      : [{ key: 'columns', text: 'must be an object of columns' }]),
    ...checkNames(exclude, names, 'exclude'),
    ...checkNames(readonly, names, 'readonly'),
    ...faultIf(owner !== undefined && !isOwner, 'owner', OWNER_FAULT),
    ...checkVersion(entry['version'], isObject(columns) ? columns : undefined),
    ...checkAdminShape(admin, names, isObject(foreignKeys) ? Object.keys(foreignKeys) : []),
    ...checkKeys(
      entry,
      ['access', 'read', 'costly', 'countLevel'],
      isIn(ACCESS_LEVELS),
      `must be one of ${ACCESS_LEVELS.join(', ')}`,
    ),
    ...checkKeys(entry, ['limit', 'maxLimit'], isLimit, 'must be a whole number from 1 to 100000'),
    ...checkKeys(
      entry,
      ['maxCount'],
      isWholeTo(1_000_000_000),
      'must be a whole number from 1 to 1000000000',
    ),
    ...checkKeys(
      entry,
      ['cache'],
      isWholeTo(31_536_000),
      'must be a whole number of seconds from 1 to 31536000',
    ),
    ...faultIf(
      entry['cache'] !== undefined && ['user', 'admin'].includes(String(entry['read'])),
      'cache',
      'has no effect, because caches may keep only what anyone may read: remove it',
    ),
    ...faultIf(
      entry['countLevel'] !== undefined && entry['maxCount'] === undefined,
      'countLevel',
      'has no effect without maxCount',
    ),
    ...faultIf(
      isLimit(limit) && isLimit(maxLimit) && limit > maxLimit,
      'limit',
      'must not be greater than maxLimit',
    ),
    ...checkKeys(entry, ['databaseErrors'], isIn(['hidden', 'shown']), 'must be hidden or shown'),
    ...checkKeys(
      entry,
      ['constraints'],
      (value) =>
        isObject(value) && Object.values(value).every((text) => typeof text === 'string' && text !== ''),
      'must be an object of constraint names and non-empty texts',
    ),
    ...checkMethods(entry['methods']),
    ...checkKeys(
      entry,
      ['ordering'],
      (text) => typeof text === 'string' && text !== '',
      'must be a string such as -pub_date,id',
    ),
    ...checkKeys(entry, ['history'], isBoolean, 'must be true or false'),
  ];
}

/** The types of columns that can hold the version of a row. */
const VERSION_TYPES = ['integer', 'bigint', 'uuid', 'datetime', 'string'];

/** @param columns undefined if they are another fault */
function checkVersion(version: unknown, columns: Loose | undefined): KeyFault[] {
  if (version === undefined) return [];
  const fault = (text: string): KeyFault[] => [{ key: 'version', text }];
  if (typeof version !== 'string' || (columns && !Object.hasOwn(columns, version)))
    return fault('must name a column');
  const column = columns?.[version];
  // Faults of the column itself are reported there.
  if (!isObject(column) || typeof column['type'] !== 'string') return [];
  const { type } = column;
  if (!VERSION_TYPES.includes(type))
    return fault(`must name a column of type ${VERSION_TYPES.join(', ')} (got ${type})`);
  return column['null'] === true ? fault('must name a column without null: true') : [];
}

function checkMethods(methods: unknown): KeyFault[] {
  if (methods === undefined) return [];
  if (!areMethods(methods))
    return [{ key: 'methods', text: `must be a non-empty array of methods (${METHODS.join(', ')})` }];
  return faultIf(new Set(methods).size < methods.length, 'methods', 'must not name a method twice');
}

const checkColumns = (columns: Loose): KeyFault[] =>
  Object.entries(columns).flatMap(([name, column]) => [
    ...checkColumn(column).map(({ key, text }) => ({ key: `columns.${name}${key && `.${key}`}`, text })),
    ...checkColumnName(name, columns),
  ]);

function checkModelNames({ model, table }: Loose): KeyFault[] {
  const isModel = typeof model === 'string' && /^[a-z][a-z0-9_]*$/.test(model) && !model.includes('__');
  const isTable = typeof table === 'string' && isText(table) && /^[^.]+(\.[^.]+)?$/.test(table);
  const isTooLongName = (name: unknown): boolean =>
    typeof name === 'string' && name.split('.').some(isTooLong);
  const isSystemTable = isTable && table.split('.').at(-1)?.startsWith(SYSTEM_PREFIX) === true;
  return [
    ...faultIf(!isModel, 'model', 'must be a lower-case name of letters, digits and single underscores'),
    ...faultIf(isModel && model.startsWith(SYSTEM_PREFIX), 'model', SYSTEM_NAME),
    ...faultIf(isTooLongName(model), 'model', TOO_LONG),
    ...faultIf(isTooLongName(table), 'table', TOO_LONG),
    ...faultIf(table !== undefined && !isTable, 'table', 'must be the name of a table, or schema.table'),
    ...faultIf(isSystemTable, 'table', SYSTEM_NAME),
  ];
}

function checkPrimaryKey({ primaryKey, columns, exclude, admin }: Loose): KeyFault[] {
  if (primaryKey === undefined) return [];
  if (!isObject(primaryKey))
    return [{ key: 'primaryKey', text: 'must be an object such as { type: "bigint", column: "user_id" }' }];
  if ('columns' in primaryKey) {
    const excluded = [exclude, isObject(admin) ? admin['exclude'] : []].filter(Array.isArray).flat();
    return checkCompositeKey(primaryKey, isObject(columns) ? columns : undefined, excluded);
  }
  const { column } = primaryKey;
  return [
    ...unknownKeys(primaryKey, ['type', 'column'], 'primaryKey.'),
    ...faultIf(
      !isIn(KEY_TYPE_NAMES)(primaryKey['type']),
      'primaryKey.type',
      `must be one of ${KEY_TYPE_NAMES.join(', ')}`,
    ),
    ...checkKeys(primaryKey, ['column'], isText, NOT_TEXT, 'primaryKey.'),
    ...faultIf(isTooLong(column), 'primaryKey.column', TOO_LONG),
  ];
}

const isReserved = isIn(RESERVED_NAMES);

/** What is wrong with the name of a column, if anything. */
function nameFault(name: string): string | undefined {
  if (isReserved(name)) return 'this name is reserved';
  if (name.includes('__')) return 'a name must not contain __, which separates the parts of a filter';
  if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || name.endsWith('_'))
    return 'a name must have only letters, digits and underscores, start with a letter and not end with an underscore';
  return name.length > 60 ? `a name must have at most 60 characters (got ${name.length})` : undefined;
}

function checkColumnName(name: string, columns: Loose): KeyFault[] {
  const key = `columns.${name}`;
  const text = nameFault(name);
  const column = columns[name];
  const isForeignKey = isObject(column) && column['type'] === 'foreignKey';
  const isTaken = isReserved(`${name}_id`) || Object.hasOwn(columns, `${name}_id`);
  return [
    ...(text === undefined ? [] : [{ key, text }]),
    ...faultIf(isForeignKey && isTaken, key, `its name in JSON, ${name}_id, is the name of another column`),
  ];
}
