// The warnings of `vitrine check`: settings that work but are risky or slow.
import { ANYONE, isForAdmins, isOpen, ofRole, ofRoleInArea, USER } from '../../resources/access/access.ts';
import type { Settings } from '../../config.ts';
import { searchIndex } from '../../query/condition-sql.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import { findColumn, partsOf, type Column, type Model } from '../../db/schema/model.ts';
import type { DatabaseInfo } from '../../db/schema/relations.ts';
import { unfilledFault } from '../../db/schema/schema-differences.ts';
import { missingIndexes } from '../../db/schema/missing-schema.ts';
import type { AdminView, AdminViews } from '../../resources/access/admin-view.ts';
import { POWERFUL, userFactsOf, type AccessSettings, type Grant } from '../../resources/access/rights.ts';
import { apiSubjects, settingGrants } from '../../resources/access/who-may.ts';
import { HISTORY } from '../../resources/definition/system-tables.ts';
import type { Resource } from '../../resources/definition/resource.ts';
import { listsOf } from '../../resources/check/check-roles.ts';
import { namedRoles } from '../../resources/definition/roles.ts';
import { isRequired } from '../../resources/records/checked-body.ts';
import type { Schema } from '../../resources/setup/schema-setup.ts';
import {
  hasLogins,
  hasWriters,
  type ResourceView,
  type ResourceViews,
  type Views,
} from '../../resources/access/resource-view.ts';
import {
  historyWarning,
  missingTablesWarning,
  passwordOutputWarning,
  viewWarnings,
  writeShowsWarning,
} from '../../resources/setup/start-warnings.ts';
import { grantsOfForms, type Areas } from './access-matrix.ts';

/** Something that works but is risky or slow. Scripts recognize it by its kind. */
export interface Warning {
  readonly kind:
    | 'superuser'
    | 'sequence'
    | 'replica-identity'
    | 'history-open'
    | 'own-tables'
    | 'default-access'
    | 'open-read'
    | 'policies-without-identity'
    | 'password-output'
    | 'write-shows'
    | 'self-promotion'
    | 'empty-role'
    | 'empty-admin-area'
    | 'history-off'
    | 'no-add'
    | 'foreign-key-index'
    | 'slow-filter'
    | 'search-path'
    | 'view'
    | 'view-key'
    | 'unknown-constraint'
    | 'ignored-parameters'
    | 'engine';
  readonly text: string;
  /** The registry itself says so: `--strict` does not count it. */
  readonly isIntended?: true;
}

const warnIf = (isRisky: boolean, kind: Warning['kind'], text: string): Warning[] =>
  isRisky ? [{ kind, text }] : [];

/** What the warnings depend on. */
interface RiskInput {
  readonly settings: Settings & AccessSettings;
  readonly resources: readonly Resource[];
  readonly served: ResourceViews;
  readonly areas: Areas;
  /** The admin area as admins see it. */
  readonly adminResources: AdminViews;
  readonly views: Views;
  readonly schema: Schema;
  readonly databaseInfo: DatabaseInfo;
  /** The database is the embedded one, which is for trying things out. */
  readonly isEmbedded: boolean;
}

/** Names of columns that usually grant rights. Users who may set them can promote themselves. */
const PRIVILEGE_NAMES =
  /(^|_)(admin|administrator|active|enabled|roles?|staff|superuser|permissions?|privileges?)(_|$)/;
/** Rows. A full scan of a larger table takes too long. */
const LARGE_TABLE = 100_000;

const wordsOf = (name: string): string => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase();

/** The resources whose tables do not exist yet. */
const withoutTable = (resources: readonly Resource[], { catalog }: Schema): Resource[] =>
  resources.filter((resource) => !catalog.has(tableOf(resource)));

function databaseRisks({ settings, resources, schema, databaseInfo, isEmbedded }: RiskInput): Warning[] {
  const { isSuperuser, tables } = databaseInfo;
  const hasUsers = hasLogins(resources, settings);
  const isOpen = tables.some(({ name, isChangeable }) => name === HISTORY.model && isChangeable);
  // When tables of the registry are missing as well, the database is new and the start creates all tables.
  const lacksTables = schema.missing.length > 0 && withoutTable(resources, schema).length === 0;
  const lacksColumns = historyWarning(schema);
  return [
    ...warnIf(
      isSuperuser && !isEmbedded,
      'superuser',
      'the database role is a superuser, which bypasses all privileges: vitrine schema --role NAME prints the grants for a restricted role',
    ),
    ...warnIf(
      !isSuperuser && hasUsers && isOpen,
      'history-open',
      `the database role may change or delete entries of ${HISTORY.model}`,
    ),
    ...warnIf(hasUsers && lacksTables, 'own-tables', missingTablesWarning(schema.missing)),
    ...warnIf(lacksColumns !== undefined, 'own-tables', lacksColumns ?? ''),
  ];
}

