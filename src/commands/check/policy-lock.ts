// The file of `vitrine check --lock`: all rights that the registry gives, to compare with those of a later registry.
import { readFileSync, writeFileSync } from 'node:fs';
import { buildModels } from '../../db/schema/build-models.ts';
import { recordColumns, type Column } from '../../db/schema/model.ts';
import type { Level } from '../../config.ts';
import { StartError } from '../../errors.ts';
import { serveForAdmin, type AdminView } from '../../resources/access/admin-view.ts';
import { createViews, hasLogins, type ResourceView } from '../../resources/access/resource-view.ts';
import { userFactsOf, type AccessSettings, type Grant } from '../../resources/access/rights.ts';
import { ANYONE, meets } from '../../resources/access/access.ts';
import {
  apiSubjects,
  areaSubjects,
  includedIn,
  readingGrants,
  settingGrants,
  whoMay,
  type Right,
  type Subject,
} from '../../resources/access/who-may.ts';
import type { Resource } from '../../resources/definition/resource.ts';
import { GRANTED, namedRoles, type Action } from '../../resources/definition/roles.ts';
import {
  arrayOf,
  isObject,
  objectOf,
  oneOf,
  such,
  type Loose,
} from '../../resources/definition/validators.ts';
import { grantedIn, grantsOfForms, type Areas, type GrantsOf } from './access-matrix.ts';

/** One right, one line of the file. The keys are in the order in which the lines are sorted. */
interface LockedRight {
  /** Absent for the rights to enter the admin area and to follow the change feed. */
  readonly resource?: string;
  readonly surface: 'api' | 'admin';
  /** `list`: a level of a column names the role. */
  readonly action: Action | 'enter' | 'follow' | 'list';
  /** Absent for actions on whole records. */
  readonly column?: string;
  readonly who: string;
  /** The rules about rows, one of which a record must match; absent for all records. */
  readonly rows?: readonly string[];
}

const VERSION = 1;

const UNLIMITED: Grant = { columns: new Set(), rules: [] };

const sortKey = ({ resource = '', surface, action, column = '', who }: LockedRight): string =>
  [resource, surface, action, column, who].join(' ');

/** The roles that levels of columns list. A user may get more by one with a grant of another role than by each of the two. */
const membersOf = (resources: readonly Resource[]): readonly LockedRight[] =>
  resources.flatMap(({ model: resource, columns }) =>
    Object.entries(columns).flatMap(([column, definition]) =>
      (['read', 'write'] as const).flatMap((level) => {
        const roles = definition[level];
        return typeof roles === 'object'
          ? roles.map((who): LockedRight => ({
              resource,
              surface: 'api',
              action: 'list',
              column: `${column}.${level}`,
              who,
            }))
          : [];
      }),
    ),
  );

/**
 * All rights of a registry. They follow from the registry and the settings alone, and not from the database, so that the same registry
 * has the same rights everywhere.
 * @param feed who may read the change feed
 */
export function lockedRights(
  resources: readonly Resource[],
  settings: AccessSettings,
  feed: Level | undefined,
): readonly LockedRight[] {
  const { roles = {} } = settings;
  const names = namedRoles(roles);
  const models = buildModels(resources);
  const views = createViews(resources, models, settings);
  // A user can have a role that enters the admin area, and another one with rights there.
  const hasUsers = hasLogins(resources, settings);
  const entering = hasUsers ? areaSubjects(names) : [];
  const areas: Areas = new Map(
    entering.map((subject) => [subject, serveForAdmin(resources, models, views, undefined, subject.access)]),
  );
  const { admitted } = userFactsOf(resources, roles);
  const lines: LockedRight[] = entering
    .filter(({ access }) => access.roles.every((role) => admitted.includes(role)))
    .map(({ name }) => ({ surface: 'admin', action: 'enter', who: name }));
  const mayFollow = ({ access }: Subject): boolean => hasUsers && meets(access, feed ?? 'admin');
  for (const { who } of whoMay(apiSubjects(names), (subject) => (mayFollow(subject) ? [UNLIMITED] : [])))
    lines.push({ surface: 'api', action: 'follow', who });
  for (const resource of views(ANYONE).values()) {
    const { name, model } = resource;
    const granted = grantedIn(resource, areas);
    const add = (
      surface: LockedRight['surface'],
      action: Action,
      rights: readonly Right[],
      column?: Column,
    ): void => {
      const named = column && { column: column.name };
      for (const { who, rows } of rights)
        lines.push({ resource: name, surface, action, ...named, who, ...(rows && { rows }) });
    };
    const inApi = (action: Action, grantsOf: GrantsOf<ResourceView>, column?: Column): void =>
      add('api', action, granted.api(grantsOf), column);
    const inArea = (action: Action, grantsOf: GrantsOf<AdminView>, column?: Column): void =>
      add('admin', action, granted.area(grantsOf), column);
    inApi('create', ({ rights }) => rights.create);
    inApi('delete', ({ rights }) => rights.delete);
    inArea('create', ({ may, rights }) => (may.has('add') ? rights.create : []));
    inArea('delete', ({ may, rights }) => (may.has('delete') ? rights.delete : []));
    for (const action of ['export', 'import', 'history'] as const)
      inArea(action, ({ rights }) => rights[action]);
    for (const column of recordColumns(model)) {
      inApi('read', (view) => readingGrants(view, column), column);
      inApi('create', (view) => settingGrants(view, 'create', column), column);
      inApi('update', (view) => settingGrants(view, 'update', column), column);
      inArea('read', (view) => readingGrants(view, column), column);
      inArea('create', (view) => grantsOfForms(view, 'add', column), column);
      inArea('update', (view) => grantsOfForms(view, 'change', column), column);
    }
  }
  return [...lines, ...membersOf(resources)].toSorted((one, other) =>
    sortKey(one) < sortKey(other) ? -1 : 1,
  );
}

