import { Problem } from '../errors.ts';

/** Failures in a minute. */
const MOST_BY_ADDRESS = 10;
const MOST_BY_NAME = 50;
const MINUTE = 60_000;
/** Keys that are remembered at most; each failure costs the attacker a hash, so this is far away. */
const MOST_KEYS = 100_000;

interface Count {
  failures: number;
  /** Tries whose outcome is not known yet; they count until it is, so that many at once do not slip through. */
  pending: number;
  /** When the minute of the first failure is over, in milliseconds of the clock. */
  ends: number;
}

/** How many logins there were since the start. */
export interface ThrottleCounts {
  /** That had wrong credentials. */
  readonly failed: number;
  /** That were refused unseen. */
  readonly throttled: number;
}

export interface Throttle {
  readonly counts: () => ThrottleCounts;
  /** @throws Problem 429 when the address or the name has failed too often in this minute */
  readonly check: (address: string, name: string) => void;
  /** Like `check`, and counts the try as pending. Gives the function that says how it ended. */
  readonly begin: (address: string, name: string) => (failed: boolean) => void;
}

/**
 * A user name as it is counted. The database may take several spellings for one name, and those of a name that nobody has must
 * not count otherwise than those of one that somebody has; so case, accents and spaces make no difference here.
 */
const counted = (name: string): string =>
  name
    .slice(0, 256)
    .normalize('NFKD')
    .replace(/[\p{M}\s]/gu, '')
    .toUpperCase();

export function createThrottle(now: () => number = Date.now): Throttle {
  const counts = new Map<string, Count>();
  let failures = 0;
  let throttled = 0;

  const isOver = ({ pending, ends }: Count): boolean => pending === 0 && ends <= now();

  /** Makes room for one more: what is over goes, else the oldest. */
  function makeRoom(): void {
    for (const [key, count] of counts) if (isOver(count)) counts.delete(key);
    const oldest = counts.keys().next();
    if (counts.size >= MOST_KEYS && !oldest.done) counts.delete(oldest.value);
  }

  function countOf(key: string): Count {
    const count = counts.get(key);
    if (count && !isOver(count)) return count;
    counts.delete(key);
    if (counts.size >= MOST_KEYS) makeRoom();
    const fresh = { failures: 0, pending: 0, ends: now() + MINUTE };
    counts.set(key, fresh);
    return fresh;
  }

  const limits = (address: string, name: string): [key: string, most: number][] => [
    [`address ${address}`, MOST_BY_ADDRESS],
    [`name ${counted(name)}`, MOST_BY_NAME],
  ];

  function check(address: string, name: string): void {
    for (const [key, most] of limits(address, name)) {
      const count = counts.get(key);
      if (!count || isOver(count) || count.failures + count.pending < most) continue;
      throttled += 1;
      const seconds = Math.max(1, Math.ceil((count.ends - now()) / 1000));
      throw new Problem(429, 'Too many failed logins. Try again later.', {
        headers: { 'Retry-After': String(seconds) },
      });
    }
  }

  return {
    check,
    counts: () => ({ failed: failures, throttled }),
    begin(address, name) {
      check(address, name);
      const both = limits(address, name).map(([key]) => countOf(key));
      for (const count of both) count.pending += 1;
      return (failed) => {
        if (failed) failures += 1;
        for (const count of both) {
          count.pending -= 1;
          if (!failed) continue;
          if (count.failures === 0) count.ends = now() + MINUTE;
          count.failures += 1;
        }
      };
    },
  };
}
