// `vitrine schema`: prints the SQL that creates the tables, or the grants of a role.
import { readSettings, type Settings } from '../config.ts';
import { buildModels } from '../db/schema/build-models.ts';
import { isTable, type Catalog } from '../db/schema/catalog.ts';
import type { Fault } from '../errors.ts';
import { tableOf } from '../db/schema/model-definition.ts';
import { databaseInfoStatement } from '../db/schema/relations.ts';
import { alter, missingSchema, type SchemaChange } from '../db/schema/missing-schema.ts';
import { afterRenames, leftOverFields, renameClause, renamesOf } from '../db/schema/renamed-columns.ts';
import { grantsFor, roleStatement } from '../db/schema/grants.ts';
import { HISTORY, SYSTEM_TABLES } from '../resources/definition/system-tables.ts';
import { allPrivileges, REVOKE_HISTORY_CHANGES, MAY_CHANGE_HISTORY } from '../resources/access/privileges.ts';
import type { Resource } from '../resources/definition/resource.ts';
import { compareSchema, readCatalog, readTablesOf, runOnCatalog } from '../resources/setup/schema-setup.ts';
import { ADMIN } from '../resources/access/access.ts';
import { createViews, hasLogins } from '../resources/access/resource-view.ts';
import {
  refuseArguments,
  parse,
  print,
  requireDatabaseUrl,
  printMessage,
  UsageError,
  withDatabase,
  type Io,
} from './command.ts';
import type { AccessSettings } from '../resources/access/rights.ts';
import { loadDefinitions } from './running-service.ts';

const HELP = `
Usage: vitrine schema [--diff]
       vitrine schema --role NAME

Prints SQL without running it: the statements of SCHEMA=apply for an empty database, or the grants that a role
needs to serve the registry (RESOURCES), and no more. Read the comments of --diff before you run its SQL.

Options
  --diff       what is missing in the database of DATABASE_URL, and the changes that make the rest fit the registry
  --role NAME  the grants for this role; with DATABASE_URL, adapted to the tables of that database
  --help       show this help
`;

const OPTIONS = { diff: { type: 'boolean' }, role: { type: 'string' } } as const;

const sqlOf = (statements: readonly string[]): string =>
  statements.map((statement) => `${statement};`).join('\n');

/** The current state of a database. */
interface DatabaseState {
  readonly catalog: Catalog;
  /** Whether the role may still change the history, a right that the start revokes. */
  readonly mayChangeHistory: boolean;
}

/**
 * The statements of SCHEMA=apply in their order: the tables of the registry, then the system tables. Between them are those that a
 * start leaves to people: required columns, new names, and changes, on which indexes and foreign keys may rest.
 */
function statementsFor(
  resources: readonly Resource[],
  systemTables: readonly Resource[],
  { catalog, mayChangeHistory }: DatabaseState,
  faults: readonly Fault[],
): string[] {
  const statementsOf = (changes: readonly SchemaChange[]): string[] =>
    changes.map(({ statement }) => statement);
  const missing = missingSchema(resources, catalog, () => true);
  const isColumn = ({ kind }: SchemaChange): boolean => kind === 'table' || kind === 'column';
  // Without logins, a table with this name belongs to another application.
  const mustRevoke = systemTables.includes(HISTORY) && (mayChangeHistory || !catalog.has(HISTORY.model));
  return [
    ...new Set([...statementsOf(missing.filter(isColumn)), ...faults.flatMap(({ alter }) => alter ?? [])]),
    ...statementsOf(missing.filter((change) => !isColumn(change))),
    ...statementsOf(missingSchema(systemTables, catalog)),
    ...(mustRevoke ? [REVOKE_HISTORY_CHANGES] : []),
  ];
}

/** What the tables have and the registry does not, as comments. */
const leftOver = (resources: readonly Resource[], catalog: Catalog): string[] =>
  [...new Set(resources.map(tableOf))].flatMap((table) => {
    const found = catalog.get(table);
    const fields = found && isTable(found) ? leftOverFields(found, resources) : [];
    if (fields.length === 0) return [];
    return [`-- Not in the registry: ${fields.join(', ')} of ${table}`.replace(/[\r\n]/g, ' ')];
  });

