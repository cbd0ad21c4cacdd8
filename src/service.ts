// Builds the service from its parts: database, registry, API, admin area and metrics.
import type { Level, Settings } from './config.ts';
import { createAdmin } from './admin/admin.ts';
import { createApiPages } from './admin/api-browser/api-browser.ts';
import { openDatabase, withIdentity, type Database } from './db/connection/database.ts';
import { createProbe } from './db/replicas/primary-probe.ts';
import { onlyPrimary, openReplicas } from './db/replicas/replicas.ts';
import type { Requester } from './db/lanes/requester.ts';
import { inTimeZone } from './db/schema/model-definition.ts';
import { missingSchema, renameWarnings, summarizeChanges } from './db/schema/missing-schema.ts';
import { addressHint, databaseFault, isTemporarilyUnavailable } from './db/connection/database-errors.ts';
import { StartError, startError } from './errors.ts';
import { createApi } from './http/api/api.ts';
import { createAccount } from './http/api/api-account.ts';
import { createChangeFeed } from './http/api/api-changes.ts';
import { createAuthentication } from './http/auth/authentication.ts';
import { createSharedCounts } from './http/auth/shared-counts.ts';
import { createHandler, type Handler } from './http/server/request-handler.ts';
import { createInFlight } from './http/load/in-flight-requests.ts';
import { useBasePath } from './http/message/base-path.ts';
import { sentPosition } from './http/message/write-position.ts';
import type { ApiRequest } from './http/message/message.ts';
import type { Logger } from './http/observability/logger.ts';
import { createMetrics, type Metrics } from './http/observability/metrics.ts';
import { createLoadLimits } from './http/load/load-limits.ts';
import type { Site } from './http/api/dispatch.ts';
import { createSqlCache } from './db/sql-cache.ts';
import { checkAdminArea, checkPanels, checkRegistry } from './resources/check/check-registry.ts';
import { checkChanges } from './resources/check/check-roles.ts';
import { createCursorTokens } from './query/cursor.ts';
import { pruneKeysStatement } from './query/statements/system-statements.ts';
import { createListing, type ListingSite } from './resources/records/api-listing.ts';
import { createChanges } from './resources/history/changes.ts';
import { readKey, SEALED_TABLES, startSealer, type Sealer } from './resources/history/seals.ts';
import { createWatermark } from './resources/history/watermark.ts';
import { createOperations, type Operations } from './resources/records/operations.ts';
import {
  EVENT,
  HISTORY,
  REQUEST_KEY,
  SEAL,
  SECOND_FACTOR,
  SECRET,
  SESSION,
  SHOWN_SYSTEM_TABLES,
  SYSTEM_TABLES,
  TOKEN,
  VIEW,
} from './resources/definition/system-tables.ts';
import type { Panel } from './resources/definition/panel.ts';
import { createPasswords } from './resources/users/password-hashing.ts';
import { createSavedViews } from './resources/users/saved-views.ts';
import { createPasswordLinks, type PasswordLinks } from './resources/users/password-links.ts';
import type { Resource } from './resources/definition/resource.ts';
import type { Roles } from './resources/definition/roles.ts';
import type { AdminArea } from './resources/definition/admin-area.ts';
import type { RegistryFile } from './resources/load-registry.ts';
import { userFactsOf } from './resources/access/rights.ts';
import {
  type AppliedSchema,
  applySchema,
  readCatalog,
  SchemaLocked,
  makeHistoryAppendOnly,
  requireSchema,
} from './resources/setup/schema-setup.ts';
import { readSecret } from './resources/setup/database-secret.ts';
import { REVOKE_HISTORY_CHANGES } from './resources/access/privileges.ts';
import { ANYONE, identityOf } from './resources/access/access.ts';
import { createViews, hasLogins, type ResourceView } from './resources/access/resource-view.ts';
import { createVersionCipher } from './resources/access/version-cipher.ts';
import { addressWarnings, databaseWarnings, startWarnings } from './resources/setup/start-warnings.ts';
import { createUserManagement, type UserManagement } from './resources/records/user-management.ts';
import { createEvents, type RecordEvent } from './resources/users/events.ts';
import { createSecondFactors, type SecondFactors } from './resources/users/second-factor.ts';
import { createSessions, type Sessions } from './resources/users/sessions.ts';
import { createTokens, type Tokens } from './resources/users/tokens.ts';
import { createUsers } from './resources/users/users.ts';
import type { Sharing } from './workers/worker-link.ts';

