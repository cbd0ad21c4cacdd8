// Checks that the primary answers: what `/readyz` says.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../connection/database.ts';
import { raw } from '../fragment.ts';
import { createStatement } from '../rows.ts';

/** Milliseconds. `/readyz` fails when the database takes longer to answer. */
const PROBE_TIMEOUT = 800;

const PROBE = { ...createStatement(raw('select 1'), () => true), fixed: true, isPlain: true };

/** Checks that the database answers. Concurrent checks share one statement, so that none pile up when the database hangs. */
export function createProbe(database: Database): () => Promise<boolean> {
  let running: Promise<boolean> | undefined;
  return async () => {
    running ??= database
      .run(PROBE, 'quick')
      .then(
        () => true,
        () => false,
      )
      .finally(() => (running = undefined));
    const timeout = sleep(PROBE_TIMEOUT, false);
    return Promise.race([running, timeout]);
  };
}
