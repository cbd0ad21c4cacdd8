import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { MAX_CONNECTIONS } from '../cluster.ts';
import { until } from '../processes.ts';
import { sessions, type Fault, type Stage } from '../stage.ts';

/** The most seconds until the service has no connection left. */
const MOST_SECONDS = 20;

/** Opens connections until the server has no place left. Gives them. */
async function fill({ cluster }: Stage): Promise<postgres.Sql[]> {
  const holders = Array.from({ length: MAX_CONNECTIONS }, () => cluster.openClient(1));
  await Promise.allSettled(holders.map((holder) => holder`select 1`));
  return holders;
}

/** Other clients take every connection that the server has, those of the service among them. */
export const connectionsExhausted: Fault = {
  name: 'connections-exhausted',
  isShort: false,
  variants: [
    {
      name: 'max_connections',
      allows: ['busy', 'lost'],
      strike: async (stage, seconds) => {
        const { cluster } = stage;
        const holders = await fill(stage);
        // Further ones wait for the places of the service.
        const started = performance.now();
        const elapsed = (): number => (performance.now() - started) / 1000;
        let hits = 0;
        while (elapsed() < seconds || (hits === 0 && elapsed() < MOST_SECONDS)) {
          const pids = await sessions(cluster);
          await cluster.sql`select pg_terminate_backend(pid) from unnest(${pids}::int[]) pid`;
          await Promise.allSettled(holders.map((holder) => holder`select 1`));
          if ((await sessions(cluster)).length === 0) hits += 1;
          await sleep(50);
        }
        await Promise.all(holders.map((holder) => holder.end({ timeout: 0 })));
        await until('the places to be free', async () => {
          const [row] = await cluster.sql<{ count: number }[]>`select count(*)::int from pg_stat_activity`;
          return (row?.count ?? Infinity) < MAX_CONNECTIONS / 2;
        });
        return hits;
      },
    },
  ],
};
