import cluster from 'node:cluster';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { splitAddress, type Settings } from '../../config.ts';
import { notFound, Problem, StartError } from '../../errors.ts';
import type { Handler } from './request-handler.ts';
import type { Logger } from '../observability/logger.ts';
import { INTERNAL_ERROR, problemReply, type Reply } from '../message/message.ts';
import { METRICS_PATH, type Metrics } from '../observability/metrics.ts';
import { send } from './send-response.ts';
import { createHttpServer, listen, listenWith, type RunningServer } from './http-server.ts';

/** The first socket that is passed to a process, see sd_listen_fds(3). */
const FIRST_PASSED = 3;
/** How long until a port that the process before this one may still have is tried again (milliseconds). */
const RETRY = 250;

/** What clients get to. */
export interface Endpoints {
  readonly handler: Handler;
  readonly metrics: Metrics;
}

export interface Listener extends RunningServer {
  /** For people: the address, and whose it is where the settings do not say. */
  readonly name: string;
}

/**
 * The socket that was passed to this process, as systemd does it. The processes that this one starts are not told of it.
 * @throws StartError when there are several
 */
export function takePassedSocket(environment = process.env): number | undefined {
  const { LISTEN_PID, LISTEN_FDS = '0' } = environment;
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete environment[name];
  if (LISTEN_PID !== String(process.pid) || LISTEN_FDS === '0') return undefined;
  if (LISTEN_FDS === '1') return FIRST_PASSED;
  throw new StartError(
    `LISTEN_FDS is ${LISTEN_FDS}, but the service listens on one socket: let its socket unit have one ListenStream.`,
  );
}

/**
 * Whether connections are held for this process by somebody else: by a socket that was passed, or by the other processes of
 * a cluster. Then it accepts none before it can serve, and nobody sees the 503 of a start.
 */
export const isSocketInherited = (passed: number | undefined): boolean =>
  passed !== undefined || cluster.isWorker;

const addressOf = (host: string, port: number): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

const cannotListen =
  (where: string, settings: string) =>
  (error: Error): never => {
    throw new StartError(`Cannot listen on ${where}: ${error.message}. Look at ${settings}.`);
  };

/** Answers `/metrics`, and nothing else. */
function createMetricsHandler(metrics: Metrics, logger: Logger): Handler {
  function answer(path: string, method: string): Reply {
    try {
      if (path.replace(/\?.*/s, '') === METRICS_PATH) return metrics.reply(method);
      throw notFound();
    } catch (error) {
      if (error instanceof Problem) return problemReply(error, '');
      logger.error({ message: (error as Error).message, stack: (error as Error).stack });
      return problemReply(INTERNAL_ERROR, '');
    }
  }
  const handler = (request: IncomingMessage, response: ServerResponse): void => {
    const { body, ...reply } = answer(request.url ?? '', request.method ?? '');
    send(request, response, { ...reply, body: body as string }, { 'X-Content-Type-Options': 'nosniff' });
  };
  return Object.assign(handler, { refuseMethod: (target: string) => answer(target, '') });
}

/** Opens the metrics' own address. The processes of a cluster count for themselves, so each has a port of its own. */
async function openMetrics(
  { metrics }: Endpoints,
  settings: Settings,
  logger: Logger,
  passed: number | undefined,
): Promise<RunningServer | undefined> {
  const address = splitAddress(settings.metrics);
  if (!address) return undefined;
  const { host } = address;
  const number = cluster.isWorker ? Number(process.env['NODE_APP_INSTANCE'] ?? 0) : 0;
  const port = address.port === 0 ? 0 : address.port + number;
  const open = (): Promise<RunningServer> =>
    listenWith(createHttpServer(createMetricsHandler(metrics, logger), logger), {
      host,
      port,
      exclusive: true,
    });
  const told = (server: RunningServer): RunningServer => {
    logger.info({ message: `metrics at ${server.url}${METRICS_PATH}` });
    return server;
  };
  if (!isSocketInherited(passed))
    return told(await open().catch(cannotListen(addressOf(host, port), 'METRICS')));
  // The process that this one follows may be at its last requests, and still have the port.
  let isOver = false;
  const opening = (async (): Promise<RunningServer | undefined> => {
    for (let tries = 0; !isOver; tries += 1) {
      try {
        return told(await open());
      } catch (error) {
        if (tries === 8)
          logger.warn({ message: `no metrics yet at ${addressOf(host, port)}: ${(error as Error).message}` });
        await sleep(RETRY, undefined, { ref: false });
      }
    }
    return undefined;
  })();
  const close = async (): Promise<void> => {
    isOver = true;
    await (await opening)?.close();
  };
  return { url: '', close };
}

/**
 * Listens where the settings say, or on the socket that was passed; and for the metrics, where they have an address.
 * @throws StartError
 */
export async function openListener(
  reachable: Endpoints,
  settings: Settings,
  logger: Logger,
  passed?: number,
): Promise<Listener> {
  const { host, port } = settings;
  const metrics = await openMetrics(reachable, settings, logger, passed);
  const server = createHttpServer(reachable.handler, logger, reachable.metrics.unreadable);
  try {
    const { url, close } = await (passed === undefined
      ? listen(server, host, port).catch(cannotListen(addressOf(host, port), 'HOST and PORT'))
      : listenWith(server, { fd: passed }).catch(cannotListen('the socket that was passed', 'LISTEN_FDS')));
    const note = passed === undefined ? '' : ' (the socket that was passed; HOST and PORT do not count)';
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
