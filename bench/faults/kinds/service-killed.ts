import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from '../stage.ts';

/** `kill -9` of the service, which starts again at once. */
export const serviceKilled: Fault = {
  name: 'service-killed',
  isShort: true,
  variants: [
    {
      name: 'kill -9',
      allows: ['cut', 'reset', 'refused', 'busy'],
      strike: async ({ service }, seconds) => {
        const until = performance.now() + seconds * 1000;
        let kills = 0;
        do {
          await sleep(300 * Math.random());
          service.signal('SIGKILL');
          kills += 1;
          await service.ended();
          await service.start();
        } while (performance.now() < until);
        return kills;
      },
    },
  ],
};
