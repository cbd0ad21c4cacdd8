// Decides when a request may start, so that clients share a busy process fairly.
import { ClientPresence } from '../../db/client-presence.ts';
import { ClientUsage } from '../../db/scheduling/client-usage.ts';
import { OVERLOADED, TOO_MANY } from '../../errors.ts';
import type { Arrivals } from './arrivals.ts';
import { HeavyWork, type HeavyClient } from './heavy-work.ts';
import { RequestQueue, type AdmissionRequest } from './request-queue.ts';
import { Turns } from './turns.ts';
import type { HasNetwork } from '../message/message.ts';

/** Maximum number of active requests. Requests that wait for a slow statement, a body or a password check are not active. */
const MAX_ACTIVE = 64;
/** Maximum for one client while others are present. Requests that start at once, while `isBusy` is false, do not count. */
const MAX_ACTIVE_AMONG_OTHERS = 16;
/** Requests that start in one iteration of the event loop. The others queue for the next one, in fair order. */
const MAX_STARTS_PER_ITERATION = 16;
/** For this many milliseconds after the first start of an iteration, more requests may start. */
const MAX_START_TIME = 5;
/** Maximum numbers of queued requests: in all, of the only client, and of one client while others are present. */
const MAX_WAITING = 4_000;
const MAX_WAITING_ALONE = 2_500;
const MAX_WAITING_AMONG_OTHERS = 128;
/** Minimum milliseconds of work for a request before the time is charged to the client. */
const MIN_CHARGED = 0.25;
/** If a client was charged more milliseconds than this beyond its fair share, its requests wait in the queue of heavy work. */
const MAX_USAGE = 100;
/** Milliseconds charged for a request whose client disconnected before the response: the work for it was wasted. */
const ABANDONED_CHARGE = 5;
/** Minimum milliseconds of uninterrupted work before an error response is delayed, see `Peer.pace`. */
export const MIN_PACED = 1;

interface QueuedRequest {
  readonly start: () => void;
  readonly refuse: (reason: Error) => void;
  /** The request that pays for the work after `start`, up to its next wait. Undefined if other code measures it. */
  readonly charged: AdmissionRequest | undefined;
}

/**
 * Admission control: decides when a request may start. When the process is busy, requests queue and clients take turns. So
 * neither one client with thousands of connections nor many clients with costly requests keep one with short requests waiting.
 * - `RequestQueue` has a second queue for clients whose single requests are repeatedly long.
 * - `ClientUsage` finds clients that use much time in total. They wait in the queue of `HeavyWork`, unless they are alone.
 */
export class Admission {
  readonly #arrivals: Pick<Arrivals, 'decideHold'> | undefined;
  readonly #usage = new ClientUsage(MAX_USAGE);
  /** The request that works in the present turn of heavy work, whose time `HeavyWork` measures. */
  #inHeavyTurn: AdmissionRequest | undefined;
  readonly #heavy: HeavyWork;
  /** For requests whose bodies arrive after their heads: thousands may be complete in one iteration of the event loop. */
  readonly lateBodies = new Turns();
  /** For refused requests, which must not delay the others. */
  readonly refusals = new Turns();
  readonly #waiting = new RequestQueue<QueuedRequest>();
  /** Active requests of each client. */
  readonly #activeOf = new Map<string, number>();
  #active = 0;
  /** Requests that started in this iteration of the event loop, and until when more may start. */
  #started = 0;
  #startsEnd = Infinity;
  #isScheduled = false;
  #iteration = 0;
  /** The clients that have asked while the process was busy. */
  readonly #presence = new ClientPresence();

