import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { UnfinishedHeads } from '../jobs.ts';
import type { Tally } from './tally.ts';

/** Connections that are opened at once. The next ones follow after a pause. */
const ROUND = 64;
/** Milliseconds. */
const PAUSE = 25;

/** Opens connections with heads that never end, and a new one for each that the service closes. */
export async function sendHeads(
  { port, connections, head, from }: UnfinishedHeads,
  tally: Tally,
  stopped: AbortSignal,
): Promise<void> {
  const sockets = new Set<Socket>();
  while (!stopped.aborted) {
    for (let count = 0; count < ROUND && sockets.size < connections; count += 1) {
      const socket = connect({ host: '127.0.0.1', port, localAddress: from });
      tally.sent();
      socket.on('error', () => undefined);
      socket.write(head);
      socket.resume();
      sockets.add(socket);
      socket.on('close', () => {
        sockets.delete(socket);
        tally.closed();
      });
    }
    await sleep(PAUSE, undefined, { signal: stopped }).catch(() => undefined);
  }
  for (const socket of sockets) socket.destroy();
}
