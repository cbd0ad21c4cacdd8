// Checks the `admin` options of the registry's resources.
import type { Column, Model } from '../../db/schema/model.ts';
import { findPath, isDate, parseLabel } from '../serve/admin-resource.ts';
import { checkNames, type Report } from './check-column.ts';
import { isObject } from '../definition/is-object.ts';
import type { Resource } from '../definition/resource.ts';
import { adminColumns } from '../serve/served-resource.ts';

const TEXTS = ['title', 'group', 'label', 'dates'];
const LISTS = ['list', 'search', 'filters', 'readonly', 'exclude'];
const ALLOWED = ['add', 'change', 'delete'];
const KEYS = new Set([...TEXTS, ...LISTS, 'allow', 'hidden']);

const isList = (value: unknown): value is unknown[] => Array.isArray(value);

/** The first column of a path: `user` of `user__name` and of `user_id__name`. A text without `__` stays as it is. */
export const firstColumnOf = (path: string): string => path.replace(/(_id)?__.*$/s, '');

/**
 * Reports faults of a resource's `admin` that need no other resource to be found.
 * @param names of its columns; undefined if they are unknown
 */
export function checkAdminShape(admin: unknown, names: readonly string[] | undefined, report: Report): void {
  if (admin === undefined) return;
  if (!isObject(admin)) return report('admin', 'must be an object');
  for (const key of Object.keys(admin)) if (!KEYS.has(key)) report(`admin.${key}`, 'there is no such key');
  for (const key of TEXTS) {
    const text = admin[key];
    if (text !== undefined && (typeof text !== 'string' || text === ''))
      report(`admin.${key}`, 'must be a non-empty string');
  }
  const withKey = names && ['id', ...names];
  checkNames(admin['list'], withKey, 'admin.list', report);
  for (const key of ['readonly', 'exclude']) checkNames(admin[key], names, `admin.${key}`, report);
  for (const key of ['search', 'filters']) {
    const paths = admin[key];
    // A path may cross foreign keys. Without the other resources only its first column can be checked.
    const firstColumns = isList(paths)
      ? paths.map((path) => (typeof path === 'string' ? firstColumnOf(path) : path))
      : paths;
    checkNames(firstColumns, withKey, `admin.${key}`, report);
  }
  const { allow, hidden } = admin;
  if (allow !== undefined && !(isList(allow) && allow.every((action) => ALLOWED.includes(action as string))))
    report('admin.allow', `must be an array of actions (${ALLOWED.join(', ')})`);
  if (hidden !== undefined && typeof hidden !== 'boolean') report('admin.hidden', 'must be true or false');
}

/**
 * Checks the column names in `admin`, also across foreign keys. Each must be a column that the admin area shows.
 * @returns all faults
 */
export function checkAdminNames(
  resources: readonly Resource[],
  models: ReadonlyMap<string, Model>,
): string[] {
  const columnsOf = new Map<Model, readonly Column[]>();
  for (const resource of resources) {
    const model = models.get(resource.model);
    if (model && resource.admin?.hidden !== true) columnsOf.set(model, adminColumns(resource, model));
  }
  const faults: string[] = [];
  for (const { model: name, admin = {} } of resources) {
    const model = models.get(name);
    if (!model) continue;
    const check = (key: string, path: string, fits?: (column: Column) => boolean, fault = ''): void => {
      const found = findPath(path.split('__'), model, (one) => columnsOf.get(one) ?? []);
      if (!found)
        faults.push(`${name}: admin.${key}: the admin area shows no column ${JSON.stringify(path)}`);
      else if (fits && !fits(found.column)) faults.push(`${name}: admin.${key}: ${path} ${fault}`);
    };
    if (admin.hidden) continue;
    for (const part of admin.label === undefined ? [] : parseLabel(admin.label)) {
      if (typeof part !== 'string') check('label', part.name);
    }
    for (const path of admin.list ?? []) check('list', path);
    for (const path of admin.filters ?? []) check('filters', path);
    for (const path of admin.search ?? [])
      check('search', path, ({ type }) => type.operators.has('ilike'), 'is not a text column');
    if (admin.dates !== undefined) check('dates', admin.dates, isDate, 'is not a date or datetime column');
  }
  return faults;
}
