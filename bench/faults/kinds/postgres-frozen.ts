import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, Stage } from '../stage.ts';

async function freeze({ cluster }: Stage, seconds: number): Promise<number> {
  await cluster.signal('SIGSTOP', true);
  await sleep(seconds * 1000);
  await cluster.signal('SIGCONT', true);
  return 1;
}

/** SIGSTOP of every process of PostgreSQL, and SIGCONT. */
export const postgresFrozen: Fault = {
  name: 'postgres-frozen',
  isShort: false,
  variants: [
    { name: 'SIGSTOP', allows: ['busy'], strike: freeze },
    {
      name: 'SIGSTOP beyond the timeout of 15 s',
      allows: ['busy', 'lost'],
      seconds: 17,
      leavesStatements: false,
      strike: freeze,
    },
  ],
};
