// What the processes of one service count together: failed logins, clients that have logged in, and RATE_LIMIT.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Settings } from '../../config.ts';
import { splitRate } from '../../setting-values.ts';
import { createRateLimit, type SpentRequests } from '../load/rate-limit.ts';
import { createFamiliarClients, type SharedLogin } from './familiar-clients.ts';
import { createThrottle, type Failures } from './login-throttle.ts';

/** What a process has counted since its last message. */
export interface Counts {
  readonly failures: Failures[];
  readonly logins: SharedLogin[];
  readonly requests: SpentRequests[];
}

/** Milliseconds between two messages. */
const GAP = 10;
/** Maximum entries of each kind in a message. Further ones count in this process only. */
const MAX_ENTRIES = 1_000;

const noCounts = (): Counts => ({ failures: [], logins: [], requests: [] });

export type SharedCounts = ReturnType<typeof createSharedCounts>;

/** @param send sends what this process counts to the others, and resolves when it has arrived */
export function createSharedCounts(
  { rateLimit }: Pick<Settings, 'rateLimit'>,
  send?: (counts: Counts) => Promise<unknown>,
) {
  let waiting = noCounts();
  let isSending = false;

  /** The first count is sent at once. Those that follow are collected until that has arrived. */
  async function share(): Promise<void> {
    if (isSending) return;
    isSending = true;
    while (Object.values(waiting).some((entries: readonly unknown[]) => entries.length > 0)) {
      const counts = waiting;
      waiting = noCounts();
      await send?.(counts);
      await sleep(GAP, undefined, { ref: false });
    }
    isSending = false;
  }

  const sharing = <Entry>(entriesOf: (counts: Counts) => Entry[]): ((entry: Entry) => void) | undefined =>
    send &&
    ((entry) => {
      const entries = entriesOf(waiting);
      if (entries.length < MAX_ENTRIES) entries.push(entry);
      void share();
    });
  const rate = splitRate(rateLimit);
  const limit =
    rate &&
    createRateLimit(
      rate,
      sharing(({ requests }) => requests),
    );
  const throttle = createThrottle(
    undefined,
    sharing(({ failures }) => failures),
  );
  const familiars = createFamiliarClients(sharing(({ logins }) => logins));
  return {
    throttle,
    familiars,
    /** Undefined without RATE_LIMIT. */
    rateLimit: limit,

    /** Adds what another process has counted. */
    add({ failures, logins, requests }: Counts): void {
      throttle.add(failures);
      familiars.learn(logins);
      limit?.charge(requests);
    },

    /** What a new process must know. */
    recent: (): Counts => ({
      failures: throttle.recent(MAX_ENTRIES),
      logins: familiars.recent(MAX_ENTRIES),
      requests: limit?.recent(MAX_ENTRIES) ?? [],
    }),
  };
}
