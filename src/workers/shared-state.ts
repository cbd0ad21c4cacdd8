// What the processes of one service must count together: failed logins, known clients and the rate of requests.
import type { Settings } from '../config.ts';
import { createFamiliarClients, type SharedLogin } from '../http/auth/familiar-clients.ts';
import { createThrottle, type Failures } from '../http/auth/login-throttle.ts';
import { createRateLimit, type SpentRequests } from '../http/load/rate-limit.ts';
import { splitRate } from '../setting-values.ts';

/** What other processes have counted since their last message. */
export interface Batch {
  readonly failures: readonly Failures[];
  readonly logins: readonly SharedLogin[];
  readonly rates: readonly SpentRequests[];
}

/** Receives what this process counts. */
export interface Share {
  readonly failures: (failures: readonly Failures[]) => void;
  readonly login: (login: SharedLogin) => void;
  readonly request: (key: string) => void;
}

/** How much of each kind a new process gets: the latest entries. */
const MAX_RECENT = { failures: 5_000, logins: 5_000, rates: 2_000 };
/** Entries of each kind in one message. */
const MAX_BATCH = 500;

export type SharedState = ReturnType<typeof createSharedState>;

export function createSharedState({ rateLimit }: Pick<Settings, 'rateLimit'>, share?: Share) {
  const throttle = createThrottle(undefined, share?.failures);
  const familiars = createFamiliarClients(share?.login);
  const rate = splitRate(rateLimit);
  const limit = rate && createRateLimit(rate, share?.request);
  return {
    throttle,
    familiars,
    /** Undefined without RATE_LIMIT. */
    rateLimit: limit,

    /** Adds what other processes have counted. */
    add({ failures, logins, rates }: Batch): void {
      throttle.add(failures);
      familiars.learn(logins);
      limit?.charge(rates);
    },

    /** What a new process must know, as batches of a limited size. */
    recent(): Batch[] {
      const failures = throttle.recent(MAX_RECENT.failures);
      const logins = familiars.recent(MAX_RECENT.logins);
      const rates = limit?.recent(MAX_RECENT.rates) ?? [];
      const batches: Batch[] = [];
      for (let from = 0; from < Math.max(failures.length, logins.length, rates.length); from += MAX_BATCH) {
        const part = <T>(items: readonly T[]): T[] => items.slice(from, from + MAX_BATCH);
        batches.push({ failures: part(failures), logins: part(logins), rates: part(rates) });
      }
      return batches;
    },
  };
}
