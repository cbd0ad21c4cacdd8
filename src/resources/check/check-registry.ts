// Checks a registry before the start: all faults of all resources at once.
import { isObject } from '../definition/is-object.ts';
import { buildModels } from '../../db/schema/build-models.ts';
import { KEY_TYPES } from '../../db/types/column-types.ts';
import { checkAdminNames, checkAdminShape } from './check-admin.ts';
import {
  checkColumn,
  checkNames,
  isForeignKey,
  isText,
  isTooLong,
  TOO_LONG,
  type Report,
} from './check-column.ts';
import { checkTogether, OWNER_FAULT, type AccessSettings } from './check-together.ts';
import { SYSTEM_PREFIX } from '../definition/system-tables.ts';
import { METHODS } from '../definition/resource.ts';
import { checkOrderings, serveResources } from '../serve/served-resource.ts';
import { areMethods, partialResource, withoutUncertain, type PartialResource } from './partial-resource.ts';

const RESOURCE_KEYS = new Set([
  'model', 'table', 'primaryKey', 'columns', 'access', 'read', 'costly', 'exclude', 'readonly', 'owner', 'limit', 'maxLimit',
  'methods', 'ordering', 'admin', 'history',
]); // prettier-ignore
const LEVELS = ['default', 'user', 'admin'];
/** Names that mean something else in a query. */
const RESERVED = new Set(['id', 'ordering', 'limit', 'page']);

/**
 * Checks a registry, which may be anything, since a registry file need not use types.
 * @returns all faults with their resource and key, in the registry's order; none for a valid `Resource[]`
 */
export function checkRegistry(registry: unknown, settings: AccessSettings): string[] {
  if (!Array.isArray(registry)) return ['the registry: its default export must be an array of resources'];
  if (registry.length === 0) return ['the registry: it has no resources'];
  const faults: string[] = [];
  const parts: PartialResource[] = [];
  const names = new Set<string | undefined>();
  // The copy has undefined instead of holes, which `forEach` would skip.
  [...(registry as unknown[])].forEach((entry, index) => {
    const name = modelOf(entry) ?? `resource ${index + 1}`;
    const faulty = new Set<string>();
    const report: Report = (key, text) => {
      faulty.add(key);
      faults.push(key === '' ? `${name}: ${text}` : `${name}: ${key}: ${text}`);
    };
    if (!isObject(entry)) report('', 'must be an object');
    else checkResource(entry, report);
    if (names.has(name)) report('model', 'another resource has this model');
    names.add(name);
    if (isObject(entry)) parts.push(partialResource(entry, name, faulty));
  });
  // Names are also checked in resources with other faults, as far as these allow it.
  const firstOf = (name: string): PartialResource | undefined =>
    parts.find(({ resource }) => resource.model === name);
  const byModel = new Map([...parts].reverse().map((part) => [part.resource.model, part]));
  const resources = parts.map((part, index) => {
    const resource = withoutUncertain(part, byModel);
    // References resolve to the first of two models with the same name. The second is checked under a unique name.
    return part === firstOf(resource.model)
      ? resource
      : { ...resource, model: `${resource.model}\0${index}` };
  });
  const models = buildModels(resources);
  const orderings = checkOrderings(serveResources(resources, models, settings));
  const admin = checkAdminNames(resources, models);
  const nameFaults = [...orderings, ...admin].map((fault) => fault.replace(/\0\d+/g, ''));
  return [...faults, ...checkTogether(parts, settings), ...nameFaults];
}

/** The name of a resource's model, if it is printable in a message. */
const modelOf = (entry: unknown): string | undefined =>
  isObject(entry) && typeof entry['model'] === 'string' && /^[^\p{C}]+$/u.test(entry['model'])
    ? entry['model']
    : undefined;

const isLimit = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 100_000;

