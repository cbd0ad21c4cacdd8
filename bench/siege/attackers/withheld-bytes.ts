import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WithheldBytes } from '../jobs.ts';
import { prepare } from './flood.ts';
import type { Tally } from './tally.ts';

/** Connections that are opened at once, and the milliseconds until the next ones. */
const ROUND = 100;
const PAUSE = 25;
const STATUS = Buffer.from('HTTP/');
/** Milliseconds for which the last bytes are withheld, and for which the answers are awaited. */
const WITHHELD = 500;
const ANSWERED = 1_500;

/** Sends requests without their last bytes, then all of the last bytes at once, on the same connections until it is stopped. */
export async function withholdBytes(job: WithheldBytes, tally: Tally, stopped: AbortSignal): Promise<void> {
  const request = prepare(job.request)(job.address, 0);
  const { withheld = 1 } = job;
  const [start, end] = [request.subarray(0, -withheld), request.subarray(-withheld)];
  const wait = (milliseconds: number): Promise<unknown> =>
    sleep(milliseconds, undefined, { signal: stopped }).catch(() => undefined);
  const sockets = new Set<Socket>();
  let sentAt = Infinity;
  const open = (): Socket => {
    const socket = connect({ host: '127.0.0.1', port: job.port, noDelay: true });
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      tally.closed();
    });
    socket.on('data', (bytes) => {
      if (!bytes.subarray(0, 5).equals(STATUS)) return;
      const status = Number(bytes.toString('latin1', 9, 12));
      tally.answered({ status, size: bytes.length }, performance.now() - sentAt);
    });
    return socket;
  };
  while (!stopped.aborted) {
    for (const [index, socket] of [...sockets].entries()) {
      socket.write(start);
      if (index % ROUND === ROUND - 1) await wait(PAUSE);
    }
    while (sockets.size < job.connections && !stopped.aborted) {
      open().write(start);
      if (sockets.size % ROUND === 0) await wait(PAUSE);
    }
    await wait(WITHHELD);
    sentAt = performance.now();
    for (const socket of sockets) {
      tally.sent();
      socket.write(end);
    }
    await wait(ANSWERED);
  }
  for (const socket of sockets) socket.destroy();
}
