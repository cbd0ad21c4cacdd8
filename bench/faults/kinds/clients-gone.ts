import { setTimeout as sleep } from 'node:timers/promises';
import { createLeaver } from '../client.ts';
import { openConnection } from '../connection.ts';
import { AUTHORIZATION, type Fault, type Stage } from '../stage.ts';
import type { Ledger } from '../ledger.ts';

const CROWD = 20;

/** Many clients that close their connections at once, beside those that wait for their answers. Gives how many have left. */
async function crowd({ service }: Stage, ledger: Ledger, during: () => Promise<unknown>): Promise<number> {
  let isOver = false;
  const leavers = Array.from({ length: CROWD }, () =>
    createLeaver(openConnection(service.base, AUTHORIZATION), ledger).run(() => isOver),
  );
  await during();
  isOver = true;
  await Promise.all(leavers);
  return ledger.operations.filter(({ failure }) => failure === 'left').length;
}

/** Clients leave while the service works on their writes. Those that stay notice nothing. */
export const clientsGone: Fault = {
  name: 'clients-gone',
  isShort: true,
  variants: [
    {
      name: 'while statements run',
      allows: [],
      strike: (stage, seconds, ledger) => crowd(stage, ledger, () => sleep(seconds * 1000)),
    },
    {
      name: 'while statements wait for a lock',
      allows: [],
      strike: (stage, seconds, ledger) =>
        crowd(stage, ledger, async () => {
          const until = performance.now() + seconds * 1000;
          do {
            await stage.cluster.sql.begin(async (sql) => {
              await sql`select from counter where id = 1 for update`;
              await sleep(300);
            });
            await sleep(200);
          } while (performance.now() < until);
        }),
    },
  ],
};
