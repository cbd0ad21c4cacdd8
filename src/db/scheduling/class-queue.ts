// The statements of one class: which ones wait and run, and which may run next.
import { AlternatingQueue } from './alternating-queue.ts';
import { TOO_MANY } from '../../errors.ts';
import type { HeavyKind, HeavyStatements } from './heavy-statements.ts';
import type { Requester } from './requester.ts';
import type { Shape } from '../statement-shapes.ts';
import { increment } from '../counts.ts';
import type { SlowClients } from './slow-clients.ts';
import { LONG, LOST_AFTER, READ_CLASSES, SHARES, type Share, type WorkClass } from './work-class.ts';
import type { TimeQueue } from './time-queue.ts';

/** Maximum slow statements of one anonymous client, including those of other classes that turned out to be slow. */
const MAX_SLOW_ANONYMOUS = 1;
/** Weight of the newest duration in the mean. */
const NEWEST = 0.1;
/** The mean durations that are assumed at the start (milliseconds). */
const FIRST_MEAN = 10;
const FIRST_SLOW_MEAN = 1_000;
const MIN_MEAN = 0.1;
/**
 * Maximum duration that a write or a short read counts for in the mean (milliseconds). A longer one mostly waits for a lock, which
 * says nothing about the next one.
 */
const MAX_COUNTED = 150;
/** While the mean is longer (milliseconds), writes probably wait for locks, and a client gets no more than `Share.perClient`. */
const MAX_UNCONTESTED_MEAN = 50;
/**
 * Maximum statements with the same `Demand.obstacle` at once, so that others find a connection. Of the writes of a record, one has its
 * lock and one waits for it. Short reads have fewer connections.
 */
const maxOfObstacle = (name: WorkClass): number => (name === 'write' ? 2 : 1);
/** A client whose own statements make it wait longer than this (milliseconds) gets 429 and not 503. */
const OWN_FAULT = 500;

/** A statement that waits for a connection. */
export interface WaitingStatement {
  /** The client as it was when the statement began to wait. */
  readonly caller: QueueClient;
  /** Only for reads, which may turn out to be slow. */
  readonly shape: Shape | undefined;
  /** When it began to wait. */
  readonly since: number;
  readonly start: () => void;
  /** Without an error, the statement continues in another class. */
  readonly end: (error?: Error) => void;
}

/** What limits a statement, besides its client. */
export interface Demand {
  /** See `HeavyStatements`. */
  readonly weight?: number;
  /** What the statement may have to wait for: the record that a write locks, or the tables of a short read, by its text. */
  readonly obstacle?: string | undefined;
}

export interface QueueClient extends Pick<Requester, 'key' | 'clientKind'>, Demand {
  /** Whether an anonymous client waits in the queue of the users. */
  readonly isPreferred?: boolean;
  /** Whether the statement is an attempt in place of a refusal. */
  readonly isTriedInstead?: boolean;
}

/** A statement that runs in a class. */
export interface Entry {
  /** Milliseconds that it is expected to take. */
  readonly expected: number;
  /** When it began to count for the class. */
  readonly since: number;
}

export class ClassQueue {
  readonly share: Share;
  readonly name: WorkClass;
  readonly #queue = new AlternatingQueue<WaitingStatement>();
  /** How many statements of each client are running. */
  readonly #runningOf = new Map<string, number>();
  /** How many statements with each obstacle are running. */
  readonly #runningOfObstacle = new Map<string, number>();
  readonly #slowClients: SlowClients;
  readonly #heavy: HeavyStatements;
  readonly #isRead: boolean;
  /** What its statements count as in `HeavyStatements`, if at all. The other classes have few connections. */
  readonly weighed: HeavyKind | undefined;
  /** In the order in which they began. */
  readonly #entries = new Set<Entry>();
  refused = 0;
  /** The mean duration of a statement (milliseconds). */
  #mean: number;
  /** When a short statement last ended. */
  #shortEndedAt = -Infinity;

