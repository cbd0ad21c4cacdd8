// The running statements, and what happens to those that take too long.
import type { EventLoopUtilization } from 'node:perf_hooks';
import { ATTEMPT, classify, COSTLY, OVERRUN, type Shape } from '../statement-shapes.ts';
import type { ClassQueue, Entry, QueueClient } from './class-queue.ts';
import type { ClassQueues } from './class-queues.ts';
import { WEIGHTLESS_AFTER, type HeavyStatements, type HeldWeight } from './heavy-statements.ts';
import { increment } from '../counts.ts';
import type { SlowClients } from './slow-clients.ts';

/**
 * Milliseconds that an attempt may take while other attempts wait. A client whose last attempt was fast gets the full time.
 */
const CROWDED_ATTEMPT = 75;

/**
 * Milliseconds after which a write may be ended while others wait for a connection: most of the writes that take so long wait for
 * a lock. The older half continues, so that writes that are simply long still finish one after the other.
 */
const LONG_WRITE = 500;

/** A statement that has a connection. */
export interface RunningStatement {
  /** The client as it was when the statement began: its key changes when the user is authenticated. */
  readonly caller: QueueClient;
  readonly isAnonymous: boolean;
  /** Only for reads. */
  readonly shape: Shape | undefined;
  /** When it got its connection, by the scheduler's clock. */
  readonly since: number;
  /** When it was sent, by the same clock. Infinity while its connection is opened: that says nothing about its cost or its client. */
  sentAt: number;
  /** The class in which it began. */
  readonly initialQueue: ClassQueue;
  /** The class that it counts for: the initial one, or `slow` once it has taken long. */
  queue: ClassQueue;
  /** What `queue.leave` needs. */
  entry: Entry;
  /** The event loop's utilization when an anonymous read began, or began to count as slow; undefined for brief reads. */
  utilization?: EventLoopUtilization;
  /** Ends the statement; a read then starts again in its new class. */
  preempt?: () => void;
  /** What it counts as in `HeavyStatements`. */
  weight: HeldWeight | undefined;
  /** Whether PostgreSQL computes, and does not wait for a lock. */
  isComputing?: () => Promise<boolean>;
  /** When to ask that next. */
  asksAt?: number;
  /** Whether it is a read that was preempted because it took too long for its class. */
  tookTooLong: boolean;
  /** Resolves when PostgreSQL has stopped an abandoned statement. The statement counts as running until then. */
  stopped?: Promise<void>;
  /** The set that contains it while it may still turn out to take too long. */
  watched: Set<RunningStatement> | undefined;
}

export class RunningStatements {
  readonly #heavy: HeavyStatements;
  readonly #queues: ClassQueues;
  readonly #slowClients: SlowClients;
  /** Reads that are not known to be slow, in the order in which they began. */
  readonly #reads = new Set<RunningStatement>();
  /** Attempts with shapes that have been slow, maybe with other values, in the order in which they began. */
  readonly #attempts = new Set<RunningStatement>();
  /** Writes, in the order in which they began. */
  readonly #writes = new Set<RunningStatement>();
  /** Slow reads, in the order in which they began to count as slow. */
  readonly #slow = new Set<RunningStatement>();

  constructor(queues: ClassQueues, slowClients: SlowClients, heavy: HeavyStatements) {
    this.#heavy = heavy;
    this.#queues = queues;
    this.#slowClients = slowClients;
  }

