import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from '../stage.ts';

/** SIGSTOP of the service, and SIGCONT. */
export const serviceFrozen: Fault = {
  name: 'service-frozen',
  isShort: false,
  variants: [
    {
      name: 'SIGSTOP',
      allows: ['busy'],
      strike: async ({ service }, seconds) => {
        service.signal('SIGSTOP');
        await sleep(seconds * 1000);
        service.signal('SIGCONT');
        return 1;
      },
    },
  ],
};
