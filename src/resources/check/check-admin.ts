// Checks the `admin` options of the registry's resources.
import type { Column, Model } from '../../db/schema/model.ts';
import { findPath, isDate, parseLabel } from '../access/admin-view.ts';
import type { Fault } from '../../errors.ts';
import type { Resource } from '../definition/resource.ts';
import type { ResourceViews } from '../access/resource-view.ts';

/** The faults of column names in `admin`, also across foreign keys. Each must be a column that the admin area shows. */
export function checkAdminNames(
  resources: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  shown: ResourceViews,
): Fault[] {
  return resources.flatMap(({ model: name, admin = {} }): Fault[] => {
    const model = models.get(name);
    if (!model || admin.hidden) return [];
    const check = (key: string, path: string, fits?: (column: Column) => boolean, misfit = ''): Fault[] => {
      const found = findPath(path.split('__'), model, (one) => shown.get(one.name)?.output ?? []);
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
