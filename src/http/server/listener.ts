// Opens the addresses of the service and of its metrics, or takes over the socket that systemd passes.
import cluster from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Settings } from '../../config.ts';
import { splitAddress } from '../../setting-values.ts';
import { StartError } from '../../errors.ts';
import type { Handler } from './request-handler.ts';
import type { Logger } from '../observability/logger.ts';
import type { Metrics } from '../observability/metrics.ts';
import { createMetricsHandler, METRICS_PATH } from '../observability/metrics-handler.ts';
import { maxConnections, openFilesWarning } from '../load/connection-limit.ts';
import { isForeignWorker, isWorker } from '../../processes.ts';
import { createHttpServer, listen, listenWith, type RunningServer } from './http-server.ts';

/** File descriptor of the first passed socket, see sd_listen_fds(3). */
const FIRST_PASSED = 3;
/**
 * Attempts at a port that the previous process may still use, in about 3 minutes. There are few, and the interval (milliseconds)
 * grows, because Node.js leaves two files open for each failed attempt to share a port.
 */
const MAX_TRIES = 40;
const WARN_AFTER = 8;
const intervalAfter = (tries: number): number => Math.min(250 * 1.15 ** tries, 10_000);
/** Maximum connections to the address of METRICS. */
const METRICS_CONNECTIONS = 32;

export interface Endpoints {
  readonly handler: Handler;
  readonly metrics: Metrics;
}

export interface Listener extends RunningServer {
  /** The address for display, with a note if it does not come from the settings. */
  readonly name: string;
}

/**
 * Takes the socket that systemd passes to the process. Removes the variables, so that child processes do not take it as well.
 * @returns its file descriptor, undefined without a socket
 * @throws StartError for more than one socket
 */
export function takePassedSocket(environment = process.env): number | undefined {
  const { LISTEN_PID, LISTEN_FDS = '0' } = environment;
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete environment[name];
  if (LISTEN_PID !== String(process.pid) || LISTEN_FDS === '0') return undefined;
  if (LISTEN_FDS === '1') return FIRST_PASSED;
  throw new StartError(
    `LISTEN_FDS must be 1 (got ${LISTEN_FDS}). Keep only one ListenStream in the systemd socket unit.`,
  );
}

/**
 * Whether this process listens only once it is ready, so that clients do not get 503 during a restart. Until then, systemd keeps
 * connections in its socket, or other processes of the cluster accept them.
 * @param isInitial whether no other process of the service listens
 */
export const listensOnceReady = (passed: number | undefined, isInitial = !cluster.isWorker): boolean =>
  passed !== undefined || !isInitial;

export const hostAndPort = (host: string, port: number): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

const cannotListen =
  (where: string, settings: string, portHint = '') =>
  (error: NodeJS.ErrnoException): never => {
    const advice = error.code === 'EADDRINUSE' ? portHint : '';
    throw new StartError(`Cannot listen on ${where}: ${error.message}. Check ${settings}.${advice}`);
  };

/**
 * Opens the address of the METRICS setting, if any. Each process of a cluster of another program, such as PM2, has its own metrics,
 * so each uses another port.
 */
async function openMetrics(
  { metrics }: Endpoints,
  settings: Settings,
  logger: Logger,
  passed: number | undefined,
  isFirst: boolean,
): Promise<RunningServer | undefined> {
  const address = splitAddress(settings.metrics);
  if (!address) return undefined;
  const { host } = address;
  const instance = isForeignWorker ? Number(process.env['NODE_APP_INSTANCE'] ?? 0) : 0;
  const port = address.port === 0 ? 0 : address.port + instance;
  const connections = Math.min(METRICS_CONNECTIONS, maxConnections(settings.workers));
  const open = (): Promise<RunningServer> =>
    listenWith(createHttpServer(createMetricsHandler(metrics, host, logger), { logger, connections }), {
      host,
      port,
      exclusive: !isWorker,
    });
  const logged = (server: RunningServer): RunningServer => {
    if (isFirst) logger.info({ message: `metrics at ${server.url}${METRICS_PATH}` });
    return server;
  };
  if (passed === undefined && !isForeignWorker)
    return logged(await open().catch(cannotListen(hostAndPort(host, port), 'METRICS')));
  // During a restart the previous process may still use the port while it finishes its requests.
  const closing = new AbortController();
  const opening = (async (): Promise<RunningServer | undefined> => {
    for (let tries = 1; !closing.signal.aborted && tries <= MAX_TRIES; tries += 1) {
      try {
        return logged(await open());
      } catch (error) {
        const problem = `cannot listen for metrics on ${hostAndPort(host, port)}`;
        const reason = (error as Error).message;
        if (tries === WARN_AFTER) logger.warn({ message: `${problem}, retrying: ${reason}` });
        if (tries === MAX_TRIES)
          logger.error({ message: `${problem}: ${reason}. There are no metrics until a restart.` });
        const options = { ref: false, signal: closing.signal };
        await sleep(intervalAfter(tries), undefined, options).catch(() => undefined);
      }
    }
    return undefined;
  })();
  const close = async (): Promise<void> => {
    closing.abort();
    await (await opening)?.close();
  };
  return { url: '', close };
}

interface ListenerOptions {
  /** File descriptor of the passed socket. */
  readonly passed?: number | undefined;
  /** Ends the message if the port is in use. */
  readonly portHint?: string | undefined;
  /** Whether no other process of the service has logged the address of the metrics. */
  readonly isFirst?: boolean;
}

/**
 * Listens on the passed socket or else on HOST and PORT, and on the metrics' own address if there is one.
 * @throws StartError if an address cannot be opened
 */
export async function openListener(
  endpoints: Endpoints,
  settings: Settings,
  logger: Logger,
  { passed, portHint, isFirst = true }: ListenerOptions = {},
): Promise<Listener> {
  const { host, port } = settings;
  const metrics = await openMetrics(endpoints, settings, logger, passed, isFirst);
  const warning = isFirst ? openFilesWarning(settings.workers) : undefined;
  if (warning !== undefined) logger.warn({ message: warning });
  const server = createHttpServer(endpoints.handler, {
    logger,
    onUnreadable: endpoints.metrics.unreadable,
    connections: maxConnections(settings.workers),
  });
  try {
    const { url, close } = await (passed === undefined
      ? listen(server, host, port).catch(cannotListen(hostAndPort(host, port), 'HOST and PORT', portHint))
      : listenWith(server, { fd: passed }).catch(cannotListen('the passed socket', 'LISTEN_FDS')));
    const note = passed === undefined ? '' : ' (passed socket; HOST and PORT are ignored)';
    return {
      url,
      name: `${url}${note}`,
      close: async () => {
        await close();
        await metrics?.close();
      },
    };
  } catch (error) {
    await metrics?.close();
    throw error;
  }
}
