// The library: `createVitrine` runs the service inside another program.
import type { IncomingMessage } from 'node:http';
import { createClient } from './client.ts';
import type { Client } from './client-types.ts';
import { checkSettings, type Level, type Settings } from './config.ts';
import { StartError } from './errors.ts';
import { authenticateRequest } from './http/auth/authenticate-request.ts';
import { createLogger, type LogWriter } from './http/observability/logger.ts';
import { Connection } from './http/server/connection.ts';
import { fetchAs } from './http/server/program-requests.ts';
import { openListener, type Listener } from './http/server/listener.ts';
import type { Handler } from './http/server/request-handler.ts';
import type { AdminArea } from './resources/definition/admin-area.ts';
import type { Panel } from './resources/definition/panel.ts';
import type { WrittenResource } from './resources/definition/resource.ts';
import type { Roles } from './resources/definition/roles.ts';
import { exactJson } from './resources/definition/validators.ts';
import { createService, requireRegistry, type Prepared } from './service.ts';

export type { AccessLevel, Settings } from './config.ts';
export type { ColumnDefinition, ModelDefinition } from './db/schema/model-definition.ts';
export type { LogEntry, LogWriter } from './http/observability/logger.ts';
export type { Handler } from './http/server/request-handler.ts';
export type { AdminArea } from './resources/definition/admin-area.ts';
export type { Panel, PanelContext, PanelSeries, PanelTable } from './resources/definition/panel.ts';
export type {
  ActionContext,
  ActionOperations,
  ActionRecord,
  CustomAction,
} from './resources/definition/custom-action.ts';
export { ActionMessage as Message } from './resources/definition/custom-action.ts';
export type { Method, Registry, Row, WrittenResource as Resource } from './resources/definition/resource.ts';
export type { Roles } from './resources/definition/roles.ts';
export { StartError } from './errors.ts';

/** The settings of the service in camel case. `resources` holds the resources themselves instead of a file name. */
export interface VitrineOptions extends Partial<Omit<Settings, 'resources' | 'databaseUrl' | 'workers'>> {
  readonly databaseUrl: string;
  readonly resources: readonly WrittenResource[];
  /** Panels on the start page of the admin area. */
  readonly panels?: readonly Panel[];
  /** The admin area as a whole. */
  readonly admin?: AdminArea;
  /** What users may do beyond the rules of the resources. */
  readonly roles?: Roles;
  /** Who may read the change feed: a level, or a list of roles. By default, admins. */
  readonly changes?: Level;
  /** Receives the log: lines of JSON unless `logFormat` says otherwise, and their fields. Without it, they go to standard error. */
  readonly log?: LogWriter;
}

/** A user whose password was verified. */
export interface AuthenticatedUser {
  readonly id: string;
  readonly name: string;
  readonly admin: boolean;
}

export interface Vitrine {
  /** Answers a request: for `http.createServer(vitrine.handler)`, or for the paths under `/api/` of your own server. */
  readonly handler: Handler;
  /**
   * The active user whose credentials (Basic) a request of your own routes carries; undefined if they are missing or wrong. Failures
   * count towards the limits of failed logins.
   * @throws Problem with `status` 403 for a write from a page of another origin, 429 after too many failures, 503 if the database is
   * away; StartError without a user model
   */
  readonly authenticate: (request: IncomingMessage) => Promise<AuthenticatedUser | undefined>;
  /**
   * The resources as the user with this name may use them, without HTTP: `vitrine.as<typeof resources>({ name: 'ada' })`. The program
   * vouches for the user. Without a user, as a client without credentials. The calls are those of `vitrine/client`.
   */
  readonly as: <const Resources extends readonly WrittenResource[]>(
    user?: Pick<AuthenticatedUser, 'name'>,
  ) => Client<Resources>;
  /** Starts a server at `host` and `port`. */
  readonly start: () => Promise<{ readonly url: string }>;
  /**
   * Waits at most 10 seconds for the requests in flight, from any server. Then stops the server of `start`, if any, and closes the
   * database connections. Your own server keeps running.
   */
  readonly close: () => Promise<void>;
}

/**
 * Creates the service. Resolves when the database has been read and the handler can serve.
 * @throws StartError that lists all faults of the options, or else of the registry, or else all differences to the database
 */
export async function createVitrine(options: VitrineOptions): Promise<Vitrine> {
  if (typeof options !== 'object' || options === null) throw new StartError('createVitrine takes an object.');
  const { log, resources, panels, roles, admin, changes, ...given } = options;
  const settings = checkSettings(given, [
    ...(log === undefined || typeof log === 'function' ? [] : ['log must be a function']),
    ...(Array.isArray(resources) ? [] : ['resources must be an array']),
  ]);
  const logger = createLogger(settings.logLevel, log, settings.logFormat);
  const definitions = requireRegistry({ registry: resources, panels, roles, admin, changes }, settings);
  const service = createService(settings, definitions, settings.databaseUrl, logger);
  let starting: Promise<Listener> | undefined;
  let isClosed = false;
  let site: Prepared;
  try {
    site = await service.prepare();
  } catch (error) {
    await service.close();
    throw error;
  }
  return {
    handler: service.handler,
    authenticate: async (request) => {
      if (!site.authentication) throw new StartError('The registry has no user model.');
      const connection = Connection.of(request.socket);
      return authenticateRequest(site.authentication, request, settings, (callback) =>
        connection.onClose(callback),
      );
    },
    as: (user) =>
      createClient({ baseUrl: '', fetch: fetchAs(user?.name, site, settings, logger) }, exactJson),
    start: async () => {
      if (isClosed) throw new StartError('This service is closed.');
      starting ??= openListener(service, settings, logger).catch((error: unknown) => {
        starting = undefined;
        throw error;
      });
      const { url } = await starting;
      return { url };
    },
    close: async () => {
      isClosed = true;
      service.drain();
      const server = await starting?.catch(() => undefined);
      await server?.close();
      await service.close();
      logger.flush();
    },
  };
}
