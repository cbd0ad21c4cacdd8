// Resources as the admin area serves them: the registry's `admin` rules, resolved against the models.
import { buildFields } from '../../db/schema/build-models.ts';
import type { Catalog } from '../../db/schema/catalog.ts';
import {
  findColumn,
  hasNaturalKey,
  humanize,
  isAmong,
  namedColumns,
  recordColumns,
  type Column,
  type Model,
} from '../../db/schema/model.ts';
import type { FieldErrors } from '../../errors.ts';
import { parseListQuery } from '../../query/parse/grammar.ts';
import { withoutHidden, type Label, type LabelPath } from '../../query/labels/label-sql.ts';
import { planList } from '../../query/plan.ts';
import { maskHistory } from '../../query/statements/visible-history.ts';
import type { CustomAction } from '../definition/custom-action.ts';
import { HISTORY } from '../definition/system-tables.ts';
import { allowedActions, isGranted } from './privileges.ts';
import type { AdminAction, ListView, Resource } from '../definition/resource.ts';
import type { Action } from '../definition/roles.ts';
import { ADMIN_AREA, ANYONE, inApi, isForAdmins, meets, type Access } from './access.ts';
import type { ResourceView, Views } from './resource-view.ts';

/** A resource as the admin area shows it: its columns, titles, labels and what admins may do with it. */
export interface AdminView extends ResourceView {
  readonly title: string;
  readonly group: string;
  readonly label: Label;
  readonly list: readonly Column[];
  /** The foreign keys of several columns that it shows. */
  readonly foreignKeys: readonly Column[];
  /** Column paths, split into parts: `['user', 'username']`. */
  readonly search: readonly (readonly string[])[];
  /** The columns of the filter panel. */
  readonly filters: readonly (readonly string[])[];
  readonly views: readonly ListView[];
  /** The foreign key to the user that a record belongs to. A new record has the caller in it, who may choose another user. */
  readonly ownedBy: Column | undefined;
  /** The column whose field has the focus when a record is opened. */
  readonly focus: Column | undefined;
  readonly inlines: readonly InlineView[];
  readonly may: ReadonlySet<AdminAction>;
  /** What the registry adds to that, with the columns of the fields. */
  readonly actions: readonly OfferedAction[];
  /** Resolves a column path, split into parts; see `findPath`. */
  readonly find: (parts: readonly string[]) => LabelPath | undefined;
  /** Columns that no page shows. Forms and a separate page set the first one, which is that of the login in the user model. */
  readonly passwords: readonly Column[];
  /**
   * Who may send this query (percent-encoded) to the API: everyone (`open`), authenticated callers (`login`), or no one
   * (undefined).
   */
  readonly inApi: (query: string) => 'open' | 'login' | undefined;
}

/** An action of the registry that an access may run. */
export interface OfferedAction extends Omit<CustomAction, 'fields'> {
  readonly fields: readonly Column[];
}

/** The actions that are buttons of a record. */
export const recordActions = ({ actions }: AdminView): readonly OfferedAction[] =>
  actions.filter(({ on }) => on.includes('record'));

/** A child table whose rows are on the form of a record; see `Inline`. */
export interface InlineView {
  readonly model: string;
  /** Its foreign key to the record. */
  readonly column: Column;
  readonly columns: readonly Column[];
  readonly extra: number;
  readonly isReadonly: boolean;
}

export type AdminViews = ReadonlyMap<string, AdminView>;

/** A column name between braces in a label template. */
const PLACEHOLDER = /\{([^{}]*)\}/;
/** Column names that usually identify a record to people, the best first. */
const LABEL_NAMES = [
  'name', 'title', 'label', 'display_name', 'full_name', 'username', 'subject', 'code', 'email',
]; // prettier-ignore
/** Maximum columns of a label for which the registry names none. */
const MAX_CANDIDATES = 4;
/** Maximum columns of a list and of a search for which the registry names none. */
const MAX_LISTED = 6;
const MAX_SEARCHED = 8;
/** Maximum foreign keys of several columns in such a list. */
const MAX_LISTED_KEYS = 2;

const isText = ({ type, labels, references }: Column): boolean =>
  type.operators.has('ilike') && !labels && !references;

