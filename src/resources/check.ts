import { KEY_TYPES } from '../db/column-types.ts';
import { buildModels } from '../db/build-models.ts';
import { fieldOf, keyFieldOf, tableOf, typeOf } from '../db/definition.ts';
import {
  checkColumn,
  checkNames,
  checkValues,
  isForeignKey,
  isObject,
  isTooLong,
  TOO_LONG,
  type Report,
} from './check-column.ts';
import { checkAdminNames, checkAdminShape } from './check-admin.ts';
import { OWN_PREFIX } from './own.ts';
import { checkOrderings, neededUserModel, serveResources } from './served.ts';
import { areMethods, hasKey, hasTable, soundPart, withoutDoubt, type SoundPart } from './sound.ts';
import type { Settings } from '../config.ts';
import type { FieldErrors } from '../errors.ts';
import { checkOrderingLength, parseOrdering } from '../query/grammar.ts';
import { METHODS } from './resource.ts';

const RESOURCE_KEYS = new Set([
  'model', 'table', 'primaryKey', 'columns', 'access', 'read', 'exclude', 'readonly', 'owner', 'limit', 'maxLimit',
  'methods', 'ordering', 'admin', 'history',
]); // prettier-ignore
const LEVELS = ['default', 'user', 'admin'];
const RESERVED = new Set(['id', 'ordering', 'limit', 'page']);

const NO_OWNER = 'must name a foreign key';

/** What people log in with. */
const USER_COLUMNS: Readonly<Record<string, { types: readonly string[]; isUnique?: true; text: string }>> = {
  username: {
    types: ['string', 'text'],
    isUnique: true,
    text: 'must be a string or text with unique: true',
  },
  password: { types: ['password'], text: "must be of type 'password'" },
  active: { types: ['boolean'], text: "must be of type 'boolean'" },
  admin: { types: ['boolean'], text: "must be of type 'boolean'" },
};

type Settled = Pick<Settings, 'access' | 'userModel'>;

/**
 * Checks a registry that may be anything, since it may be written without types.
 * @returns every fault with its resource and key, in the registry's order; none means that it is a `Resource[]`
 */
export function checkRegistry(registry: unknown, settings: Settled): string[] {
  if (!Array.isArray(registry)) return ['the registry: its default export must be an array of resources'];
  if (registry.length === 0) return ['the registry: it has no resources'];
  const faults: string[] = [];
  const parts: SoundPart[] = [];
  const names = new Set<string | undefined>();
  // A copy has undefined where the array has a hole.
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
    if (isObject(entry)) parts.push(soundPart(entry, name, faulty));
  });
  // How names fit each other is told of faulty resources, too, as far as their other keys allow.
  const firstOf = (name: string): SoundPart | undefined =>
    parts.find(({ resource }) => resource.model === name);
  const byModel = new Map([...parts].reverse().map((part) => [part.resource.model, part]));
  const resources = parts.map((part, index) => {
    const resource = withoutDoubt(part, byModel);
    // Of two with one name others mean the first, and the second has its own columns all the same.
    return part === firstOf(resource.model)
      ? resource
      : { ...resource, model: `${resource.model}\0${index}` };
  });
  const models = buildModels(resources);
  const orderings = checkOrderings(serveResources(resources, models, settings));
  const admin = checkAdminNames(resources, models);
  const told = [...orderings, ...admin].map((fault) => fault.replace(/\0\d+/g, ''));
  return [...faults, ...checkTogether(parts, settings), ...told];
}

const modelOf = (entry: unknown): string | undefined =>
  isObject(entry) && typeof entry['model'] === 'string' ? entry['model'] : undefined;

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
    report('owner', NO_OWNER);
  checkAdminShape(admin, names, report);
  for (const key of ['access', 'read']) {
    const level = entry[key];
    if (level !== undefined && !LEVELS.includes(level as string))
      report(key, `must be one of ${LEVELS.join(', ')}`);
  }
  for (const key of ['limit', 'maxLimit']) {
    if (entry[key] !== undefined && !isLimit(entry[key]))
      report(key, 'must be a whole number from 1 to 100000');
  }
  const { limit = 1, maxLimit = 1000 } = entry;
  if (isLimit(limit) && isLimit(maxLimit) && limit > maxLimit) report('limit', 'must not be above maxLimit');
  if (methods !== undefined && !areMethods(methods))
    report('methods', `must be an array with some of ${METHODS.join(', ')}`);
  else if (methods !== undefined && new Set(methods).size < methods.length)
    report('methods', 'names one twice');
  if (ordering !== undefined && (typeof ordering !== 'string' || ordering === ''))
    report('ordering', 'must be a text such as -pub_date,id');
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
  } else if (model.startsWith(OWN_PREFIX)) {
    report('model', `names that begin with ${OWN_PREFIX} are the service's own`);
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
  } else if (typeof table === 'string' && table.split('.').at(-1)?.startsWith(OWN_PREFIX)) {
    report('table', `tables whose names begin with ${OWN_PREFIX} are the service's own`);
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
  if (!isObject(column) || !isForeignKey(column)) return;
  if (RESERVED.has(`${name}_id`) || Object.hasOwn(columns, `${name}_id`))
    report(key, `its name in JSON, ${name}_id, is another column's`);
}

