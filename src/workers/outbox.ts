// Collects what a process has counted, and sends it in batches of a limited size.
import type { Failures } from '../http/auth/login-throttle.ts';
import type { SharedLogin } from '../http/auth/familiar-clients.ts';
import type { Batch, Share } from './shared-state.ts';

/** Milliseconds between two batches. */
const GAP = 10;
/** Milliseconds for which the requests of clients are added up. */
const RATE_DELAY = 100;
/** Maximum entries of each kind that wait. Further ones are dropped, and then count in this process only. */
const MAX_WAITING = 1_000;

/** A name can be of any length, but a message must be small. */
const MAX_KEY = 512;

export interface Outbox extends Share {
  /** Adds what another process has counted. */
  readonly forward: (batch: Batch) => void;
}

/**
 * Failed logins and known clients are sent at once, requests added up over some time. The next batch waits until the last one has
 * been written, so a receiver that does not read cannot fill the memory.
 * @param send writes a batch, and calls back when that is done
 */
export function createOutbox(send: (batch: Batch, onWritten: () => void) => void): Outbox {
  let failures: Failures[] = [];
  let logins: SharedLogin[] = [];
  const rates = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Infinity;
  let sentAt = -Infinity;
  let isWriting = false;

  const isEmpty = (): boolean => failures.length + logins.length + rates.size === 0;

  function flush(): void {
    clearTimeout(timer);
    dueAt = Infinity;
    if (isWriting || isEmpty()) return;
    isWriting = true;
    sentAt = performance.now();
    const batch = { failures, logins, rates: [...rates] };
    failures = [];
    logins = [];
    rates.clear();
    send(batch, () => {
      isWriting = false;
      if (!isEmpty()) flushWithin(GAP);
    });
  }

  function flushWithin(delay: number): void {
    const now = performance.now();
    const due = Math.max(now + delay, sentAt + GAP);
    if (isWriting || due >= dueAt) return;
    if (due <= now) return flush();
    clearTimeout(timer);
    dueAt = due;
    timer = setTimeout(flush, due - now).unref();
  }

  function addRequests(key: string, amount: number, delay: number): void {
    const before = rates.get(key);
    if (before === undefined && (rates.size >= MAX_WAITING || key.length > MAX_KEY)) return;
    rates.set(key, (before ?? 0) + amount);
    flushWithin(delay);
  }

  const addFailures = (more: readonly Failures[]): void => {
    failures.push(...more.slice(0, Math.max(0, MAX_WAITING - failures.length)));
    flushWithin(0);
  };
  const addLogin = (login: SharedLogin): void => {
    if (logins.length < MAX_WAITING) logins.push(login);
    flushWithin(0);
  };

  return {
    failures: addFailures,
    login: addLogin,
    request: (key) => addRequests(key, 1, RATE_DELAY),
    forward: (batch) => {
      if (batch.failures.length > 0) addFailures(batch.failures);
      for (const login of batch.logins) addLogin(login);
      // They were added up already, so only the gap between batches delays them.
      for (const [key, requests] of batch.rates) addRequests(key, requests, GAP);
    },
  };
}
