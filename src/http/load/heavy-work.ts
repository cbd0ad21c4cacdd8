// Schedules work that blocks the event loop, such as parsing large bodies and rendering large pages.
import { availableParallelism } from 'node:os';
import { AlternatingQueue } from '../../db/scheduling/alternating-queue.ts';
import { OVERLOADED, TOO_MANY } from '../../errors.ts';
import { ClientGone, type Requester } from '../../db/scheduling/requester.ts';
import { ByteBudget } from './byte-budget.ts';

/**
 * Other clients are present if one has sent a request during a task or in this many milliseconds before. Requests are noted until
 * this many milliseconds after the pause.
 */
const WATCH_TIME = 100;
/**
 * Minimum iterations of the event loop between two tasks. Node accepts one connection in each iteration, so new clients would
 * otherwise wait for many tasks.
 */
const ITERATIONS_BETWEEN = 4;
/**
 * How long the pause after a task is, as a multiple of the task. A process alone leaves half of one processor to others. Several
 * together leave three quarters of the machine, since PostgreSQL may run on it. So the factor is above 1 for more processes than
 * half of the processors. `MAX_PAUSE` limits the pause.
 */
const pauseFactor = (processes: number): number =>
  processes === 1 ? 1 : Math.max(1, (4 * processes) / availableParallelism() - 1);
/** Maximum pause after a task (milliseconds). */
const MAX_PAUSE = 250;

/** Maximum wait in milliseconds, in general and for the only client. Tasks expected to wait longer are refused at once. */
const MAX_WAIT = 2_000;
const MAX_WAIT_ALONE = 10_000;
/** Milliseconds between two searches for those that have waited longer. */
const SWEEP_INTERVAL = 50;
/** Maximum bytes of records that wait to be rendered as pages. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Weight of the newest interval in the mean, and the initial mean in milliseconds. */
const NEWEST = 0.1;
const FIRST_MEAN = 2;

/** A client in the queue. `key` is that of the user, or the network of an anonymous client. */
export interface HeavyClient {
  readonly key: string;
  readonly network: string;
  /** Registers a callback for when the client disconnects. @returns unregisters it */
  readonly onGone?: Requester['onGone'];
}

const isUser = ({ key, network }: Omit<HeavyClient, 'onGone'>): boolean => key !== network;

interface Task extends Omit<HeavyClient, 'onGone'> {
  readonly bytes: number;
  /** When it was queued (milliseconds, as of `performance.now`). */
  readonly since: number;
  readonly start: () => void;
  readonly refuse: (reason: Error) => void;
}

/**
 * Runs tasks that block the event loop for a millisecond or more, one at a time. Users and anonymous clients take turns, and
 * clients get equal time. While other clients are present, each task is followed by a pause, in which they are served.
 */
export class HeavyWork {
  readonly #waiting = new AlternatingQueue<Task>();
  readonly #bytes = new ByteBudget(MAX_BYTES);
  readonly #onDone: (network: string, milliseconds: number) => void;
  readonly #pauseFactor: number;
  #isScheduled = false;
  /** The client's network of the latest task. */
  #latestNetwork = '';
  /** Until when requests of other clients are noted. */
  #watchedUntil = -Infinity;
  /** When another client last sent a request. */
  #othersSeenAt = -Infinity;
  /** Mean milliseconds from the start of one task to the start of the next. */
  #meanInterval = FIRST_MEAN;
  /** When tasks that have waited too long are refused next. */
  #sweepDue = -Infinity;
  /** When the latest task started, while more tasks wait. */
  #startedAt: number | undefined;

  /**
   * @param onDone receives the client's network and the duration of each task
   * @param processes how many share the machine
   */
  constructor(onDone: (network: string, milliseconds: number) => void, processes: number) {
    this.#onDone = onDone;
    this.#pauseFactor = pauseFactor(processes);
  }

