// Checks a registry before the start, in two rounds: its types, then its meaning. The second relies on the first.
import { buildModels } from '../../db/schema/build-models.ts';
import { ADMIN_AREA } from '../access/access.ts';
import { checkOrderings, createViews, sampleOfMe, type ResourceViews } from '../access/resource-view.ts';
import { checkAcrossResources } from './check-across-resources.ts';
import { checkResource } from './check-resource.ts';
import { ADMIN_EXPORT, PANEL, RESOURCE, ROLES } from './registry-schema.ts';
import { isObject } from '../definition/validators.ts';
import { namedColumns, type Column, type Model } from '../../db/schema/model.ts';
import { findPath, isDate, parseLabel } from '../access/admin-view.ts';
import { addError, faultIf, type Fault, type FieldErrors } from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import { parseListQuery, parseParameters } from '../../query/parse/grammar.ts';
import { planList } from '../../query/plan.ts';
import { columnOfMe, type SampleOfMe } from '../../query/row-rules.ts';
import type { Panel } from '../definition/panel.ts';
import type { Resource } from '../definition/resource.ts';
import type { AccessSettings } from '../access/rights.ts';
import type { Roles } from '../definition/roles.ts';
import { checkRoles, checkRules } from './check-roles.ts';

/**
 * Checks a registry, which may be anything, since a registry file need not use types.
 * @returns the faults of its types, else those of its meaning; none for a valid `Resource[]`
 */
export function checkRegistry(registry: unknown, roles: unknown, settings: AccessSettings): Fault[] {
  const unusable = (text: string): Fault[] => [{ model: 'the registry', key: '', text }];
  if (!Array.isArray(registry)) return unusable('its default export must be an array of resources');
  if (registry.length === 0) return unusable('it has no resources');
  const faults = Array.from(registry as unknown[], (entry, index) => {
    const model = modelOf(entry) ?? `resource ${index + 1}`;
    return RESOURCE(entry, '').map((fault) => ({ model, ...fault }));
  }).flat();
  faults.push(...ROLES(roles, '').map(({ key, text }) => ({ model: 'roles', key, text })));
  if (faults.length > 0) return faults;
  return checkMeaning(registry as readonly Resource[], { ...settings, roles: roles as Roles });
}

/** The name of a resource's model, if it is printable in a message. */
const modelOf = (entry: unknown): string | undefined =>
  isObject(entry) && typeof entry['model'] === 'string' && /^[^\p{C}]+$/u.test(entry['model'])
    ? entry['model']
    : undefined;

/** The faults of definitions, else those of orderings and admin options, whose paths lead through several definitions. */
function checkMeaning(resources: readonly Resource[], settings: AccessSettings): Fault[] {
  const faults = [
    ...resources.flatMap((resource) =>
      checkResource(resource, resources).map((fault) => ({ model: resource.model, ...fault })),
    ),
    ...checkAcrossResources(resources, settings),
    ...checkRoles(resources, settings.roles ?? {}, settings),
  ];
  if (faults.length > 0) return faults;
  const models = buildModels(resources);
  const views = createViews(resources, models, settings);
  return [
    ...checkOrderings(views),
    ...checkRules(resources, models, views, settings),
    ...checkAdminNames(resources, models, views(ADMIN_AREA)),
    ...checkAdminViews(resources, views(ADMIN_AREA), sampleOfMe(resources, models, settings)),
  ];
}

/** The faults of the queries of `admin.views`. */
function checkAdminViews(resources: readonly Resource[], shown: ResourceViews, sample: SampleOfMe): Fault[] {
  return resources.flatMap(({ model, admin }) => {
    const view = shown.get(model);
    if (!view || admin?.hidden) return [];
    return (admin?.views ?? []).flatMap(({ title, query }) => {
      const errors: FieldErrors = {};
      const parameters = parseParameters(query).map(({ name, value }) => {
        const mine = columnOfMe(value);
        const text = mine ? sample(mine.name) : value;
        if (text === undefined)
          addError(errors, name, messageOf('noColumnOfCaller', { column: String(mine?.name) }));
        return [name, text ?? value] as const;
      });
      const own = parameters.filter(([name]) => !name.startsWith('_'));
      const parsed = parseListQuery(
        String(new URLSearchParams(own.map(([name, text]): [string, string] => [name, text]))),
        view,
        errors,
      );
      planList(parsed, view.model, view.visibility, view.ordering, errors);
      const columns = parameters.flatMap(([name, text]) => (name === '_columns' ? text.split(',') : []));
      for (const name of columns)
        if (!namedColumns(view.model, view.output).some((column) => column.name === name))
          addError(errors, '_columns', `the admin area shows no column ${JSON.stringify(name)}`);
      return Object.entries(errors).flatMap(([name, texts]) =>
        texts.map((text) => ({
          model,
          key: 'admin.views',
          text: `${JSON.stringify(title)}: ${name} ${text}`,
        })),
      );
    });
  });
}

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
    const { label, list = [], filters = [], search = [], dates, focus } = admin;
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
      ...(focus === undefined
        ? []
        : check('focus', focus, (column) => model.columns.includes(column), 'is not a column of the model')),
    ];
  });
}

/** Checks the export `admin`, which may be anything, since a registry file need not use types. */
export const checkAdminArea = (area: unknown): Fault[] =>
  ADMIN_EXPORT(area, '').map((fault) => ({ model: 'admin', ...fault }));

/**
 * Checks panels, which may be anything, since a registry file need not use types.
 * @returns all faults; none for a valid `Panel[]`
 */
export function checkPanels(panels: unknown): Fault[] {
  if (!Array.isArray(panels))
    return [{ model: 'the registry', key: '', text: 'panels must be an array of panels' }];
  const all = Array.from(panels as unknown[]);
  const faults = all.flatMap((panel, index) => {
    const title = isObject(panel) ? panel['title'] : undefined;
    const isTitled = typeof title === 'string' && title.trim() !== '';
    const model = `panel ${isTitled ? JSON.stringify(title) : index + 1}`;
    return PANEL(panel, '').map((fault) => ({ model, ...fault }));
  });
  if (faults.length > 0) return faults;
  const titles = (all as readonly Panel[]).map(({ title }) => title);
  return titles.flatMap((title, index) =>
    faultIf(titles.indexOf(title) < index, 'title', 'another panel has this title').map((fault) => ({
      model: `panel ${JSON.stringify(title)}`,
      ...fault,
    })),
  );
}