  add(running: RunningStatement): void {
    const { queue, shape, isAnonymous, caller } = running;
    if (queue.weighed) running.weight = this.#heavy.begin(queue.weighed, caller.key, caller.weight ?? 0);
    if (queue.name === 'write') watch(running, this.#writes);
    if (!shape) return;
    if (isAnonymous && queue.name !== 'brief') running.utilization = performance.eventLoopUtilization();
    if (queue.name === 'attempt' && classify(shape) === 'slow') watch(running, this.#attempts);
    else watch(running, queue.name === 'slow' ? this.#slow : this.#reads);
  }

  /** @returns whether it was an attempt that was still allowed to run */
  remove(running: RunningStatement): boolean {
    this.#endWeight(running);
    return unwatch(running) === this.#attempts;
  }

  /** Removes the weight of statements that have taken long, see `WEIGHTLESS_AFTER`. */
  liftWeights(now: number): void {
    const latest = now - WEIGHTLESS_AFTER;
    for (const running of this.#reads) {
      if (running.since > latest) break;
      this.#endWeight(running);
    }
    for (const running of this.#writes) {
      const { since, weight, isComputing, asksAt = -Infinity } = running;
      if (since > latest) break;
      weight?.endShare();
      if (!weight?.isShared || !isComputing) this.#endWeight(running);
      else if (now >= asksAt) {
        running.asksAt = now + WEIGHTLESS_AFTER;
        void isComputing().then((is) => !is && this.#endWeight(running));
      }
    }
  }

  #endWeight(running: RunningStatement): void {
    running.weight?.end();
    running.weight = undefined;
  }

  /** Ends attempts that were not fast: they wait again, as slow statements. */
  endAttempts(now: number): void {
    const crowded = this.#queues.of.attempt.waiting > 0 ? CROWDED_ATTEMPT : ATTEMPT;
    for (const attempt of this.#attempts) {
      const { sentAt, caller, preempt } = attempt;
      if (now - sentAt < (caller.isPreferred === true ? ATTEMPT : crowded)) continue;
      unwatch(attempt);
      attempt.tookTooLong = true;
      this.#slowClients.failAttempt(caller.key, caller.isTriedInstead);
      preempt?.();
    }
  }

  /** Ends writes that have taken long, one for each client that waits for its connection. */
  endLongWrites(now: number): void {
    const { write } = this.#queues.of;
    if (write.waiting === 0 || this.#queues.hasRoom(write)) return;
    const latest = now - LONG_WRITE;
    const younger = [...this.#writes].slice(Math.ceil(write.running / 2));
    const long = younger.filter(({ sentAt }) => sentAt <= latest).slice(0, write.waitingClients);
    for (const running of long) {
      unwatch(running);
      running.preempt?.();
    }
  }

  /** Ends the younger slow reads of clients with several, if other clients wait for a connection. They wait again. */
  endFurtherSlow(): void {
    const { slow } = this.#queues.of;
    if (slow.waiting === 0 || this.#queues.hasRoom(slow)) return;
    let count = slow.waitingClients;
    const clients = new Set<string>();
    for (const running of this.#slow) {
      const { key } = running.caller;
      if (!clients.has(key)) clients.add(key);
      else if (count > 0) {
        count -= 1;
        unwatch(running);
        running.preempt?.();
      }
    }
  }

  /**
   * Counts reads as slow once they have taken long, or ends them if slow ones have all of their connections: then they wait in
   * `slow`. Their clients may not start further reads, or many reads with underestimated costs could take all connections.
   * @returns whether there were any
   */
  moveOverruns(now: number): boolean {
    const latest = now - OVERRUN;
    const { slow } = this.#queues.of;
    let isAny = false;
    for (const running of this.#reads) {
      if (running.sentAt > latest) continue; // One that began later may have been sent earlier.
      isAny = true;
      const { caller, shape } = running;
      unwatch(running);
      if (shape) {
        shape.cost = Math.max(COSTLY, shape.cost ?? 0);
        shape.isEstimate = false;
      }
      if (this.#queues.isSlowFull && running.preempt) {
        if (running.isAnonymous)
          this.#slowClients.noteEndedRead(caller.key, now, {
            since: running.since,
            isProven: shape?.isProven === true,
          });
        running.tookTooLong = true;
        running.preempt();
        continue;
      }
      this.#endWeight(running); // The class limits it from now on.
      this.#queues.leave(running.queue, caller, OVERRUN, running.entry);
      running.queue = slow;
      watch(running, this.#slow);
      running.utilization = performance.eventLoopUtilization();
      running.entry = this.#queues.enter(slow, caller);
      increment(this.#slowClients.overruns, caller.key, 1);
    }
    return isAny;
  }
}

function watch(running: RunningStatement, watched: Set<RunningStatement>): void {
  watched.add(running);
  running.watched = watched;
}

/** @returns the set that the statement was in */
function unwatch(running: RunningStatement): Set<RunningStatement> | undefined {
  const { watched } = running;
  watched?.delete(running);
  running.watched = undefined;
  return watched;
}
