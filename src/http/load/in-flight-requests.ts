// Counts the requests in flight, so that a shutdown can wait for them.
import { setTimeout as sleep } from 'node:timers/promises';

/** Maximum time that a shutdown waits for requests in flight, and between two looks (milliseconds). */
export const SHUTDOWN_TIMEOUT = 10_000;
const INTERVAL = 10;

export type InFlight = ReturnType<typeof createInFlight>;

/** One counter for all servers that use the handler. */
export function createInFlight() {
  let count = 0;
  return {
    begin: () => void (count += 1),
    end: () => void (count -= 1),
    count: (): number => count,
    /** Resolves when no request is in flight, or after SHUTDOWN_TIMEOUT. */
    drained: async (): Promise<void> => {
      const until = performance.now() + SHUTDOWN_TIMEOUT;
      while (count > 0 && performance.now() < until) await sleep(INTERVAL);
    },
  };
}
