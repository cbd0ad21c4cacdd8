// Limits failed logins by network and by user name, and bad tokens by network.
import { createHash } from 'node:crypto';
import { Problem } from '../../errors.ts';
import { enclosingNetworks } from '../message/client-networks.ts';
import { steadyClock } from './steady-clock.ts';
import { messageOf } from '../../messages.ts';

/** Maximum failures in a minute: of a client's network and the two around it (IPv6 /64, /56 and /48), and of a user name. */
const MAX_BY_NETWORK = [10, 30, 100] as const;
const MAX_BY_NAME = 50;
const MINUTE = 60_000;
/** Maximum number of counted networks and names. */
const MAX_KEYS = 100_000;
/** Keys checked for expiry when room is needed: checking all of them would take too long. */
const MAX_EVICTION_CHECKS = 8;

/** Failures of a network or a name, and the milliseconds until they expire. */
export type Failures = readonly [key: string, failures: number, left: number];

interface Count {
  failures: number;
  /** Attempts in progress. They count like failures, so that parallel attempts cannot exceed the limit. */
  pending: number;
  /** One minute after the first failure, in milliseconds of the clock. */
  expires: number;
}

const shortDigest = (text: string): string => createHash('sha256').update(text).digest('base64').slice(0, 22);

/**
 * The key for counting a user name: a short digest that ignores case, accents, spaces and invisible characters, since the database
 * may match several spellings of one name. Known and unknown names get their keys in the same way.
 */
export function countedName(name: string): string {
  const plain = name
    .slice(0, 256)
    .normalize('NFKD')
    .replace(/[\p{M}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\s]/gu, '')
    .toUpperCase();
  return shortDigest(plain);
}

/** An attempt to log in that was admitted. */
export interface Attempt {
  /**
   * False if the user has failed too often under other spellings of the name. The answer must then be that for a wrong password: a
   * 429 would reveal that the spelling is that of a user.
   */
  readonly maySucceed: boolean;
  /** Reports the outcome. */
  readonly end: (failed: boolean) => void;
}

export type Throttle = ReturnType<typeof createThrottle>;

