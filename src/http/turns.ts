import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Maximum number of requests of one connection that wait. The service's own server stops reading long before; a server that
 * embeds the handler may not.
 */
const MOST_WAITING = 256;

interface Connection {
  latest: ServerResponse;
  isWatched: boolean;
  /** What the waiting requests are resolved with. */
  readonly waiting: Set<(isOpen: boolean) => void>;
}

/** Gives a request its turn: a promise of whether the connection is still open, undefined where nothing is to be waited for. */
export type Turns = (socket: Socket, response: ServerResponse) => Promise<boolean> | undefined;

/**
 * Serializes pipelined requests on one connection: a read must see what the write before it has done. Other connections are
 * served between two of them.
 */
export function createTurns(): Turns {
  const connections = new WeakMap<Socket, Connection>();

  function add(socket: Socket, response: ServerResponse): Connection {
    const connection: Connection = { latest: response, isWatched: false, waiting: new Set() };
    connections.set(socket, connection);
    return connection;
  }

  function wait(socket: Socket, connection: Connection, previous: ServerResponse): Promise<boolean> {
    const { waiting } = connection;
    if (socket.closed) return Promise.resolve(false);
    // Node does not close the responses that it has not begun when the client goes away.
    if (!connection.isWatched)
      socket.once('close', () => {
        for (const resolve of waiting) resolve(false);
        waiting.clear();
      });
    connection.isWatched = true;
    if (waiting.size >= MOST_WAITING) socket.destroy();
    return new Promise((resolve) => {
      waiting.add(resolve);
      previous.once('close', () =>
        setImmediate(() => {
          if (waiting.delete(resolve)) resolve(!socket.destroyed);
        }),
      );
    });
  }

  return (socket, response) => {
    const connection = connections.get(socket);
    if (!connection) {
      add(socket, response);
      return undefined;
    }
    const previous = connection.latest;
    connection.latest = response;
    if (previous.writableFinished || previous.closed) return undefined;
    return wait(socket, connection, previous);
  };
}
