import { setTimeout as sleep } from 'node:timers/promises';
import type { Network } from '../network.ts';
import type { Fault, Stage } from '../stage.ts';

const during =
  (start: (network: Network) => void) =>
  async ({ network }: Stage, seconds: number): Promise<number> => {
    start(network);
    await sleep(seconds * 1000);
    await network.heal();
    return 1;
  };

/** Some of the packets between the service and PostgreSQL get lost. */
export const packetsDropped: Fault = {
  name: 'packets-dropped',
  isShort: false,
  variants: [
    {
      name: 'some of the packets',
      allows: ['busy', 'lost'],
      leavesStatements: true,
      strike: during((network) => network.disturb()),
    },
  ],
};

const swallow = during((network) => network.swallow());

/** Packets disappear in both directions, and neither side learns of it. */
export const blackHole: Fault = {
  name: 'black-hole',
  isShort: false,
  variants: [
    { name: 'all packets', allows: ['busy', 'lost'], leavesStatements: true, strike: swallow },
    {
      name: 'all packets, beyond the timeout of 15 s',
      allows: ['busy', 'lost'],
      seconds: 17,
      leavesStatements: true,
      strike: swallow,
    },
  ],
};
