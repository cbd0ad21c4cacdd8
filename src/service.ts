import type { Settings } from './config.ts';
import { createAdmin } from './admin/admin.ts';
import { createApiPages } from './admin/api-browser/api-browser.ts';
import type { Catalog } from './db/schema/catalog.ts';
import { openDatabase, type Database } from './db/connection/database.ts';
import type { Requester } from './db/scheduling/requester.ts';
import { missingIndexes, missingSchema } from './db/schema/missing-schema.ts';
import { isAway, isDatabaseError, reasonOf } from './db/connection/database-errors.ts';
import { StartError, startError } from './errors.ts';
import { createApi } from './http/api/api.ts';
import { createAuthentication } from './http/auth/authentication.ts';
import { createHandler, type Handler } from './http/server/request-handler.ts';
import { createInFlight } from './http/server/in-flight-requests.ts';
import type { Logger } from './http/observability/logger.ts';
import { createMetrics, type Metrics } from './http/observability/metrics.ts';
import { createPressure } from './http/load/pressure.ts';
import type { Site } from './http/api/site.ts';
import { createThrottle } from './http/auth/login-throttle.ts';
import { checkRegistry } from './resources/check/check-registry.ts';
import { createListing, type ListingSite } from './resources/records/listing.ts';
import { createOperations, type Operations } from './resources/records/operations.ts';
import { HISTORY, SYSTEM_TABLES, SESSION } from './resources/definition/system-tables.ts';
import { checkPanels, type Panel } from './resources/definition/panel.ts';
import { createPasswords } from './resources/passwords/password-hashing.ts';
import { recordingOf } from './resources/serve/recording.ts';
import type { Resource } from './resources/definition/resource.ts';
import {
  applySchema,
  checkSchema,
  readCatalog,
  SchemaLocked,
  makeHistoryAppendOnly,
  type Schema,
} from './resources/serve/schema-setup.ts';
import { hasLogins, serveResources, type ServedResources } from './resources/serve/served-resource.ts';
import { createSessions } from './resources/users/sessions.ts';
import { createUsers, type Users } from './resources/users/users.ts';

/** What a database that was read and fits the registry makes possible. */
export interface Prepared extends Site {
  readonly operations: Operations;
  readonly users: Users | undefined;
}

export interface Service {
  readonly handler: Handler;
  readonly metrics: Metrics;
  /**
   * Applies or checks the schema, and from then on the handler serves. A database that is not there yet is waited for, unless
   * `waits` is false.
   * @throws StartError that lists everything in which the database does not fit
   */
  readonly prepare: (options?: { readonly waits?: boolean }) => Promise<Prepared>;
  /** From now on replies close their connections, `/readyz` says no, and the time runs that requests in flight are given. */
  readonly drain: () => void;
  /** Drains, and closes the database connections once no request is in flight, or the time for them is over. */
  readonly close: () => Promise<void>;
}

const RETRY = 500;

const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * The registry as `Resource[]`; the panels, which may be anything as well, are `Panel[]` from then on.
 * @throws StartError that names every fault, its resource or panel and its key
 */
export function requireRegistry(
  registry: unknown,
  settings: Settings,
  panels: unknown = [],
): readonly Resource[] {
  const faults = [...checkRegistry(registry, settings), ...checkPanels(panels)];
  if (faults.length > 0) throw startError('The registry cannot be used', faults);
  return registry as readonly Resource[];
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

/** How often the schema is tried to be applied while others hold a lock on a table, which is for more than a minute. */
const MOST_TRIES = 20;

/** Applies the schema; between two tries it lets those through who have waited behind it. */
async function applied(
  apply: () => Promise<readonly string[]>,
  logger: Logger,
  givesUp: () => boolean,
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      for (const statement of await apply()) logger.info({ message: 'schema', statement });
      return;
    } catch (error) {
      if (!(error instanceof SchemaLocked) || tries === MOST_TRIES || givesUp()) throw error;
      logger.warn({ message: `trying again: ${error.message}` });
      await sleep(RETRY);
    }
  }
}

/** Errors after which somebody should look at the address: nobody there, a refused login, no such database. */
const ADDRESS_FAULTS = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|CONNECT_TIMEOUT|28|3D)/;

function databaseFault(error: unknown): unknown {
  if (!isDatabaseError(error)) return error;
  const hint = ADDRESS_FAULTS.test(error.code) ? '. Look at DATABASE_URL' : '';
  return new StartError(`The database cannot be used: ${reasonOf(error)}${hint}`);
}

