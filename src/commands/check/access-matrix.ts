import type { AccessLevel } from '../../config.ts';
import type { Column } from '../../db/schema/model.ts';
import type { AdminResource, AdminResources } from '../../resources/serve/admin-resource.ts';
import type { ServedResource, ServedResources } from '../../resources/serve/served-resource.ts';

/** Who may do something, from everyone to no one. */
export type Who = (typeof WHO)[number];
const WHO = ['anyone', 'users', 'owner', 'admins', 'nobody'] as const;

/** Who may do what with one column, and through which door. */
export interface ColumnAccess {
  readonly column: string;
  readonly read: { readonly api: Who; readonly admin: Who; readonly export: Who; readonly history: Who };
  /** `join`: from other resources, across a foreign key. Whoever may filter by a column can find out what is in it. */
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

/** The larger of two circles of people. */
const wider = (one: Who, other: Who): Who => (WHO.indexOf(one) < WHO.indexOf(other) ? one : other);
const narrower = (one: Who, other: Who): Who => (WHO.indexOf(one) < WHO.indexOf(other) ? other : one);

const gettersOf = ({ methods, read }: ServedResource): Who => (methods.has('GET') ? READERS[read] : 'nobody');

/** Who may write by a method; of a record that has an owner, only that user may change it. */
function writersOf({ methods, access, owner }: ServedResource, method: 'POST' | 'PUT' | 'DELETE'): Who {
  if (!methods.has(method) || access === 'default') return 'nobody';
  return owner && method !== 'POST' ? 'owner' : WRITERS[access];
}

/** Who may filter by the columns of a resource from another one that refers to it. */
function joinersOf(resource: ServedResource, served: ServedResources): Who {
  const sources = [...served.values()].filter((source) =>
    source.output.some((column) => column.references === resource.model),
  );
  return sources
    .map((source) => narrower(gettersOf(source), gettersOf(resource)))
    .reduce<Who>(wider, 'nobody');
}

function columnAccess(
  column: Column,
  resource: ServedResource,
  people: AdminResource | undefined,
  joiners: Who,
): ColumnAccess {
  const { model, output, owner, readonly, recorded } = resource;
  const isKey = column === model.primaryKey;
  // A key is given by the client only where the database does not make it, and is never changed.
  const ownKey = !column.hasDefault && !column.generated;
  const when = (isSo: boolean | undefined, who: Who): Who => (isSo ? who : 'nobody');
  const isOut = output.includes(column);
  const shown = people?.output.includes(column);
  // The owner is who creates the record, whatever the body says.
  const settable = isKey ? ownKey : !readonly.has(column) && column !== owner;
  const typed = isKey ? ownKey : shown && !people?.readonly.has(column);
  const isPassword = people?.passwords.includes(column);
  const [creators, changers] = [writersOf(resource, 'POST'), writersOf(resource, 'PUT')];
  return {
    column: column.key,
    read: {
      // The answer of a write shows the record to whoever wrote it.
      api: when(isOut, wider(gettersOf(resource), wider(creators, changers))),
      admin: when(shown, 'admins'),
      export: when(shown, 'admins'),
      history: when(people !== undefined && recorded?.includes(column), 'admins'),
    },
    filter: {
      api: when(isOut, gettersOf(resource)),
      join: when(isOut, joiners),
      admin: when(shown, 'admins'),
    },
    write: {
      api: { create: when(settable, creators), change: when(settable && !isKey, changers) },
      admin: {
        create: when((typed || isPassword) && people?.may.has('add'), 'admins'),
        change: when(((typed && !isKey) || isPassword) && people?.may.has('change'), 'admins'),
      },
    },
  };
}

/**
 * Who may read, filter and write what, and through which door.
 * @param people the resources as the admin area serves them; none of them where there is no admin area
 */
export function accessMatrix(served: ServedResources, people: AdminResources): ResourceAccess[] {
  return [...served.values()].map((resource) => {
    const joiners = joinersOf(resource, served);
    const { model } = resource;
    return {
      resource: resource.name,
      table: model.table,
      create: writersOf(resource, 'POST'),
      change: writersOf(resource, 'PUT'),
      delete: writersOf(resource, 'DELETE'),
      adminDelete: people.get(resource.name)?.may.has('delete') ? 'admins' : 'nobody',
      columns: [model.primaryKey, ...model.columns].map((column) =>
        columnAccess(column, resource, people.get(resource.name), joiners),
      ),
    };
  });
}

const HEADS = ['', 'read', 'join', 'admin', 'export', 'history', 'create', 'change', 'admin sets'];

function cellsOf({ column, read, filter, write }: ColumnAccess): string[] {
  const { create, change } = write.admin;
  const sets = wider(create, change) === 'nobody' ? 'nobody' : create === change ? 'admins' : 'admins, once';
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

/** The matrix as people read it: a table for each resource, and a dash for nobody. */
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
