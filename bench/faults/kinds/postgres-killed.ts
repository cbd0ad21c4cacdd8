import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../processes.ts';
import { sessions, type Fault, type Stage, type Variant } from '../stage.ts';
import { killCommitted, release } from './withheld.ts';

/**
 * @param kill makes PostgreSQL end; where it restarts by itself, `start` only waits for it
 * @param after takes back what `kill` has set
 */
function killed(
  name: string,
  kill: (stage: Stage) => Promise<unknown>,
  after?: (stage: Stage) => Promise<unknown>,
): Variant {
  return {
    name,
    allows: ['busy', 'lost'],
    strike: async (stage, seconds) => {
      await sleep(200 * Math.random());
      await kill(stage);
      await sleep(seconds * 250);
      await stage.cluster.start();
      await after?.(stage);
      return 1;
    },
  };
}

/** PostgreSQL ends without warning, with `fsync` on, and starts again. */
export const postgresKilled: Fault = {
  name: 'postgres-killed',
  isShort: false,
  variants: [
    killed('kill -9 of the postmaster', async ({ cluster }) => {
      await cluster.signal('SIGKILL');
      await until('the end of the postmaster', () => !cluster.isRunning());
    }),
    // The postmaster then ends all other sessions, and recovers from the WAL.
    killed('kill -9 of a session', async ({ cluster }) => {
      const [pid] = await until('a session at work', async () => {
        const found = await sessions(cluster, "state = 'active'");
        return found.length > 0 && found;
      });
      if (pid !== undefined) process.kill(pid, 'SIGKILL');
    }),
    killed('kill -9 between commit and answer', killCommitted, release),
    killed('immediate shutdown', ({ cluster }) => cluster.stop('immediate')),
  ],
};
