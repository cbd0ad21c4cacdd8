import { KEY_TYPES } from '../db/column-types.ts';
import { buildModels } from '../db/build-models.ts';
import { fieldOf, tableOf, typeOf, type ColumnDefinition } from '../db/definition.ts';
import { checkColumn, checkValues, isObject, isTooLong, TOO_LONG } from './check-column.ts';
import { checkOrderings, neededUserModel, serveResources } from './served.ts';
import type { Settings } from '../config.ts';
import type { Resource } from './resource.ts';

const RESOURCE_KEYS = new Set([
  'model', 'table', 'primaryKey', 'columns', 'access', 'read', 'exclude', 'readonly', 'owner', 'limit', 'maxLimit',
  'methods', 'ordering', 'admin',
]); // prettier-ignore
const ADMIN_KEYS = new Set(['label', 'list', 'search', 'filters', 'readonly', 'hidden']);
const LEVELS = ['default', 'user', 'admin'];
const METHODS = ['GET', 'POST', 'PUT', 'DELETE'];
const RESERVED = new Set(['id', 'ordering', 'limit', 'page']);

type Settled = Pick<Settings, 'access' | 'userModel'>;
type Report = (key: string, text: string) => void;

/**
 * Checks a registry that may be anything, since it may be written without types.
 * @returns every fault with its resource and key, in the registry's order; none means that it is a `Resource[]`
 */
export function checkRegistry(registry: unknown, settings: Settled): string[] {
  if (!Array.isArray(registry)) return ['the registry: its default export must be an array of resources'];
  if (registry.length === 0) return ['the registry: it has no resources'];
  const faults: string[] = [];
  const shaped: Resource[] = [];
  const names = new Set<string | undefined>();
  registry.forEach((entry: unknown, index) => {
    const name = modelOf(entry) ?? `resource ${index + 1}`;
    const before = faults.length;
    const report: Report = (key, text) =>
      faults.push(key === '' ? `${name}: ${text}` : `${name}: ${key}: ${text}`);
    if (!isObject(entry)) report('', 'must be an object');
    else checkResource(entry, report);
    if (names.has(name)) report('model', 'another resource has this model');
    names.add(name);
    if (faults.length === before) shaped.push(entry as Resource);
  });
  // How names fit each other can be told of the resources whose own shape is right.
  const orderings = checkOrderings(serveResources(shaped, buildModels(shaped), settings));
  return [...faults, ...checkTogether(shaped, names, settings), ...orderings];
}

const modelOf = (entry: unknown): string | undefined =>
  isObject(entry) && typeof entry['model'] === 'string' ? entry['model'] : undefined;

function checkNames(value: unknown, names: readonly string[], key: string, report: Report): void {
  if (value === undefined) return;
  if (!Array.isArray(value)) return report(key, 'must be an array of column names');
  for (const name of value as unknown[]) {
    if (typeof name !== 'string' || !names.includes(name))
      report(key, `there is no column ${JSON.stringify(name)}`);
  }
}

function checkResource(entry: Record<string, unknown>, report: Report): void {
  for (const key of Object.keys(entry)) if (!RESOURCE_KEYS.has(key)) report(key, 'there is no such key');
  checkModelNames(entry, report);
  const columns = entry['columns'];
  if (!isObject(columns)) return report('columns', 'must be an object of columns');
  const names = Object.keys(columns);
  for (const name of names)
    checkColumn(columns[name], (key, text) => report(`columns.${name}${key && `.${key}`}`, text));
  for (const name of names) checkColumnName(name, columns, report);
  for (const key of ['access', 'read']) {
    const level = entry[key];
    if (level !== undefined && !LEVELS.includes(level as string))
      report(key, `must be one of ${LEVELS.join(', ')}`);
  }
  checkNames(entry['exclude'], names, 'exclude', report);
  checkNames(entry['readonly'], names, 'readonly', report);
  const { owner, ordering, methods, admin } = entry;
  if (
    owner !== undefined &&
    !(typeof owner === 'string' && isObject(columns[owner]) && columns[owner]['type'] === 'foreignKey')
  ) {
    report('owner', 'must name a foreign key');
  }
  for (const key of ['limit', 'maxLimit']) {
    const limit = entry[key];
    if (
      limit !== undefined &&
      !(Number.isInteger(limit) && (limit as number) >= 1 && (limit as number) <= 100_000)
    ) {
      report(key, 'must be a whole number from 1 to 100000');
    }
  }
  const [least, most] = [entry['limit'] ?? 1, entry['maxLimit'] ?? 1000];
  if (typeof least === 'number' && typeof most === 'number' && least > most)
    report('limit', 'must not be above maxLimit');
  if (methods !== undefined) {
    const isList = Array.isArray(methods) && methods.length > 0;
    if (!isList || !methods.every((method) => METHODS.includes(method as string))) {
      report('methods', `must be an array with some of ${METHODS.join(', ')}`);
    }
  }
  if (ordering !== undefined && (typeof ordering !== 'string' || ordering === ''))
    report('ordering', 'must be a text such as -pub_date,id');
  checkAdmin(admin, names, report);
}