/** @param share receives each failure, for the other processes */
export function createThrottle(
  now: () => number = () => steadyClock.now(),
  share?: (failures: Failures) => void,
) {
  const counts = new Map<string, Count>();
  let failures = 0;
  let throttled = 0;

  const isExpired = ({ pending, expires }: Count): boolean => pending === 0 && expires <= now();

  /** Deletes the expired keys among the oldest, or if there are none the oldest key. */
  function makeRoom(): void {
    const oldest = [...takeFirst(counts.keys(), MAX_EVICTION_CHECKS)];
    for (const key of oldest) {
      const count = counts.get(key);
      if (count && isExpired(count)) counts.delete(key);
    }
    if (counts.size >= MAX_KEYS && oldest[0] !== undefined) counts.delete(oldest[0]);
  }

  function countOf(key: string): Count {
    const count = counts.get(key);
    if (count && !isExpired(count)) return count;
    counts.delete(key);
    if (counts.size >= MAX_KEYS) makeRoom();
    const fresh = { failures: 0, pending: 0, expires: now() + MINUTE };
    counts.set(key, fresh);
    return fresh;
  }

  const limitsOfNetwork = (network: string): [key: string, max: number][] =>
    enclosingNetworks(network).map((enclosing, index) => [
      `network ${enclosing}`,
      MAX_BY_NETWORK[index] ?? Infinity,
    ]);
  const limitsOf = (network: string, name: string): [key: string, max: number][] => [
    ...limitsOfNetwork(network),
    [`name ${countedName(name)}`, MAX_BY_NAME],
  ];

  /** The limits for a token. One that has failed in this minute does not count towards the networks again. */
  function limitsOfToken(network: string, token: string): [key: string, max: number][] {
    const key = `token ${shortDigest(token)}`;
    const count = counts.get(key);
    const hasFailed = count !== undefined && !isExpired(count);
    return [...(hasFailed ? [] : limitsOfNetwork(network)), [key, MAX_BY_NAME]];
  }

  /** When the count of a key ends that has reached the maximum, else 0. */
  function exceededUntil(key: string, max: number): number {
    const count = counts.get(key);
    const isExceeded = count && !isExpired(count) && count.failures + count.pending >= max;
    return isExceeded ? Math.max(count.expires, now() + 1) : 0;
  }

  function addFailure(count: Count): void {
    if (count.failures === 0) count.expires = now() + MINUTE;
    count.failures += 1;
  }

  function check(limits: readonly [key: string, max: number][], isFamiliar: boolean): void {
    const checked = isFamiliar ? limits.slice(0, 1) : limits;
    const retryAt = Math.max(...checked.map(([key, max]) => exceededUntil(key, max)));
    if (retryAt === 0) return;
    throttled += 1;
    const seconds = Math.max(1, Math.ceil((retryAt - now()) / 1000));
    throw new Problem(429, messageOf('tooManyLogins'), {
      headers: { 'Retry-After': String(seconds) },
    });
  }

  return {
    /**
     * Refuses an attempt after too many failures.
     * @param network the client's network, see `clientNetwork`
     * @param isFamiliar whether this user has logged in from this network. If so, only the client's own network counts, so that
     * failures of others do not lock the client out.
     * @throws Problem 429 if a network or the name has failed too often in this minute
     */
    check: (network: string, name: string, isFamiliar = false): void =>
      check(limitsOf(network, name), isFamiliar),

    /** Numbers of attempts since the start of the process: with wrong credentials, and refused without checking any. */
    counts: () => ({ failed: failures, throttled }),

    /** Like `check`, and counts the attempt as pending, also for the user whom the database has found. */
    begin(network: string, name: string, isFamiliar = false, userId?: string): Attempt {
      const limits = limitsOf(network, name);
      check(limits, isFamiliar);
      const keys = limits.map(([key]) => key);
      const userKey = userId === undefined ? undefined : `user ${shortDigest(userId)}`;
      const maySucceed = isFamiliar || userKey === undefined || exceededUntil(userKey, MAX_BY_NAME) === 0;
      if (userKey !== undefined) keys.push(userKey);
      const affected = keys.map(countOf);
      for (const count of affected) count.pending += 1;
      const end = (failed: boolean): void => {
        if (failed) failures += 1;
        for (const count of affected) {
          count.pending -= 1;
          if (failed) addFailure(count);
        }
        if (failed) for (const key of keys) share?.([key, 1, MINUTE]);
      };
      return { maySucceed, end };
    },

    /** Like `check`, for a token. */
    checkToken: (network: string, token: string): void => check(limitsOfToken(network, token), false),

    /**
     * Counts a bad token. A program that sends the same one again and again guesses nothing, so it must not lock out others behind
     * its address.
     */
    countToken(network: string, token: string): void {
      failures += 1;
      for (const [key] of limitsOfToken(network, token)) {
        addFailure(countOf(key));
        share?.([key, 1, MINUTE]);
      }
    },

    /** Counts failures that other processes have seen. */
    add(others: readonly Failures[]): void {
      for (const [key, more, left] of others) {
        const count = countOf(key);
        if (count.failures === 0) count.expires = now() + left;
        count.failures += more;
      }
    },

    /** The failures of the last minute: of the latest keys, at most so many. */
    recent: (maxKeys: number): Failures[] =>
      [...counts]
        .filter(([, count]) => count.failures > 0 && count.expires > now())
        .slice(-maxKeys)
        .map(([key, count]) => [key, count.failures, count.expires - now()]),
  };
}

function* takeFirst<T>(items: Iterable<T>, max: number): Generator<T> {
  let left = max;
  for (const item of items) {
    if (left === 0) return;
    left -= 1;
    yield item;
  }
}
