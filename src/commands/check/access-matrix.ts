// The access matrix of `vitrine check --matrix`: who may read, filter and write each column.
import { foreignKeysOf, isAmong, recordColumns, type Column, type Model } from '../../db/schema/model.ts';
import type { AdminView, AdminViews } from '../../resources/access/admin-view.ts';
import type { ResourceView, ResourceViews } from '../../resources/access/resource-view.ts';
import type { Grant } from '../../resources/access/rights.ts';
import {
  apiSubjects,
  isOwn,
  ofReadable,
  readingGrants,
  settingGrants,
  showingGrants,
  whoMay,
  type Right,
  type Subject,
} from '../../resources/access/who-may.ts';

/** What each subject of the admin area sees there; empty when there is no admin area. */
export type Areas = ReadonlyMap<Subject, AdminViews>;

/**
 * Who may do something, such as `admins, doctor [1]`: admins with all records, and doctors with those of the first rule. `owner` means
 * those users, or admins, who own the record; `nobody` no one.
 */
type Who = string;

/** Who may do what with one column: in the API, in the admin area, in exports and in the history. */
interface ColumnAccess {
  readonly column: string;
  readonly read: { readonly api: Who; readonly admin: Who; readonly export: Who; readonly history: Who };
  /** `join`: from other resources, through a foreign key. Filtering by a column reveals its values. */
  readonly filter: { readonly api: Who; readonly join: Who; readonly admin: Who };
  readonly write: {
    readonly api: { readonly create: Who; readonly change: Who };
    readonly admin: { readonly create: Who; readonly change: Who };
  };
}

/** Who may do what with one resource. */
export interface ResourceAccess {
  readonly resource: string;
  readonly table: string;
  readonly create: Who;
  readonly change: Who;
  readonly delete: Who;
  /** Who may delete its records in the admin area. */
  readonly adminDelete: Who;
  readonly columns: readonly ColumnAccess[];
  /** The rules about rows, in the order of their numbers. */
  readonly rules: readonly string[];
}

const NOBODY = 'nobody';

/** Turns rights into text, and collects the rules about rows. */
function createNames(owner: Column | undefined) {
  const rules: string[] = [];
  function nameOf(right: Right): Who {
    const { who, rows } = right;
    if (!rows) return who;
    if (isOwn(right, owner)) return who === 'users' || who === 'admins' ? 'owner' : `${who} (own)`;
    const rule = rows.join(' or ');
    if (!rules.includes(rule)) rules.push(rule);
    return `${who} [${rules.indexOf(rule) + 1}]`;
  }
  return { rules, names: (rights: readonly Right[]): Who => rights.map(nameOf).join(', ') || NOBODY };
}

/** The models to which the foreign keys lead that an access sees. */
const reachedBy = (views: ResourceViews): ReadonlySet<Model> =>
  new Set(
    [...views.values()].flatMap(({ isReadable, model, output }) =>
      foreignKeysOf(model).flatMap((column) =>
        isReadable && column.references && isAmong(column, output) ? [column.references] : [],
      ),
    ),
  );

/** Whether the history shows the column. It does not know in which records a column of some records was visible. */
const isInHistory = ({ recorded, allows, visibility, model }: AdminView, column: Column): boolean =>
  recorded?.includes(column) === true &&
  allows.has('history') &&
  visibility.rows(model)?.partial.has(column) !== true;

const WRITES = { add: 'create', change: 'update' } as const;

/** The grants by which an access sets a column in the admin area, whose forms have the visible columns and the passwords. */
export const grantsOfForms = (
  view: AdminView,
  action: keyof typeof WRITES,
  column: Column,
): readonly Grant[] => {
  const isInForm = [...view.output, ...view.passwords, view.model.primaryKey].includes(column);
  return isInForm && view.may.has(action) ? settingGrants(view, WRITES[action], column) : [];
};

export type GrantsOf<View> = (view: View) => readonly Grant[];

/** Who has which grants of a resource, in the API and in the admin area. */
export const grantedIn = (resource: ResourceView, areas: Areas) => ({
  api: (grantsOf: GrantsOf<ResourceView>): readonly Right[] =>
    whoMay(apiSubjects(resource.roles), ({ access }) => grantsOf(resource.for(access))),
  area: (grantsOf: GrantsOf<AdminView>): readonly Right[] =>
    whoMay([...areas.keys()], (subject) => {
      const view = areas.get(subject)?.get(resource.name);
      return view ? grantsOf(view) : [];
    }),
});

