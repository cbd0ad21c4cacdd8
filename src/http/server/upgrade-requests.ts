// Answers requests with an `Upgrade` header as if they had none (RFC 9110, section 7.8).
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { hasTooManyHeaders } from '../message/request-head.ts';
import { END_OF_HEAD } from '../load/input-pieces.ts';
import type { Turns } from '../load/turns.ts';
import type { HttpSocket } from './connection-reader.ts';
import { isAnswered, latestOf, releaseReader } from './tracked-connections.ts';

/**
 * Continues the response in progress whenever the client has read. Node's HTTP server no longer does so after `Upgrade` or CONNECT.
 * @returns a function that stops this
 */
export function keepDraining(socket: HttpSocket): () => void {
  const onDrain = (): void => void socket._httpMessage?.emit('drain');
  socket.on('drain', onDrain);
  return () => void socket.off('drain', onDrain);
}

/** The head of the request without the header; undefined if it cannot be repeated. */
function withoutUpgrade(request: IncomingMessage): Buffer | undefined {
  // Among the headers that Node dropped may be the length of the body.
  if (hasTooManyHeaders(request)) return undefined;
  const { method, url, httpVersion, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (rawHeaders[index]?.toLowerCase() !== 'upgrade')
      lines.push(`${rawHeaders[index]}: ${rawHeaders[index + 1]}`);
  // A line break inside a value would inject a header.
  if (lines.some((line) => /[\r\n]/.test(line))) return undefined;
  return Buffer.from(`${lines.join('\r\n')}${END_OF_HEAD}`, 'latin1');
}

/**
 * Node's HTTP server no longer reads a connection after such a request. This gives it back as a new connection that starts with
 * the same request, without the header.
 * @param turns in which connections are given back
 * @param refuse answers a request that cannot be repeated
 */
export function ignoreUpgrades(
  server: Server,
  turns: Turns,
  refuse: (request: IncomingMessage, socket: Socket) => void,
): void {
  const returned = new WeakSet<Socket>();
  server.on('upgrade', (request: IncomingMessage, duplex, head: Buffer) => {
    const socket = duplex as Socket;
    // Node's own part of this event is all that is done at once: thousands of connections may send their last bytes together.
    const rest = releaseReader(socket);
    if (!returned.has(socket)) socket.on('error', () => socket.destroy());
    returned.add(socket);
    const endDraining = keepDraining(socket);
    const giveBack = (): void => {
      endDraining();
      if (socket.destroyed) return;
      const bytes = withoutUpgrade(request);
      if (!bytes) return refuse(request, socket);
      const all = Buffer.concat([bytes, head, rest]);
      const hasEnded = socket.readableEnded;
      if (!hasEnded) socket.unshift(all);
      server.emit('connection', socket);
      if (!hasEnded) return;
      // A stream takes nothing back after its end, so the listeners get it directly.
      socket.emit('data', all);
      socket.emit('end');
    };
    const previous = latestOf(socket);
    const giveBackInTurn = (): void => void turns.next().then(giveBack);
    if (previous && !isAnswered(previous)) previous.response.once('close', giveBackInTurn);
    else giveBackInTurn();
  });
}