function checkModelNames(entry: Record<string, unknown>, report: Report): void {
  const { model, table, primaryKey } = entry;
  if (typeof model !== 'string' || !/^[a-z][a-z0-9_]*$/.test(model) || model.includes('__')) {
    report('model', 'must be a lower-case name of letters, digits and single underscores');
  }
  for (const [key, name] of [
    ['model', model],
    ['table', table],
  ] as const) {
    if (typeof name === 'string' && name.split('.').some(isTooLong)) {
      report(key, TOO_LONG);
    }
  }
  if (table !== undefined && (typeof table !== 'string' || !/^[^.\0]+(\.[^.\0]+)?$/.test(table))) {
    report('table', 'must be a table or schema.table');
  }
  if (primaryKey === undefined) return;
  if (!isObject(primaryKey))
    return report('primaryKey', 'must be an object such as { type: "bigint", column: "user_id" }');
  for (const key of Object.keys(primaryKey)) {
    if (key !== 'type' && key !== 'column') report(`primaryKey.${key}`, 'there is no such key');
  }
  if (!Object.hasOwn(KEY_TYPES, String(primaryKey['type']))) {
    report('primaryKey.type', `must be one of ${Object.keys(KEY_TYPES).join(', ')}`);
  }
  const column = primaryKey['column'];
  if (column !== undefined && (typeof column !== 'string' || column === ''))
    report('primaryKey.column', 'must be a name');
  if (isTooLong(column)) report('primaryKey.column', TOO_LONG);
}

function checkColumnName(name: string, columns: Record<string, unknown>, report: Report): void {
  const key = `columns.${name}`;
  if (RESERVED.has(name)) report(key, 'this name is taken by the service');
  else if (name.includes('__'))
    report(key, 'a name must not contain __, which separates the parts of a filter');
  else if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || name.endsWith('_')) {
    report(
      key,
      'a name is letters, digits and underscores; it starts with a letter and does not end with an underscore',
    );
  } else if (Buffer.byteLength(name) > 60) report(key, 'a name has at most 60 characters');
  const column = columns[name];
  if (!isObject(column) || column['type'] !== 'foreignKey') return;
  if (RESERVED.has(`${name}_id`) || Object.hasOwn(columns, `${name}_id`))
    report(key, `its name in JSON, ${name}_id, is another column's`);
}

function checkAdmin(admin: unknown, names: readonly string[], report: Report): void {
  if (admin === undefined) return;
  if (!isObject(admin)) return report('admin', 'must be an object');
  for (const key of Object.keys(admin))
    if (!ADMIN_KEYS.has(key)) report(`admin.${key}`, 'there is no such key');
  checkNames(admin['list'], ['id', ...names], 'admin.list', report);
  checkNames(admin['readonly'], names, 'admin.readonly', report);
  for (const key of ['search', 'filters']) checkPaths(admin[key], names, `admin.${key}`, report);
  if (admin['label'] !== undefined && typeof admin['label'] !== 'string')
    report('admin.label', 'must be a text');
  if (admin['hidden'] !== undefined && typeof admin['hidden'] !== 'boolean')
    report('admin.hidden', 'must be true or false');
}

/** Columns that may lie across foreign keys: here only where a path begins can be told. */
function checkPaths(value: unknown, names: readonly string[], key: string, report: Report): void {
  const heads = Array.isArray(value)
    ? (value as unknown[]).map((path) => (typeof path === 'string' ? path.split('__')[0] : path))
    : value;
  checkNames(heads, ['id', ...names], key, report);
}

/**
 * What only shows when all resources are looked at: names that refer to one another.
 * @param names the models of all resources, faulty ones included
 */
function checkTogether(
  resources: readonly Resource[],
  names: ReadonlySet<string | undefined>,
  settings: Settled,
): string[] {
  const faults: string[] = [];
  const tables = new Set<string>();
  for (const resource of resources) {
    const report: Report = (key, text) => faults.push(`${resource.model}: ${key}: ${text}`);
    if (tables.has(tableOf(resource))) report('table', 'another resource has this table');
    tables.add(tableOf(resource));
    const fields = new Map<string, string>([[resource.primaryKey?.column ?? 'id', 'the primary key']]);
    for (const [name, column] of Object.entries(resource.columns)) {
      const field = fieldOf(name, column);
      const other = fields.get(field);
      if (other) report(`columns.${name}`, `its column ${field} in the database is also that of ${other}`);
      fields.set(field, name);
      if (column.type !== 'foreignKey') continue;
      if (!names.has(column.references)) {
        report(`columns.${name}.references`, `there is no model ${JSON.stringify(column.references)}`);
      }
      checkValues({ ...column }, typeOf(column, resources), (key, text) =>
        report(`columns.${name}.${key}`, text),
      );
    }
    checkOwner(resource, settings.userModel, report);
  }
  const needed = neededUserModel(resources, settings);
  if (needed) checkUserModel(resources, names, needed, settings.userModel, faults);
  return faults;
}

function checkOwner(resource: Resource, userModel: string, report: Report): void {
  const owner = resource.owner === undefined ? undefined : resource.columns[resource.owner];
  if (owner?.type === 'foreignKey' && owner.references !== userModel) {
    report('owner', `must be a foreign key to the user model, ${userModel}`);
  }
}

function checkUserModel(
  resources: readonly Resource[],
  names: ReadonlySet<string | undefined>,
  needed: string,
  userModel: string,
  faults: string[],
): void {
  const users = resources.find(({ model }) => model === userModel);
  if (!users) {
    if (names.has(userModel)) return; // it is there, with other faults
    faults.push(`the registry: there is no user model "${userModel}", and ${needed}`);
    return;
  }
  const expected: Record<string, (column: ColumnDefinition) => string | undefined> = {
    username: ({ type, unique }) =>
      (type === 'string' || type === 'text') && unique === true
        ? undefined
        : 'must be a string with unique: true',
    password: ({ type }) => (type === 'password' ? undefined : "must be of type 'password'"),
    active: ({ type }) => (type === 'boolean' ? undefined : "must be of type 'boolean'"),
    admin: ({ type }) => (type === 'boolean' ? undefined : "must be of type 'boolean'"),
  };
  for (const [name, check] of Object.entries(expected)) {
    const column = users.columns[name];
    const text = column ? check(column) : 'the user model must have it';
    if (text) faults.push(`${userModel}: columns.${name}: ${text}`);
  }
}
