import type { AccessLevel, Settings } from '../../config.ts';
import type { Catalog, CatalogTable } from '../../db/schema/catalog.ts';
import { findColumn, humanize, type Column, type Model } from '../../db/schema/model.ts';
import type { FieldErrors } from '../../errors.ts';
import { parseListQuery } from '../../query/parse/grammar.ts';
import type { Label, LabelPath } from '../../query/statements/label-sql.ts';
import { plainRecord, recordStatement } from '../../query/statements/read-statements.ts';
import { planList } from '../../query/plan.ts';
import { maskHistory } from './visible-history.ts';
import { HISTORY } from '../definition/system-tables.ts';
import { actionPrivileges } from './privileges.ts';
import type { AdminAction, Resource } from '../definition/resource.ts';
import { adminColumns, serveResources, viewOf, type ServedResource } from './served-resource.ts';

/** A resource as the admin area shows it: its own rules about who may see and set what, and what people read for it. */
export interface AdminResource extends ServedResource {
  readonly title: string;
  readonly group: string;
  readonly label: Label;
  readonly list: readonly Column[];
  /** Paths of columns, in parts: `['user', 'username']`. */
  readonly search: readonly (readonly string[])[];
  readonly filters: readonly (readonly string[])[];
  readonly dates: Column | undefined;
  readonly may: ReadonlySet<AdminAction>;
  /** Columns that are set on a page of their own, and never shown. */
  readonly passwords: readonly Column[];
  /** Whether the API answers a query (percent-encoded) of these records: to everyone, to who logs in there, or to nobody. */
  readonly inApi: (query: string) => 'open' | 'login' | undefined;
}

export type AdminResources = ReadonlyMap<string, AdminResource>;

/** A place in a label's template. */
const PLACEHOLDER = /\{([^{}]*)\}/;
/** Columns that people name records by, the best first. */
const NAMES = ['name', 'title', 'label', 'username', 'subject', 'code', 'email'];
/** How many columns a list has that nobody chose, and how many a search looks in. */
const MOST_LISTED = 6;
const MOST_SEARCHED = 8;

const isText = ({ type, labels, references }: Column): boolean =>
  type.operators.has('ilike') && !labels && !references;

/**
 * Follows the columns of a path, as the admin area may see them.
 * @returns undefined where one of them is not there, or is hidden
 */
export function findPath(
  parts: readonly string[],
  model: Model,
  visible: (model: Model) => readonly Column[],
): LabelPath | undefined {
  const path: Column[] = [];
  let at: Model | undefined = model;
  for (const [index, part] of parts.entries()) {
    const column: Column | undefined = at && findColumn(at, part);
    if (!at || !column || !visible(at).includes(column)) return undefined;
    if (index === parts.length - 1) return { path, column };
    path.push(column);
    at = column.references;
  }
  return undefined;
}

/** The parts of a label: texts, and names of columns between braces; a text without braces is the name of a column. */
export function parseLabel(text: string): (string | { readonly name: string })[] {
  if (!/[{}]/.test(text)) return [{ name: text }];
  return text
    .split(PLACEHOLDER)
    .map((part, index) => (index % 2 === 1 ? { name: part } : part))
    .filter((part) => part !== '');
}

/** The column that people would most likely call a record by. */
function defaultLabel(columns: readonly Column[]): Label {
  const named = NAMES.flatMap((name) => columns.filter((column) => column.name === name && isText(column)));
  const [column] = [
    ...named,
    ...columns.filter((one) => isText(one) && one.type.input.control === 'text'),
    ...columns.filter(isText),
  ];
  return column ? [{ path: [], column }] : [];
}

function labelOf({ admin }: Resource, model: Model, visible: (model: Model) => readonly Column[]): Label {
  if (admin?.label === undefined)
    return defaultLabel(visible(model).filter((column) => column !== model.primaryKey));
  return parseLabel(admin.label).flatMap((part): Label => {
    if (typeof part === 'string') return [part];
    const found = findPath(part.name.split('__'), model, visible);
    return found ? [found] : [];
  });
}

