import { createHash } from 'node:crypto';
import { Problem } from '../../errors.ts';
import { enclosingNetworks } from '../message/client-networks.ts';

/** Failures in a minute: of a client's network and the two around it (an IPv6 /64, /56 and /48), and of a name. */
const MOST_BY_NETWORK = [10, 30, 100] as const;
const MOST_BY_NAME = 50;
const MINUTE = 60_000;
/** Keys that are remembered at most. */
const MOST_KEYS = 100_000;
/** Keys that are looked at to make room for one. */
const MOST_LOOKED_AT = 8;

interface Count {
  failures: number;
  /** Tries whose outcome is not known yet; they count until it is, so that many at once do not slip through. */
  pending: number;
  /** When the minute of the first failure is over, in milliseconds of the clock. */
  ends: number;
}

/** Number of logins since the start. */
export interface ThrottleCounts {
  /** With wrong credentials. */
  readonly failed: number;
  /** Refused without a look at the credentials. */
  readonly throttled: number;
}

export interface Throttle {
  readonly counts: () => ThrottleCounts;
  /**
   * @param isFamiliar whether this user has logged in from this address lately. Only the client's own network counts then, so that
   * neither neighbors nor guesses from elsewhere lock the client out.
   * @throws Problem 429 when a network or the name has failed too often in this minute
   */
  readonly check: (address: string, name: string, isFamiliar?: boolean) => void;
  /** Like `check`, and counts the try as pending. @returns a function that reports the outcome */
  readonly begin: (address: string, name: string, isFamiliar?: boolean) => (failed: boolean) => void;
}

/**
 * A user name as it is counted: a short digest. The database may take several spellings for one name, and unknown names must
 * count like known ones, so case, accents and spaces are ignored.
 */
export function countedName(name: string): string {
  const plain = name
    .slice(0, 256)
    .normalize('NFKD')
    .replace(/[\p{M}\s]/gu, '')
    .toUpperCase();
  return createHash('sha256').update(plain).digest('base64').slice(0, 22);
}

export function createThrottle(now: () => number = Date.now): Throttle {
  const counts = new Map<string, Count>();
  let failures = 0;
  let throttled = 0;

  const isOver = ({ pending, ends }: Count): boolean => pending === 0 && ends <= now();

  /** Deletes a few of the oldest keys that are over, or else the oldest. */
  function makeRoom(): void {
    const oldest = [...takeFirst(counts.keys(), MOST_LOOKED_AT)];
    for (const key of oldest) {
      const count = counts.get(key);
      if (count && isOver(count)) counts.delete(key);
    }
    if (counts.size >= MOST_KEYS && oldest[0] !== undefined) counts.delete(oldest[0]);
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

  const limitsOf = (address: string, name: string): [key: string, most: number][] => [
    ...enclosingNetworks(address).map((network, index): [string, number] => [
      `network ${network}`,
      MOST_BY_NETWORK[index] ?? Infinity,
    ]),
    [`name ${countedName(name)}`, MOST_BY_NAME],
  ];

  function check(limits: readonly [key: string, most: number][], isFamiliar: boolean): void {
    let ends = 0;
    for (const [key, most] of isFamiliar ? limits.slice(0, 1) : limits) {
      const count = counts.get(key);
      if (count && !isOver(count) && count.failures + count.pending >= most)
        ends = Math.max(ends, count.ends, now() + 1);
    }
    if (ends === 0) return;
    throttled += 1;
    const seconds = Math.max(1, Math.ceil((ends - now()) / 1000));
    throw new Problem(429, 'Too many failed logins. Try again later.', {
      headers: { 'Retry-After': String(seconds) },
    });
  }

  return {
    check: (address, name, isFamiliar = false) => check(limitsOf(address, name), isFamiliar),
    counts: () => ({ failed: failures, throttled }),
    begin(address, name, isFamiliar = false) {
      const limits = limitsOf(address, name);
      check(limits, isFamiliar);
      const all = limits.map(([key]) => countOf(key));
      for (const count of all) count.pending += 1;
      return (failed) => {
        if (failed) failures += 1;
        for (const count of all) {
          count.pending -= 1;
          if (!failed) continue;
          if (count.failures === 0) count.ends = now() + MINUTE;
          count.failures += 1;
        }
      };
    },
  };
}

function* takeFirst<T>(items: Iterable<T>, most: number): Generator<T> {
  let left = most;
  for (const item of items) {
    if (left === 0) return;
    left -= 1;
    yield item;
  }
}
