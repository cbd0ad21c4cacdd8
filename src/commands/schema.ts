import { readSettings, type Settings } from '../config.ts';
import { buildModels } from '../db/schema/build-models.ts';
import type { Catalog } from '../db/schema/catalog.ts';
import { text, type Database } from '../db/connection/database.ts';
import { tableOf } from '../db/schema/model-definition.ts';
import { databaseInfoStatement, type DatabaseInfo } from '../db/schema/relations.ts';
import { missingSchema } from '../db/schema/missing-schema.ts';
import { grantsFor } from '../resources/serve/grants.ts';
import { loadResources } from '../resources/load-registry.ts';
import { HISTORY, SYSTEM_TABLES } from '../resources/definition/system-tables.ts';
import { allPrivileges, REVOKE_HISTORY_CHANGES, MAY_CHANGE_HISTORY } from '../resources/serve/privileges.ts';
import type { Resource } from '../resources/definition/resource.ts';
import { readCatalog } from '../resources/serve/schema-setup.ts';
import { hasLogins, serveResources } from '../resources/serve/served-resource.ts';
import { requireRegistry } from '../service.ts';
import { noWords, parse, print, requireDatabaseUrl, tell, UsageError, withDatabase } from './command.ts';

const HELP = `
Usage: vitrine schema [--diff]
       vitrine schema --role NAME

Prints SQL, and runs none of it: what SCHEMA=apply would run on an empty database, or the grants of a role that
can serve the registry (RESOURCES) and nothing else.

Options
  --diff       only what is missing in the database that DATABASE_URL names
  --role NAME  the grants of this role; where DATABASE_URL is set, with what that database has of its own
  --help       show this
`;

const OPTIONS = { diff: { type: 'boolean' }, role: { type: 'string' } } as const;

const sqlOf = (statements: readonly string[]): string =>
  statements.map((statement) => `${statement};`).join('\n');

/** A database as the start finds it. */
interface Found {
  readonly catalog: Catalog;
  /** Whether the service's role would give up its right to change the history. */
  readonly givesUp: boolean;
}

/** What the start would run with SCHEMA=apply, in its order: the registry's tables, and then the service's own. */
function statementsFor(resources: readonly Resource[], own: readonly Resource[], found: Found): string[] {
  const { catalog, givesUp } = found;
  const makesHistory = own.includes(HISTORY) && !catalog.has(HISTORY.model);
  return [
    ...missingSchema(resources, catalog),
    ...missingSchema(own, catalog),
    ...(makesHistory || givesUp ? [REVOKE_HISTORY_CHANGES] : []),
  ];
}

const findDatabase = (resources: readonly Resource[]): Promise<Found> =>
  withDatabase(requireDatabaseUrl('schema --diff'), async (database) => {
    const [row] = await database.run({ text: MAY_CHANGE_HISTORY, values: [] }, 'read');
    return { catalog: await readCatalog(database, resources), givesUp: text(row?.[0]) === 't' };
  });

/** PostgreSQL takes these for something else than a role's name, in quotes, too. */
function checkRole(role: string): void {
  if (role === '' || role.includes('\0') || Buffer.byteLength(role) > 63)
    throw new UsageError('--role takes a name of 1 to 63 bytes');
  if (role === 'public' || role === 'none')
    throw new UsageError(`--role ${role}: this is not one role, but a word of PostgreSQL's own`);
}

const readSurroundings = async (database: Database, tables: readonly string[]): Promise<DatabaseInfo> => {
  const [row] = await database.run(databaseInfoStatement(tables), 'read');
  return JSON.parse(text(row?.[0]) ?? '{}') as DatabaseInfo;
};

async function printGrants(role: string, resources: readonly Resource[], settings: Settings): Promise<void> {
  const served = serveResources(resources, buildModels(resources), settings);
  const privileges = allPrivileges(resources, served, settings);
  const { databaseUrl } = settings;
  const surroundings =
    databaseUrl === undefined
      ? undefined
      : await withDatabase(databaseUrl, (database) => readSurroundings(database, [...privileges.keys()]));
  const missing = [...privileges.keys()].filter(
    (table) => surroundings && !surroundings.tables.some(({ name }) => name === table),
  );
  if (missing.length > 0)
    tell(`not in the database yet: ${missing.join(', ')}; create them first, see vitrine schema --diff`);
  const create = `create role "${role.replaceAll('"', '""')}" login password '...'`;
  print(
    `-- Run it as the owner of the tables. Where there is no such role yet, before it:\n-- ${create.replace(/[\r\n]/g, ' ')};`,
  );
  print(sqlOf(grantsFor(role, privileges, surroundings)));
}

/** `vitrine schema`: the SQL that the service would run, or needs to have been run. */
export async function schema(words: readonly string[]): Promise<void> {
  const given = parse(words, OPTIONS, HELP);
  if (!given) return;
  noWords(given.positionals);
  const { diff = false, role } = given.values;
  if (diff && role !== undefined) throw new UsageError('give one of --diff and --role');
  if (role !== undefined) checkRole(role);
  const settings = readSettings(process.env);
  const { registry, panels } = await loadResources(settings.resources);
  const resources = requireRegistry(registry, settings, panels);
  if (role !== undefined) return printGrants(role, resources, settings);
  const own = hasLogins(resources, settings) ? SYSTEM_TABLES : [];
  const found = diff ? await findDatabase(resources) : { catalog: new Map(), givesUp: false };
  const schemas = new Set(resources.map(tableOf).flatMap((name) => name.split('.').slice(0, -1)));
  if (!diff && schemas.size > 0) tell(`these schemas must be there already: ${[...schemas].join(', ')}`);
  const statements = statementsFor(resources, own, found);
  if (statements.length > 0) print(sqlOf(statements));
  else tell('nothing is missing: vitrine check tells whether all of it fits');
}