/** What only shows when all resources are looked at: names that refer to one another. */
function checkTogether(parts: readonly SoundPart[], settings: Settled): string[] {
  const faults: string[] = [];
  const resources = parts.map(({ resource }) => resource);
  const keys = new Map(parts.map((part) => [part.resource.model, hasKey(part)]));
  const tables = new Set<string>();
  for (const part of parts) {
    const { resource, isFaulty } = part;
    const { model, columns, ordering } = resource;
    const report: Report = (key, text) => faults.push(`${model}: ${key}: ${text}`);
    if (hasTable(part)) {
      if (tables.has(tableOf(resource))) report('table', 'another resource has this table');
      tables.add(tableOf(resource));
    }
    const errors: FieldErrors = {};
    checkOrderingLength(ordering === undefined ? undefined : parseOrdering(ordering), errors);
    for (const text of errors['ordering'] ?? []) report('ordering', text);
    checkFields(part, report);
    for (const [name, column] of Object.entries(columns)) {
      if (column.type !== 'foreignKey') continue;
      const isKeyKnown = keys.get(column.references);
      if (isKeyKnown === undefined && !isFaulty(`columns.${name}.references`))
        report(`columns.${name}.references`, `there is no model ${JSON.stringify(column.references)}`);
      checkValues({ ...column }, isKeyKnown ? typeOf(column, resources) : undefined, (key, text) =>
        report(`columns.${name}.${key}`, text),
      );
    }
    checkOwner(part, settings.userModel, keys, report);
  }
  const needed = neededUserModel(resources, settings);
  if (needed) checkUserModel(parts, needed, settings.userModel, faults);
  return faults;
}

/** What every table has. */
const SYSTEM_FIELDS = ['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid'];

/** Reports columns that are the same one in the database. What refers to no model has the name that it has. */
function checkFields({ resource, isFaulty, untyped }: SoundPart, report: Report): void {
  const fields = new Map(SYSTEM_FIELDS.map((field) => [field, 'PostgreSQL itself']));
  if (!isFaulty('primaryKey') && !isFaulty('primaryKey.column')) {
    const field = keyFieldOf(resource);
    if (fields.has(field))
      report('primaryKey.column', `a column ${field} of PostgreSQL itself is in every table`);
    fields.set(field, 'the primary key');
  }
  for (const [name, column] of Object.entries(resource.columns)) {
    const isUnnamed = isFaulty(`columns.${name}`) && !untyped.has(name) && column.column === undefined;
    if (isUnnamed || isFaulty(`columns.${name}.column`)) continue;
    const field = fieldOf(name, column);
    const other = fields.get(field);
    if (other) report(`columns.${name}`, `its column ${field} in the database is also that of ${other}`);
    fields.set(field, name);
  }
}

function checkOwner(
  { resource, isFaulty }: SoundPart,
  userModel: string,
  models: ReadonlyMap<string, unknown>,
  report: Report,
): void {
  const { owner, columns } = resource;
  if (owner === undefined || isFaulty('owner')) return;
  const column = columns[owner];
  if (!column) return;
  if (column.type === 'foreignKey') {
    if (column.references !== userModel && models.has(column.references))
      report('owner', `must be a foreign key to the user model, ${userModel}`);
  } else if (!isFaulty(`columns.${owner}`)) report('owner', NO_OWNER);
}

function checkUserModel(
  parts: readonly SoundPart[],
  needed: string,
  userModel: string,
  faults: string[],
): void {
  const users = parts.find(({ resource }) => resource.model === userModel);
  if (!users) {
    faults.push(`the registry: there is no user model "${userModel}" (USER_MODEL), and ${needed}`);
    return;
  }
  if (users.isFaulty('columns')) return;
  for (const [name, { types, isUnique, text }] of Object.entries(USER_COLUMNS)) {
    const column = users.resource.columns[name];
    const isTyped = users.untyped.has(name) || types.includes(column?.type ?? '');
    const fits =
      isTyped && (!isUnique || column?.unique === true || users.isFaulty(`columns.${name}.unique`));
    if (!column) faults.push(`${userModel}: columns.${name}: the user model must have it`);
    else if (!fits) faults.push(`${userModel}: columns.${name}: ${text}`);
  }
}