  constructor(name: WorkClass, share: Share, slowClients: SlowClients, heavy: HeavyStatements) {
    this.name = name;
    this.#heavy = heavy;
    this.share = share;
    this.#slowClients = slowClients;
    this.#isRead = READ_CLASSES.includes(name);
    this.weighed = name === 'write' ? 'writes' : name === 'brief' || name === 'read' ? 'reads' : undefined;
    this.#mean = name === 'slow' ? FIRST_SLOW_MEAN : FIRST_MEAN;
  }

  /** Connections that other classes may not use: those in use and those reserved for this class. */
  get taken(): number {
    return Math.max(this.running, this.share.reserved);
  }

  get running(): number {
    return this.#entries.size;
  }

  /** How many statements may run. */
  get max(): number {
    const { max, maxShort } = this.share;
    if (maxShort === undefined || maxShort === max) return max;
    const [oldest] = this.#entries;
    return oldest && performance.now() - oldest.since < LONG ? maxShort : max;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /** How many of the waiting clients may run one more statement. */
  get waitingClients(): number {
    const keys = new Set<string>();
    for (const [, key, { caller }] of this.#queue.entries())
      if (!keys.has(key) && this.mayRun(caller)) keys.add(key);
    return keys.size;
  }

  queueOf(caller: QueueClient): TimeQueue<WaitingStatement> {
    return this.#queue.of(waitsWithUsers(caller));
  }

  /**
   * Milliseconds until a new statement of the client would start, estimated from the mean duration.
   * @param cost of the statement, if known (milliseconds): the client's other statements are probably similar
   */
  expectedWait(caller: QueueClient, cost = Infinity): number {
    const { key } = caller;
    const own = this.queueOf(caller).sizeOf(key);
    const ahead = this.#queue.ahead(key, waitsWithUsers(caller), this.#mean);
    const isBehindItself = ahead === own;
    const mean = isBehindItself ? Math.min(this.#mean, cost) : this.#mean;
    const max = mean < LONG ? (this.share.maxShort ?? this.share.max) : this.share.max;
    const wait = (ahead * mean) / (isBehindItself ? Math.min(this.#maxRunning(caller), max) : max);
    if (!this.#needsCooldown(caller)) return wait;
    const cooldown = this.#slowClients.isCoolingDown(key, this.name) ? this.#slowClients.cooldownOf(key) : 0;
    if (this.name !== 'slow') return wait + cooldown;
    // Each of the client's own statements is followed by a cooldown.
    const before = own + (this.#runningOf.get(key) ?? 0);
    return Math.max(wait, cooldown + before * mean * (1 + this.#slowClients.cooldownFactor));
  }

  /** Milliseconds from one statement of the client to its next one, while no other client waits. */
  meanOf(caller: QueueClient): number {
    return this.#mean / this.#maxRunning(caller);
  }

  /** Whether the client mainly waits for its own statements. */
  isOwnFault(caller: QueueClient): boolean {
    const isCoolingDown =
      this.#needsCooldown(caller) && this.#slowClients.isCoolingDown(caller.key, this.name);
    const own = this.queueOf(caller).sizeOf(caller.key);
    return isCoolingDown || (own > 1 && own * this.#mean > OWN_FAULT);
  }

  /** Whether the client may run one more statement, if a connection is free. */
  mayRun(caller: QueueClient): boolean {
    const { key, clientKind, weight = 0 } = caller;
    if (this.isObstructed(caller)) return false;
    if (this.weighed && !this.#heavy.mayStart(this.weighed, key, weight, caller)) return false;
    if (this.#needsCooldown(caller) && this.#slowClients.isCoolingDown(key, this.name)) return false;
    if (this.#isRead && (this.#slowClients.overruns.get(key) ?? 0) >= maxSlow(clientKind)) return false;
    if (this.running < this.#uncontestedFor(key)) return true;
    const own = this.#runningOf.get(key) ?? 0;
    if (own >= this.#maxRunning(caller)) return false;
    return own === 0 || this.share.leavesRoom !== true || own * 2 < this.share.max - this.running;
  }

  /**
   * The number of running statements below which the client may exceed its own maximum. A connection stays free for a client that
   * comes later.
   */
  #uncontestedFor(key: string): number {
    const { uncontested = 0, max } = this.share;
    if (this.#mean >= MAX_UNCONTESTED_MEAN) return 0;
    if (uncontested === 0 || this.running < uncontested) return uncontested;
    const areWritesShort = performance.now() - this.#shortEndedAt < MAX_UNCONTESTED_MEAN;
    return areWritesShort && this.#heavy.isAlone(key) ? max - 1 : uncontested;
  }

  isRunning(key: string): boolean {
    return this.#runningOf.has(key);
  }

  /** Whether as many statements with the same obstacle are running as may. */
  isObstructed({ obstacle }: QueueClient): boolean {
    return obstacle !== undefined && (this.#runningOfObstacle.get(obstacle) ?? 0) >= maxOfObstacle(this.name);
  }

  #needsCooldown({ clientKind }: QueueClient): boolean {
    return clientKind === 'anonymous' && (this.name === 'slow' || this.#isRead);
  }

  #maxRunning({ key, clientKind }: QueueClient): number {
    if (this.name === 'slow') return maxSlow(clientKind);
    return this.#isRead && this.#slowClients.isSuspect(key) ? 1 : this.share.perClient;
  }

  /** Takes the next statement whose client may run one more. */
  next(): WaitingStatement | undefined {
    /** The client whose heavy write waits for another one of it. Its writes without weight need not wait behind that. */
    let held: string | undefined;
    return this.#queue.shift(
      ({ caller }) => (caller.key !== held || !caller.weight) && this.mayRun(caller),
      ({ caller }) => {
        if (this.isObstructed(caller)) return true;
        if (this.weighed === 'writes' && caller.weight) held = caller.key;
        return caller.key === held;
      },
    );
  }

  /**
   * Refuses a waiting statement of the client with the most of them, so that no client can fill the queue for others.
   * @returns whether a statement of this client may wait instead
   */
  makeRoomFor(caller: QueueClient): boolean {
    const displaced = this.#queue.displace(caller.key, waitsWithUsers(caller));
    if (!displaced) return false;
    this.refused += 1;
    displaced.end(TOO_MANY);
    return true;
  }

  /**
   * Removes waiting statements.
   * @param reason undefined for a statement that continues in another class
   * @returns how many were removed
   */
  removeWhere(
    isOver: (statement: WaitingStatement) => boolean,
    reason: (statement: WaitingStatement) => Error | undefined,
  ): number {
    let count = 0;
    for (const [queue, key, statement] of this.#queue.entries()) {
      if (!isOver(statement)) continue;
      queue.remove(key, statement);
      count += 1;
      statement.end(reason(statement));
    }
    return count;
  }

  /** @returns what `leave` needs */
  enter(caller: QueueClient, expected = this.#mean): Entry {
    const entry = { expected, since: performance.now() };
    this.#entries.add(entry);
    increment(this.#runningOf, caller.key, 1);
    if (caller.obstacle !== undefined) increment(this.#runningOfObstacle, caller.obstacle, 1);
    this.queueOf(caller).beginWork(caller.key, expected);
    return entry;
  }

  leave(caller: QueueClient, milliseconds: number, entry: Entry): void {
    this.#entries.delete(entry);
    increment(this.#runningOf, caller.key, -1);
    if (caller.obstacle !== undefined) increment(this.#runningOfObstacle, caller.obstacle, -1);
    const isLost = milliseconds >= LOST_AFTER;
    this.queueOf(caller).correctTime(caller.key, (isLost ? 0 : milliseconds) - entry.expected);
    if (isLost) return;
    if (milliseconds < MAX_UNCONTESTED_MEAN) this.#shortEndedAt = performance.now();
    const mayWaitForLocks = this.name === 'write' || this.name === 'short';
    const counted = mayWaitForLocks ? Math.min(milliseconds, MAX_COUNTED) : milliseconds;
    this.#mean = Math.max(MIN_MEAN, this.#mean + (counted - this.#mean) * NEWEST);
  }
}

const waitsWithUsers = ({ clientKind, isPreferred }: QueueClient): boolean =>
  clientKind !== 'anonymous' || isPreferred === true;

const maxSlow = (clientKind: Requester['clientKind']): number =>
  clientKind === 'anonymous' ? MAX_SLOW_ANONYMOUS : SHARES.slow.perClient;