/** What is available once the database has been read and fits the registry. */
export interface Prepared extends Site {
  readonly operations: Operations;
  readonly users: UserManagement | undefined;
  /** Undefined without a user model, and if the database has no table for tokens. */
  readonly tokens: Tokens | undefined;
  readonly recordEvent: RecordEvent;
  /** Undefined without a user model, and if the database has no secret for them. */
  readonly passwordLinks: PasswordLinks | undefined;
  /** Undefined without a user model, and if the database has no table for them. */
  readonly sessions: Sessions | undefined;
  readonly secondFactors: SecondFactors | undefined;
}

export interface Service {
  readonly handler: Handler;
  readonly metrics: Metrics;
  /**
   * Applies or checks the schema; afterwards the handler serves requests. Waits for an unreachable database, unless `waits` is
   * false. Logs warnings, unless `warns` is false.
   * @throws StartError that lists every difference between the database and the registry
   */
  readonly prepare: (options?: { readonly waits?: boolean; readonly warns?: boolean }) => Promise<Prepared>;
  /** Begins the shutdown: responses close their connections, `/readyz` fails, and requests in flight get 10 seconds to finish. */
  readonly drain: () => void;
  /** Drains, waits for the requests in flight or the timeout, and closes the database connections. */
  readonly close: () => Promise<void>;
}

/** Milliseconds between attempts to reach the database or to apply the schema. */
const RETRY_DELAY = 500;

const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** What a registry file defines. */
export interface Definitions {
  readonly resources: readonly Resource[];
  readonly panels?: readonly Panel[];
  readonly roles?: Roles;
  readonly admin?: AdminArea;
  /** Who may read the change feed. */
  readonly changes?: Level;
}

/**
 * Checks what a registry file exports.
 * @throws StartError that lists every fault with its resource, panel or role and its key
 */
export function requireRegistry(
  {
    registry,
    panels = [],
    roles = {},
    admin = {},
    changes = 'admin',
  }: Pick<RegistryFile, 'registry'> & Partial<RegistryFile>,
  settings: Settings,
): Definitions {
  const faults = [
    ...checkRegistry(registry, roles, settings),
    ...checkPanels(panels),
    ...checkAdminArea(admin),
    ...checkChanges(changes, roles),
  ];
  if (faults.length > 0) throw startError('The registry cannot be used', faults);
  return {
    resources: inTimeZone(registry as readonly Resource[], settings.timeZone),
    panels: panels as readonly Panel[],
    roles: roles as Roles,
    admin: admin as AdminArea,
    changes: changes as Level,
  };
}

/** Attempts to apply the schema while another transaction locks a table: together more than a minute. */
const MAX_ATTEMPTS = 20;

/** Applies the schema. Between attempts it releases its locks, so that blocked statements can run. */
async function applyWithRetries(
  apply: () => Promise<AppliedSchema>,
  logger: Logger,
  mustStop: () => boolean,
): Promise<AppliedSchema> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      const applied = await apply();
      if (applied.changes.length > 0) logger.info({ message: summarizeChanges(applied.changes) });
      for (const { statement } of applied.changes) logger.debug({ message: 'schema', statement });
      return applied;
    } catch (error) {
      if (!(error instanceof SchemaLocked) || attempts === MAX_ATTEMPTS || mustStop()) throw error;
      logger.warn({ message: `trying again: ${error.message}` });
      await sleep(RETRY_DELAY);
    }
  }
}

/** The database for the statements of a resource: with the identity of the caller, if they may reach a table that needs it. */
const identified = (
  database: Database,
  { hasIdentity, deletesIdentity, seenBy }: Pick<ResourceView, 'hasIdentity' | 'deletesIdentity' | 'seenBy'>,
  { id, method }: Pick<ApiRequest, 'id' | 'method'>,
): Database =>
  hasIdentity || (deletesIdentity && method === 'DELETE')
    ? withIdentity(database, identityOf(seenBy, id))
    : database;

