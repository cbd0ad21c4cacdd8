import { AlternatingQueue } from '../../db/scheduling/alternating-queue.ts';
import { OVERLOADED, TOO_MANY } from '../../errors.ts';
import { ByteBudget } from './byte-budget.ts';

/** Milliseconds for which a client counts as present after its last request. */
const PRESENT = 100;
/**
 * Turns of the event loop between two pieces of work at least. Node accepts one connection per turn, so that more work in
 * each turn means that new clients wait.
 */
const TURNS_BETWEEN = 4;
/** The longest rest after a piece of work (milliseconds). */
const MAX_REST = 250;

/** Milliseconds that a piece may wait, and that one of the only client may; what is expected to wait longer is refused at once. */
const MAX_WAIT = 2_000;
const MAX_WAIT_ALONE = 10_000;
/** Bytes of records that may wait to become pages. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Weight of the newest duration in the mean, and the mean at the start (milliseconds). */
const NEWEST = 0.1;
const FIRST_MEAN = 2;

/** Who waits: users by themselves, strangers by network. */
export interface HeavyClient {
  readonly key: string;
  readonly network: string;
}

const isUser = ({ key, network }: HeavyClient): boolean => key !== network;

interface Piece extends HeavyClient {
  readonly bytes: number;
  /** When it began to wait (milliseconds, as of `performance.now`). */
  readonly since: number;
  readonly begin: () => void;
  readonly refuse: (reason: Error) => void;
}

/**
 * Work that holds the event loop for a millisecond or more: one piece begins at a time. Users and strangers take turns, and
 * clients get equal time. While other clients are present, the loop is then left to them for as long as the piece took.
 */
export class HeavyWork {
  readonly #waiting = new AlternatingQueue<Piece>();
  readonly #bytes = new ByteBudget(MAX_BYTES);
  readonly #onDone: (network: string, milliseconds: number) => void;
  #isScheduled = false;
  #latest = '';
  #watchedUntil = -Infinity;
  #othersSeen = -Infinity;
  /** Milliseconds from one piece to the next on average: the turns of others in between count. */
  #mean = FIRST_MEAN;
  /** When the latest piece began, as long as others wait behind it. */
  #began: number | undefined;

  /** @param onDone gets the network of each piece's client, and the time that it took */
  constructor(onDone: (network: string, milliseconds: number) => void) {
    this.#onDone = onDone;
  }

  sizeOf(client: HeavyClient): number {
    return this.#waiting.of(isUser(client)).sizeOf(client.key);
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Whether it matters now which clients are present. */
  isWatching(now: number): boolean {
    return now < this.#watchedUntil || this.#waiting.size > 0;
  }

  /** Reports a request of a network while `isWatching`. */
  see(network: string, now: number): void {
    if (network !== this.#latest) this.#othersSeen = now;
  }

  /**
   * Resolves when a piece of work of this client may begin: it must then do so without waiting for anything else.
   * @param bytes that are held meanwhile and counted nowhere else
   * @throws Refusal 503, or 429 for a client whose own work is the reason, where the wait would be too long
   */
  turn(client: HeavyClient, bytes = 0): Promise<void> {
    const { key, network } = client;
    const own = this.sizeOf(client);
    const isAlone = this.#waiting.clients === (own > 0 ? 1 : 0);
    const wait = this.#waiting.ahead(key, isUser(client), this.#mean) * this.#mean;
    const excess = bytes > 0 ? this.#bytes.excess(key, bytes) : undefined;
    if (wait > (isAlone ? MAX_WAIT_ALONE : MAX_WAIT) || excess !== undefined)
      return Promise.reject(own > 0 || excess === 'share' ? TOO_MANY : OVERLOADED);
    return new Promise((begin, refuse) => {
      this.#bytes.take(key, bytes);
      const piece = { key, network, bytes, since: performance.now(), begin, refuse };
      this.#waiting.of(isUser(client)).push(key, piece);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#run();
  }

  #run(): void {
    let piece: Piece | undefined;
    let began = 0;
    const expected = this.#mean;
    setImmediate(() => {
      began = performance.now();
      if (this.#began !== undefined) this.#mean += (began - this.#began - this.#mean) * NEWEST;
      this.#began = began;
      this.#refuseLate(began);
      piece = this.#waiting.shift(() => true);
      if (!piece) return;
      this.#latest = piece.network;
      this.#waiting.of(isUser(piece)).begin(piece.key, expected);
      this.#bytes.release(piece.key, piece.bytes);
      piece.begin();
    });
    // Follows in the same turn, when everything that the piece does at once is done.
    setImmediate(() => {
      const now = performance.now();
      const took = now - began;
      this.#watchedUntil = now + took + PRESENT;
      const rest = now - this.#othersSeen < PRESENT + took ? Math.min(took, MAX_REST) : 0;
      if (piece) {
        this.#waiting.of(isUser(piece)).correct(piece.key, took - expected);
        this.#onDone(piece.network, took);
      }
      if (rest >= 1) setTimeout(() => this.#pass(TURNS_BETWEEN), rest);
      else this.#pass(TURNS_BETWEEN);
    });
  }

  #refuseLate(now: number): void {
    const latest = now - (this.#waiting.clients > 1 ? MAX_WAIT : MAX_WAIT_ALONE);
    for (const [queue, key, piece] of this.#waiting.entries()) {
      if (piece.since >= latest) continue;
      queue.remove(key, piece);
      this.#bytes.release(key, piece.bytes);
      piece.refuse(OVERLOADED);
    }
  }

  /** Lets turns of the event loop pass before the next piece. */
  #pass(turns: number): void {
    if (turns > 0) setImmediate(() => this.#pass(turns - 1));
    else if (this.#waiting.size > 0) this.#run();
    else {
      this.#isScheduled = false;
      this.#began = undefined;
    }
  }
}