/** The columns by which any user can take over or lock out any other user: those of the user model that a login reads. */
function loginColumns(resource: ResourceView): string[] {
  const { model, loginName } = resource;
  if (!loginName) return [];
  const ofUsers = resource.for(USER);
  return model.columns
    .filter((column) => column === loginName || column.isPassword)
    .filter((column) => settingGrants(ofUsers, 'update', column).some(({ rules }) => rules.length === 0))
    .map((column) => column.name);
}

/** The columns that usually grant rights and that all users can set, at least in their own records. */
function privilegeColumns(resource: ResourceView): string[] {
  const ofUsers = resource.for(USER);
  return resource.model.columns
    .filter((column) => PRIVILEGE_NAMES.test(wordsOf(column.name)))
    .filter((column) =>
      (['create', 'update'] as const).some((action) => settingGrants(ofUsers, action, column).length > 0),
    )
    .map((column) => column.name);
}

/** The columns of the user model that give all rights to those who may set them in any record, or in their own. */
function powersOf(inApi: ResourceView, inArea: AdminView | undefined): Column[] {
  const isForAny = ({ rules }: Grant): boolean => rules.every((texts) => texts.includes('id=$me'));
  return inApi.model.columns
    .filter(({ name }) => POWERFUL.includes(name))
    .filter((column) => {
      const update = [
        ...settingGrants(inApi, 'update', column),
        ...(inArea ? grantsOfForms(inArea, 'change', column) : []),
      ];
      const create = [
        ...settingGrants(inApi, 'create', column),
        ...(inArea ? grantsOfForms(inArea, 'add', column) : []),
      ];
      // The own password, and that of a new user, is no other user's.
      return column.isPassword
        ? update.some(({ rules }) => rules.length === 0)
        : [...update, ...create].some(isForAny);
    });
}

/** The roles whose users can get all rights. */
function promotingRoles(resource: ResourceView, areas: Areas): Warning[] {
  const { name, loginName, roles } = resource;
  if (!loginName) return [];
  const ofUsers = powersOf(resource.for(USER), undefined);
  return roles.flatMap((role) => {
    const [, inArea] = [...areas].find(([{ access }]) => access.roles.includes(role)) ?? [];
    const columns = powersOf(resource.for(ofRole(role)), inArea?.get(name))
      .filter((column) => !ofUsers.includes(column))
      .map((column) => column.name);
    return warnIf(
      columns.length > 0,
      'self-promotion',
      `${name} lets users of the role ${role} set ${columns.join(', ')}, by which they can get all rights: limit its grants by columns or rows, unless this is intended`,
    );
  });
}

/** Roles that give their users nothing. */
function roleWarnings({ settings: { roles = {} }, resources, views }: RiskInput): Warning[] {
  const { admitted } = userFactsOf(resources, roles);
  const named = new Set(
    resources.flatMap((resource) =>
      listsOf(resource).flatMap(([, level]) => (typeof level === 'object' ? level : [])),
    ),
  );
  return namedRoles(roles).flatMap((role) => {
    if (admitted.includes(role)) {
      const area = views(ofRoleInArea(role));
      return warnIf(
        !resources.some(({ model }) => area.get(model)?.isReadable),
        'empty-admin-area',
        `role ${role}: admin: true lets its users enter the admin area, where they see nothing: grant read of some models`,
      );
    }
    const grants = Object.values(roles[role]?.grants ?? {}).flatMap((actions = {}) => Object.values(actions));
    return warnIf(
      grants.every((grant) => !grant) && !named.has(role),
      'empty-role',
      `role ${role}: it has no grants, and no list of roles names it, so its users may do nothing more than others`,
    );
  });
}

