import { OVERLOADED, TOO_MANY, type Problem } from '../errors.ts';
import { ClientGone, type Requester } from './requester.ts';
import { classify, COSTLY, OVERRUN, type Shape } from './shapes.ts';
import { CLASSES, increment, READS, SlowClients, Work, type Entry, type WorkClass } from './work-class.ts';

/** The exclusive connections. */
export const CONNECTIONS = 10;

/** Milliseconds that a statement may wait for a connection; what is expected to wait longer is refused at once. */
const MAX_WAIT = 2_000;
/** How often waiting statements are checked (milliseconds). */
const CHECK = 100;
/** Statements of one class that may wait, whatever the expected wait. */
const MAX_WAITING = 1_000;

/** A stranger's read that takes this long (milliseconds), though it was not known to be slow, may have been made to deceive. */
const SUSPICIOUS = 1_000;

/** Thrown for a read that belongs to another class, as is known since it began to wait. */
export class Reclassified extends Error {}

/** What the scheduler does and has done. */
export interface ClassState {
  readonly running: number;
  readonly waiting: number;
  /** Statements refused because they would have waited too long. */
  readonly refused: number;
}

const forEachClass = <T>(make: (name: WorkClass) => T): Readonly<Record<WorkClass, T>> =>
  Object.fromEntries(CLASSES.map((name) => [name, make(name)])) as Record<WorkClass, T>;

/**
 * Decides which statement gets an exclusive connection next: by class, so that each kind of work has its share, and within a
 * class by client, so that a client with many statements waits behind itself.
 */
export class Scheduler {
  readonly #slow = new SlowClients();
  readonly #classes = forEachClass((name) => new Work(name, this.#slow));
  readonly #timer = setInterval(() => this.#refuseLate(), CHECK).unref();

  get state(): Readonly<Record<WorkClass, ClassState>> {
    return forEachClass((name) => {
      const { running, waiting, refused } = this.#classes[name];
      return { running, waiting, refused };
    });
  }

  /**
   * Does some work when the class has a connection for the client.
   * @param shape of a read, which counts as slow when it takes long
   * @throws Problem 503, or 429 for a client whose own statements are the reason, at once where the wait would be too long;
   * ClientGone when the client leaves while it waits; Reclassified
   */
  async run<T>(name: WorkClass, requester: Requester, work: () => Promise<T>, shape?: Shape): Promise<T> {
    const one = this.#classes[name];
    const { key, origin } = requester; // The key changes when the user becomes known.
    if (one.waiting === 0 && one.mayRun(requester) && this.#isFree(one)) one.enter(key);
    else await this.#wait(one, requester, shape);
    const started = performance.now();
    const utilization = performance.eventLoopUtilization();
    const overrun = shape && name !== 'slow' ? this.#watch(one, key, shape) : undefined;
    try {
      return await work();
    } finally {
      overrun?.end();
      const counted = overrun?.isOver() ? this.#classes.slow : one;
      const milliseconds = performance.now() - started;
      counted.leave(key, milliseconds);
      if (counted.name === 'slow' && origin === 'anonymous') {
        const busy = performance.eventLoopUtilization(utilization).utilization;
        const isSuspect = overrun !== undefined && milliseconds >= SUSPICIOUS;
        this.#slow.rest(key, milliseconds, busy, isSuspect, () => this.#startNext());
        if (isSuspect) this.#slow.suspect(key);
      }
      if (shape && classify(shape) !== name) this.#reclassify();
      this.#startNext();
    }
  }

  /**
   * Counts a read as slow once it has taken long. Its client starts nothing further of its class
   * meanwhile, or many reads whose cost was underestimated could take all connections.
   */
  #watch(one: Work, key: string, shape: Shape): { end: () => void; isOver: () => boolean } {
    const { overruns } = this.#slow;
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      one.leave(key, OVERRUN);
      this.#classes.slow.enter(key);
      increment(overruns, key, 1);
      shape.cost = Math.max(COSTLY, shape.cost ?? 0);
      this.#reclassify();
      this.#startNext();
    }, OVERRUN);
    return {
      isOver: () => isOver,
      end: () => {
        clearTimeout(timer);
        if (isOver) increment(overruns, key, -1);
      },
    };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Whether a connection is left for the class besides those that are kept for others. */
  #isFree(one: Work): boolean {
    if (one.running >= one.share.most) return false;
    let taken = 0;
    for (const name of CLASSES) {
      const { running, share } = this.#classes[name];
      taken += name === one.name ? running : Math.max(running, share.kept);
    }
    return taken < CONNECTIONS;
  }

  #wait(one: Work, requester: Requester, shape: Shape | undefined): Promise<void> {
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
        shape,
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

  #refusal(one: Work, requester: Requester): Problem | undefined {
    if (one.waiting < MAX_WAITING && one.expectedWait(requester) <= MAX_WAIT) return undefined;
    return one.isOwnFault(requester) ? TOO_MANY : OVERLOADED;
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

  /** Sends waiting reads to the class of what is known of their shapes by now. */
  #reclassify(): void {
    for (const name of READS) {
      this.#classes[name].refuse(
        ({ shape }) => shape !== undefined && classify(shape) !== name,
        () => new Reclassified(),
      );
    }
  }

  #refuseLate(): void {
    const latest = performance.now() - MAX_WAIT;
    for (const name of CLASSES) {
      const one = this.#classes[name];
      one.refused += one.refuse(
        ({ since }) => since <= latest,
        ({ requester }) => (one.isOwnFault(requester) ? TOO_MANY : OVERLOADED),
      );
    }
  }
}
