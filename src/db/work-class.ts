import { FairQueue } from './fair-queue.ts';
import type { Requester } from './requester.ts';
import type { Shape } from './shapes.ts';

/**
 * What a statement needs a connection for: `short` ones that the pipelined connection cannot take at the moment, changes, pages
 * of the admin area, other reads, reads that may cost more than expected, and reads that are known to be costly.
 */
export type WorkClass = 'short' | 'write' | 'admin' | 'read' | 'trial' | 'slow';

/** How many of the exclusive connections the statements of a class get. */
interface Share {
  /** At most. */
  readonly most: number;
  /** Always free for them, whatever the other classes do. */
  readonly kept: number;
  /** At most for one client, so that a second client finds a connection. */
  readonly perClient: number;
}

const SHARES: Readonly<Record<WorkClass, Share>> = {
  short: { most: 3, kept: 1, perClient: 2 },
  write: { most: 5, kept: 2, perClient: 4 },
  admin: { most: 3, kept: 1, perClient: 2 },
  read: { most: 4, kept: 1, perClient: 3 },
  trial: { most: 3, kept: 1, perClient: 1 },
  slow: { most: 2, kept: 1, perClient: 2 },
};

/** The order in which the classes are served when several may use a free connection. */
export const CLASSES = Object.keys(SHARES) as readonly WorkClass[];

/** Classes whose statements may turn out to be slow. */
export const READS: readonly WorkClass[] = ['trial', 'read'];

/** Slow statements of one anonymous client, counting those of other classes that turned out to be slow. */
const SLOW_PER_STRANGER = 1;
/**
 * How long an anonymous client rests after a slow statement, as a multiple of what that took, while the process was busy all
 * the time; in proportion when it was busy for a part. Without the rest, one stranger could keep a processor of the database
 * from the others for good.
 */
const REST = 4;
/** Milliseconds for which a stranger runs one read at a time after one that was not known to be slow. */
const SUSPECT_FOR = 60_000;
/** Weight of the newest duration in the mean. */
const NEWEST = 0.1;
/** The mean durations that are assumed at the start (milliseconds). */
const FIRST_MEAN = 10;
const FIRST_SLOW_MEAN = 1_000;
/** A client whose own statements make it wait longer than this (milliseconds) is told so. */
const OWN_FAULT = 500;

/** A statement that waits. */
export interface Entry {
  readonly requester: Requester;
  /** Of a read, which may turn out to be slow. */
  readonly shape: Shape | undefined;
  /** When it began to wait. */
  readonly since: number;
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

interface Rest {
  readonly until: number;
  /** Whether the client may try to deceive, so that it starts no other reads either. */
  readonly isSuspect: boolean;
}

/** What is known of slow statements, whichever class they began in. */
export class SlowClients {
  /** Statements of other classes by client that turned out to be slow and run on. */
  readonly overruns = new Map<string, number>();
  /** The rests of anonymous clients. */
  readonly #rests = new Map<string, Rest>();
  /** Anonymous clients that had an overrun lately. They might look for statements whose cost is misjudged. */
  readonly #suspects = new Map<string, NodeJS.Timeout>();
  /** The latest rest, as a multiple of what the statement before it took. */
  factor = 0;

  /** Whether the client starts nothing of this class for now. */
  isResting(key: string, name: WorkClass): boolean {
    const rest = this.#rests.get(key);
    return rest !== undefined && (name !== 'read' || rest.isSuspect);
  }

  isSuspect(key: string): boolean {
    return this.#suspects.has(key);
  }