/**
 * Resolves a column path against the columns that the admin area shows.
 * @returns undefined where a column of the path does not exist or is hidden
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
    if (!at || !column || !isAmong(column, visible(at))) return undefined;
    if (index === parts.length - 1) return { path, column };
    path.push(column);
    at = column.references;
  }
  return undefined;
}

/** Splits a label template into texts and the column names between braces. A template without braces is one column name. */
export function parseLabel(text: string): (string | { readonly name: string })[] {
  if (!/[{}]/.test(text)) return [{ name: text }];
  return text
    .split(PLACEHOLDER)
    .map((part, index) => (index % 2 === 1 ? { name: part } : part))
    .filter((part) => part !== '');
}

/** The columns that most likely identify a record to people, the first one with a value; empty where no column fits. */
function defaultLabel(columns: readonly Column[]): Label {
  // Many records share a choice.
  const texts = columns.filter((column) => isText(column) && !column.choices);
  const candidates = new Set([
    ...LABEL_NAMES.flatMap((name) => texts.filter((column) => column.name === name)),
    ...texts.filter(({ type }) => type.input.control === 'text'),
    ...texts,
  ]);
  return [...candidates]
    .slice(0, MAX_CANDIDATES)
    .map((column, index) => ({ path: [], column, isSubstitute: index > 0 }));
}

function labelOf({ admin }: Resource, model: Model, visible: (model: Model) => readonly Column[]): Label {
  if (admin?.label === undefined)
    return defaultLabel(visible(model).filter((column) => column !== model.primaryKey));
  const whole = parseLabel(admin.label).flatMap((part): Label => {
    if (typeof part === 'string') return [part];
    const found = findPath(part.name.split('__'), model, recordColumns);
    return found ? [found] : [];
  });
  const isVisible = ({ path, column }: LabelPath): boolean =>
    findPath([...path, column].map(({ name }) => name), model, visible) !== undefined; // prettier-ignore
  return withoutHidden(whole, isVisible);
}

/** Empty rows of a form for which the registry says no number. */
const EXTRA_ROWS = 3;

/** The child tables of a form, as far as the caller may see them. */
function inlinesOf(
  { admin }: Resource,
  parent: Model,
  models: ReadonlyMap<string, Model>,
  visible: (model: Model) => readonly Column[],
): InlineView[] {
  return (admin?.inlines ?? []).flatMap(({ model, column: name, columns, extra, readonly }): InlineView[] => {
    const child = models.get(model);
    const shown = child ? visible(child) : [];
    const column = shown.find((one) => (name === undefined ? one.references === parent : one.name === name));
    if (!child || !column) return [];
    const others = shown.filter(
      (one) => one !== column && (one !== child.primaryKey || hasNaturalKey(child)),
    );
    const named = columns?.flatMap((wanted) => others.filter((one) => one.name === wanted));
    const isReadonly = readonly === true;
    return [{ model, column, columns: named ?? others, extra: extra ?? EXTRA_ROWS, isReadonly }];
  });
}

/** Whether people can read the column in a list, and filter by it: JSON is too long for both. */
export const isPlain = ({ type }: Column): boolean => !type.unordered || type.element !== undefined;

/** What people narrow a list by most: choices, related records, dates. */
function usefulness(column: Column): number {
  if (column.labels || column.choices || column.type.input.control === 'checkbox') return 0;
  if (column.references) return 1;
  return isDate(column) ? 2 : column.isPrimary ? 4 : 3;
}

/** The filters of a resource whose registry entry names none: every column that `in` can compare, the most useful first. */
function defaultFilters(columns: readonly Column[]): string[] {
  return columns
    .filter((column) => column.type.operators.has('in') && isPlain(column))
    .toSorted((one, other) => usefulness(one) - usefulness(other))
    .map(({ name }) => name);
}

/** The search of a resource whose registry entry names none. Records must be found by their label, so its columns come first. */
function defaultSearch(label: Label, columns: readonly Column[]): string[] {
  const ofLabel = label.filter((part) => typeof part !== 'string');
  const own = columns.map((column): LabelPath => ({ path: [], column }));
  const paths = [...ofLabel, ...own]
    .filter(({ column }) => isText(column))
    .map(({ path, column }) => [...path, column].map(({ name }) => name).join('__'));
  return [...new Set(paths)].slice(0, MAX_SEARCHED);
}

const splitPaths = (paths: readonly string[]): string[][] => paths.map((path) => path.split('__'));

