import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../processes.ts';
import { sessions, type Stage } from '../stage.ts';

/** Sessions of the service whose statement is committed, and whose answer is withheld. */
const COMMITTED = "wait_event = 'SyncRep'";

/** Makes PostgreSQL wait for a standby that does not exist, after each commit of the service and before its answer. */
async function withhold({ cluster: { sql } }: Stage): Promise<void> {
  await sql`alter system set synchronous_standby_names = 'missing'`;
  await sql`select pg_reload_conf()`;
}

/** Lets commits have their answers again. */
export async function release({ cluster: { sql } }: Stage): Promise<void> {
  await sql`alter system reset synchronous_standby_names`;
  await sql`select pg_reload_conf()`;
}

/** Waits until sessions of the service are between a commit and its answer. Gives their process ids. */
const committed = ({ cluster }: Stage): Promise<number[]> =>
  until('a commit without an answer', async () => {
    const pids = await sessions(cluster, COMMITTED);
    return pids.length > 0 && pids;
  });

/** Calls a function of PostgreSQL for every session that is between a commit and its answer, again and again. */
export const strikeCommitted =
  (call: 'pg_cancel_backend' | 'pg_terminate_backend') =>
  async (stage: Stage, seconds: number): Promise<number> => {
    const end = performance.now() + seconds * 1000;
    let hits = 0;
    await withhold(stage);
    do {
      const pids = await committed(stage);
      await stage.cluster.sql.unsafe(`select ${call}(pid) from unnest($1::int[]) pid`, [pids]);
      hits += pids.length;
      await sleep(30);
    } while (performance.now() < end);
    await release(stage);
    return hits;
  };

/** Kills the postmaster while sessions are between a commit and its answer. */
export async function killCommitted(stage: Stage): Promise<void> {
  const { cluster } = stage;
  await withhold(stage);
  await committed(stage);
  await sleep(100);
  await cluster.signal('SIGKILL');
  await until('the end of the postmaster', () => !cluster.isRunning());
}
