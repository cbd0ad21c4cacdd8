import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { END_OF_HEAD, isAnswered, latestOf, releaseReader } from './pipelining.ts';

/**
 * Answers a request to change the protocol as if it did not ask for that (RFC 9110, section 7.8). Node takes such a
 * connection out of its hands; it goes back as a new one, with the request's own bytes but the `Upgrade` in front.
 */
export function ignoreUpgrades(server: Server): void {
  const known = new WeakSet<Socket>();
  server.on('upgrade', (request: IncomingMessage, duplex, head: Buffer) => {
    const socket = duplex as Socket;
    const rest = Buffer.concat([head, releaseReader(socket)]);
    if (!known.has(socket)) socket.on('error', () => socket.destroy());
    known.add(socket);
    const { method, url, httpVersion, rawHeaders } = request;
    const lines = [`${method} ${url} HTTP/${httpVersion}`];
    for (let at = 0; at < rawHeaders.length; at += 2)
      if (rawHeaders[at]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
    // A line break within a value would become a header.
    if (lines.some((line) => /[\r\n]/.test(line))) return void socket.destroy();
    socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}${END_OF_HEAD}`, 'latin1'), rest]));
    const inject = (): void => {
      if (!socket.destroyed) server.emit('connection', socket);
    };
    const previous = latestOf(socket);
    if (previous && !isAnswered(previous)) previous.response.once('close', () => setImmediate(inject));
    else setImmediate(inject);
  });
}