const ACTION_OF: Readonly<Record<AdminAction, Action>> = {
  add: 'create',
  change: 'update',
  delete: 'delete',
};

/**
 * The resources that the admin area shows to an access, by name.
 * @param catalog undefined where the privileges of the database role do not matter
 */
export function serveForAdmin(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  views: Views,
  catalog: Catalog | undefined,
  access: Access = ADMIN_AREA,
): AdminViews {
  const area = views(access);
  const visible = (model: Model): readonly Column[] => {
    const view = area.get(model.name);
    return view?.isReadable ? view.output : [];
  };
  const accepts = (access: Access, name: string, query: string): boolean => {
    const resource = views(access).get(name);
    if (!resource?.isReadable) return false;
    const { visibility } = resource;
    const errors: FieldErrors = {};
    planList(parseListQuery(query, resource, errors), resource.model, visibility, resource.ordering, errors);
    return Object.keys(errors).length === 0;
  };
  const adminResources = new Map<string, AdminView>();
  for (const definition of definitions) {
    const { admin = {} } = definition;
    const base = area.get(definition.model);
    if (!base?.isReadable) continue;
    const { model, output, allows } = base;
    const label = labelOf(definition, model, visible);
    const named = (names: readonly string[], columns = output): Column[] =>
      names.flatMap((name) => columns.filter((column) => column.name === name));
    const withForeignKeys = namedColumns(model, output);
    const passwords = model.columns
      .filter(
        ({ isPassword, name }) =>
          isPassword && !admin.exclude?.includes(name) && !admin.readonly?.includes(name),
      )
      .filter((column) => base.settable.create.has(column) || base.settable.update.has(column));
    const isOfLogin = ({ name }: Column): boolean => base.loginName !== undefined && name === 'password';
    const several = withForeignKeys.slice(output.length);
    const may = new Set(
      allowedActions(definition, model).filter(
        (action) =>
          allows.has(ACTION_OF[action]) && (!catalog || isGranted(action, catalog.get(model.table))),
      ),
    );
    adminResources.set(definition.model, {
      ...base,
      title: admin.title ?? humanize(definition.model),
      group: admin.group ?? '',
      label,
      foreignKeys: several,
      ownedBy: output.find(({ name }) => name === definition.owner),
      list: admin.list
        ? named(admin.list, withForeignKeys)
        : [...output.filter(isPlain).slice(0, MAX_LISTED), ...several.slice(0, MAX_LISTED_KEYS)],
      search: splitPaths(admin.search ?? defaultSearch(label, output)),
      filters: splitPaths([
        ...new Set([
          ...(admin.filters ?? defaultFilters(withForeignKeys)),
          ...(admin.dates ? [admin.dates] : []),
        ]),
      ]).filter((parts) => findPath(parts, model, visible)),
      views: admin.views ?? [],
      inlines: inlinesOf(definition, model, models, visible),
      focus: admin.focus === undefined ? undefined : named([admin.focus])[0],
      may,
      actions: (admin.actions ?? [])
        .filter(({ level }) => (level === undefined ? may.has('change') : meets(access, level)))
        .map((action) => ({ ...action, fields: buildFields(action.fields ?? {}, definitions, models) })),
      find: (parts) => findPath(parts, model, visible),
      passwords: [...passwords.filter(isOfLogin), ...passwords.filter((column) => !isOfLogin(column))],
      inApi: (query) => {
        if (accepts(ANYONE, base.name, query)) return 'open';
        return accepts(inApi(access), base.name, query) ? 'login' : undefined;
      },
    });
  }
  const isWhole = isForAdmins(access.level);
  const hidden = isWhole ? [...models.values()].filter(({ name }) => !adminResources.has(name)) : undefined;
  return withMaskedHistory(adminResources, hidden);
}

/** The resources with the history as `maskHistory` masks it. */
export function withMaskedHistory(resources: AdminViews, hidden: readonly Model[] | undefined): AdminViews {
  const history = resources.get(HISTORY.model);
  if (!history) return resources;
  const others = [...resources.values()].filter((resource) => resource !== history);
  return new Map([...resources, [HISTORY.model, maskHistory(history, others, hidden)]]);
}

/** Whether the column holds dates or date-times. */
export const isDate = ({ type }: Column): boolean =>
  type.input.control === 'date' || type.input.control === 'datetime-local';
