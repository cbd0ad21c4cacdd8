import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from '../stage.ts';

/** SIGTERM under load. What is in flight is finished, and the next process starts. */
export const serviceEnded: Fault = {
  name: 'service-ended',
  isShort: true,
  variants: [
    {
      name: 'SIGTERM',
      // Without a socket that outlives the process, the kernel resets connections that it has not accepted.
      allows: ['reset', 'refused', 'busy'],
      strike: async ({ service }, seconds) => {
        await sleep(seconds * 200 * Math.random());
        service.signal('SIGTERM');
        const code = await service.ended();
        if (code !== 0) throw new Error(`the service ended with ${code} after SIGTERM`);
        await service.start();
        return 1;
      },
    },
  ],
};