/** Creates the service. It does nothing before `prepare`, and the handler answers 503 until that is done. */
export function createService(
  given: Settings,
  { resources, panels = [], roles = {}, admin: adminArea = {}, changes: feedLevel = 'admin' }: Definitions,
  databaseUrl: string,
  logger: Logger,
  {
    processes = 1,
    secret: sharedSecret,
    counts = createSharedCounts(given),
    siblings,
  }: Partial<Sharing> = {},
): Service {
  const settings = { ...given, roles };
  const leaveBasePath = useBasePath(settings.basePath);
  const slowTimeout = settings.slowTimeout * 1000;
  const database = openDatabase(databaseUrl, slowTimeout);
  const { throttle, familiars, rateLimit } = counts;
  const inFlight = createInFlight();
  const loadLimits = createLoadLimits(settings, inFlight.count, processes);
  const passwords = createPasswords();
  const metrics = createMetrics({
    lanes: () => ({ ...database.lanes(), ...passwords.lanes(), ...site?.changes?.lanes() }),
    replicas: () => replicas.states(),
    logins: throttle.counts,
    loadLimits,
    isHistoryBroken: () => sealer?.isBroken() === true,
    siblings,
  });
  let sealer: Sealer | undefined;
  const probe = createProbe(database);
  let site: Prepared | undefined;
  let isClosing = false;
  let isClosed = false;
  let ending: Promise<void> | undefined;
  let pruning: NodeJS.Timeout | undefined;
  let replicas = onlyPrimary(database);

  /** May run again after an error: no step needs the database once `openReplicas` has opened connections. */
  async function prepareOnce(waits: boolean, warns: boolean): Promise<Prepared> {
    // Commands do not seal.
    const { historyKey, historyWitness: witness } = settings;
    const sealingKey = waits && historyKey !== undefined ? readKey(historyKey, 'private') : undefined;
    const catalog = await readCatalog(database, resources);
    const hasUsers = hasLogins(resources, settings);
    const definitions = hasUsers ? [...resources, ...SYSTEM_TABLES] : resources;
    const isComplete = settings.schema !== 'apply' || missingSchema(definitions, catalog).length === 0;
    const { changes, schema } = isComplete
      ? { changes: [], schema: requireSchema(resources, catalog, settings) }
      : await applyWithRetries(
          () => applySchema(database, definitions, settings),
          logger,
          () => isClosing,
        );
    for (const message of renameWarnings(changes, resources, catalog)) logger.warn({ message });
    if (settings.schema === 'apply' && hasUsers && (await makeHistoryAppendOnly(database))) {
      logger.info({ message: 'made the history append-only for the database role' });
      logger.debug({ message: 'schema', statement: REVOKE_HISTORY_CHANGES });
    }
    const { models } = schema;
    const { secret, isStored } = await readSecret(database, models.has(SECRET.model), sharedSecret);
    const versionCipher = createVersionCipher(secret);
    const views = createViews(resources, models, settings, versionCipher);
    const served = views(ANYONE);
    const warnings = warns ? startWarnings(resources, served, schema) : [];
    if (warns) warnings.push(...(await databaseWarnings(database, resources)));
    replicas = await openReplicas({
      urls: waits ? settings.databaseReadUrl : [], // commands do not serve
      maxLag: settings.maxLag,
      slowTimeout,
      primary: database,
      secret,
      report: (level, message) => logger[level]({ message }),
    });
    for (const message of warnings) logger.warn({ message });
    const routing = replicas;
    const history = models.get(HISTORY.model);
    const operationsOn = (one: Database, requester?: Requester): Operations =>
      createOperations(one, passwords, requester);
    const userResource = hasUsers ? served.get(settings.userModel) : undefined;
    const facts = userFactsOf(resources, roles);
    const sessions = models.get(SESSION.model);
    const factorModel = models.get(SECOND_FACTOR.model);
    const secondFactors = factorModel && createSecondFactors(database, factorModel);
    if (userResource && settings.mfa === 'required' && !secondFactors)
      throw new StartError(
        `MFA=required needs the table ${SECOND_FACTOR.model}, which is missing, or which the database role may not use.`,
      );
    const users = userResource && createUsers(database, userResource.model, sessions, factorModel, facts);
    const viewTable = models.get(VIEW.model);
    const tokenModel = models.get(TOKEN.model);
    // What a command does, its output says.
    const logEvent = logger[waits ? 'info' : 'debug'];
    const events = createEvents(database, models.get(EVENT.model), logEvent);
    const { recordEvent } = events;
    const tokens =
      userResource &&
      tokenModel &&
      createTokens(database, tokenModel, userResource.model, facts, recordEvent);
    const unknown = (warns && (await tokens?.unknownModels(served.keys()))) || [];
    if (unknown.length > 0)
      logger.warn({ message: `tokens allow resources that are not there: ${unknown.join(', ')}` });
    const passwordLinks = users && isStored ? createPasswordLinks(users, secret) : undefined;
    const authentication =
      users && createAuthentication(users, passwords, throttle, familiars, tokens, events, passwordLinks);
    const logins =
      userResource && sessions && createSessions(database, sessions, userResource.model, factorModel, facts);
    const requestKeys = models.get(REQUEST_KEY.model);
    const pruneKeys = (): void => {
      if (requestKeys) void database.run(pruneKeysStatement(requestKeys), 'write').catch(() => undefined);
    };
    const prune = (): void => {
      for (const stored of [logins, tokens]) void stored?.prune().catch(() => undefined);
      if (userResource) void secondFactors?.prune(userResource.model).catch(() => undefined);
      pruneKeys();
    };
    if (waits) pruneKeys(); // commands do not serve
    if (userResource) pruning = setInterval(prune, 60_000).unref();
    const seals = models.get(SEAL.model);
    if (sealingKey && history && seals)
      sealer ??= startSealer({
        database,
        models: SEALED_TABLES.flatMap((name) => models.get(name) ?? []),
        seals,
        key: sealingKey,
        witness,
        report: (level, fields) => logger[level](fields),
        storeEvent: events.storeEvent,
      });
    else if (sealingKey && warns)
      logger.warn({ message: `HISTORY_KEY has no effect without ${HISTORY.model} and ${SEAL.model}` });
    const hasAdmin = authentication !== undefined && sessions !== undefined && history !== undefined;
    const pages = createApiPages(served, hasAdmin);
    const cursors = createCursorTokens(secret);
    const listings: ListingSite = { maxPage: settings.maxPage, pageSql: createSqlCache(), cursors };
    const databaseFor = (request: ApiRequest, resource: ResourceView): Database =>
      identified(routing.reading(request.requester, sentPosition(request)), resource, request);
    const operations = (request: ApiRequest, resource: ResourceView): Operations =>
      operationsOn(identified(routing.primary.for(request.requester), resource, request), request.requester);
    site = {
      resources: served,
      operations: operationsOn(database),
      tokens,
      recordEvent,
      passwordLinks,
      sessions: logins,
      secondFactors,
      users:
        users &&
        createUserManagement(database, users, userResource.model, passwords, {
          recording: userResource.recording && { ...userResource.recording, source: 'command' },
          minPassword: settings.minPassword,
          ownedByUser: userResource.writes.ownedByUser,
        }),
      api: createApi({
        views,
        resources: served,
        databaseFor,
        operations,
        requestKeys,
        listing: (reader) => createListing(reader, listings),
        pages,
        hasAdmin,
        hasUsers,
        settings,
      }),
      account:
        authentication &&
        createAccount({ views, authentication, tokens, databaseFor, operations, settings, recordEvent }),
      changes:
        authentication &&
        history &&
        createChangeFeed({
          views,
          level: feedLevel,
          changes: createChanges(history, cursors, settings),
          watermark: createWatermark(database, [history]),
          databaseFor: (request, seenBy, hasIdentity) =>
            identified(
              routing.primary.for(request.requester),
              { hasIdentity, deletesIdentity: false, seenBy },
              request,
            ),
          isClosing: () => isClosing,
        }),
      pages,
      authentication,
      admin:
        users && authentication && logins && history
          ? createAdmin({
              settings,
              replicas: routing,
              definitions: [...resources, ...SHOWN_SYSTEM_TABLES],
              schema,
              views,
              panels,
              adminArea,
              passwords,
              authentication,
              admitted: facts.admitted,
              sessions: logins,
              tokens,
              savedViews: viewTable && createSavedViews(database, viewTable),
              passwordLinks,
              accounts: users,
              secondFactors,
              secret,
              logger,
              recordEvent,
            })
          : undefined,
      positionAfter: routing.positionAfter,
      isReady: async () => {
        if (isClosing) return false;
        return probe();
      },
      isClosed: () => isClosed,
    };
    return site;
  }

  async function prepare({ waits = true, warns = true } = {}): Promise<Prepared> {
    // First, because a parameter without effect can be why the database refuses the service.
    if (warns) for (const message of addressWarnings(settings)) logger.warn({ message });
    for (let attempts = 0; ; attempts += 1) {
      try {
        return await prepareOnce(waits, warns);
      } catch (error) {
        if (isClosing || !waits || !isTemporarilyUnavailable(error)) throw databaseFault(error);
        const message = `waiting for the database: ${(error as Error).message}${addressHint(error)}`;
        if (attempts % 10 === 0) logger.warn({ message });
        await sleep(RETRY_DELAY);
      }
    }
  }

  const drain = (): Promise<void> => {
    isClosing = true;
    return (ending ??= inFlight.drained());
  };

  return {
    handler: createHandler({
      settings,
      logger,
      metrics,
      inFlight,
      loadLimits,
      rateLimit,
      site: () => site,
      isClosing: () => isClosing,
    }),
    metrics,
    prepare,
    drain: () => void drain(),
    close: async () => {
      await drain();
      isClosed = true;
      clearInterval(pruning);
      await sealer?.close();
      metrics.close();
      loadLimits.close();
      leaveBasePath();
      await replicas.close();
      await database.close();
    },
  };
}
