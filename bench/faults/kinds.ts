// All kinds of faults, and the failures that each of them may cause.
import { mkdir, open, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import type { Failure, Ledger } from '../ledger.ts';
import { ROLE, sessions, type Cluster, type Server } from '../postgres.ts';
import { until } from '../processes.ts';
import type { Service } from '../service.ts';
import { startLoad } from '../writers.ts';
import { createHandover, type Handover } from './handover.ts';
import { command, isIsolated, type Network } from './network.ts';

/** What a fault acts on. */
export interface Stage {
  readonly cluster: Cluster;
  /** The primary, and a superuser's connections to it. */
  readonly server: Server;
  readonly sql: postgres.Sql;
  readonly network: Network;
  readonly service: Service;
}

/** One way in which a fault strikes. */
export interface Variant {
  readonly name: string;
  /** The failures that this fault may cause. */
  readonly allows: readonly Failure[];
  /** How long the fault lasts, where `--seconds` does not say it. */
  readonly seconds?: number;
  /** Whether connections between the service and PostgreSQL may still hold statements after the clients have stopped. */
  readonly leavesStatements?: boolean;
  /** Before the load starts. */
  readonly prepare?: (stage: Stage) => Promise<void>;
  /**
   * Causes the fault under load, and ends it.
   * @returns how often it has struck; 0 is an error of the harness
   */
  readonly strike: (stage: Stage, seconds: number, ledger: Ledger) => Promise<number>;
  /** After the load and the verification. */
  readonly restore?: (stage: Stage) => Promise<void>;
}

export interface Fault {
  readonly name: string;
  /** Whether it is part of the short form. */
  readonly isShort: boolean;
  /** Why it cannot be caused on this system. */
  readonly obstacle?: () => string | undefined;
  /** The rounds take turns among them. */
  readonly variants: readonly Variant[];
}

export const MAX_CONNECTIONS = 60;
/** The most seconds until a fault strikes that depends on chance. */
const MAX_SECONDS = 20;
/** Longer than the service lets a statement wait for a lock, and for an answer of the database. */
const [BEYOND_LOCK, BEYOND_ANSWER] = [6, 17];

/** Repeats a step until the time is over and it has struck often enough. Gives how often it has struck. */
async function repeat(seconds: number, step: () => Promise<number>, least = 1): Promise<number> {
  const started = performance.now();
  const elapsed = (): number => (performance.now() - started) / 1000;
  let hits = 0;
  do hits += await step();
  while (elapsed() < seconds || (hits < least && elapsed() < MAX_SECONDS));
  return hits;
}

/** Starts a state, and ends it after the time. */
const during =
  (start: (stage: Stage) => unknown, end: (stage: Stage) => unknown) =>
  async (stage: Stage, seconds: number): Promise<number> => {
    await start(stage);
    await sleep(seconds * 1000);
    await end(stage);
    return 1;
  };

async function restart({ service }: Stage): Promise<number> {
  service.signal('SIGTERM');
  const code = await service.ended();
  if (code !== 0) throw new Error(`the service ended with ${code} after SIGTERM`);
  await service.start();
  return 1;
}

async function kill({ service }: Stage): Promise<number> {
  await sleep(300 * Math.random());
  service.signal('SIGKILL');
  await service.ended();
  await service.start();
  return 1;
}

/** Restarts behind a socket that systemd would hold. @param startsFirst whether the next process starts before the last one ends */
function handOver(name: string, startsFirst: boolean): Variant {
  let handover: Handover | undefined;
  let pid = 0;
  return {
    name,
    allows: [],
    prepare: async ({ service }) => {
      await service.kill();
      handover = await createHandover(service);
      pid = await handover.launch();
    },
    strike: (_, seconds) =>
      repeat(seconds, async () => {
        const next = startsFirst ? await handover!.launch() : undefined;
        const code = await handover!.stop(pid);
        if (code !== 0) throw new Error(`the service ended with ${code} after SIGTERM`);
        pid = next ?? (await handover!.launch());
        await sleep(200);
        return 1;
      }),
    restore: async ({ service }) => {
      await handover?.close();
      await service.start();
    },
  };
}

/** Sets what PostgreSQL waits for after each commit of the service and before its answer: a standby that does not exist. */
async function withhold({ sql }: Stage): Promise<void> {
  await sql`alter system set synchronous_standby_names = 'missing'`;
  await sql`select pg_reload_conf()`;
}
async function release({ sql }: Stage): Promise<void> {
  await sql`alter system reset synchronous_standby_names`;
  await sql`select pg_reload_conf()`;
}

const busySessions = (what: string, { sql }: Stage, condition: string): Promise<number[]> =>
  until(what, async () => {
    const pids = await sessions(sql, condition);
    return pids.length > 0 && pids;
  });
const committed = (stage: Stage): Promise<number[]> =>
  busySessions('a commit without an answer', stage, "wait_event = 'SyncRep'");

type Call = 'pg_cancel_backend' | 'pg_terminate_backend';

/** Calls a function of PostgreSQL for sessions of the service that work. Strikes at least three. */
const strikeWorking =
  (call: Call, share: number): Variant['strike'] =>
  ({ sql }, seconds) =>
    repeat(
      seconds,
      async () => {
        const { count } = await sql.unsafe(
          `select ${call}(pid) from pg_stat_activity
           where application_name = 'vitrine' and state = 'active' and random() < ${share}`,
        );
        await sleep(20 * Math.random());
        return count;
      },
      3,
    );

/** Calls it for every session that is between a commit and its answer. */
const strikeCommitted =
  (call: Call): Variant['strike'] =>
  async (stage, seconds) => {
    await withhold(stage);
    const hits = await repeat(seconds, async () => {
      const pids = await committed(stage);
      await stage.sql.unsafe(`select ${call}(pid) from unnest($1::int[]) pid`, [pids]);
      await sleep(30);
      return pids.length;
    });
    await release(stage);
    return hits;
  };

/** PostgreSQL ends without warning, with `fsync` on. Where it restarts by itself, `start` only waits for it. */
const killed = (name: string, end: (stage: Stage) => Promise<unknown>): Variant => ({
  name,
  allows: ['busy', 'lost'],
  strike: async (stage, seconds) => {
    await sleep(200 * Math.random());
    await end(stage);
    await sleep(seconds * 250);
    await stage.server.start();
    await release(stage);
    return 1;
  },
});

async function killPostmaster({ server }: Stage): Promise<void> {
  await server.signal('SIGKILL');
  await until('the end of the postmaster', () => !server.isRunning());
}

const freezeService = during(
  ({ service }) => service.signal('SIGSTOP'),
  ({ service }) => service.signal('SIGCONT'),
);
const freeze = during(
  ({ server }) => server.signal('SIGSTOP', true),
  ({ server }) => server.signal('SIGCONT', true),
);

/** Many clients that close their connections, beside those that wait for their answers. Gives how many have left. */
const leave =
  (step: (stage: Stage) => Promise<unknown>): Variant['strike'] =>
  async (stage, seconds, ledger) => {
    const reach = { ports: [stage.service.port], writers: 0, incrementers: 0, leavers: 20 };
    const crowd = startLoad(reach, ledger);
    await repeat(seconds, async () => {
      await step(stage);
      return 1;
    });
    await crowd.stop();
    return ledger.operations.filter(({ failure }) => failure === 'left').length;
  };

async function lockCounter({ sql }: Stage): Promise<void> {
  await sql.begin(async (transaction) => {
    await transaction`select from counter where id = 1 for update`;
    await sleep(300);
  });
  await sleep(200);
}

/** Holds locks in a transaction. Gives how many sessions of the service have waited for them. */
const locked =
  (...statements: string[]): Variant['strike'] =>
  async ({ sql }, seconds) => {
    let waiting = 0;
    await sql.begin(async (transaction) => {
      for (const statement of statements) await transaction.unsafe(statement);
      await sleep(seconds * 1000);
      waiting = (await sessions(sql, "wait_event_type = 'Lock'")).length;
    });
    return waiting;
  };
const LOCK_ROWS = locked('select from counter for update', 'select from entry for update');

/**
 * Locks a counter, and then the history: a POST that refers to the counter has the two locks in the other order. The service's
 * session finds the deadlock, since this one looks for it much later.
 */
async function deadlock({ sql }: Stage): Promise<void> {
  await sql.begin(async (transaction) => {
    await transaction`set local deadlock_timeout = '20s'`;
    await transaction`select from counter for update`;
    const isBlocking = async (): Promise<boolean> =>
      (await sessions(sql, "wait_event_type = 'Lock'")).length >= 3;
    for (let tries = 0; tries < 200 && !(await isBlocking()); tries += 1) await sleep(5);
    await transaction`lock table vitrine_history in share row exclusive mode`;
  });
}

/** Writes a new version of each counter, while the service waits to write one. */
async function touch({ sql }: Stage): Promise<void> {
  await sql.begin(async (transaction) => {
    await transaction`update counter set value = value`;
    await sleep(50);
  });
}

/** Repeats a step until the statistics, which PostgreSQL writes with a delay, have counted a collision. Gives how many. */
const collide =
  (statistic: 'deadlocks' | 'xact_rollback', step: (stage: Stage) => Promise<unknown>): Variant['strike'] =>
  async (stage, seconds) => {
    const counted = async (): Promise<number> => {
      const [row] = await stage.sql.unsafe<{ count: number }[]>(
        `select ${statistic}::int as count from pg_stat_database where datname = current_database()`,
      );
      return row?.count ?? 0;
    };
    const before = await counted();
    await repeat(seconds, async () => {
      await step(stage);
      await sleep(50);
      return (await counted()) > before ? 1 : 0;
    });
    return (await counted()) - before;
  };

const isolate =
  (level?: string): Variant['prepare'] & {} =>
  async (stage) => {
    const change = level
      ? `set default_transaction_isolation = '${level}'`
      : 'reset default_transaction_isolation';
    await stage.sql.unsafe(`alter role ${ROLE} ${change}`);
    await restart(stage);
  };

/** Other clients take every connection that the server has, those of the service among them. */
async function exhaust({ server, sql }: Stage, seconds: number): Promise<number> {
  const holders = Array.from({ length: MAX_CONNECTIONS }, () => server.open());
  const fill = (): Promise<unknown> => Promise.allSettled(holders.map((holder) => holder`select 1`));
  await fill();
  // Further ones wait for the places of the service.
  const hits = await repeat(seconds, async () => {
    await sql`select pg_terminate_backend(pid) from unnest(${await sessions(sql)}::int[]) pid`;
    await fill();
    const isGone = (await sessions(sql)).length === 0;
    await sleep(50);
    return isGone ? 1 : 0;
  });
  await Promise.all(holders.map((holder) => holder.end({ timeout: 0 })));
  await until('the places to be free', async () => {
    const [row] = await sql<{ count: number }[]>`select count(*)::int from pg_stat_activity`;
    return (row?.count ?? Infinity) < MAX_CONNECTIONS / 2;
  });
  return hits;
}

/** A small file system in memory, which ends with the mount namespace. */
async function mountSmall({ cluster }: Stage, name: string, megabytes: number): Promise<string> {
  const path = join(cluster.directory, name);
  await mkdir(path);
  command('mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'faults', path);
  await cluster.give(path);
  return path;
}

async function unmount(path: string): Promise<void> {
  command('umount', path);
  await rm(path, { recursive: true });
}

/** Fills a file system to the last byte. Gives what makes place again. */
async function fillDisk(path: string): Promise<() => Promise<void>> {
  const file = join(path, 'filler');
  const filler = await open(file, 'w');
  try {
    for (;;) await filler.write(Buffer.alloc(4096));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    await filler.close();
  }
  return () => rm(file, { force: true });
}

/** The disk of the tables is full: a statement that needs a new page fails. */
function fullTables(): Variant {
  let path = '';
  const move = async ({ sql }: Stage, tablespace: string): Promise<void> => {
    for (const table of ['entry', 'vitrine_history'])
      await sql.unsafe(`alter table ${table} set tablespace ${tablespace}`);
  };
  return {
    name: 'the tables',
    allows: ['busy'],
    prepare: async (stage) => {
      path = await mountSmall(stage, 'tablespace', 64);
      await stage.sql.unsafe(`create tablespace small location '${path}'`);
      await move(stage, 'small');
    },
    strike: async ({ sql }, seconds) => {
      const free = await fillDisk(path);
      await sleep(seconds * 1000);
      const large = sql`insert into entry (token, number, payload, counter_id)
        select 'x', 0, repeat(md5(random()::text), 10000), 1 from generate_series(1, 100)`;
      const failed = await large.then(() => 0, () => 1); // prettier-ignore
      await free();
      return failed;
    },
    restore: async (stage) => {
      await move(stage, 'pg_default');
      await stage.sql.unsafe('drop tablespace small');
      await unmount(path);
    },
  };
}

/** The disk of the WAL is full: PostgreSQL stops, and cannot recover until there is place. */
function fullWal(): Variant {
  let path = '';
  const place = ({ server }: Stage): string => join(server.folder, 'pg_wal');
  const copy = (from: string, to: string): void => command('cp', '-a', `${from}/.`, to);
  return {
    name: 'the WAL',
    allows: ['busy', 'lost'],
    prepare: async (stage) => {
      path = await mountSmall(stage, 'wal', 192);
      await stage.server.stop('fast');
      copy(place(stage), path);
      await rename(place(stage), `${place(stage)}.moved`);
      await symlink(path, place(stage));
      await stage.server.start();
    },
    strike: async ({ server, sql }, seconds) => {
      const free = await fillDisk(path);
      const end = performance.now() + seconds * 1000 + 10_000;
      // Takes the segments that are there already.
      while (server.isRunning() && performance.now() < end) {
        await sql`select pg_switch_wal()`.catch(() => undefined);
        await sleep(30);
      }
      const hasStopped = !server.isRunning();
      await sleep(seconds * 250);
      await free();
      await server.start();
      return hasStopped ? 1 : 0;
    },
    restore: async (stage) => {
      await stage.server.stop('fast');
      await rm(place(stage));
      await mkdir(place(stage), { mode: 0o700 });
      await stage.cluster.give(place(stage));
      copy(path, place(stage));
      await rm(`${place(stage)}.moved`, { recursive: true });
      await unmount(path);
      await stage.server.start();
    },
  };
}

const swallow = during(({ network }) => network.swallow(), ({ network }) => network.heal()); // prettier-ignore
const disturb = during(({ network }) => network.disturb(), ({ network }) => network.heal()); // prettier-ignore
const BETWEEN = 'between commit and answer';

const [SHORT, LONG] = [true, false];
const fault = (
  name: string,
  isShort: boolean,
  variants: readonly Variant[],
  obstacle?: Fault['obstacle'],
): Fault => ({
  name,
  isShort,
  variants,
  ...(obstacle && { obstacle }),
});
const variant = (
  name: string,
  allows: Variant['allows'],
  strike: Variant['strike'],
  more: Partial<Variant> = {},
): Variant => ({ name, allows, strike, ...more });

const BUSY = ['busy'] as const;
const BUSY_OR_LOST = ['busy', 'lost'] as const;
const LEFT = { leavesStatements: true };

/** In the order of the table of results. */
export const FAULTS: readonly Fault[] = [
  fault('service-killed', SHORT, [
    variant('kill -9', ['cut', 'reset', 'refused', 'busy'], (stage, seconds) =>
      repeat(seconds, () => kill(stage)),
    ),
  ]),
  // Without a socket that outlives the process, the kernel resets connections that it has not accepted.
  fault('service-ended', SHORT, [
    variant('SIGTERM', ['reset', 'refused', 'busy'], async (stage, seconds) => {
      await sleep(seconds * 200 * Math.random());
      return restart(stage);
    }),
  ]),
  fault('service-frozen', LONG, [variant('SIGSTOP', BUSY, freezeService)]),
  fault('socket-activation', SHORT, [
    handOver('one after the other', false),
    handOver('the next one first', true),
  ]),
  fault('postgres-killed', LONG, [
    killed('kill -9 of the postmaster', killPostmaster),
    // The postmaster then ends all other sessions, and recovers from the WAL.
    killed('kill -9 of a session', async (stage) => {
      const [pid] = await busySessions('a session at work', stage, "state = 'active'");
      if (pid !== undefined) process.kill(pid, 'SIGKILL');
    }),
    killed(`kill -9 ${BETWEEN}`, async (stage) => {
      await withhold(stage);
      await committed(stage);
      await sleep(100);
      await killPostmaster(stage);
    }),
    killed('immediate shutdown', ({ server }) => server.stop('immediate')),
  ]),
  fault('postgres-frozen', LONG, [
    variant('SIGSTOP', BUSY, freeze),
    variant('SIGSTOP beyond the timeout of 15 s', BUSY_OR_LOST, freeze, { seconds: BEYOND_ANSWER }),
  ]),
  fault('sessions-terminated', SHORT, [
    variant('at work', BUSY_OR_LOST, strikeWorking('pg_terminate_backend', 0.2)),
    variant(BETWEEN, BUSY_OR_LOST, strikeCommitted('pg_terminate_backend')),
  ]),
  // What is committed stays here, but a failover could undo it: its outcome is unknown.
  fault('statements-canceled', SHORT, [
    variant('at work', BUSY, strikeWorking('pg_cancel_backend', 0.5)),
    variant(BETWEEN, BUSY_OR_LOST, strikeCommitted('pg_cancel_backend')),
  ]),
  fault('clients-gone', SHORT, [
    variant(
      'while statements run',
      [],
      leave(() => sleep(100)),
    ),
    variant('while statements wait for a lock', [], leave(lockCounter)),
  ]),
  fault('collisions', SHORT, [
    variant('deadlocks', BUSY, collide('deadlocks', deadlock)),
    variant('serialization failures', BUSY, collide('xact_rollback', touch), {
      prepare: isolate('repeatable read'),
      restore: isolate(),
    }),
  ]),
  fault('rows-locked', SHORT, [
    variant('for a moment', BUSY, LOCK_ROWS),
    variant('beyond the timeout of 5 s', BUSY, LOCK_ROWS, { seconds: BEYOND_LOCK }),
  ]),
  fault('table-locked', LONG, [
    variant('the records', BUSY, locked('lock table entry in access exclusive mode'), {
      seconds: BEYOND_LOCK,
    }),
    variant('the history', BUSY, locked('lock table vitrine_history in share mode'), {
      seconds: BEYOND_LOCK,
    }),
  ]),
  fault('connections-exhausted', LONG, [variant('max_connections', BUSY_OR_LOST, exhaust)]),
  fault('disk-full', LONG, [fullTables(), fullWal()], () =>
    isIsolated() ? undefined : 'needs the right to mount a file system',
  ),
  fault('packets-dropped', LONG, [variant('some of the packets', BUSY_OR_LOST, disturb, LEFT)]),
  fault('black-hole', LONG, [
    variant('all packets', BUSY_OR_LOST, swallow, LEFT),
    variant('all packets, beyond the timeout of 15 s', BUSY_OR_LOST, swallow, {
      ...LEFT,
      seconds: BEYOND_ANSWER,
    }),
  ]),
];
