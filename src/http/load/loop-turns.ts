// Lets clients take turns at the event loop, so that the work for one does not delay the others.
import { FairQueue } from '../../db/lanes/fair-queue.ts';
import { ClientGone, type Requester } from '../../db/lanes/requester.ts';
import { OVERLOADED } from '../../errors.ts';

/** Milliseconds of short work in one iteration of the event loop. The rest waits for the next one, in fair order. */
const MAX_TIME = 5;
/** Milliseconds that a piece of long work may wait. */
const MAX_WAIT = 10_000;
/** Maximum pause after a piece of long work (milliseconds). */
const MAX_PAUSE = 250;

type LoopClient = Pick<Requester, 'key' | 'clientKind' | 'onGone'>;

/** A client of which only the network is known. */
export const anonymous = (network: string): LoopClient => ({
  key: network,
  clientKind: 'anonymous',
  onGone: () => () => undefined,
});

interface Entry {
  readonly client: LoopClient;
  readonly start: () => void;
  readonly refuse: (reason: Error) => void;
  readonly since: number;
}

/** Work that waits. It is bounded by the number of connections: each has one request that runs or waits. */
class Line {
  /** Users and anonymous clients alternate, so that many addresses do not delay users. */
  readonly #users = new FairQueue<Entry>();
  readonly #others = new FairQueue<Entry>();
  #isTurnOfUsers = false;

  get size(): number {
    return this.#users.size + this.#others.size;
  }

  /** @throws ClientGone (rejects) if the client disconnects */
  wait(client: LoopClient): Promise<void> {
    const { key, clientKind } = client;
    const queue = clientKind === 'anonymous' ? this.#others : this.#users;
    let stopListening: (() => void) | undefined;
    return new Promise<void>((start, refuse) => {
      const entry = { client, start, refuse, since: performance.now() };
      queue.push(key, entry);
      stopListening = client.onGone(() => {
        if (queue.remove(key, entry)) refuse(new ClientGone());
      });
    }).finally(() => stopListening?.());
  }

  shift(): Entry | undefined {
    this.#isTurnOfUsers = !this.#isTurnOfUsers;
    const [first, second] = this.#isTurnOfUsers ? [this.#users, this.#others] : [this.#others, this.#users];
    return first.shift() ?? second.shift();
  }
}

/** Calls back after the work that a promise has just started, up to its next wait. */
const afterWork = (callback: () => void): void => queueMicrotask(() => process.nextTick(callback));

/**
 * Two lines: short work, such as the start of a request, and pieces of long work, such as parsing a large body. An iteration of
 * the event loop has time for some short work and one piece.
 */
export class LoopTurns {
  readonly #short = new Line();
  readonly #pieces = new Line();
  /** Until when more short work may start in this iteration. */
  #until = 0;
  /** When the next piece may start: after a piece, requests are served for as long as it took. */
  #pieceDue = 0;
  /** Whether requests have started since the latest piece. Without any, there is no pause. */
  #haveOthersStarted = false;
  /** The client whose short work has just begun. It goes on in microtasks, between which others may ask. */
  #worker: LoopClient | undefined;
  #isScheduled = false;
  #isPaused = false;

  /** How much work waits. */
  get waiting(): number {
    return this.#short.size + this.#pieces.size;
  }

  /**
   * Begins short work for a client, or goes on with it after another wait.
   * @returns undefined if it may begin at once
   */
  start(client: LoopClient): Promise<void> | undefined {
    this.#haveOthersStarted = true;
    this.#schedule();
    if (this.#worker === client) return undefined;
    if (this.#worker || this.#short.size > 0 || performance.now() >= this.#until)
      return this.#short.wait(client);
    this.#worker = client;
    afterWork(this.#endWork);
    return undefined;
  }

  /** Lets others work before the caller goes on with more short work. */
  yield(client: LoopClient): Promise<void> {
    this.#schedule();
    return this.#short.wait(client);
  }

  /**
   * Resolves when a piece of long work may start. The caller must then do the work synchronously.
   * @throws Problem 503 after too long a wait
   */
  piece(client: LoopClient): Promise<void> {
    this.#schedule();
    return this.#pieces.wait(client);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#until = performance.now() + MAX_TIME;
    setImmediate(this.#iterate);
  }

  readonly #endWork = (): void => {
    this.#worker = undefined;
  };

  readonly #iterate = (): void => {
    this.#until = performance.now() + MAX_TIME;
    this.#workOn();
  };

  readonly #workOn = (): void => {
    const next = performance.now() < this.#until ? this.#short.shift() : undefined;
    this.#worker = next?.client;
    if (!next) return this.#startPiece();
    next.start();
    afterWork(this.#workOn);
  };

  #startPiece(): void {
    const now = performance.now();
    const pause = this.#haveOthersStarted ? this.#pieceDue - now : 0;
    const piece = pause <= 0 ? this.#pieces.shift() : undefined;
    if (!piece) return this.#endIteration(pause);
    this.#haveOthersStarted = false;
    if (now - piece.since > MAX_WAIT) piece.refuse(OVERLOADED);
    else piece.start();
    afterWork(() => {
      const end = performance.now();
      this.#pieceDue = end + Math.min(end - now, MAX_PAUSE);
      this.#endIteration(0);
    });
  }

  /** @param pause milliseconds until the next piece may start */
  #endIteration(pause: number): void {
    this.#isScheduled = false;
    if (this.#short.size > 0 || (this.#pieces.size > 0 && pause <= 0)) this.#schedule();
    if (this.#isPaused || this.#isScheduled || this.#pieces.size === 0) return;
    this.#isPaused = true;
    setTimeout(() => {
      this.#isPaused = false;
      this.#schedule();
    }, pause);
  }
}

/** The turns of this process, which has one event loop. */
export const loopTurns = new LoopTurns();
