// The honest client, a process of its own: it reads records by id and writes with good credentials, from its own address.
import { setTimeout as sleep } from 'node:timers/promises';
import { MESSAGES, PASSWORD, USERS } from '../rows.ts';
import { encode, openConnection, type Connection } from './connection.ts';
import { median, quantile } from './scenario.ts';

export interface ProbeJob {
  readonly port: number;
  readonly seconds: number;
  /** The p99 of reads is the median of the p99 in so many parts of the time. */
  readonly rounds: number;
}

export interface Probed {
  /** Milliseconds. */
  readonly readP50: number;
  readonly readP99: number;
  /** Reads by id per second. */
  readonly readRate: number;
  readonly readFailures: number;
  readonly writes: number;
  /** Per second. */
  readonly writeRate: number;
  /** Milliseconds. */
  readonly writeMedian: number;
  /** The share of writes without a good answer. */
  readonly writeFailures: number;
}

const READERS = 8;
const WRITERS = 4;
/** Milliseconds between two writes of one connection. */
const PAUSE = 30;
/** Milliseconds before a connection that was closed is opened again. */
const AFTER_CLOSE = 20;
/** Milliseconds after which a request without an answer counts as failed. */
const LONG = 5000;
const ADDRESS = { 'X-Forwarded-For': '198.51.100.10' };

interface Sample {
  readonly started: number;
  readonly time: number;
  readonly isGood: boolean;
}

/**
 * Asks over and over until the end. A request without an answer by then counts with the time that it has waited, and as failed
 * when that is long.
 */
async function drive(
  port: number,
  next: () => Buffer,
  status: number,
  pause: number,
  until: number,
): Promise<Sample[]> {
  const samples: Sample[] = [];
  let connection: Connection | undefined;
  let isOver = false;
  const end = setTimeout(() => {
    isOver = true;
    connection?.destroy();
  }, until - performance.now());
  while (!isOver) {
    const started = performance.now();
    if (!connection?.isOpen()) connection = openConnection(port);
    const answer = await connection.ask(next()).catch(() => undefined);
    const time = performance.now() - started;
    samples.push({ started, time, isGood: isOver ? time < LONG : answer?.status === status });
    if (pause > 0 || !answer) await sleep(pause || AFTER_CLOSE);
  }
  clearTimeout(end);
  connection?.destroy();
  return samples;
}

const read = (): Buffer =>
  encode({ path: `/api/message/${1 + Math.floor(Math.random() * MESSAGES)}/`, headers: ADDRESS });

/** Each connection is a user who edits records of their own. */
function writer(index: number): () => Buffer {
  const id = index + 1;
  const headers = {
    ...ADDRESS,
    Authorization: `Basic ${Buffer.from(`user${id}:${PASSWORD}`).toString('base64')}`,
    'Content-Type': 'application/json',
  };
  let count = 0;
  return () => {
    count += 1;
    const body = JSON.stringify({ content: `Written ${count} in the siege at ${Date.now()}` });
    const path = `/api/message/${id + (count % (MESSAGES / USERS)) * USERS}/`;
    return encode({ method: 'PUT', path, headers, body });
  };
}

async function probe({ port, seconds, rounds }: ProbeJob): Promise<Probed> {
  const from = performance.now();
  const until = from + seconds * 1000;
  const start = (many: number, one: (index: number) => Promise<Sample[]>): Promise<Sample[][]> =>
    Promise.all(Array.from({ length: many }, (_, index) => one(index)));
  const [reads, writes] = (
    await Promise.all([
      start(READERS, () => drive(port, read, 200, 0, until)),
      start(WRITERS, (index) => drive(port, writer(index), 200, PAUSE, until)),
    ])
  ).map((groups) => groups.flat());
  const times = (samples: Sample[] = []): number[] => samples.map(({ time }) => time);
  const failed = (samples: Sample[] = []): number => samples.filter(({ isGood }) => !isGood).length;
  const length = (until - from) / rounds;
  const parts = Array.from({ length: rounds }, (_, part) =>
    reads?.filter(({ started }) => Math.floor((started - from) / length) === part),
  );
  return {
    readP50: quantile(times(reads), 0.5),
    readP99: median(parts.map((part) => quantile(times(part), 0.99)).filter((p99) => p99 >= 0)),
    readRate: median(parts.map((part) => ((part?.length ?? 0) - failed(part)) / (length / 1000))),
    readFailures: failed(reads),
    writes: writes?.length ?? 0,
    writeRate: (writes?.length ?? 0) / seconds,
    writeMedian: median(times(writes)),
    writeFailures: failed(writes) / Math.max(1, writes?.length ?? 0),
  };
}

process.on('message', (job: ProbeJob) => void probe(job).then((result) => process.send?.(result)));
process.on('disconnect', () => process.exit());
process.send?.('ready');