const ACTIONS: readonly AdminAction[] = ['add', 'change', 'delete'];
/** Whether the database lets the service's role do it: what it does not is not offered. */
const isGranted = (action: AdminAction, found: CatalogTable | undefined): boolean =>
  actionPrivileges(action).every((privilege) => found?.privileges.includes(privilege));

/** What the filter panel offers when nobody chose: every column, and in place of a foreign key's number what people call the record. */
function defaultFilters(columns: readonly Column[]): string[][] {
  return columns.filter(({ type }) => type.operators.has('in') && !type.unordered).map(({ name }) => [name]);
}

const split = (paths: readonly string[] | undefined): string[][] | undefined =>
  paths?.map((path) => path.split('__'));

/**
 * The resources by name, as the admin area serves them; those that are hidden there are left out. Access levels, owners, and
 * what the API excludes or does not let be set, do not count: whoever is in the admin area is an admin.
 */
export function serveForAdmin(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  settings: Pick<Settings, 'access' | 'userModel'>,
  catalog: Catalog,
): AdminResources {
  const served = serveResources(definitions, models, settings);
  const columnsOf = new Map<Model, readonly Column[]>();
  for (const definition of definitions) {
    const model = models.get(definition.model);
    if (model && definition.admin?.hidden !== true) columnsOf.set(model, adminColumns(definition, model));
  }
  const visible = (model: Model): readonly Column[] => columnsOf.get(model) ?? [];
  const takes = (
    resource: ServedResource,
    query: string,
    mayRead: (level: AccessLevel) => boolean,
  ): boolean => {
    const errors: FieldErrors = {};
    const view = viewOf(served, mayRead);
    planList(parseListQuery(query, resource, errors), resource.model, view, resource.ordering, errors);
    return resource.methods.has('GET') && mayRead(resource.read) && Object.keys(errors).length === 0;
  };
  const faces = new Map<string, AdminResource>();
  for (const definition of definitions) {
    const { admin = {} } = definition;
    const base = served.get(definition.model);
    if (!base || !columnsOf.has(base.model)) continue;
    const { model } = base;
    const output = visible(model);
    const named = (names: readonly string[]): Column[] =>
      names.flatMap((name) => output.filter((column) => column.name === name));
    faces.set(definition.model, {
      ...base,
      source: 'admin',
      access: 'admin',
      read: 'admin',
      methods: new Set(['GET', 'POST', 'PUT', 'DELETE']),
      output,
      byKey: recordStatement(model, plainRecord(output)),
      excluded: new Set(model.columns.filter((column) => !output.includes(column))),
      readonly: new Set([
        ...named(admin.readonly ?? []),
        ...model.columns.filter(({ generated }) => generated),
      ]),
      owner: undefined,
      maxLimit: Math.max(base.limit, 200),
      title: admin.title ?? humanize(definition.model),
      group: admin.group ?? '',
      label: labelOf(definition, model, visible),
      list: admin.list
        ? named(admin.list)
        : output.filter(({ type }) => !type.unordered).slice(0, MOST_LISTED),
      search:
        split(admin.search) ??
        output
          .filter(isText)
          .slice(0, MOST_SEARCHED)
          .map(({ name }) => [name]),
      filters: split(admin.filters) ?? defaultFilters(output),
      dates: admin.dates ? named([admin.dates])[0] : output.find(isDate),
      may: new Set((admin.allow ?? ACTIONS).filter((action) => isGranted(action, catalog.get(model.table)))),
      passwords: model.columns.filter(({ isPassword, name }) => isPassword && !admin.exclude?.includes(name)),
      inApi: (query) =>
        takes(base, query, (level) => level === 'default')
          ? 'open'
          : takes(base, query, () => true)
            ? 'login'
            : undefined,
    });
  }
  const history = faces.get(HISTORY.model);
  if (history) {
    const others = [...faces.values()].filter((resource) => resource !== history);
    const hidden = [...models.values()].filter(({ name }) => !faces.has(name));
    faces.set(HISTORY.model, maskHistory(history, others, hidden));
  }
  return faces;
}

/** Whether the column's values lie on days. */
export const isDate = ({ type }: Column): boolean =>
  type.input.control === 'date' || type.input.control === 'datetime-local';
