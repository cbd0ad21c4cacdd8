// The queues of all classes, and how they share the exclusive connections.
import type { HeavyStatements } from './heavy-statements.ts';
import { ClassQueue, type Entry, type QueueClient } from './class-queue.ts';
import type { UsageCooldowns } from './client-usage.ts';
import type { Requester } from './requester.ts';
import type { ClaimSlot } from './slots.ts';
import type { SlowClients } from './slow-clients.ts';
import {
  CONNECTIONS,
  forEachClass,
  shareOfProcess,
  sharesOf,
  UNCERTAIN,
  type WorkClass,
} from './work-class.ts';

/** Limits of the work that costs PostgreSQL most. */
export interface DatabaseLimits {
  /** Milliseconds after which an anonymous client's read, or the first batch of its stream, is canceled. */
  readonly slowTimeout: number;
  /** Of streams. */
  readonly cooldowns: UsageCooldowns;
  /** Of other reads. */
  readonly slowClients: SlowClients;
  /** How many processes of the service use the database. They share its processors, so they share the limits of costly reads. */
  readonly processes: number;
  /** Limits the streams of a client to this server in all processes together. Undefined if each counts for itself. */
  readonly claimStream?: ClaimStream | undefined;
  /** The name of the server, if it is a replica. */
  readonly server?: string;
}

/** See `ClaimSlot`. @param server a client may have as many streams on each */
export type ClaimStream = (requester: Requester, server: string) => ReturnType<ClaimSlot>;

/** The counters of one class, for the metrics. */
export interface ClassState {
  readonly running: number;
  readonly waiting: number;
  /** Statements refused because they would have waited too long. */
  readonly refused: number;
}

/**
 * How many connections reads of uncertain cost and slow ones get together, divided among the processes. PostgreSQL cannot cancel
 * every statement, so more of them must not run at once even for a moment, such as between one slow statement and the next.
 */
const MAX_RISKY = 8;

export class ClassQueues {
  readonly of: Readonly<Record<WorkClass, ClassQueue>>;
  readonly all: readonly ClassQueue[];
  readonly #slowClients: SlowClients;
  readonly #risky: readonly ClassQueue[];
  /** How many connections they get together: at least one more than one for each class, so that `slow` may have a second one. */
  readonly #maxRisky: number;
  /** Connections that are in use or reserved for a class. */
  #taken: number;

  /** @param processes how many share the database */
  constructor(slowClients: SlowClients, heavy: HeavyStatements, processes: number) {
    this.#slowClients = slowClients;
    const shares = sharesOf(processes);
    this.of = forEachClass((name) => new ClassQueue(name, shares[name], slowClients, heavy));
    this.all = Object.values(this.of);
    this.#risky = this.all.filter(isRisky);
    this.#maxRisky = Math.max(this.#risky.length + 1, shareOfProcess(MAX_RISKY, processes));
    this.#taken = this.all.reduce((sum, { taken }) => sum + taken, 0);
  }

  get state(): Readonly<Record<WorkClass, ClassState>> {
    return forEachClass((name) => {
      const { running, waiting, refused } = this.of[name];
      return { running, waiting, refused };
    });
  }

  /** Whether slow statements, including those that turned out to be slow, have all of their connections. */
  get isSlowFull(): boolean {
    const { slow } = this.of;
    return slow.running >= slow.max;
  }

  /** Whether the class may use one more connection, besides those reserved for other classes. */
  hasRoom(queue: ClassQueue): boolean {
    const max = UNCERTAIN.has(queue.name) && this.isSlowFull ? Math.ceil(queue.share.max / 2) : queue.max;
    const others = this.#taken - queue.taken;
    if (queue.running >= max || others + queue.running >= CONNECTIONS) return false;
    if (!isRisky(queue)) return true;
    const risky = this.#risky.reduce((sum, { taken }) => sum + taken, 0);
    return risky - queue.taken + queue.running < this.#maxRisky;
  }

  /** Whether a statement of the client may start, if those that wait leave it the connection. */
  mayStart(queue: ClassQueue, caller: QueueClient): boolean {
    return queue.mayRun(caller) && this.hasRoom(queue);
  }

  /**
   * Whether a costly read is tried in place of a refusal: not for some time after a failed one, not beside a slow read of its client,
   * and only on a free connection, which no waiting attempt may use.
   */
  mayTryInstead(caller: QueueClient): boolean {
    const { attempt, slow } = this.of;
    const mayTry = this.#slowClients.mayTryInstead(caller.key) && !slow.isRunning(caller.key);
    return mayTry && this.mayStart(attempt, caller);
  }

  /** Counts a statement as running. @returns what `leave` needs */
  enter(queue: ClassQueue, caller: QueueClient, cost?: number): Entry {
    this.#taken -= queue.taken;
    const entry = queue.enter(caller, cost);
    this.#taken += queue.taken;
    return entry;
  }

  leave(queue: ClassQueue, caller: QueueClient, milliseconds: number, entry: Entry): void {
    this.#taken -= queue.taken;
    queue.leave(caller, milliseconds, entry);
    this.#taken += queue.taken;
  }

  /** Starts waiting statements while connections are free. */
  startNext(): void {
    for (const queue of this.all) {
      while (queue.waiting > 0 && this.hasRoom(queue)) {
        const statement = queue.next();
        if (!statement) break;
        statement.start();
      }
    }
  }
}

const isRisky = ({ name }: ClassQueue): boolean => name === 'slow' || UNCERTAIN.has(name);