function warn(
  served: ServedResources,
  resources: readonly Resource[],
  { catalog, missing }: Schema,
  logger: Logger,
): void {
  if (missing.length > 0) {
    const names = missing.join(' and ');
    logger.warn({
      message: `no table ${names} that the database role may use: without both there is no admin area, and without vitrine_history no change is written down`,
    });
  }
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

/** Milliseconds within which the database has to answer for the service to be ready. */
const PROBE_TIMEOUT = 800;

/** Asks the database for a sign of life. Requests share one statement, so that a frozen database gets no queue of them. */
function createProbe(ask: () => Promise<unknown>): () => Promise<boolean> {
  let running: Promise<boolean> | undefined;
  return async () => {
    running ??= ask()
      .then(
        () => true,
        () => false,
      )
      .finally(() => (running = undefined));
    const late = sleep(PROBE_TIMEOUT).then(() => false);
    return Promise.race([running, late]);
  };
}

/** Puts the parts together. Nothing happens before `prepare`; until it is done the handler answers 503. */
export function createService(
  settings: Settings,
  resources: readonly Resource[],
  databaseUrl: string,
  logger: Logger,
  panels: readonly Panel[] = [],
): Service {
  const database = openDatabase(databaseUrl, settings.slowTimeout * 1000);
  const throttle = createThrottle();
  const inFlight = createInFlight();
  const pressure = createPressure(settings, inFlight.count);
  const metrics = createMetrics({ database, logins: throttle.counts, pressure });
  const probe = createProbe(() => database.run({ text: 'select 1', values: [], fixed: true }, 'quick'));
  let site: Prepared | undefined;
  let isClosing = false;
  let ending: Promise<void> | undefined;
  let pruning: NodeJS.Timeout | undefined;

  async function prepare({ waits = true } = {}): Promise<Prepared> {
    const first = await awaitCatalog(database, resources, logger, () => isClosing || !waits);
    try {
      const hasUsers = hasLogins(resources, settings);
      const definitions = hasUsers ? [...resources, ...SYSTEM_TABLES] : resources;
      if (settings.schema === 'apply' && missingSchema(definitions, first).length > 0)
        await applied(
          () => applySchema(database, definitions, settings),
          logger,
          () => isClosing,
        );
      const schema = await checkSchema(database, resources, settings);
      if (settings.schema === 'apply' && hasUsers)
        for (const statement of await makeHistoryAppendOnly(database))
          logger.info({ message: 'schema', statement });
      const { models } = schema;
      const served = serveResources(resources, models, settings);
      warn(served, resources, schema, logger);
      const passwords = createPasswords();
      const log = models.get(HISTORY.model);
      const operationsOn = (one: Database, requester?: Requester): Operations =>
        createOperations(one, served, passwords, log, requester);
      const userResource = hasUsers ? served.get(settings.userModel) : undefined;
      const recording = userResource && recordingOf({ ...userResource, source: 'command' }, null, log);
      const users =
        userResource &&
        createUsers(database, userResource.model, passwords, {
          recording,
          sessions: models.get(SESSION.model),
          minPassword: settings.minPassword,
        });
      const authentication = users && createAuthentication(users, passwords, throttle);
      const sessions = models.get(SESSION.model);
      const logins = userResource && sessions && createSessions(database, sessions, userResource.model);
      if (logins) pruning = setInterval(() => void logins.prune().catch(() => undefined), 60_000).unref();
      const hasAdmin = authentication !== undefined && sessions !== undefined && log !== undefined;
      const pages = createApiPages(served, hasAdmin);
      const listings: ListingSite = { resources: served, maxPage: settings.maxPage, firstPages: new Map() };
      site = {
        resources: served,
        operations: operationsOn(database),
        users,
        api: createApi({
          resources: served,
          database,
          operations: (requester) => operationsOn(database.for(requester), requester),
          listing: (requester) => createListing(database.for(requester), listings),
          pages,
          settings,
        }),
        pages,
        authentication,
        admin:
          authentication && logins && log
            ? createAdmin({
                settings,
                database,
                definitions: [...resources, HISTORY],
                schema,
                panels,
                passwords,
                authentication,
                sessions: logins,
                logger,
              })
            : undefined,
        isReady: async () => {
          if (isClosing) return false;
          return probe();
        },
      };
      return site;
    } catch (error) {
      throw databaseFault(error);
    }
  }

  const drain = (): Promise<void> => {
    isClosing = true;
    return (ending ??= inFlight.over());
  };

  return {
    handler: createHandler({
      settings,
      logger,
      metrics,
      inFlight,
      pressure,
      site: () => site,
      isClosing: () => isClosing,
    }),
    metrics,
    prepare,
    drain: () => void drain(),
    close: async () => {
      await drain();
      clearInterval(pruning);
      metrics.close();
      pressure.close();
      await database.close();
    },
  };
}
