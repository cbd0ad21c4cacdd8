import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Requests that a client sends ahead on one connection take turns: a read must see what the write before it has done.
 * @returns a function that gives what to wait for: the response before on the same connection, unless it is done
 */
export function createTurns(): (socket: Socket, response: ServerResponse) => Promise<unknown> | undefined {
  const latest = new WeakMap<Socket, ServerResponse>();
  return (socket, response) => {
    const previous = latest.get(socket);
    latest.set(socket, response);
    if (!previous || previous.writableFinished || previous.closed) return undefined;
    return new Promise((resolve) => previous.once('close', resolve));
  };
}
