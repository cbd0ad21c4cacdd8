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

/** The column of a resource where a path begins; a text without `__` is none. */
export const headOf = (path: string): string => path.replace(/(_id)?__.*$/s, '');

/**
 * Reports what is wrong with a resource's `admin` by itself.
 * @param names of its columns; undefined where they are not known
 */
export function checkAdminShape(admin: unknown, names: readonly string[] | undefined, report: Report): void {
  if (admin === undefined) return;
  if (!isObject(admin)) return report('admin', 'must be an object');
  for (const key of Object.keys(admin)) if (!KEYS.has(key)) report(`admin.${key}`, 'there is no such key');
  for (const key of TEXTS) {
    const text = admin[key];
    if (text !== undefined && (typeof text !== 'string' || text === ''))
      report(`admin.${key}`, 'must be a text');
  }
  const withKey = names && ['id', ...names];
  checkNames(admin['list'], withKey, 'admin.list', report);
  for (const key of ['readonly', 'exclude']) checkNames(admin[key], names, `admin.${key}`, report);
  for (const key of ['search', 'filters']) {
    const paths = admin[key];
    // They may lie across foreign keys: here only where a path begins can be told.
    const heads = isList(paths)
      ? paths.map((path) => (typeof path === 'string' ? headOf(path) : path))
      : paths;
    checkNames(heads, withKey, `admin.${key}`, report);
  }
  const { allow, hidden } = admin;
  if (allow !== undefined && !(isList(allow) && allow.every((action) => ALLOWED.includes(action as string))))
    report('admin.allow', `must be an array with some of ${ALLOWED.join(', ')}`);
  if (hidden !== undefined && typeof hidden !== 'boolean') report('admin.hidden', 'must be true or false');
}

/** The faults of the names in `admin`, which may lie across foreign keys: each must be a column that the admin area shows. */
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
    const check = (key: string, path: string, fits?: (column: Column) => boolean, need = ''): void => {
      const found = findPath(path.split('__'), model, (one) => columnsOf.get(one) ?? []);
      if (!found)
        faults.push(`${name}: admin.${key}: the admin area shows no column ${JSON.stringify(path)}`);
      else if (fits && !fits(found.column)) faults.push(`${name}: admin.${key}: ${path} ${need}`);
    };
    if (admin.hidden) continue;
    for (const part of admin.label === undefined ? [] : parseLabel(admin.label)) {
      if (typeof part !== 'string') check('label', part.name);
    }
    for (const path of admin.list ?? []) check('list', path);
    for (const path of admin.filters ?? []) check('filters', path);
    for (const path of admin.search ?? [])
      check('search', path, ({ type }) => type.operators.has('ilike'), 'is not a text');
    if (admin.dates !== undefined)
      check('dates', admin.dates, isDate, 'is neither a date nor a date and time');
  }
  return faults;
}