  /** @param arrivals delays queued requests while connections arrive  @param processes how many share the machine */
  constructor(arrivals?: Pick<Arrivals, 'decideHold'>, processes = 1) {
    this.#arrivals = arrivals;
    this.#heavy = new HeavyWork((network, took) => {
      this.#inHeavyTurn = undefined;
      // A long request works in many turns, during which its client is present.
      this.#presence.note(network, performance.now());
      if (took >= MIN_CHARGED) this.charge(network, took);
    }, processes);
  }

  /** Number of queued requests. */
  get waiting(): number {
    return this.#waiting.size + this.#heavy.size;
  }

  /** A number that is different in the next iteration of the event loop. */
  get iteration(): number {
    if (!this.#isScheduled) this.#schedule();
    return this.#iteration;
  }

  /** Whether a request may have to wait for others. */
  isBusy(now: number): boolean {
    if (this.#active >= MAX_ACTIVE_AMONG_OTHERS || this.#waiting.size > 0 || !this.#hasRoom(now)) return true;
    return now < this.#usage.costlyUntil || this.#heavy.isWatching(now);
  }

  /**
   * Admits a request. One that has started must call `leave`, and one that was refused must not. The same holds for `enterAgain`
   * and `enterQueued`.
   * @param now milliseconds, as of `performance.now`
   * @returns undefined if the request may start at once, else a promise that resolves when it may
   * @throws Refusal if too many requests are queued
   */
  enter(request: AdmissionRequest, now: number): Promise<void> | undefined {
    if (!this.#isScheduled) this.#schedule();
    const key = request.network;
    if (this.isBusy(now) && this.#usage.isCostly(key, now)) {
      this.#notePresence(key, now);
      if (this.#maySkipHeavyQueue(key, now)) return this.enterAgain(request, now);
      this.#assertMayWait(key, now);
      return this.#heavy.waitForTurn({ key, network: key }).then(() => {
        const queued = this.#startOrQueue(request, performance.now());
        if (!queued) this.beginHeavyTurn(request);
        return queued;
      });
    }
    return this.enterAgain(request, now);
  }

  /** Like `enter`, without a check of what the client uses: for requests that have waited for their body, a statement or a password. */
  enterAgain(request: AdmissionRequest, now: number): Promise<void> | undefined {
    if (this.isBusy(now)) {
      this.#notePresence(request.network, now);
      return this.#startOrQueue(request, now);
    }
    this.#start(now);
    return undefined;
  }

  /**
   * Admits a request that has waited and now has long work, such as parsing a body. Many requests may get what they waited for at
   * the same moment, so it always queues, and the client is charged for what it then does before its next wait.
   * @throws Refusal if too many requests are queued
   */
  async enterQueued(request: AdmissionRequest, now: number): Promise<void> {
    const key = request.network;
    if (this.isBusy(now)) this.#notePresence(key, now);
    this.#assertMayWait(key, now);
    await this.#queue(request, true);
  }

  /** Makes a request inactive, because it is over or waits for something else. A queued one may then start. */
  leave(request: AdmissionRequest): void {
    const key = request.countedFor;
    request.countedFor = undefined;
    this.#active -= 1;
    if (key !== undefined) {
      const count = (this.#activeOf.get(key) ?? 1) - 1;
      if (count > 0) this.#activeOf.set(key, count);
      else this.#activeOf.delete(key);
    }
    if (this.#waiting.size > 0 && !this.#isScheduled) this.#schedule();
  }

  /**
   * Resolves when work that blocks the event loop for long may start. One such task runs at a time, and clients get equal time.
   * The caller must do the work synchronously once it has the turn.
   * @param bytes held while waiting, unless they are counted elsewhere
   * @throws Refusal if the wait would be too long
   */
  heavyTurn(client: HeavyClient, bytes?: number): Promise<void> {
    return this.#heavy.waitForTurn(client, bytes);
  }

  /** Records that the turn of heavy work that has begun is for this request. */
  beginHeavyTurn(request: AdmissionRequest): void {
    this.#inHeavyTurn = request;
    request.wasCharged = true;
  }

  isInHeavyTurn(request: AdmissionRequest): boolean {
    return request === this.#inHeavyTurn;
  }

  /** Reports that a client's work has held the event loop for long. */
  charge(key: string, milliseconds: number): void {
    this.#waiting.note(key, true);
    this.#usage.charge(key, milliseconds, performance.now());
  }

  /** Reports that work for a request has held the event loop. Brief pieces of its work add up. */
  chargeWork(request: AdmissionRequest, milliseconds: number): void {
    if (this.isInHeavyTurn(request)) return;
    request.uncharged += milliseconds;
    if (request.uncharged < MIN_CHARGED) return;
    this.charge(request.network, request.uncharged);
    request.uncharged = 0;
    request.wasCharged = true;
  }

  /** Reports that a request is over. */
  end({ network, wasCharged }: AdmissionRequest): void {
    if (!wasCharged) this.#waiting.note(network, false);
  }

  /** Reports that a client disconnected after its request had started. */
  abandon({ network }: HasNetwork): void {
    this.charge(network, ABANDONED_CHARGE);
  }

  /** Whether a costly client may skip the queue of heavy work: no other client is present, which would wait behind many requests. */
  #maySkipHeavyQueue(key: string, now: number): boolean {
    const own = this.#waiting.sizeOf(key) + this.#heavy.sizeOf({ key, network: key });
    return own < MAX_WAITING_AMONG_OTHERS && this.#presence.isAlone(key, now);
  }

  #notePresence(key: string, now: number): void {
    this.#heavy.notePresence(key, now);
    this.#presence.note(key, now);
  }

  #startOrQueue(request: AdmissionRequest, now: number): Promise<void> | undefined {
    const key = request.network;
    if (this.#waiting.size === 0 && this.#hasRoom(now) && this.#mayStart(key, now)) {
      this.#start(now, request);
      return undefined;
    }
    this.#assertMayWait(key, now);
    return this.#queue(request);
  }

  #queue(request: AdmissionRequest, isCharged = false): Promise<void> {
    if (!this.#isScheduled) this.#schedule();
    return new Promise((resolve, refuse) => {
      const start = (): void => {
        this.#start(performance.now(), request);
        resolve();
      };
      this.#waiting.push(request.network, { start, refuse, charged: isCharged ? request : undefined });
    });
  }

  #assertMayWait(key: string, now: number): void {
    const waiting = this.#waiting.sizeOf(key);
    const isOnlyClient = !this.#presence.hasSeveral(now) && this.#waiting.size === waiting;
    const own = waiting + this.#heavy.sizeOf({ key, network: key });
    if (own >= (isOnlyClient ? MAX_WAITING_ALONE : MAX_WAITING_AMONG_OTHERS)) throw TOO_MANY;
    if (this.waiting >= MAX_WAITING) this.#makeRoomFor(waiting);
  }

  /** Refuses the newest request of the client with the most queued ones, unless the new request's client has nearly as many. */
  #makeRoomFor(own: number): void {
    const displaced = this.#waiting.takeFromLongest(own + 1);
    if (!displaced) throw OVERLOADED;
    displaced.refuse(TOO_MANY);
  }

  /** @param counted the request, if it counts for its client: only on a busy process */
  #start(now: number, counted?: AdmissionRequest): void {
    if (this.#started === 0) this.#startsEnd = now + MAX_START_TIME;
    this.#started += 1;
    this.#active += 1;
    if (!counted) return;
    const { network } = counted;
    counted.countedFor = network;
    this.#activeOf.set(network, (this.#activeOf.get(network) ?? 0) + 1);
  }

  #hasRoom(now: number): boolean {
    if (this.#active >= MAX_ACTIVE) return false;
    return this.#started === 0 || (this.#started < MAX_STARTS_PER_ITERATION && now < this.#startsEnd);
  }

  #mayStart(key: string, now: number): boolean {
    return !this.#presence.hasSeveral(now) || (this.#activeOf.get(key) ?? 0) < MAX_ACTIVE_AMONG_OTHERS;
  }

  #schedule(): void {
    this.#isScheduled = true;
    setImmediate(this.#startIteration);
  }

  readonly #startIteration = (): void => {
    this.#isScheduled = false;
    this.#iteration += 1;
    this.#started = 0;
    if (this.#waiting.size === 0) return;
    if (this.#arrivals?.decideHold(performance.now())) this.#schedule();
    else this.#admit();
  };

  readonly #admit = (): void => {
    if (this.#waiting.size === 0) return;
    const now = performance.now();
    if (!this.#hasRoom(now)) {
      if (this.#active < MAX_ACTIVE && !this.#isScheduled) this.#schedule();
      return;
    }
    const next = this.#waiting.shift((key) => this.#mayStart(key, now));
    if (!next) return; // All waiting clients are at their limit: `leave` continues.
    const { start, charged } = next;
    start();
    // Runs after the request has worked up to its first wait. That work counts towards MAX_START_TIME.
    queueMicrotask(() =>
      process.nextTick(() => {
        if (charged) this.chargeWork(charged, performance.now() - now);
        this.#admit();
      }),
    );
  };
}