  sizeOf(client: HeavyClient): number {
    return this.#waiting.of(isUser(client)).sizeOf(client.key);
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Whether `notePresence` must be called for requests. */
  isWatching(now: number): boolean {
    return now < this.#watchedUntil || this.#waiting.size > 0;
  }

  /** Notes a request, so that tasks leave time for other clients. */
  notePresence(network: string, now: number): void {
    if (network !== this.#latestNetwork) this.#othersSeenAt = now;
  }

  /**
   * Resolves when a task of this client may start. The caller must then do the work synchronously.
   * @param bytes held while waiting, unless they are counted elsewhere
   * @throws Refusal if the wait would be too long: 429 if the client's own tasks are the reason, else 503
   * @throws ClientGone if the client disconnects
   */
  waitForTurn(client: HeavyClient, bytes = 0): Promise<void> {
    const { key, network } = client;
    const own = this.sizeOf(client);
    const isAlone = this.#waiting.clients === (own > 0 ? 1 : 0);
    const wait = this.#waiting.ahead(key, isUser(client), this.#meanInterval) * this.#meanInterval;
    const excess = bytes > 0 ? this.#bytes.exceededLimit(key, bytes) : undefined;
    if (wait > (isAlone ? MAX_WAIT_ALONE : MAX_WAIT) || excess !== undefined)
      return Promise.reject(own > 0 || excess === 'share' ? TOO_MANY : OVERLOADED);
    const queue = this.#waiting.of(isUser(client));
    let stopListening: (() => void) | undefined;
    return new Promise<void>((start, refuse) => {
      this.#bytes.take(key, bytes);
      const task = { key, network, bytes, since: performance.now(), start, refuse };
      queue.push(key, task);
      this.#schedule();
      stopListening = client.onGone?.(() => {
        if (!queue.remove(key, task)) return;
        this.#bytes.release(key, bytes);
        refuse(new ClientGone());
      });
    }).finally(() => stopListening?.());
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#run();
  }

  #run(): void {
    let task: Task | undefined;
    let startedAt = 0;
    const expected = this.#meanInterval;
    setImmediate(() => {
      startedAt = performance.now();
      if (this.#startedAt !== undefined)
        this.#meanInterval += (startedAt - this.#startedAt - this.#meanInterval) * NEWEST;
      this.#startedAt = startedAt;
      this.#refuseLate(startedAt);
      task = this.#waiting.shift(() => true);
      if (!task) return;
      this.#latestNetwork = task.network;
      this.#waiting.of(isUser(task)).beginWork(task.key, expected);
      this.#bytes.release(task.key, task.bytes);
      task.start();
    });
    // Runs in the same iteration of the event loop, after all synchronous work of the task.
    setImmediate(() => {
      const now = performance.now();
      const took = now - startedAt;
      const areOthersPresent = now - this.#othersSeenAt < WATCH_TIME + took;
      const pause = areOthersPresent ? Math.min(took * this.#pauseFactor, MAX_PAUSE) : 0;
      this.#watchedUntil = now + Math.max(took, pause) + WATCH_TIME;
      if (task) {
        this.#waiting.of(isUser(task)).correctTime(task.key, took - expected);
        this.#onDone(task.network, took);
      }
      if (pause >= 1) setTimeout(() => this.#continueAfter(ITERATIONS_BETWEEN), pause);
      else this.#continueAfter(ITERATIONS_BETWEEN);
    });
  }

  #refuseLate(now: number): void {
    if (now < this.#sweepDue) return;
    this.#sweepDue = now + SWEEP_INTERVAL;
    const latest = now - (this.#waiting.clients > 1 ? MAX_WAIT : MAX_WAIT_ALONE);
    const late = [...this.#waiting.entries()].filter(([, , { since }]) => since < latest);
    // As in `waitForTurn`: 429 for a client that waits behind its own tasks, else 503.
    const reasons = late.map(([queue, key]) => (queue.sizeOf(key) > 1 ? TOO_MANY : OVERLOADED));
    late.forEach(([queue, key, task], index) => {
      queue.remove(key, task);
      this.#bytes.release(key, task.bytes);
      task.refuse(reasons[index] ?? OVERLOADED);
    });
  }

  /** Runs the next task after some iterations of the event loop. */
  #continueAfter(iterations: number): void {
    if (iterations > 0) setImmediate(() => this.#continueAfter(iterations - 1));
    else if (this.#waiting.size > 0) this.#run();
    else {
      this.#isScheduled = false;
      this.#startedAt = undefined;
    }
  }
}