function resourceWarnings(resource: ResourceView, { areas, adminResources }: RiskInput): Warning[] {
  const { name, recorded } = resource;
  const [login, privileged] = [loginColumns(resource), privilegeColumns(resource)];
  const [passwordOutput, writeShows] = [passwordOutputWarning(resource), writeShowsWarning(resource)];
  const adminResource = adminResources.get(name);
  const isChangeable = hasWriters(resource) || (adminResource?.may.size ?? 0) > 0;
  return [
    ...warnIf(passwordOutput !== undefined, 'password-output', passwordOutput ?? ''),
    ...warnIf(writeShows !== undefined, 'write-shows', writeShows ?? ''),
    ...warnIf(
      privileged.length > 0,
      'self-promotion',
      `${name} lets users set ${privileged.join(', ')}: make it readonly, unless this is intended`,
    ),
    ...warnIf(
      login.length > 0,
      'self-promotion',
      `${name} lets every user set ${login.join(', ')} of all other users: set access: 'admin', or make it readonly`,
    ),
    ...promotingRoles(resource, areas),
    ...warnIf(
      !recorded && isChangeable,
      'history-off',
      `changes of ${name} are not recorded: its history is off`,
    ),
  ];
}

function accessWarnings(input: RiskInput): Warning[] {
  const { settings, resources, served } = input;
  const { access: level } = settings;
  const who = isForAdmins(level) ? 'every admin' : 'every user';
  const isWritable = (model: string): boolean => {
    const resource = served.get(model);
    return resource !== undefined && hasWriters(resource);
  };
  const open = resources
    .filter(({ access, model }) => access === undefined && isWritable(model))
    .map(({ model }) => model);
  return [
    ...warnIf(
      !isOpen(level) && open.length > 0,
      'default-access',
      `ACCESS=${level} lets ${who} write to the resources without an access level: ${open.join(', ')}`,
    ),
    ...[...served.values()].flatMap((one) => resourceWarnings(one, input)),
  ];
}

/** The resources that anyone can read. The shipped registry holds samples, which are meant to be read. */
function openWarnings({ settings, resources, served }: RiskInput): Warning[] {
  if (settings.resources === undefined) return [];
  const open = resources.filter(({ model }) => served.get(model)?.for(ANYONE).isReadable === true);
  const isIntended = ({ read }: Resource): boolean => read !== undefined || !isOpen(settings.read);
  const [intended, others] = [open.filter(isIntended), open.filter((one) => !isIntended(one))].map((some) =>
    some.map(({ model }) => model).join(', '),
  );
  return [
    ...warnIf(
      others !== '',
      'open-read',
      `anyone can read ${others}: set read or READ, or read: 'default' if this is intended`,
    ),
    ...(intended === ''
      ? []
      : [{ kind: 'open-read', text: `anyone can read ${intended}`, isIntended: true } as const]),
  ];
}

/** The tables whose policies see only the service's role, although they may ask for the caller. */
const policyWarnings = ({ resources, schema }: RiskInput): Warning[] =>
  resources.flatMap((resource) =>
    warnIf(
      resource.identity === undefined && schema.catalog.get(tableOf(resource))?.hasPolicies === true,
      'policies-without-identity',
      `${resource.model}: the policies of ${tableOf(resource)} do not know the caller: set identity: true, or false if they do not ask for it`,
    ),
  );

/** The tables to which admins cannot add records, although `admin.allow` does not say so. */
const additionWarnings = ({ resources, served, adminResources }: RiskInput): Warning[] =>
  resources.flatMap(({ model: name, methods, admin }) => {
    const model = adminResources.has(name) ? served.get(name)?.model : undefined;
    if (!model?.isTable || !methods || methods.includes('POST') || admin?.allow?.includes('add') === false)
      return [];
    return model.unfilled.map((field) => ({
      kind: 'no-add',
      text: `${name}: ${unfilledFault(field, "leave 'add' out of admin.allow")}`,
    }));
  });

/** The required columns that keep those from adding records who may, because they may not set them. */
const requiredWarnings = ({ served, areas }: RiskInput): Warning[] =>
  [...served.values()].flatMap((resource) => {
    const { name, model, owner, roles } = resource;
    const required = model.columns.filter((column) => isRequired(column) && column !== owner);
    return (model.isTable ? required : []).flatMap((column) => {
      const inApi = apiSubjects(roles).filter(({ access }) => {
        const view = resource.for(access);
        return view.rights.create.length > 0 && settingGrants(view, 'create', column).length === 0;
      });
      const inArea = [...areas].filter(([, area]) => {
        const view = area.get(name);
        return view?.may.has('add') && grantsOfForms(view, 'add', column).length === 0;
      });
      const away = [
        ...inApi.map((one) => `${one.name} by POST`),
        ...inArea.map(([one]) => `${one.name} in the admin area`),
      ];
      const text = `${name}: ${column.name} is required, but these may add records and not set it: ${away.join(', ')}. Let them set it, give it a default or null: true, or keep them from adding`;
      return warnIf(away.length > 0, 'no-add', text);
    });
  });