/** The access to every resource and column. @param served the resources as any access sees them */
export function accessMatrix(served: ResourceViews, areas: Areas): ResourceAccess[] {
  const reached = new Map<ResourceViews, ReadonlySet<Model>>();
  const isReached = ({ all, model }: ResourceView): boolean => {
    const models = reached.get(all) ?? reachedBy(all);
    reached.set(all, models);
    return models.has(model);
  };
  return [...served.values()].map((resource) => {
    const { name, model, owner } = resource;
    const { rules, names } = createNames(owner);
    const granted = grantedIn(resource, areas);
    const api = (grantsOf: GrantsOf<ResourceView>): Who => names(granted.api(grantsOf));
    const area = (grantsOf: GrantsOf<AdminView>): Who => names(granted.area(grantsOf));
    const columnAccess = (column: Column): ColumnAccess => ({
      column: column.key,
      read: {
        api: api((view) => showingGrants(view, column)),
        admin: area((view) => readingGrants(view, column)),
        export: area((view) => (view.allows.has('export') ? readingGrants(view, column) : [])),
        history: area((view) => (isInHistory(view, column) ? readingGrants(view, column) : [])),
      },
      filter: {
        api: api((view) => readingGrants(view, column)),
        join: api((view) => (isReached(view) ? readingGrants(view, column) : [])),
        admin: area((view) => readingGrants(view, column)),
      },
      write: {
        api: {
          create: api((view) => settingGrants(view, 'create', column)),
          change: api((view) => ofReadable(view, settingGrants(view, 'update', column))),
        },
        admin: {
          create: area((view) => grantsOfForms(view, 'add', column)),
          change: area((view) => ofReadable(view, grantsOfForms(view, 'change', column))),
        },
      },
    });
    // First, so that the numbers of rules begin in the first lines.
    const columns = recordColumns(model).map(columnAccess);
    return {
      resource: name,
      table: model.table,
      create: api(({ rights }) => rights.create),
      change: api((view) => ofReadable(view, view.rights.update)),
      delete: api((view) => ofReadable(view, view.rights.delete)),
      adminDelete: area((view) => (view.may.has('delete') ? ofReadable(view, view.rights.delete) : [])),
      columns,
      rules,
    };
  });
}

const HEADS = ['', 'read', 'join', 'admin', 'export', 'history', 'create', 'change', 'admin sets'];

const listOf = (who: Who): readonly string[] => (who === NOBODY ? [] : who.split(', '));

/** Who sets a column in the admin area, and whether only in new records or in existing ones. */
function settersOf({ create, change }: ColumnAccess['write']['admin']): Who {
  const [creators, changers] = [listOf(create), listOf(change)];
  const both = creators.filter((one) => changers.includes(one));
  const some = [
    ...creators.filter((one) => !both.includes(one)).map((one) => `${one}, new`),
    ...changers.filter((one) => !both.includes(one)).map((one) => `${one}, existing`),
  ];
  return [...(both.length > 0 ? [both.join(', ')] : []), ...some].join('; ') || NOBODY;
}

const cellsOf = ({ column, read, filter, write }: ColumnAccess): string[] => [
  column,
  read.api,
  filter.join,
  read.admin,
  read.export,
  read.history,
  write.api.create,
  write.api.change,
  settersOf(write.admin),
];

/** The matrix as text: a table for each resource. A dash means nobody. */
export function printMatrix(matrix: readonly ResourceAccess[]): string {
  const tables = matrix.map(({ resource, columns, rules, ...may }) => {
    const rows = [[resource, ...HEADS.slice(1)], ...columns.map(cellsOf)].map((cells) =>
      cells.map((cell) => (cell === NOBODY ? '-' : cell)),
    );
    const widths = HEADS.map((_, at) => Math.max(...rows.map((cells) => (cells[at] ?? '').length)));
    const lines = rows.map((cells) =>
      cells
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    );
    const api = may.delete === NOBODY ? [] : [may.delete];
    const admin = may.adminDelete === NOBODY ? [] : [`${may.adminDelete} in the admin area`];
    const deleters = [...api, ...admin];
    const between = deleters.some((one) => one.includes(', ')) ? '; ' : ', ';
    return [
      ...lines,
      `(delete: ${deleters.join(between) || '-'})`,
      ...rules.map((rule, index) => `[${index + 1}] ${rule}`),
    ].join('\n');
  });
  return tables.join('\n\n');
}
