import { setTimeout as sleep } from 'node:timers/promises';
import { createHandover, type Handover } from '../service.ts';
import type { Fault, Variant } from '../stage.ts';

/** @param startsFirst whether the next process starts before the last one ends */
function handOver(name: string, startsFirst: boolean): Variant {
  let handover: Handover | undefined;
  let pid = 0;
  return {
    name,
    allows: [],
    prepare: async ({ service, serviceOptions }) => {
      await service.close();
      handover = await createHandover(serviceOptions);
      pid = await handover.launch();
    },
    strike: async (_, seconds) => {
      const until = performance.now() + seconds * 1000;
      let restarts = 0;
      do {
        if (!handover) throw new Error('there is no socket');
        const next = startsFirst ? await handover.launch() : undefined;
        const code = await handover.stop(pid);
        if (code !== 0) throw new Error(`the service ended with ${code} after SIGTERM`);
        pid = next ?? (await handover.launch());
        restarts += 1;
        await sleep(200);
      } while (performance.now() < until);
      return restarts;
    },
    restore: async ({ service }) => {
      await handover?.close();
      await service.start();
    },
  };
}

/** Restarts behind a socket that systemd would hold: the clients notice nothing. */
export const socketActivation: Fault = {
  name: 'socket-activation',
  isShort: true,
  variants: [handOver('one after the other', false), handOver('the next one first', true)],
};
