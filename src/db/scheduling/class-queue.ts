import { AlternatingQueue } from './alternating-queue.ts';
import type { Requester } from './requester.ts';
import type { Shape } from '../statement-shapes.ts';
import { increment, type SlowClients } from './slow-clients.ts';
import { READS, SHARES, type Share, type WorkClass } from './work-class.ts';
import type { TimeQueue } from './time-queue.ts';

/** Slow statements of one anonymous client, counting those of other classes that turned out to be slow. */
const SLOW_PER_STRANGER = 1;
/** Weight of the newest duration in the mean. */
const NEWEST = 0.1;
/** The mean durations that are assumed at the start (milliseconds). */
const FIRST_MEAN = 10;
const FIRST_SLOW_MEAN = 1_000;
const LEAST_MEAN = 0.1;
/**
 * Milliseconds that count of a write at most: one that takes longer mostly waits for a lock, which says nothing about what others
 * will take.
 */
const LONGEST_WRITE = 150;
/** A client whose own statements make it wait longer than this (milliseconds) is told so. */
const OWN_FAULT = 500;

/** A statement that waits. */
export interface WaitingStatement {
  readonly requester: Requester;
  /** Of a read, which may turn out to be slow. */
  readonly shape: Shape | undefined;
  /** When it began to wait. */
  readonly since: number;
  readonly start: () => void;
  /** Without an error it goes on in another class. */
  readonly end: (error?: Error) => void;
}

export interface QueueClient extends Pick<Requester, 'key' | 'origin'> {
  /** Whether a stranger takes turns with users. */
  readonly isPreferred?: boolean;
}

/** The queues and counters of one class. */
export class ClassQueue {
  readonly share: Share;
  readonly name: WorkClass;
  readonly #queue = new AlternatingQueue<WaitingStatement>();
  readonly #byClient = new Map<string, number>();
  readonly #slow: SlowClients;
  readonly #isRead: boolean;
  running = 0;
  refused = 0;
  /** The mean duration of its statements (milliseconds). */
  #mean: number;

  constructor(name: WorkClass, slow: SlowClients) {
    this.name = name;
    this.share = SHARES[name];
    this.#slow = slow;
    this.#isRead = READS.includes(name);
    this.#mean = name === 'slow' ? FIRST_SLOW_MEAN : FIRST_MEAN;
  }

  /** Connections that others may not use: those in use, and those that are kept for this class. */
  get taken(): number {
    return Math.max(this.running, this.share.kept);
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /** How many clients wait that may run one more statement. */
  get waitingClients(): number {
    const keys = new Set<string>();
    for (const [, key, { requester }] of this.#queue.entries())
      if (!keys.has(key) && this.mayRun(requester)) keys.add(key);
    return keys.size;
  }

  queueOf(caller: QueueClient): TimeQueue<WaitingStatement> {
    return this.#queue.of(isKnown(caller));
  }

  /**
   * Milliseconds until a new statement of the client would start, by the mean duration.
   * @param cost milliseconds, where the statement is known: the client's other statements are probably like it
   */
  expectedWait(caller: QueueClient, cost = Infinity): number {
    const { key } = caller;
    const own = this.queueOf(caller).sizeOf(key);
    const ahead = this.#queue.ahead(key, isKnown(caller), this.#mean);
    const mean = ahead === own ? Math.min(this.#mean, cost) : this.#mean;
    const wait = (ahead * mean) / (ahead === own ? this.#most(caller) : this.share.most);
    if (!this.#mayRest(caller)) return wait;
    // Behind its own statements, each of which is followed by a rest.
    const rest = this.#slow.isResting(key, this.name) ? this.#slow.restOf(key) : 0;
    if (this.name !== 'slow') return wait + rest;
    const before = own + (this.#byClient.get(key) ?? 0);
    return Math.max(wait, rest + before * mean * (1 + this.#slow.factor));
  }

  /** Milliseconds from one statement of the client to the next, where nobody else waits. */
  meanOf(caller: QueueClient): number {
    return this.#mean / this.#most(caller);
  }

  /** Whether the client waits for its own statements. Without them it would wait for one of each other client at most. */
  isOwnFault(caller: QueueClient): boolean {
    const isResting = this.#mayRest(caller) && this.#slow.isResting(caller.key, this.name);
    const own = this.queueOf(caller).sizeOf(caller.key);
    return isResting || (own > 1 && own * this.#mean > OWN_FAULT);
  }

  /** Whether the client may run one more statement, if a connection is free. */
  mayRun(caller: QueueClient): boolean {
    const { key, origin } = caller;
    if (this.#mayRest(caller) && this.#slow.isResting(key, this.name)) return false;
    if (this.#isRead && (this.#slow.overruns.get(key) ?? 0) >= mostSlow(origin)) return false;
    return (this.#byClient.get(key) ?? 0) < this.#most(caller);
  }

  #mayRest({ origin }: QueueClient): boolean {
    return origin === 'anonymous' && (this.name === 'slow' || this.#isRead);
  }

  #most({ key, origin }: QueueClient): number {
    if (this.name === 'slow') return mostSlow(origin);
    return this.#isRead && this.#slow.isSuspect(key) ? 1 : this.share.perClient;
  }

  /** Takes the next entry whose client may run one more statement. */
  next(): WaitingStatement | undefined {
    return this.#queue.shift((key, isUser) => this.mayRun({ key, origin: isUser ? 'user' : 'anonymous' }));
  }

  /** Takes entries out of the queues. @returns how many */
  end(
    isOver: (entry: WaitingStatement) => boolean,
    reason: (entry: WaitingStatement) => Error | undefined,
  ): number {
    let count = 0;
    for (const [queue, key, entry] of this.#queue.entries()) {
      if (!isOver(entry)) continue;
      queue.remove(key, entry);
      count += 1;
      entry.end(reason(entry));
    }
    return count;
  }

  /** @returns milliseconds that the statement is expected to take, for `leave` */
  enter(caller: QueueClient, cost = this.#mean): number {
    this.running += 1;
    increment(this.#byClient, caller.key, 1);
    this.queueOf(caller).begin(caller.key, cost);
    return cost;
  }

  leave(caller: QueueClient, milliseconds: number, expected: number): void {
    this.running -= 1;
    increment(this.#byClient, caller.key, -1);
    this.queueOf(caller).correct(caller.key, milliseconds - expected);
    const counted = this.name === 'write' ? Math.min(milliseconds, LONGEST_WRITE) : milliseconds;
    this.#mean = Math.max(LEAST_MEAN, this.#mean + (counted - this.#mean) * NEWEST);
  }
}

const isKnown = ({ origin, isPreferred }: QueueClient): boolean =>
  origin !== 'anonymous' || isPreferred === true;

const mostSlow = (origin: Requester['origin']): number =>
  origin === 'anonymous' ? SLOW_PER_STRANGER : SHARES.slow.perClient;
