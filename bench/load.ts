// The load generator, a process of its own: some connections that each send the next request when the answer is there.
import { connect } from 'node:net';
import type { Request } from './rows.ts';

export interface Job {
  readonly row: string;
  readonly port: number;
  readonly seconds: number;
  /** The expected status of every answer. */
  readonly status: number;
  /** The requests of each connection. */
  readonly requests: readonly (readonly Request[])[];
}

export interface Load {
  /** Answers within the measured time. */
  readonly answers: number;
  /** Answers in all, those of the warm-up included. */
  readonly all: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Processor time of this process for all answers, microseconds. */
  readonly cpu: number;
}

export type Outcome = Load | { readonly fault: string };

/** The part of a run that comes before the measured time: connections are made, credentials verified, code compiled. */
const WARM_UP = 0.15;
const NOTHING = Buffer.alloc(0);

function encode({ method, path, headers, body = '' }: Request): Buffer {
  const all = { Host: '127.0.0.1', ...headers, ...(body && { 'Content-Length': Buffer.byteLength(body) }) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return Buffer.from([`${method} ${path} HTTP/1.1`, ...lines, '', body].join('\r\n'));
}

/** Keeps one connection busy until a moment, and tells of each answer when its request was sent. */
function drive(
  port: number,
  requests: readonly Buffer[],
  status: number,
  until: number,
  answered: (sent: number, now: number) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    const expected = `HTTP/1.1 ${status} `;
    let next = 0;
    let sent = 0;
    let missing = 0;
    let held = NOTHING;
    const fail = (message: string): void => {
      reject(new Error(message));
      socket.destroy();
    };
    const send = (): void => {
      sent = performance.now();
      socket.write(requests[next] ?? NOTHING);
      next = (next + 1) % requests.length;
    };
    const complete = (): void => {
      const now = performance.now();
      answered(sent, now);
      if (now < until) return send();
      resolve();
      socket.destroy();
    };
    socket.on('connect', send);
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed the connection')));
    socket.on('data', (chunk) => {
      if (missing > 0) {
        missing -= chunk.length;
        if (missing === 0) complete();
        return;
      }
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const end = held.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = held.toString('latin1', 0, end);
      const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
      if (!head.startsWith(expected) || length === undefined) return fail(held.toString());
      missing = end + 4 + Number(length) - held.length;
      held = NOTHING;
      if (missing === 0) complete();
    });
  });
}

async function run({ port, seconds, status, requests }: Job): Promise<Load> {
  const encoded = requests.map((ofConnection) => ofConnection.map(encode));
  const before = process.cpuUsage();
  const from = performance.now() + seconds * WARM_UP * 1000;
  const until = from + seconds * 1000;
  const times: number[] = [];
  let all = 0;
  const answered = (sent: number, now: number): void => {
    all += 1;
    if (now >= from && now < until) times.push(now - sent);
  };
  await Promise.all(encoded.map((ofConnection) => drive(port, ofConnection, status, until, answered)));
  const { user, system } = process.cpuUsage(before);
  const sorted = Float64Array.from(times).sort();
  const quantile = (part: number): number => sorted[Math.floor((sorted.length - 1) * part)] ?? NaN;
  return { answers: times.length, all, p50: quantile(0.5), p99: quantile(0.99), cpu: user + system };
}

process.on('message', (job: Job) => {
  run(job).then(
    (load) => process.send?.(load),
    (error: Error) => process.send?.({ fault: `${job.row}: ${error.message}` }),
  );
});
process.on('disconnect', () => process.exit());
