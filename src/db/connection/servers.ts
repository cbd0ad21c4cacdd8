// Finds the server that accepts changes, and opens the socket of each connection. See `openPostgres` for why the driver does not.
import { once } from 'node:events';
import { Socket } from 'node:net';
import type { Server } from '../../database-address.ts';
import { isRefusal } from './database-errors.ts';

/** Milliseconds until a connection must be made. */
const CONNECT_TIMEOUT = 5_000;
/** Milliseconds that each of several servers has to say whether it accepts changes. */
const SEARCH_TIMEOUT = 3_000;
/** Milliseconds for which connections that are opened in a row use the result of one search. */
const KEPT = 250;

/** An error in the form of the driver's own. */
const failure = (code: string, message: string): Error => Object.assign(new Error(message), { code });

/** Says after a while that a server does not answer. */
function withTimeout<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failure('CONNECT_TIMEOUT', 'no answer')), SEARCH_TIMEOUT);
  });
  return Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}

/** Asks all servers at once, because one that is frozen would delay the others. */
async function search(
  servers: readonly Server[],
  isWritable: (server: Server) => Promise<boolean>,
): Promise<Server> {
  const ask = async (server: Server): Promise<Server> => {
    if (await withTimeout(isWritable(server))) return server;
    throw failure('25006', 'accepts no changes');
  };
  try {
    return await Promise.any(servers.map(ask));
  } catch (error) {
    const { errors } = error as { readonly errors: readonly (Error & { readonly code: string })[] };
    const reasons = errors.map(({ message, code }, index) => {
      const server = servers[index];
      return `${server?.host}:${server?.port}: ${message || code}`;
    });
    // A refused login ends the start, and a missing server does not.
    const code = errors.find(isRefusal)?.code ?? 'NO_PRIMARY';
    throw failure(code, `no server accepts changes (${reasons.join('; ')})`);
  }
}

/** Searches that are running, and the results that are still used, by the address. */
const searches = new Map<string, Promise<Server>>();

/**
 * The first of several servers that reports that it accepts changes.
 * @throws Error with the reason for each server
 */
export function findWritable(
  url: string,
  servers: readonly Server[],
  isWritable: (server: Server) => Promise<boolean>,
): Promise<Server> {
  const known = searches.get(url);
  if (known) return known;
  const found = search(servers, isWritable);
  searches.set(url, found);
  const forget = (): void => void setTimeout(() => searches.delete(url), KEPT).unref();
  found.then(forget, forget);
  return found;
}

/** The sockets of a client with one connection. */
export interface Sockets {
  /** Opens the socket of the connection, or of a request to cancel what it runs. Never rejects: the socket fails instead. */
  readonly open: () => Promise<Socket>;
  /** The server of the connection, once it was chosen. */
  readonly server: () => Server | undefined;
  /** Opens no more sockets. */
  readonly close: () => void;
}

/**
 * @param choose finds the server when the connection is opened; requests to cancel go to the same one
 */
export function createSockets(choose: () => Server | Promise<Server>): Sockets {
  let chosen: ReturnType<typeof choose> | undefined;
  let server: Server | undefined;
  let connection: Socket | undefined;
  let isClosed = false;

  const assertOpen = (): void => {
    // The driver connects again without a pause when a server closes the connection before it is ready.
    if (isClosed || connection?.destroyed === true)
      throw failure('CONNECTION_CLOSED', 'the server closed the connection');
  };

  async function connect(): Promise<Socket> {
    assertOpen();
    // The connection is open, so this is a request to cancel. It is sent also if the client ends meanwhile.
    const isCancel = connection !== undefined;
    server = await (chosen ??= choose());
    if (!isCancel) assertOpen();
    const socket = new Socket().on('error', () => undefined);
    const { host, port, path } = server;
    if (path === undefined) socket.connect(port, host);
    else socket.connect(path);
    const late = failure('CONNECT_TIMEOUT', `connect CONNECT_TIMEOUT ${path ?? `${host}:${port}`}`);
    const timer = setTimeout(() => socket.destroy(late), CONNECT_TIMEOUT);
    try {
      await once(socket, 'connect');
    } finally {
      clearTimeout(timer);
    }
    if (isClosed && !isCancel) socket.destroy();
    if (!isCancel) assertOpen();
    connection ??= socket;
    // The driver names the server in TLS, and in errors, by these.
    return Object.assign(socket, { host, port });
  }

  return {
    open: async () => {
      try {
        return await connect();
      } catch (error) {
        const failed = new Socket();
        // After the driver has attached its listeners; rejecting here would make it wait forever. A statement gets the error
        // before its connection counts as lost. If the driver has ended the connection meanwhile, it listens no longer.
        setImmediate(() => {
          if (failed.listenerCount('error') > 0) failed.emit('error', error);
          setImmediate(() => failed.destroy());
        });
        return failed;
      }
    },
    server: () => server,
    close: () => (isClosed = true),
  };
}
