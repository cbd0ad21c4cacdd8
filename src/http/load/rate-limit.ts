// Limits how many requests a client may send in a second: the setting RATE_LIMIT.
import { hash as digest } from 'node:crypto';
import type { Rate } from '../../setting-values.ts';

/** Maximum number of counted clients. The one that was seen the longest time ago is dropped. */
const MAX_CLIENTS = 100_000;
/** Keys above this length (characters), such as those of users with long ids, are counted by a digest. */
const MAX_KEY = 64;

/** Requests of a client that another process has counted. */
export type SpentRequests = readonly [key: string, requests: number];

const shortKey = (key: string): string => (key.length <= MAX_KEY ? key : digest('sha256', key, 'base64'));

export type RateLimit = ReturnType<typeof createRateLimit>;

/**
 * Each client may send `burst` requests at once, and gets `perSecond` new ones in a second. For each client only one number is
 * kept: the time at which all of its requests are available again.
 * @param share receives the key of each admitted request, for the other processes
 * @param now milliseconds of a clock that never goes back
 */
export function createRateLimit(
  { perSecond, burst }: Rate,
  share?: (key: string) => void,
  now: () => number = () => performance.now(),
) {
  const interval = 1000 / perSecond;
  /** Times by client, the least recently seen first. */
  const fullAt = new Map<string, number>();

  function store(key: string, time: number): void {
    fullAt.delete(key);
    if (fullAt.size >= MAX_CLIENTS) fullAt.delete(fullAt.keys().next().value ?? '');
    fullAt.set(key, time);
  }

  return {
    /**
     * Counts a request.
     * @returns 0 if the client may send it, else the seconds until it may
     */
    spend(client: string): number {
      const key = shortKey(client);
      const current = now();
      const next = Math.max(current, fullAt.get(key) ?? 0) + interval;
      const excess = next - current - burst * interval;
      // A tolerance for rounding: the sum of `burst` intervals may exceed the product.
      if (excess > 1e-6 * interval * burst) return excess / 1000;
      store(key, next);
      share?.(key);
      return 0;
    },

    /** Counts requests that other processes have admitted. A client may owe some, so that the total rate is kept. */
    charge(spent: readonly SpentRequests[]): void {
      const current = now();
      for (const [key, requests] of spent)
        store(key, Math.max(current, fullAt.get(key) ?? 0) + requests * interval);
    },

    /** The requests that clients do not have back yet: of the last seen ones, at most so many. */
    recent(maxClients: number): SpentRequests[] {
      const current = now();
      return [...fullAt]
        .slice(-maxClients)
        .filter(([, time]) => time > current)
        .map(([key, time]) => [key, (time - current) / interval]);
    },
  };
}
