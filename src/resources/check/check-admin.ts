// Checks the `admin` options of the registry's resources.
import type { Column, Model } from '../../db/schema/model.ts';
import { findPath, isDate, parseLabel } from '../serve/admin-resource.ts';
import type { Fault, KeyFault } from '../../errors.ts';
import { checkNames } from './check-column.ts';
import { checkKeys, isBoolean, isIn, isObject, unknownKeys } from '../definition/check-keys.ts';
import { ACTIONS, type Resource } from '../definition/resource.ts';
import { adminColumnsByModel } from '../serve/served-resource.ts';

const TEXTS = ['title', 'group', 'label', 'dates'];
const LISTS = ['list', 'search', 'filters', 'readonly', 'exclude'];
const KEYS = [...TEXTS, ...LISTS, 'allow', 'hidden'];

const isList = (value: unknown): value is unknown[] => Array.isArray(value);

/** The first column of a path: `user` of `user__name` and of `user_id__name`. A text without `__` stays as it is. */
export const firstColumnOf = (path: string): string => path.replace(/(_id)?__.*$/s, '');

/**
 * The faults of a resource's `admin` that need no other resource to be found.
 * @param names of its columns; undefined if they are unknown
 * @param foreignKeys the names of its foreign keys of several columns, which paths may follow
 */
export function checkAdminShape(
  admin: unknown,
  names: readonly string[] | undefined,
  foreignKeys: readonly string[],
): KeyFault[] {
  if (admin === undefined) return [];
  if (!isObject(admin)) return [{ key: 'admin', text: 'must be an object' }];
  const withKey = names && ['id', ...names];
  // A path may cross foreign keys. Without the other resources only its first column can be checked.
  const firstColumns = (paths: unknown): unknown =>
    isList(paths) ? paths.map((path) => (typeof path === 'string' ? firstColumnOf(path) : path)) : paths;
  const areActions = (value: unknown): boolean => isList(value) && value.every(isIn(ACTIONS));
  return [
    ...unknownKeys(admin, KEYS, 'admin.'),
    ...checkKeys(
      admin,
      TEXTS,
      (value) => typeof value === 'string' && value !== '',
      'must be a non-empty string',
      'admin.',
    ),
    ...checkNames(admin['list'], withKey && [...withKey, ...foreignKeys], 'admin.list'),
    ...['readonly', 'exclude'].flatMap((key) => checkNames(admin[key], names, `admin.${key}`)),
    ...['search', 'filters'].flatMap((key) =>
      checkNames(firstColumns(admin[key]), withKey && [...withKey, ...foreignKeys], `admin.${key}`),
    ),
    ...checkKeys(
      admin,
      ['allow'],
      areActions,
      `must be an array of actions (${ACTIONS.join(', ')})`,
      'admin.',
    ),
    ...checkKeys(admin, ['hidden'], isBoolean, 'must be true or false', 'admin.'),
  ];
}

/** The faults of column names in `admin`, also across foreign keys. Each must be a column that the admin area shows. */
export function checkAdminNames(resources: readonly Resource[], models: ReadonlyMap<string, Model>): Fault[] {
  const columnsOf = adminColumnsByModel(resources, models);
  return resources.flatMap(({ model: name, admin = {} }): Fault[] => {
    const model = models.get(name);
    if (!model || admin.hidden) return [];
    const check = (key: string, path: string, fits?: (column: Column) => boolean, misfit = ''): Fault[] => {
      const found = findPath(path.split('__'), model, (one) => columnsOf.get(one) ?? []);
      const fault = (text: string): Fault[] => [{ model: name, key: `admin.${key}`, text }];
      if (!found) return fault(`the admin area shows no column ${JSON.stringify(path)}`);
      return fits && !fits(found.column) ? fault(`${path} ${misfit}`) : [];
    };
    const { label, list = [], filters = [], search = [], dates } = admin;
    return [
      ...(label === undefined ? [] : parseLabel(label)).flatMap((part) =>
        typeof part === 'string' ? [] : check('label', part.name),
      ),
      ...list.flatMap((path) => check('list', path)),
      ...filters.flatMap((path) => check('filters', path)),
      ...search.flatMap((path) =>
        check('search', path, ({ type }) => type.operators.has('ilike'), 'is not a text column'),
      ),
      ...(dates === undefined ? [] : check('dates', dates, isDate, 'is not a date or datetime column')),
    ];
  });
}