/** The text of the file: each right on a line of its own, so that version control shows what has changed. */
function printLock(rights: readonly LockedRight[]): string {
  const lines = rights.map((right) => `    ${JSON.stringify(right)}`);
  return `{\n  "version": ${VERSION},\n  "rights": [\n${lines.join(',\n')}\n  ]\n}\n`;
}

/** @throws StartError when the file cannot be written */
export function writeLock(file: string, rights: readonly LockedRight[]): void {
  try {
    writeFileSync(file, printLock(rights));
  } catch (error) {
    throw new StartError(`${file} cannot be written: ${(error as Error).message}`);
  }
}

const isString = (value: unknown): boolean => typeof value === 'string';
const aText = such(isString, 'must be a text');
const aRight = objectOf(
  {
    resource: aText,
    surface: oneOf(['api', 'admin']),
    action: oneOf([...GRANTED, 'enter', 'follow', 'list']),
    column: aText,
    who: aText,
    rows: arrayOf(isString, 'must be texts', 1),
  },
  { required: ['surface', 'action', 'who'] },
);

function parseLock(text: string): Loose {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

/** @throws StartError for a file that is missing or was not written by `writeLock` */
export function readLock(file: string): readonly LockedRight[] {
  const remedy = `Write it with \`npx vitrine check --lock ${file}\`.`;
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new StartError(
      isMissing
        ? `${file}: there is no such file. ${remedy}`
        : `${file} cannot be read: ${(error as Error).message}`,
    );
  }
  const { version, rights } = parseLock(text);
  if (version !== VERSION || !Array.isArray(rights))
    throw new StartError(
      `${file} is not a file of \`vitrine check --lock\` with the version ${VERSION}. ${remedy}`,
    );
  const wrong = rights.findIndex((right) => aRight(right, '').length > 0);
  if (wrong >= 0)
    throw new StartError(
      `${file}: right ${wrong + 1} is malformed: ${JSON.stringify(rights[wrong])}. ${remedy}`,
    );
  return rights as LockedRight[];
}

/** Whether the rights contain one: they give it, or more, to the same subject or a more general one. */
function createContains(rights: readonly LockedRight[]): (right: LockedRight) => boolean {
  const known = new Map<string, LockedRight[]>();
  for (const right of rights) known.set(sortKey(right), [...(known.get(sortKey(right)) ?? []), right]);
  return (right) => {
    const subjects = [right.who, ...(right.surface === 'api' ? includedIn(right.who) : [])];
    const found = subjects.flatMap((who) => known.get(sortKey({ ...right, who })) ?? []);
    if (found.some(({ rows }) => rows === undefined)) return true;
    const rows = new Set(found.flatMap((one) => one.rows ?? []));
    return right.rows?.every((rule) => rows.has(rule)) === true;
  };
}

/** The rights of one list that another one does not contain. A rule about rows with another text is another rule. */
export const rightsBeyond = (
  rights: readonly LockedRight[],
  others: readonly LockedRight[],
): readonly LockedRight[] => {
  const contains = createContains(others);
  return rights.filter((right) => !contains(right));
};

/** A right as a line: `doctor may read patient.name where doctor=$me`. */
export function printRight({ resource, surface, action, column, who, rows }: LockedRight): string {
  if (action === 'follow') return `${who} may follow the change feed`;
  if (resource === undefined) return `${who} may ${action} the admin area`;
  if (action === 'list') return `${who} is in the list columns.${column} of ${resource}`;
  return [
    `${who} may ${action} ${resource}${column === undefined ? '' : `.${column}`}`,
    ...(surface === 'admin' ? ['in the admin area'] : []),
    ...(rows ? [`where ${rows.join(' or ')}`] : []),
  ].join(' ');
}
