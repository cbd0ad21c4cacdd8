import { connect } from 'node:net';
import { encode } from '../connection.ts';
import type { Pipeline } from '../jobs.ts';
import { beginAfter, type Tally } from './tally.ts';

const STATUS = Buffer.from('HTTP/1.1 ');

/**
 * Sends all requests at once, and reads the answers until all are there, the connections close, or it is stopped.
 * @param begin runs when the attack has begun
 */
export async function pipeline(
  job: Pipeline,
  tally: Tally,
  stopped: AbortSignal,
  begin: () => void,
): Promise<void> {
  const made = beginAfter(job.isGradual ? job.connections : 0, begin);
  await Promise.all(Array.from({ length: job.connections }, () => connection(job, tally, stopped, made)));
}

/** @param made runs with the first answer or the end of the connection */
function connection(job: Pipeline, tally: Tally, stopped: AbortSignal, made: () => void): Promise<void> {
  const headers = { 'X-Forwarded-For': job.address };
  const one = encode({ path: job.path, headers });
  const all = Buffer.alloc(one.length * job.count, one);
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port: job.port, noDelay: true });
    const started = performance.now();
    let answers = 0;
    socket.once('data', () => socket.off('close', made)).once('data', made);
    socket.once('close', made);
    stopped.addEventListener('abort', () => socket.destroy());
    socket.on('connect', () => {
      tally.sent();
      socket.write(encode({ path: job.first, headers }));
      socket.write(all);
    });
    socket.on('data', (chunk) => {
      for (let at = chunk.indexOf(STATUS); at >= 0; at = chunk.indexOf(STATUS, at + 1)) {
        answers += 1;
        tally.answered({ status: 200, size: 0 }, performance.now() - started);
      }
      if (answers > job.count) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      if (answers <= job.count && !stopped.aborted) tally.closed();
      resolve();
    });
  });
}