  /** Milliseconds until the client may go on. */
  restOf(key: string): number {
    return Math.max(0, (this.#rests.get(key)?.until ?? 0) - performance.now());
  }

  suspect(key: string): void {
    clearTimeout(this.#suspects.get(key));
    const timer = setTimeout(() => this.#suspects.delete(key), SUSPECT_FOR).unref();
    this.#suspects.set(key, timer);
  }

  /**
   * @param milliseconds that the client's statement took
   * @param busy the part of them that the process was busy
   * @param isSuspect whether the client may try to deceive
   */
  rest(key: string, milliseconds: number, busy: number, isSuspect: boolean, end: () => void): void {
    this.factor = REST * busy;
    const length = milliseconds * this.factor;
    const rest: Rest = { until: performance.now() + length, isSuspect };
    this.#rests.set(key, rest);
    const wake = (): void => {
      if (this.#rests.get(key) !== rest) return;
      this.#rests.delete(key);
      end();
    };
    setTimeout(wake, length).unref();
  }
}

export function increment(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}

type Caller = Pick<Requester, 'key' | 'origin'>;

/** The queues and counters of one class. */
export class Work {
  readonly share: Share;
  readonly name: WorkClass;
  /** Users and strangers take turns, so that many strangers do not delay users. */
  readonly queues = { known: new FairQueue<Entry>(), strangers: new FairQueue<Entry>() };
  readonly #byClient = new Map<string, number>();
  readonly #slow: SlowClients;
  running = 0;
  refused = 0;
  /** The mean duration of its statements (milliseconds). */
  #mean: number;
  #strangersNext = false;

  constructor(name: WorkClass, slow: SlowClients) {
    this.name = name;
    this.share = SHARES[name];
    this.#slow = slow;
    this.#mean = name === 'slow' ? FIRST_SLOW_MEAN : FIRST_MEAN;
  }

  get waiting(): number {
    return this.queues.known.size + this.queues.strangers.size;
  }

  queueOf({ origin }: Pick<Requester, 'origin'>): FairQueue<Entry> {
    return origin === 'anonymous' ? this.queues.strangers : this.queues.known;
  }

  /** Milliseconds until a new statement of the client would start, by the mean duration. */
  expectedWait(caller: Caller): number {
    const { key } = caller;
    const queue = this.queueOf(caller);
    const own = queue.sizeOf(key);
    const sameKind = queue.ahead(key);
    const ahead = sameKind + Math.min(this.waiting - queue.size, sameKind + 1);
    const wait = (ahead * this.#mean) / (ahead === own ? this.#most(caller) : this.share.most);
    if (!this.#mayRest(caller)) return wait;
    // Behind its own statements, each of which is followed by a rest.
    const rest = this.#slow.isResting(key, this.name) ? this.#slow.restOf(key) : 0;
    if (this.name !== 'slow') return wait + rest;
    const before = own + (this.#byClient.get(key) ?? 0);
    return Math.max(wait, rest + before * this.#mean * (1 + this.#slow.factor));
  }

  /** Whether the client waits for its own statements. Without them it would wait for one of each other client at most. */
  isOwnFault(caller: Caller): boolean {
    const isResting = this.#mayRest(caller) && this.#slow.isResting(caller.key, this.name);
    return isResting || this.queueOf(caller).sizeOf(caller.key) * this.#mean > OWN_FAULT;
  }

  /** Whether the client may run one more statement, if a connection is free. */
  mayRun(caller: Caller): boolean {
    const { key, origin } = caller;
    if (this.#mayRest(caller) && this.#slow.isResting(key, this.name)) return false;
    if (READS.includes(this.name) && (this.#slow.overruns.get(key) ?? 0) >= mostSlow(origin)) return false;
    return (this.#byClient.get(key) ?? 0) < this.#most(caller);
  }

  #mayRest({ origin }: Caller): boolean {
    return origin === 'anonymous' && (this.name === 'slow' || READS.includes(this.name));
  }

  #most({ key, origin }: Caller): number {
    if (this.name === 'slow') return mostSlow(origin);
    return READS.includes(this.name) && this.#slow.isSuspect(key) ? 1 : this.share.perClient;
  }

  /** Takes the next entry whose client may run one more statement. */
  next(): Entry | undefined {
    const take = (origin: 'anonymous' | 'user'): Entry | undefined =>
      this.queueOf({ origin }).shift((key) => this.mayRun({ key, origin }));
    this.#strangersNext = !this.#strangersNext;
    return this.#strangersNext ? (take('anonymous') ?? take('user')) : (take('user') ?? take('anonymous'));
  }

  /** Takes entries out of the queues. @returns how many */
  refuse(isRefused: (entry: Entry) => boolean, reason: (entry: Entry) => Error): number {
    let count = 0;
    for (const queue of Object.values(this.queues)) {
      for (const [key, entry] of queue.entries()) {
        if (!isRefused(entry)) continue;
        queue.remove(key, entry);
        count += 1;
        entry.refuse(reason(entry));
      }
    }
    return count;
  }

  enter(key: string): void {
    this.running += 1;
    increment(this.#byClient, key, 1);
  }

  leave(key: string, milliseconds: number): void {
    this.running -= 1;
    increment(this.#byClient, key, -1);
    this.#mean += (milliseconds - this.#mean) * NEWEST;
  }
}

const mostSlow = (origin: Requester['origin']): number =>
  origin === 'anonymous' ? SLOW_PER_STRANGER : SHARES.slow.perClient;