function checkResource(entry: Record<string, unknown>, report: Report): void {
  for (const key of Object.keys(entry)) if (!RESOURCE_KEYS.has(key)) report(key, 'there is no such key');
  checkModelNames(entry, report);
  const { columns, exclude, readonly, owner, admin, ordering, methods, history } = entry;
  if (isObject(columns)) checkColumns(columns, report);
  else report('columns', 'must be an object of columns');
  const names = isObject(columns) ? Object.keys(columns) : undefined;
  checkNames(exclude, names, 'exclude', report);
  checkNames(readonly, names, 'readonly', report);
  if (owner !== undefined && (typeof owner !== 'string' || names?.includes(owner) === false))
    report('owner', OWNER_FAULT);
  checkAdminShape(admin, names, report);
  for (const key of ['access', 'read', 'costly']) {
    const level = entry[key];
    if (level !== undefined && !LEVELS.includes(level as string))
      report(key, `must be one of ${LEVELS.join(', ')}`);
  }
  for (const key of ['limit', 'maxLimit']) {
    if (entry[key] !== undefined && !isLimit(entry[key]))
      report(key, 'must be a whole number from 1 to 100000');
  }
  const { limit = 1, maxLimit = 1000 } = entry;
  if (isLimit(limit) && isLimit(maxLimit) && limit > maxLimit)
    report('limit', 'must not be greater than maxLimit');
  if (methods !== undefined && !areMethods(methods))
    report('methods', `must be a non-empty array of methods (${METHODS.join(', ')})`);
  else if (methods !== undefined && new Set(methods).size < methods.length)
    report('methods', 'must not name a method twice');
  if (ordering !== undefined && (typeof ordering !== 'string' || ordering === ''))
    report('ordering', 'must be a string such as -pub_date,id');
  if (history !== undefined && typeof history !== 'boolean') report('history', 'must be true or false');
}

function checkColumns(columns: Record<string, unknown>, report: Report): void {
  for (const name of Object.keys(columns)) {
    checkColumn(columns[name], (key, text) => report(`columns.${name}${key && `.${key}`}`, text));
    checkColumnName(name, columns, report);
  }
}

function checkModelNames(entry: Record<string, unknown>, report: Report): void {
  const { model, table, primaryKey } = entry;
  if (typeof model !== 'string' || !/^[a-z][a-z0-9_]*$/.test(model) || model.includes('__')) {
    report('model', 'must be a lower-case name of letters, digits and single underscores');
  } else if (model.startsWith(SYSTEM_PREFIX)) {
    report('model', `names that start with ${SYSTEM_PREFIX} are reserved for system tables`);
  }
  for (const [key, name] of [
    ['model', model],
    ['table', table],
  ] as const) {
    if (typeof name === 'string' && name.split('.').some(isTooLong)) {
      report(key, TOO_LONG);
    }
  }
  if (
    table !== undefined &&
    !(typeof table === 'string' && isText(table) && /^[^.]+(\.[^.]+)?$/.test(table))
  ) {
    report('table', 'must be the name of a table, or schema.table');
  } else if (typeof table === 'string' && table.split('.').at(-1)?.startsWith(SYSTEM_PREFIX)) {
    report('table', `names that start with ${SYSTEM_PREFIX} are reserved for system tables`);
  }
  if (primaryKey === undefined) return;
  if (!isObject(primaryKey))
    return report('primaryKey', 'must be an object such as { type: "bigint", column: "user_id" }');
  for (const key of Object.keys(primaryKey)) {
    if (key !== 'type' && key !== 'column') report(`primaryKey.${key}`, 'there is no such key');
  }
  const { type } = primaryKey;
  if (typeof type !== 'string' || !Object.hasOwn(KEY_TYPES, type)) {
    report('primaryKey.type', `must be one of ${Object.keys(KEY_TYPES).join(', ')}`);
  }
  const column = primaryKey['column'];
  if (column !== undefined && !isText(column))
    report('primaryKey.column', 'must be a non-empty string without NUL characters');
  if (isTooLong(column)) report('primaryKey.column', TOO_LONG);
}

function checkColumnName(name: string, columns: Record<string, unknown>, report: Report): void {
  const key = `columns.${name}`;
  if (RESERVED.has(name)) report(key, 'this name is reserved');
  else if (name.includes('__'))
    report(key, 'a name must not contain __, which separates the parts of a filter');
  else if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || name.endsWith('_')) {
    report(
      key,
      'a name must have only letters, digits and underscores, start with a letter and not end with an underscore',
    );
  } else if (Buffer.byteLength(name) > 60)
    report(key, `a name must have at most 60 characters (got ${name.length})`);
  const column = columns[name];
  if (!isObject(column) || !isForeignKey(column)) return;
  if (RESERVED.has(`${name}_id`) || Object.hasOwn(columns, `${name}_id`))
    report(key, `its name in JSON, ${name}_id, is the name of another column`);
}
