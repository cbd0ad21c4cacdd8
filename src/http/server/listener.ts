// Opens the addresses of the service and of its metrics, or takes over the socket that systemd passes.
import cluster from 'node:cluster';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Settings } from '../../config.ts';
import { splitAddress } from '../../setting-values.ts';
import { clientNetworkOf } from '../auth/request-origin.ts';
import { notFound, Problem, StartError } from '../../errors.ts';
import { errorReply } from './error-replies.ts';
import type { Handler } from './request-handler.ts';
import type { Logger } from '../observability/logger.ts';
import type { Reply } from '../message/message.ts';
import { splitTarget } from '../message/request-head.ts';
import { METRICS_METHODS, type Metrics } from '../observability/metrics.ts';
import { methodNotAllowed } from '../api/api-routes.ts';
import { maxConnections, openFilesWarning } from '../load/open-connections.ts';
import { isForeignWorker, isWorker } from '../../processes.ts';
import { send } from './send-response.ts';
import { createHttpServer, listen, listenWith, type RunningServer } from './http-server.ts';

/** File descriptor of the first passed socket, see sd_listen_fds(3). */
const FIRST_PASSED = 3;
/** Milliseconds until another attempt at a port that the previous process may still use. */
const RETRY_INTERVAL = 250;
/** Failed attempts before a warning. */
const WARN_AFTER = 8;
/**
 * Attempts of a process of WORKERS, in about 3 minutes. There are few, and the interval grows, because Node.js leaves two files open
 * for each failed attempt to share a port.
 */
const MAX_SHARED_TRIES = 40;
const INTERVAL_GROWTH = 1.15;
const MAX_INTERVAL = 10_000;
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

const hostAndPort = (host: string, port: number): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

const cannotListen =
  (where: string, settings: string, portHint = '') =>
  (error: NodeJS.ErrnoException): never => {
    const advice = error.code === 'EADDRINUSE' ? portHint : '';
    throw new StartError(`Cannot listen on ${where}: ${error.message}. Check ${settings}.${advice}`);
  };

const METRICS_PATH = '/metrics';

const FOREIGN_HOST = new Problem(
  421,
  'The metrics are available under an IP address, localhost, a host name without a dot, and the host of METRICS.',
);

/**
 * Whether no one can have pointed this name of the address at it to read the metrics from a page in a browser of the network (DNS
 * rebinding). Only names with a dot can be registered. Browsers always send `Host`.
 */
function isOwnHost(sent: string | undefined, host: string): boolean {
  if (sent === undefined) return true;
  const name = sent.replace(/:\d*$/, '').replace(/^\[(.*)\]$/, '$1');
  return isIP(name) !== 0 || /^[\w-]+$/.test(name) || name.toLowerCase() === host.toLowerCase();
}

/** A handler that serves only `/metrics`. @param host the host of METRICS */
function createMetricsHandler(metrics: Metrics, host: string, logger: Logger): Handler {
  const isMetrics = (target: string): boolean => splitTarget(target)[0] === METRICS_PATH;
  async function answer(target: string, method: string, sent: string | undefined): Promise<Reply> {
    try {
      if (!isOwnHost(sent, host)) throw FOREIGN_HOST;
      if (isMetrics(target)) return await metrics.reply(method);
      throw notFound();
    } catch (error) {
      return errorReply(error, '', logger);
    }
  }
  const handler = (request: IncomingMessage, response: ServerResponse): void =>
    void answer(request.url ?? '', request.method ?? '', request.headers.host).then(({ body, ...reply }) =>
      send(request, response, { ...reply, body: body as string }, { 'X-Content-Type-Options': 'nosniff' }),
    );
  const refuseMethod = (target: string): Reply =>
    errorReply(isMetrics(target) ? methodNotAllowed(METRICS_METHODS) : notFound(), '', logger);
  return Object.assign(handler, { accepted: () => undefined, refuseMethod });
}

/**
 * Opens the address of the METRICS setting, if any. Each process of a cluster of another program, such as PM2, has its own metrics, so each uses another port.
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
    const [maxTries, growth] = isWorker ? [MAX_SHARED_TRIES, INTERVAL_GROWTH] : [Infinity, 1];
    for (let tries = 1; !closing.signal.aborted && tries <= maxTries; tries += 1) {
      try {
        return logged(await open());
      } catch (error) {
        const problem = `cannot listen for metrics on ${hostAndPort(host, port)}`;
        const reason = (error as Error).message;
        if (tries === maxTries)
          logger.error({ message: `${problem}: ${reason}. There are no metrics until a restart.` });
        else if (tries === WARN_AFTER) logger.warn({ message: `${problem}, retrying: ${reason}` });
        const interval = Math.min(RETRY_INTERVAL * growth ** tries, MAX_INTERVAL);
        await sleep(interval, undefined, { ref: false, signal: closing.signal }).catch(() => undefined);
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
  const { trustProxy } = settings;
  const warning = isFirst ? openFilesWarning(settings.workers) : undefined;
  if (warning !== undefined) logger.warn({ message: warning });
  const networkOfRequest = ({ headers, socket }: IncomingMessage): string =>
    clientNetworkOf(headers, socket.remoteAddress, trustProxy);
  const server = createHttpServer(endpoints.handler, {
    logger,
    networkOfRequest,
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
