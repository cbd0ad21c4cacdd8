import { setTimeout as sleep } from 'node:timers/promises';
import { ROLE } from '../cluster.ts';
import { sessions, type Fault, type Stage } from '../stage.ts';

async function restart({ service }: Stage): Promise<void> {
  service.signal('SIGTERM');
  await service.ended();
  await service.start();
}

/** A counter of the statistics, which PostgreSQL writes with a delay. */
async function statistic({ cluster }: Stage, name: 'deadlocks' | 'xact_rollback'): Promise<number> {
  const [row] = await cluster.sql.unsafe<{ count: number }[]>(
    `select ${name}::int as count from pg_stat_database where datname = current_database()`,
  );
  return row?.count ?? 0;
}

/**
 * Locks a counter, and then the history: a POST that refers to the counter has the two locks in the other order. The service's
 * session finds the deadlock, since this one looks for it much later.
 */
async function deadlock({ cluster }: Stage): Promise<void> {
  await cluster.sql.begin(async (sql) => {
    await sql`set local deadlock_timeout = '20s'`;
    await sql`select from counter for update`;
    const isBlocking = async (): Promise<boolean> =>
      (await sessions(cluster, "wait_event_type = 'Lock'")).length >= 3;
    for (let tries = 0; tries < 200 && !(await isBlocking()); tries += 1) await sleep(5);
    await sql`lock table vitrine_history in share row exclusive mode`;
  });
}

/** The most seconds until a collision happens. */
const MOST_SECONDS = 20;

/** Repeats until the time is over and the statistics have counted a collision. Gives how many. */
const collide =
  (name: Parameters<typeof statistic>[1], step: (stage: Stage) => Promise<unknown>) =>
  async (stage: Stage, seconds: number): Promise<number> => {
    const before = await statistic(stage, name);
    const started = performance.now();
    const elapsed = (): number => (performance.now() - started) / 1000;
    for (;;) {
      await step(stage);
      await sleep(50);
      if (elapsed() < seconds) continue;
      const count = (await statistic(stage, name)) - before;
      if (count > 0 || elapsed() > MOST_SECONDS) return count;
    }
  };

/** PostgreSQL undoes statements because they met others. */
export const collisions: Fault = {
  name: 'collisions',
  isShort: true,
  variants: [
    {
      name: 'deadlocks',
      allows: ['busy'],
      strike: collide('deadlocks', deadlock),
    },
    {
      name: 'serialization failures',
      allows: ['busy'],
      prepare: async (stage) => {
        await stage.cluster.sql.unsafe(
          `alter role ${ROLE} set default_transaction_isolation = 'repeatable read'`,
        );
        await restart(stage);
      },
      strike: collide('xact_rollback', () => sleep(100)),
      restore: async (stage) => {
        await stage.cluster.sql.unsafe(`alter role ${ROLE} reset default_transaction_isolation`);
        await restart(stage);
      },
    },
  ],
};
