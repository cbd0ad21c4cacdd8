// Limits how many requests a client may send in a second: the setting RATE_LIMIT.
import { hash as digest } from 'node:crypto';
import type { Rate } from '../../setting-values.ts';

/** Clients after which a new generation begins. The generation before the last is dropped. */
const MAX_CLIENTS = 50_000;
/** Keys above this length (characters), such as those of users with long ids, are counted by a digest. */
const MAX_KEY = 64;

/** Requests of a client that another process has counted. */
export type SpentRequests = readonly [key: string, requests: number];

const shortKey = (key: string): string => (key.length <= MAX_KEY ? key : digest('sha256', key, 'base64'));

export type RateLimit = ReturnType<typeof createRateLimit>;

/**
 * Each client may send `burst` requests at once, and gets `perSecond` new ones in a second. For each client only one number is
 * kept: the time at which all of its requests are available again.
 * @param share receives each admitted request, for the other processes
 * @param now milliseconds of a clock that never goes back
 */
export function createRateLimit(
  { perSecond, burst }: Rate,
  share?: (spent: SpentRequests) => void,
  now: () => number = () => performance.now(),
) {
  const interval = 1000 / perSecond;
  /** Times by client: of those seen lately, and of those before. Deleting the oldest of one map would take ever longer. */
  let fullAt = new Map<string, number>();
  let earlier = new Map<string, number>();
  const timeOf = (key: string): number => fullAt.get(key) ?? earlier.get(key) ?? 0;

  function store(key: string, time: number): void {
    fullAt.set(key, time);
    if (fullAt.size < MAX_CLIENTS) return;
    earlier = fullAt;
    fullAt = new Map();
  }

  return {
    /**
     * Counts a request.
     * @returns 0 if the client may send it, else the seconds until it may
     */
    spend(client: string): number {
      const key = shortKey(client);
      const current = now();
      const next = Math.max(current, timeOf(key)) + interval;
      const excess = next - current - burst * interval;
      // A tolerance for rounding: the sum of `burst` intervals may exceed the product.
      if (excess > 1e-6 * interval * burst) return excess / 1000;
      store(key, next);
      share?.([key, 1]);
      return 0;
    },

    /** Counts requests that other processes have admitted. A client may owe some, so that the total rate is kept. */
    charge(spent: readonly SpentRequests[]): void {
      const current = now();
      for (const [key, requests] of spent) store(key, Math.max(current, timeOf(key)) + requests * interval);
    },

    /** The requests that are not available again yet, of the `maxClients` clients with most of them. */
    recent(maxClients: number): SpentRequests[] {
      const current = now();
      return [...new Map([...earlier, ...fullAt])]
        .filter(([, time]) => time > current)
        .sort(([, time], [, other]) => time - other)
        .slice(-maxClients)
        .map(([key, time]) => [key, (time - current) / interval]);
    },
  };
}
