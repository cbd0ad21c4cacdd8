import { OVERLOADED, TOO_MANY, type Problem } from '../errors.ts';
import { FairQueue } from './fair-queue.ts';
import { ClientGone, type Requester } from './requester.ts';
import { COSTLY } from './shapes.ts';

/**
 * What a statement needs a connection for: `short` ones that the pipelined connection cannot take at the moment, changes, pages
 * of the admin area, other reads, and reads that are known to be costly.
 */
export type WorkClass = 'short' | 'write' | 'admin' | 'read' | 'slow';

/** How many of the exclusive connections the statements of a class get. */
interface Share {
  /** At most. */
  readonly most: number;
  /** Always free for them, whatever the other classes do. */
  readonly kept: number;
  /** At most for one client, so that a second client finds a connection. */
  readonly perClient: number;
}

/** The exclusive connections. */
export const CONNECTIONS = 10;

const SHARES: Readonly<Record<WorkClass, Share>> = {
  short: { most: 3, kept: 1, perClient: 2 },
  write: { most: 5, kept: 2, perClient: 4 },
  admin: { most: 3, kept: 1, perClient: 2 },
  read: { most: 4, kept: 1, perClient: 3 },
  slow: { most: 2, kept: 1, perClient: 2 },
};
/** Statements of one anonymous client in the class `slow`. */
const SLOW_PER_STRANGER = 1;
/** The order in which the classes are served when several may use a free connection. */
const CLASSES: readonly WorkClass[] = ['short', 'write', 'admin', 'read', 'slow'];

/** Milliseconds that a statement may wait for a connection; what is expected to wait longer is refused at once. */
const MAX_WAIT = 2_000;
/** How often waiting statements are checked (milliseconds). */
const CHECK = 100;
/** Statements of one class that may wait, whatever the expected wait. */
const MAX_WAITING = 1_000;
/** Weight of the newest duration in the mean of a class. */
const NEWEST = 0.1;

interface Entry {
  readonly requester: Requester;
  readonly since: number;
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

/** What the scheduler does and has done. */
export interface ClassState {
  readonly running: number;
  readonly waiting: number;
  /** Statements refused because they would have waited too long. */
  readonly refused: number;
}

function increment(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}

/** The queues and counters of one class. */
class Class {
  readonly share: Share;
  readonly name: WorkClass;
  /** Users and strangers take turns, so that many strangers do not delay users. */
  readonly queues = { known: new FairQueue<Entry>(), strangers: new FairQueue<Entry>() };
  readonly byClient = new Map<string, number>();
  /** Statements of this class by client that proved to be slow, and count as such now. */
  readonly overruns = new Map<string, number>();
  running = 0;
  refused = 0;
  /** The mean duration of its statements (milliseconds). */
  mean = 10;
  #strangersNext = false;

  constructor(name: WorkClass) {
    this.name = name;
    this.share = SHARES[name];
  }

  get waiting(): number {
    return this.queues.known.size + this.queues.strangers.size;
  }

  queueOf({ origin }: Requester): FairQueue<Entry> {
    return origin === 'anonymous' ? this.queues.strangers : this.queues.known;
  }

  /** Milliseconds until a new statement of the client would start, by the mean duration. */
  expectedWait(requester: Requester): number {
    const queue = this.queueOf(requester);
    const sameKind = queue.ahead(requester.key);
    const ahead = sameKind + Math.min(this.waiting - queue.size, sameKind + 1);
    const isAlone = ahead === queue.sizeOf(requester.key);
    return (ahead * this.mean) / (isAlone ? this.#most(requester) : this.share.most);
  }

  #most({ origin }: Pick<Requester, 'origin'>): number {
    return this.name === 'slow' && origin === 'anonymous' ? SLOW_PER_STRANGER : this.share.perClient;
  }

  mayRun(requester: Requester): boolean {
    return this.#isBelow(requester.key, requester.origin);
  }

  #isBelow(key: string, origin: Requester['origin']): boolean {
    const overruns = this.overruns.get(key) ?? 0;
    const most = origin === 'anonymous' ? SLOW_PER_STRANGER : SHARES.slow.perClient;
    return overruns < most && (this.byClient.get(key) ?? 0) < this.#most({ origin });
  }

  /** Takes the next entry whose client may run one more statement. */
  next(): Entry | undefined {
    const take = (origin: 'anonymous' | 'user'): Entry | undefined => {
      const queue = origin === 'anonymous' ? this.queues.strangers : this.queues.known;
      return queue.shift((key) => this.#isBelow(key, origin));
    };
    this.#strangersNext = !this.#strangersNext;
    return this.#strangersNext ? (take('anonymous') ?? take('user')) : (take('user') ?? take('anonymous'));
  }

  enter(key: string): void {
    this.running += 1;
    increment(this.byClient, key, 1);
  }

  leave(key: string, milliseconds: number): void {
    this.running -= 1;
    increment(this.byClient, key, -1);
    this.mean += (milliseconds - this.mean) * NEWEST;
  }
}

/**
 * Decides which statement gets an exclusive connection next: by class, so that each kind of work has its share, and within a
 * class by client, so that a client with many statements waits behind itself.
 */
export class Scheduler {
  readonly #classes: Readonly<Record<WorkClass, Class>>;
  readonly #timer: NodeJS.Timeout;

