import type { Settings } from '../config.ts';
import { buildModels } from '../db/build-models.ts';
import { catalogStatement, parseCatalog, type Catalog } from '../db/catalog.ts';
import { text, type Database } from '../db/connection.ts';
import { tableOf } from '../db/definition.ts';
import type { Model } from '../db/model.ts';
import { differences, missingSchema, type Privilege } from '../db/schema.ts';
import { isDatabaseError } from '../db/sqlstate.ts';
import { StartError, startError } from '../errors.ts';
import { HISTORY, OWN } from './own.ts';
import { apiPrivileges, APPEND_ONLY, ownPrivileges } from './privileges.ts';
import type { Resource } from './resource.ts';
import { serveResources } from './served.ts';

/** What the database holds, and the models of the registry and of the service itself as it has them. */
export interface Schema {
  readonly catalog: Catalog;
  readonly models: ReadonlyMap<string, Model>;
  /** The service's own tables that are not there, or that its role may not use. */
  readonly missing: readonly string[];
}

const tablesOf = (definitions: readonly Resource[]): string[] => definitions.map(tableOf);

export async function readCatalog(database: Database, resources: readonly Resource[]): Promise<Catalog> {
  const [row] = await database.run(catalogStatement(tablesOf([...resources, ...OWN])), 'work');
  return parseCatalog(text(row?.[0]) ?? '[]');
}

/** Insufficient privilege. */
const NOT_ALLOWED = '42501';

const notApplied = (error: unknown, statement: string): StartError =>
  new StartError(`The schema cannot be applied: ${(error as Error).message}\n  ${statement}`);

/**
 * Creates what is missing. Processes that start together take turns, so each thing is created once.
 * @param onStatement is told each statement that was run
 */
export async function applySchema(
  database: Database,
  definitions: readonly Resource[],
  onStatement: (statement: string) => void,
): Promise<void> {
  await database.transaction(async (run) => {
    await run("select pg_advisory_xact_lock(hashtext('vitrine schema'))");
    const { text: query, values } = catalogStatement(tablesOf(definitions));
    const [row] = await run(query, values);
    const catalog = parseCatalog(text(row?.[0]) ?? '[]');
    const theirs = definitions.filter((definition) => !OWN.includes(definition));
    const apply = async (statement: string): Promise<void> => {
      try {
        await run(statement);
      } catch (error) {
        if (isDatabaseError(error) && error.code === NOT_ALLOWED) throw error;
        throw notApplied(error, statement);
      }
      onStatement(statement);
    };
    for (const statement of missingSchema(theirs, catalog)) {
      await apply(statement).catch((error: unknown) => {
        throw error instanceof StartError ? error : notApplied(error, statement);
      });
    }
    // A role that may not create tables can still serve those that are there; the comparison says what it lacks.
    await run('savepoint own');
    try {
      const makesHistory = theirs.length < definitions.length && !catalog.has(HISTORY.model);
      const own = missingSchema(
        OWN.filter((definition) => definitions.includes(definition)),
        catalog,
      );
      for (const statement of [...own, ...(makesHistory ? [APPEND_ONLY] : [])]) await apply(statement);
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      await run('rollback to savepoint own');
    }
  }, 'schema');
}

/** Whether one of the service's own tables is there, and open to its role. */
function mayUse(definition: Resource, catalog: Catalog): boolean {
  const found = catalog.get(tableOf(definition));
  return found !== undefined && ownPrivileges(definition).every((one) => found.privileges.includes(one));
}

/**
 * Compares the registry with the database without changing anything.
 * @throws StartError that lists every difference
 */
export async function checkSchema(
  database: Database,
  resources: readonly Resource[],
  settings: Settings,
): Promise<Schema> {
  const catalog = await readCatalog(database, resources);
  const own = OWN.filter((definition) => mayUse(definition, catalog));
  const definitions = [...resources, ...own];
  const models = buildModels(definitions, catalog);
  const served = serveResources(resources, models, settings);
  const privileges = new Map<string, readonly Privilege[]>([
    ...[...served.values()].map((resource) => [resource.name, apiPrivileges(resource)] as const),
    ...own.map((definition) => [definition.model, ownPrivileges(definition)] as const),
  ]);
  const faults = differences(definitions, catalog, privileges);
  if (faults.length > 0) throw startError('The database does not fit the registry', faults);
  const missing = OWN.filter((definition) => !own.includes(definition)).map(tableOf);
  return { catalog, models, missing };
}
