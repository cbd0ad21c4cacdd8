import { checkSettings, type Settings } from './config.ts';
import { StartError } from './errors.ts';
import { createLogger } from './http/observability/logger.ts';
import { openListener, type Listener } from './http/server/listener.ts';
import type { Handler } from './http/server/request-handler.ts';
import type { Panel } from './resources/definition/panel.ts';
import type { WrittenResource } from './resources/definition/resource.ts';
import { createService, requireRegistry } from './service.ts';

export type { AccessLevel, Settings } from './config.ts';
export type { ColumnDefinition, ModelDefinition } from './db/schema/model-definition.ts';
export type { Handler } from './http/server/request-handler.ts';
export type { Panel, PanelContext, PanelSeries, PanelTable } from './resources/definition/panel.ts';
export type { Method, Registry, Row, WrittenResource as Resource } from './resources/definition/resource.ts';
export { StartError } from './errors.ts';

/** The settings of the service by their names in code; `resources` are the objects themselves. */
export interface VitrineOptions extends Partial<Omit<Settings, 'resources' | 'databaseUrl'>> {
  readonly databaseUrl: string;
  readonly resources: readonly WrittenResource[];
  /** What the start page of the admin area shows beside the resources. */
  readonly panels?: readonly Panel[];
  /** Gets the log lines, JSON unless `logFormat` says otherwise; standard error when absent. */
  readonly log?: (lines: string) => void;
}

export interface Vitrine {
  /** Answers a request: for `http.createServer(vitrine.handler)`, or for the paths under `/api/` of a server of one's own. */
  readonly handler: Handler;
  /** Starts a server of its own, at `host` and `port`. */
  readonly start: () => Promise<{ readonly url: string }>;
  /**
   * Finishes what is in flight, for 10 seconds at most and whichever server it came in through; stops the server of `start`,
   * and closes the database connections. A server of one's own is not stopped.
   */
  readonly close: () => Promise<void>;
}

/**
 * The very service as a library. Resolves when the database has been read and the handler serves.
 * @throws StartError that lists every fault of the options, else every fault of the registry, else every difference to the database
 */
export async function createVitrine(options: VitrineOptions): Promise<Vitrine> {
  if (typeof options !== 'object' || options === null) throw new StartError('createVitrine takes an object.');
  const { log, resources, panels = [], ...given } = options;
  const settings = checkSettings(given, [
    ...(log === undefined || typeof log === 'function' ? [] : ['log must be a function']),
    ...(Array.isArray(resources) ? [] : ['resources must be an array']),
  ]);
  const logger = createLogger(settings.logLevel, log, settings.logFormat);
  const registry = requireRegistry(resources, settings, panels);
  const service = createService(settings, registry, settings.databaseUrl, logger, panels);
  let starting: Promise<Listener> | undefined;
  let isClosed = false;
  try {
    await service.prepare();
  } catch (error) {
    await service.close();
    throw error;
  }
  return {
    handler: service.handler,
    start: async () => {
      if (isClosed) throw new StartError('This service has been closed.');
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