const readState = (resources: readonly Resource[], io: Io): Promise<DatabaseState> =>
  withDatabase(requireDatabaseUrl('schema --diff', io), async (database) => {
    const mayChangeHistory = await database.run(MAY_CHANGE_HISTORY, 'read');
    return { catalog: await readCatalog(database, resources), mayChangeHistory };
  });

/** @throws UsageError for a name that PostgreSQL reserves or does not accept, even quoted */
function checkRole(role: string): void {
  if (role === '' || role.includes('\0') || Buffer.byteLength(role) > 63)
    throw new UsageError('--role takes a name of 1 to 63 bytes');
  if (role === 'public' || role === 'none')
    throw new UsageError(`--role ${role}: PostgreSQL reserves this name`);
}

async function printGrants(
  role: string,
  resources: readonly Resource[],
  settings: Settings & AccessSettings,
  io: Io,
): Promise<void> {
  const { databaseUrl } = settings;
  const privilegesIn = (catalog: Catalog) =>
    allPrivileges(
      resources,
      createViews(resources, buildModels(resources, catalog), settings)(ADMIN),
      settings,
    );
  const [privileges, info] =
    databaseUrl === undefined
      ? [privilegesIn(new Map()), undefined]
      : await withDatabase(databaseUrl, async (database) => {
          // The methods of a view differ from those of a table.
          const wanted = privilegesIn(await readTablesOf(database, resources.map(tableOf)));
          return [wanted, await runOnCatalog(database, databaseInfoStatement([...wanted.keys()]))];
        });
  const missing = [...privileges.keys()].filter(
    (table) => info && !info.tables.some(({ name }) => name === table),
  );
  if (missing.length > 0)
    printMessage(
      io,
      `missing in the database: ${missing.join(', ')}. Create them first (see npx vitrine schema --diff)`,
    );
  print(
    io,
    `-- Run this as the owner of the tables. If the role does not exist, first run:\n-- ${roleStatement(role).replace(/[\r\n]/g, ' ')};`,
  );
  print(io, sqlOf(grantsFor(role, privileges, info)));
}

/** `vitrine schema` */
export async function schema(args: readonly string[], io: Io): Promise<void> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return;
  refuseArguments(parsed.positionals);
  const { diff = false, role } = parsed.values;
  if (diff && role !== undefined) throw new UsageError('--diff and --role cannot be combined');
  if (role !== undefined) checkRole(role);
  const given = readSettings(io.env);
  const { resources, roles } = await loadDefinitions(given, io);
  const settings = { ...given, roles };
  if (role !== undefined) return printGrants(role, resources, settings, io);
  const systemTables = hasLogins(resources, settings) ? SYSTEM_TABLES : [];
  const state = diff ? await readState(resources, io) : { catalog: new Map(), mayChangeHistory: false };
  const schemas = new Set(resources.map(tableOf).flatMap((name) => name.split('.').slice(0, -1)));
  if (!diff && schemas.size > 0)
    printMessage(io, `these schemas must exist already: ${[...schemas].join(', ')}`);
  const renames = renamesOf(resources, state.catalog);
  const catalog = afterRenames(renames, state.catalog);
  const faults = diff ? compareSchema(resources, catalog, settings).faults : [];
  const statements = [
    ...renames.map(({ table, from, to }) => alter(table, renameClause(from, to))),
    ...statementsFor(resources, systemTables, { ...state, catalog }, faults),
  ];
  if (statements.length > 0) print(io, sqlOf(statements));
  else
    printMessage(
      io,
      faults.length > 0
        ? 'nothing is missing, but no statement can mend what is different. To see it, run: npx vitrine check'
        : 'nothing is missing. To compare the rest, run: npx vitrine check',
    );
  for (const line of leftOver(resources, catalog)) print(io, line);
}