  constructor() {
    this.#classes = Object.fromEntries(CLASSES.map((name) => [name, new Class(name)])) as Record<
      WorkClass,
      Class
    >;
    this.#timer = setInterval(() => this.#refuseLate(), CHECK).unref();
  }

  get state(): Readonly<Record<WorkClass, ClassState>> {
    const state = ({ running, waiting, refused }: Class): ClassState => ({ running, waiting, refused });
    return Object.fromEntries(CLASSES.map((name) => [name, state(this.#classes[name])])) as Record<
      WorkClass,
      ClassState
    >;
  }

  /**
   * Does some work when the class has a connection for the client.
   * @throws Problem 503, or 429 for a client whose own statements are the reason, at once where the wait would be too long;
   * ClientGone when the client leaves while it waits
   */
  async run<T>(name: WorkClass, requester: Requester, work: () => Promise<T>): Promise<T> {
    const one = this.#classes[name];
    const { key } = requester; // It changes when the user becomes known.
    if (one.waiting === 0 && one.mayRun(requester) && this.#isFree(one)) one.enter(key);
    else await this.#wait(one, requester);
    const started = performance.now();
    const overrun = name === 'read' ? this.#watch(key) : undefined;
    try {
      return await work();
    } finally {
      overrun?.end();
      (overrun?.isOver() ? this.#classes.slow : one).leave(key, performance.now() - started);
      this.#startNext();
    }
  }

  /**
   * Counts a read as slow once it has taken as long as costly ones do. Its client starts no further reads meanwhile, or many
   * reads whose cost was underestimated could take all connections.
   */
  #watch(key: string): { end: () => void; isOver: () => boolean } {
    const { read, slow } = this.#classes;
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      read.leave(key, COSTLY);
      slow.enter(key);
      increment(read.overruns, key, 1);
      this.#startNext();
    }, COSTLY);
    return {
      isOver: () => isOver,
      end: () => {
        clearTimeout(timer);
        if (isOver) increment(read.overruns, key, -1);
      },
    };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Whether a connection is left for the class besides those that are kept for others. */
  #isFree(one: Class): boolean {
    if (one.running >= one.share.most) return false;
    let taken = 0;
    for (const name of CLASSES) {
      const { running, share } = this.#classes[name];
      taken += name === one.name ? running : Math.max(running, share.kept);
    }
    return taken < CONNECTIONS;
  }

  #wait(one: Class, requester: Requester): Promise<void> {
    const problem = this.#refusal(one, requester);
    if (problem) {
      one.refused += 1;
      return Promise.reject(problem);
    }
    requester.park();
    const queue = one.queueOf(requester);
    const { key } = requester;
    return new Promise((resolve, reject) => {
      const entry: Entry = {
        requester,
        since: performance.now(),
        start: () => {
          stopListening();
          one.enter(key);
          resolve();
        },
        refuse: (error) => {
          stopListening();
          reject(error);
        },
      };
      queue.push(key, entry);
      const stopListening = requester.onGone(() => {
        if (queue.remove(key, entry)) reject(new ClientGone());
      });
      // Those that wait may all be of clients that have what they may have, while a connection is free for this one.
      this.#startNext();
    });
  }

  #refusal(one: Class, requester: Requester): Problem | undefined {
    if (one.waiting < MAX_WAITING && one.expectedWait(requester) <= MAX_WAIT) return undefined;
    const own = one.queueOf(requester).sizeOf(requester.key);
    // Without its own statements the client would have waited for one of each other client at most.
    return own > 0 && own * one.mean > MAX_WAIT / 4 ? TOO_MANY : OVERLOADED;
  }

  #startNext(): void {
    for (const name of CLASSES) {
      const one = this.#classes[name];
      while (one.waiting > 0 && this.#isFree(one)) {
        const entry = one.next();
        if (!entry) break;
        entry.start();
      }
    }
  }

  #refuseLate(): void {
    const latest = performance.now() - MAX_WAIT;
    for (const name of CLASSES) {
      const one = this.#classes[name];
      for (const queue of Object.values(one.queues)) {
        for (const [key, entry] of queue.entries()) {
          if (entry.since > latest) continue;
          queue.remove(key, entry);
          one.refused += 1;
          entry.refuse(queue.sizeOf(key) > 0 ? TOO_MANY : OVERLOADED);
        }
      }
    }
  }
}
