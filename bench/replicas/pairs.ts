// Clients that write a record and read it at once, while others read, and while the standbys lag, pause and restart.
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { clear, createLedger, populate, read, settle, verify, type Values } from '../ledger.ts';
import type { Cluster } from '../postgres.ts';
import { until } from '../processes.ts';
import { createService, type Service } from '../service.ts';
import { sum } from '../table.ts';
import { Session, startLoad } from '../writers.ts';

export interface PairOptions {
  /** Reads of the client's own write. */
  readonly pairs: number;
  readonly clients: number;
  /** Whether a standby pauses and restarts again and again. */
  readonly hasFaults: boolean;
}

/** What others read. */
const PATHS = [
  '/api/counter/1/',
  '/api/entry/?number__gte=0&ordering=-number&limit=5',
  '/api/entry/?limit=3',
];
/** Refusals because the machine is busy. */
const BUSY = /^(429|503) /;

/** Runs the pairs on three services: two for those who write, and one for the others. */
export async function runPairs({ primary, standbys }: Cluster, options: PairOptions) {
  const settings = {
    RESOURCES: resolve('bench/ledger-registry.mjs'),
    DATABASE_READ_URL: standbys.map(({ url }) => url).join(),
    LOG_LEVEL: 'error',
  };
  const services: Service[] = [];
  const counts = { control: 0, controlStale: 0, others: 0, pauses: 0, restarts: 0 };
  const failures: string[] = [];
  const ledger = createLedger('pairs');
  let isOver = false;

  /** Some clients take their time, so that a standby may answer them. Some read without the position, which may miss the write. */
  async function beforeRead(id: string, expected: Values): Promise<void> {
    if (Math.random() < 0.25) await sleep(400 * Math.random());
    if (Math.random() > 0.1) return;
    const session = new Session([services[2]!.port]);
    const { status, text } = await session.send({ method: 'GET', path: `/api/entry/${id}/` });
    session.close();
    counts.control += 1;
    const found = status === 200 ? (JSON.parse(text) as Values) : {};
    if (found['token'] !== expected['token']) counts.controlStale += 1;
  }

  async function other(turn: number): Promise<void> {
    const session = new Session([services[2]!.port]);
    for (let index = turn; !isOver; index += 1) {
      const { status, text } = await session.send({ method: 'GET', path: PATHS[index % PATHS.length]! });
      if (status !== 200) failures.push(`${status} ${text.slice(0, 200)}`);
      counts.others += 1;
      await sleep(2);
    }
    session.close();
  }

  async function trouble(): Promise<void> {
    const standby = standbys.at(-1);
    for (let turn = 0; standby && options.hasFaults && !isOver; turn += 1) {
      await sleep(700);
      if (turn % 5 === 4) {
        counts.restarts += 1;
        await standby.stop(turn % 2 === 0 ? 'immediate' : 'fast');
        await standby.start();
      } else {
        counts.pauses += 1;
        await standby.sql`select pg_wal_replay_pause()`.catch(() => undefined);
        await sleep(300);
        await standby.sql`select pg_wal_replay_resume()`.catch(() => undefined);
      }
    }
  }

  try {
    for (let index = 0; index < 3; index += 1) {
      services.push(await createService({ databaseUrl: primary.url, settings }));
      await services[index]!.start();
    }
    const { sql } = primary;
    await populate(sql);
    await clear(sql);
    await sleep(1000); // until the standbys have them
    const started = performance.now();
    const ports = services.slice(0, 2).map(({ port }) => port);
    const load = startLoad(
      { ports, writers: options.clients, incrementers: 2, leavers: 0, beforeRead },
      ledger,
    );
    const disturbing = trouble();
    const others = Array.from({ length: 4 }, (_, turn) => other(turn));
    await until('the pairs', () => ledger.reads >= options.pairs, 3600);
    isOver = true;
    await Promise.all([load.stop(), disturbing, ...others]);
    const seconds = (performance.now() - started) / 1000;
    const [first, second, third] = await Promise.all(
      services.map((service) => service.metric('vitrine_replica_reads_total')),
    );
    for (const service of services) await settle(sql, service);
    const { violations } = verify(ledger, await read(sql), new Set(['busy']));
    const all = [...failures, ...ledger.failedReads];
    const failed = all.filter((text) => !BUSY.test(text));
    return {
      ...counts,
      pairs: ledger.reads,
      stale: ledger.mixups.length,
      violations,
      refused:
        all.length -
        failed.length +
        sum(ledger.operations.map(({ failure }) => (failure === 'busy' ? 1 : 0))),
      failed,
      onStandby: first! + second!,
      // The control reads are on the service of the others.
      others: counts.others + counts.control,
      othersOnStandby: third!,
      seconds,
    };
  } finally {
    for (const service of services) await service.kill();
  }
}