/** The column that a path leads to, and its model. */
function follow(model: Model, path: readonly string[]): { model: Model; column: Column } | undefined {
  const [head = '', ...rest] = path;
  const column = findColumn(model, head);
  if (!column) return undefined;
  if (rest.length === 0) return { model, column };
  return column.references && follow(column.references, rest);
}

function speedWarnings({ resources, served, adminResources, schema, databaseInfo }: RiskInput): Warning[] {
  const rowsOf = ({ table }: Model) => databaseInfo.tables.find(({ name }) => name === table);
  const slow = (model: Model, paths: readonly (readonly string[])[], isSearch = false): string[] =>
    paths.flatMap((path) => {
      const end = follow(model, path);
      const table = end && rowsOf(end.model);
      if (!end || !table || table.rows <= LARGE_TABLE) return [];
      const { column } = end;
      const isFast = isSearch ? table.searchable.includes(column.field) : column.indexed;
      return isFast ? [] : [path.join('__')];
    });
  const stored = resources.filter((resource) => !withoutTable(resources, schema).includes(resource));
  const warnings = missingIndexes(stored, schema.catalog).map((text): Warning => ({
    kind: 'foreign-key-index',
    text,
  }));
  for (const { model: name, ordering, admin = {} } of resources) {
    const model = served.get(name)?.model;
    if (!model) continue;
    const split = (paths: readonly string[]): string[][] => paths.map((path) => path.split('__'));
    // Only the first column matters: an index that begins with it avoids the full scan.
    const [first = ''] = (ordering ?? '').replace(/^-/, '').split(',');
    const warn = (key: string, paths: readonly string[], index: string): void => {
      if (paths.length === 0) return;
      const text = `${name}: ${key} ${paths.join(', ')} reads every row of a large table: no index ${index}`;
      warnings.push({ kind: 'slow-filter', text });
    };
    warn('ordering', slow(model, first === '' ? [] : split([first])), 'begins with it');
    const adminResource = adminResources.get(name);
    if (!adminResource) continue;
    warn('admin.filters', slow(model, split(admin.filters ?? [])), 'begins with it');
    const searched = slow(model, adminResource.search, true);
    const indexes = searched.map((path) => {
      const end = follow(model, path.split('__'));
      return end && searchIndex(end.model.table, end.column.field);
    });
    warn('admin.search', searched, `supports substring search. With pg_trgm: ${indexes.join('; ')}`);
  }
  return warnings;
}

/** The columns that PostgreSQL compares as plain texts, because it does not find the operators of their type. */
const comparisonWarnings = ({ served, databaseInfo }: RiskInput): Warning[] =>
  [...served.values()].flatMap(({ name, model: { table, primaryKey, columns } }) => {
    const fields = new Set([...partsOf(primaryKey), ...columns].map(({ field }) => field));
    const misread = databaseInfo.tables.find((one) => one.name === table)?.misread ?? [];
    return misread
      .filter(({ field }) => fields.has(field))
      .map(({ field, type, schema }) => ({
        kind: 'search-path',
        text: `${name}: ${field} is compared as a plain text, case-sensitively and without its index: add the schema ${schema} of its type ${type} to the search_path of the database role`,
      }));
  });

/** The tables whose records PostgreSQL refuses to change and to delete. */
const identityWarnings = ({ served, adminResources, databaseInfo }: RiskInput): Warning[] =>
  [...served.values()].flatMap(({ name, hasCallers, model }) => {
    const may = adminResources.get(name)?.may;
    const isChangeable =
      hasCallers('PUT') || hasCallers('DELETE') || may?.has('change') === true || may?.has('delete') === true;
    const tables = databaseInfo.tables.find((one) => one.name === model.table)?.unidentified ?? [];
    return tables.flatMap((table) =>
      warnIf(
        isChangeable,
        'replica-identity',
        `${name}: a publication has ${table}, which has no replica identity, so PostgreSQL refuses to change and to delete its records: give it a primary key, or alter table ${table} replica identity full`,
      ),
    );
  });

/** All warnings, the most serious first. Errors are reported elsewhere: see `compareSchema`. */
export const warningsOf = (input: RiskInput): Warning[] => [
  ...databaseRisks(input),
  ...accessWarnings(input),
  ...openWarnings(input),
  ...policyWarnings(input),
  ...identityWarnings(input),
  ...additionWarnings(input),
  ...requiredWarnings(input),
  ...viewWarnings(input.resources, input.schema).map((text): Warning => ({ kind: 'view', text })),
  ...comparisonWarnings(input),
  ...speedWarnings(input),
  ...roleWarnings(input),
];
