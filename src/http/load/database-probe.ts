// Checks that the database answers, for `/readyz`.
import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds. `/readyz` fails when the database takes longer to answer. */
const PROBE_TIMEOUT = 800;

/** Concurrent checks share one statement, so that none pile up when the database hangs. */
export function createDatabaseProbe(query: () => Promise<unknown>): () => Promise<boolean> {
  let running: Promise<boolean> | undefined;
  return async () => {
    running ??= query()
      .then(
        () => true,
        () => false,
      )
      .finally(() => (running = undefined));
    return Promise.race([running, sleep(PROBE_TIMEOUT, false)]);
  };
}
