// The access matrix of `vitrine check --matrix`: who may read, filter and write each column.
import { isOpen, levelOf } from '../../resources/access/access.ts';
import type { AccessLevel } from '../../config.ts';
import {
  foreignKeysOf,
  hasNaturalKey,
  isAmong,
  isKeyPart,
  recordColumns,
  type Column,
  type Model,
} from '../../db/schema/model.ts';
import type { AdminView, AdminViews } from '../../resources/access/admin-view.ts';
import type { ResourceView, ResourceViews } from '../../resources/access/resource-view.ts';

/** Who may do something, from everyone down to no one. */
export type Who = (typeof WHO)[number];
const WHO = ['anyone', 'users', 'owner', 'admins', 'nobody'] as const;

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
}

const READERS: Readonly<Record<AccessLevel, Who>> = { default: 'anyone', user: 'users', admin: 'admins' };
const WRITERS: Readonly<Record<AccessLevel, Who>> = { default: 'nobody', user: 'users', admin: 'admins' };

/** The larger of two groups. */
const wider = (one: Who, other: Who): Who => (WHO.indexOf(one) < WHO.indexOf(other) ? one : other);
/** The smaller of two groups. */
const narrower = (one: Who, other: Who): Who => (WHO.indexOf(one) < WHO.indexOf(other) ? other : one);

const readersOf = ({ methods, read }: ResourceView): Who =>
  methods.has('GET') ? READERS[levelOf(read)] : 'nobody';

/** Who may use a write method. Only the owner of a record may change or delete it. */
function writersOf({ methods, needed, owner }: ResourceView, method: 'POST' | 'PUT' | 'DELETE'): Who {
  if (!methods.has(method) || isOpen(needed(method))) return 'nobody';
  return owner && method !== 'POST' ? 'owner' : WRITERS[levelOf(needed(method))];
}

/** The resources from which a path leads to each model: those with a foreign key to it that clients see. */
function sourcesByModel(served: ResourceViews): ReadonlyMap<Model, ResourceView[]> {
  const sources = new Map<Model, ResourceView[]>();
  for (const resource of served.values())
    for (const column of foreignKeysOf(resource.model)) {
      const { references } = column;
      if (!references || !isAmong(column, resource.output)) continue;
      const known = sources.get(references);
      if (known) known.push(resource);
      else sources.set(references, [resource]);
    }
  return sources;
}

/** Who may filter by the columns of a resource from another resource that refers to it. */
const joinReadersOf = (resource: ResourceView, sources: readonly ResourceView[]): Who =>
  sources.map((source) => narrower(readersOf(source), readersOf(resource))).reduce<Who>(wider, 'nobody');

function columnAccess(
  column: Column,
  resource: ResourceView,
  adminResource: AdminView | undefined,
  joinReaders: Who,
): ColumnAccess {
  const { model, output, owner, readonly, recorded } = resource;
  const isKey = column === model.primaryKey;
  const isFixed = isKey || isKeyPart(model, column);
  // Clients set a primary key only when the database does not generate it, and never change it.
  const isNaturalKey = hasNaturalKey(model) && !column.generated;
  const when = (isAllowed: boolean | undefined, who: Who): Who => (isAllowed ? who : 'nobody');
  const isOutput = output.includes(column);
  const isShown = adminResource?.output.includes(column);
  // The service sets the owner to the user who creates the record.
  const isSettable = isKey ? isNaturalKey : !readonly.has(column) && column !== owner;
  const isEditable = isKey ? isNaturalKey : isShown && !adminResource?.readonly.has(column);
  const isPassword = adminResource?.passwords.includes(column);
  const [creators, changers] = [writersOf(resource, 'POST'), writersOf(resource, 'PUT')];
  return {
    column: column.key,
    read: {
      // The response to a write contains the record.
      api: when(isOutput, wider(readersOf(resource), wider(creators, changers))),
      admin: when(isShown, 'admins'),
      export: when(isShown, 'admins'),
      history: when(adminResource !== undefined && recorded?.includes(column), 'admins'),
    },
    filter: {
      api: when(isOutput, readersOf(resource)),
      join: when(isOutput, joinReaders),
      admin: when(isShown, 'admins'),
    },
    write: {
      api: { create: when(isSettable, creators), change: when(isSettable && !isFixed, changers) },
      admin: {
        create: when((isEditable || isPassword) && adminResource?.may.has('add'), 'admins'),
        change: when(((isEditable && !isFixed) || isPassword) && adminResource?.may.has('change'), 'admins'),
      },
    },
  };
}

/**
 * The access to every resource and column.
 * @param adminResources the resources of the admin area; empty when there is no admin area
 */
export function accessMatrix(served: ResourceViews, adminResources: AdminViews): ResourceAccess[] {
  const sources = sourcesByModel(served);
  return [...served.values()].map((resource) => {
    const { model } = resource;
    const joinReaders = joinReadersOf(resource, sources.get(model) ?? []);
    return {
      resource: resource.name,
      table: model.table,
      create: writersOf(resource, 'POST'),
      change: writersOf(resource, 'PUT'),
      delete: writersOf(resource, 'DELETE'),
      adminDelete: adminResources.get(resource.name)?.may.has('delete') ? 'admins' : 'nobody',
      columns: recordColumns(model).map((column) =>
        columnAccess(column, resource, adminResources.get(resource.name), joinReaders),
      ),
    };
  });
}

const HEADS = ['', 'read', 'join', 'admin', 'export', 'history', 'create', 'change', 'admin sets'];

function cellsOf({ column, read, filter, write }: ColumnAccess): string[] {
  const { create, change } = write.admin;
  const sets = create === change ? create : create === 'nobody' ? 'admins, existing' : 'admins, new';
  return [
    column,
    read.api,
    filter.join,
    read.admin,
    read.export,
    read.history,
    write.api.create,
    write.api.change,
    sets,
  ];
}

/** The matrix as text: a table for each resource. A dash means nobody. */
export function printMatrix(matrix: readonly ResourceAccess[]): string {
  const tables = matrix.map(({ resource, columns, ...may }) => {
    const rows = [[resource, ...HEADS.slice(1)], ...columns.map(cellsOf)].map((cells) =>
      cells.map((cell) => (cell === 'nobody' ? '-' : cell)),
    );
    const widths = HEADS.map((_, at) => Math.max(...rows.map((cells) => (cells[at] ?? '').length)));
    const lines = rows.map((cells) =>
      cells
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    );
    const api = may.delete === 'nobody' ? [] : [may.delete];
    const admin = may.adminDelete === 'nobody' ? [] : [`${may.adminDelete} in the admin area`];
    return [...lines, `(delete: ${[...api, ...admin].join(', ') || '-'})`].join('\n');
  });
  return tables.join('\n\n');
}
