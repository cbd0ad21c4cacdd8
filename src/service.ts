import type { Settings } from './config.ts';
import { buildModels } from './db/build-models.ts';
import { catalogStatement, parseCatalog, type Catalog } from './db/catalog.ts';
import { openDatabase, text, type Database } from './db/connection.ts';
import { tableOf } from './db/definition.ts';
import { differences, missingIndexes, missingSchema, type Privilege } from './db/schema.ts';
import { isAway, isDatabaseError } from './db/sqlstate.ts';
import { StartError, startError } from './errors.ts';
import { createApi } from './http/api.ts';
import { createAuthentication } from './http/authentication.ts';
import { createHandler, type Handler, type Site } from './http/handler.ts';
import type { Logger } from './http/logger.ts';
import { createThrottle } from './http/throttle.ts';
import { checkRegistry } from './resources/check.ts';
import { createOperations, type Operations } from './resources/operations.ts';
import { createPasswords } from './resources/passwords.ts';
import type { Method, Resource } from './resources/resource.ts';
import { serveResources, type ServedResource, type ServedResources } from './resources/served.ts';
import { createUsers, type Users } from './resources/users.ts';

/** What a database that was read and fits the registry makes possible. */
export interface Prepared extends Site {
  readonly operations: Operations;
  readonly users: Users | undefined;
}

export interface Service {
  readonly handler: Handler;
  /**
   * Applies or checks the schema, and from then on the handler serves. A database that is not there yet is waited for, unless
   * `waits` is false.
   * @throws StartError that lists everything in which the database does not fit
   */
  readonly prepare: (options?: { readonly waits?: boolean }) => Promise<Prepared>;
  /** From now on replies close their connections, and `/readyz` says no. */
  readonly drain: () => void;
  /** Closes the database connections. */
  readonly close: () => Promise<void>;
}

const RETRY = 500;

const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * The registry as `Resource[]`.
 * @throws StartError that names every fault, its resource and its key
 */
export function requireRegistry(registry: unknown, settings: Settings): readonly Resource[] {
  const faults = checkRegistry(registry, settings);
  if (faults.length > 0) throw startError('The registry cannot be used', faults);
  return registry as readonly Resource[];
}

const tablesOf = (resources: readonly Resource[]): string[] => resources.map(tableOf);

async function readCatalog(database: Database, resources: readonly Resource[]): Promise<Catalog> {
  const [row] = await database.run(catalogStatement(tablesOf(resources)), 'work');
  return parseCatalog(text(row?.[0]) ?? '[]');
}

/** Reads the catalog, waiting for a database that is not there yet. */
async function awaitCatalog(
  database: Database,
  resources: readonly Resource[],
  logger: Logger,
  givesUp: () => boolean,
): Promise<Catalog> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await readCatalog(database, resources);
    } catch (error) {
      if (givesUp() || !isAway(error)) throw databaseFault(error);
      if (tries % 10 === 0) logger.warn({ message: `waiting for the database: ${(error as Error).message}` });
      await sleep(RETRY);
    }
  }
}

const databaseFault = (error: unknown): unknown =>
  isDatabaseError(error) ? new StartError(`The database cannot be used: ${error.message}`) : error;

/** Creates what is missing. Processes that start together take turns, so each thing is created once. */
async function applySchema(
  database: Database,
  resources: readonly Resource[],
  logger: Logger,
): Promise<void> {
  await database.transaction(async (run) => {
    await run("select pg_advisory_xact_lock(hashtext('vitrine schema'))");
    const { text: query, values } = catalogStatement(tablesOf(resources));
    const [row] = await run(query, values as string[]);
    for (const statement of missingSchema(resources, parseCatalog(text(row?.[0]) ?? '[]'))) {
      try {
        await run(statement);
      } catch (error) {
        throw new StartError(`The schema cannot be applied: ${(error as Error).message}\n  ${statement}`);
      }
      logger.info({ message: 'schema', statement });
    }
  });
}

/** What the service does with each table. A record is locked before it is deleted, which PostgreSQL counts as UPDATE. */
const NEEDS: Record<Method, readonly Privilege[]> = {
  GET: ['SELECT'],
  POST: ['SELECT', 'INSERT'],
  PUT: ['SELECT', 'UPDATE'],
  DELETE: ['SELECT', 'UPDATE', 'DELETE'],
};

function privilegesOf({ access, methods }: ServedResource): readonly Privilege[] {
  const used = [...methods].filter((method) => method === 'GET' || access !== 'default');
  return [...new Set(['SELECT' as const, ...used.flatMap((method) => NEEDS[method])])];
}

/**
 * Compares the registry with the database without changing anything.
 * @returns the models as the database has them
 * @throws StartError that lists every difference
 */
async function checkSchema(
  database: Database,
  resources: readonly Resource[],
  settings: Settings,
): Promise<{ served: ServedResources; catalog: Catalog }> {
  const catalog = await readCatalog(database, resources);
  const served = serveResources(resources, buildModels(resources, catalog), settings);
  const privileges = new Map([...served.values()].map((resource) => [resource.name, privilegesOf(resource)]));
  const found = differences(resources, catalog, privileges);
  if (found.length > 0) throw startError('The database does not fit the registry', found);
  return { served, catalog };
}

function warn(
  served: ServedResources,
  resources: readonly Resource[],
  catalog: Catalog,
  logger: Logger,
): void {
  for (const { name, output, access, read, methods } of served.values()) {
    if (access === 'user' && read === 'admin' && methods.has('PUT')) {
      logger.warn({
        message: `${name} can be read by admins alone, but a PUT shows its record to any user who may write it`,
      });
    }
    const shown = output.filter(({ isPassword }) => isPassword).map((column) => column.name);
    if (shown.length > 0)
      logger.warn({ message: `${name} outputs the password hashes in ${shown.join(', ')}: exclude them` });
  }
  for (const message of missingIndexes(resources, catalog)) logger.warn({ message });
}

/** Puts the parts together. Nothing happens before `prepare`; until it is done the handler answers 503. */
export function createService(
  settings: Settings,
  resources: readonly Resource[],
  databaseUrl: string,
  logger: Logger,
): Service {
  const database = openDatabase(databaseUrl);
  let site: Prepared | undefined;
  let isClosing = false;

  async function prepare({ waits = true } = {}): Promise<Prepared> {
    const first = await awaitCatalog(database, resources, logger, () => isClosing || !waits);
    try {
      if (settings.schema === 'apply' && missingSchema(resources, first).length > 0) {
        await applySchema(database, resources, logger);
      }
      const { served, catalog } = await checkSchema(database, resources, settings);
      warn(served, resources, catalog, logger);
      const passwords = createPasswords();
      const operations = createOperations(database, served, passwords);
      const userModel = served.get(settings.userModel)?.model;
      const hasUsers = ['username', 'password', 'active', 'admin'].every((name) =>
        userModel?.columns.some((column) => column.name === name),
      );
      const users = userModel && hasUsers ? createUsers(database, userModel, passwords) : undefined;
      site = {
        resources: served,
        operations,
        users,
        api: createApi(served, operations, settings),
        authentication: users && createAuthentication(users, passwords, createThrottle()),
        isReady: async () => {
          if (isClosing) return false;
          await database.run({ text: 'select 1', values: [], fixed: true }, 'quick');
          return true;
        },
      };
      return site;
    } catch (error) {
      throw databaseFault(error);
    }
  }

  return {
    handler: createHandler({ settings, logger, site: () => site, isClosing: () => isClosing }),
    prepare,
    drain: () => {
      isClosing = true;
    },
    close: () => database.close(),
  };
}
