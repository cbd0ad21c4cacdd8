import { FairQueue } from '../db/fair-queue.ts';

/** Milliseconds for which a client counts as present after its last request. */
const PRESENT = 100;
/**
 * Turns of the event loop between two pieces of work at least. Node accepts one connection per turn, so that more work in
 * each turn means that new clients wait.
 */
const TURNS_BETWEEN = 4;
/** The longest rest after a piece of work (milliseconds). */
const MAX_REST = 250;

interface Piece {
  readonly begin: () => void;
  readonly key: string;
}

/**
 * Work that holds the event loop for a millisecond or more: one piece begins at a time, clients in turn. While other clients
 * are present, the loop is then left to them for as long as the piece took.
 */
export class HeavyWork {
  readonly #waiting = new FairQueue<Piece>();
  readonly #onDone: (key: string, milliseconds: number) => void;
  #isScheduled = false;
  #latest = '';
  #watchedUntil = -Infinity;
  #othersSeen = -Infinity;

  /** @param onDone gets the client of each piece of work, and the time that it took */
  constructor(onDone: (key: string, milliseconds: number) => void) {
    this.#onDone = onDone;
  }

  sizeOf(key: string): number {
    return this.#waiting.sizeOf(key);
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Whether it matters now which clients are present. */
  isWatching(now: number): boolean {
    return now < this.#watchedUntil || this.#waiting.size > 0;
  }

  /** Reports a client's request while `isWatching`. */
  see(key: string, now: number): void {
    if (key !== this.#latest) this.#othersSeen = now;
  }

  /** Resolves when a piece of work of this client may begin: it must then do so without waiting for anything else. */
  turn(key: string): Promise<void> {
    return new Promise((begin) => {
      this.#waiting.push(key, { begin, key });
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
    setImmediate(() => {
      began = performance.now();
      piece = this.#waiting.shift(() => true);
      this.#latest = piece?.key ?? '';
      piece?.begin();
    });
    // Follows in the same turn, when everything that the piece does at once is done.
    setImmediate(() => {
      const now = performance.now();
      const took = now - began;
      this.#watchedUntil = now + took + PRESENT;
      if (piece) this.#onDone(piece.key, took);
      const rest = now - this.#othersSeen < PRESENT + took ? Math.min(took, MAX_REST) : 0;
      if (rest >= 1) setTimeout(() => this.#pass(TURNS_BETWEEN), rest);
      else this.#pass(TURNS_BETWEEN);
    });
  }

  /** Lets turns of the event loop pass before the next piece. */
  #pass(turns: number): void {
    if (turns > 0) setImmediate(() => this.#pass(turns - 1));
    else if (this.#waiting.size > 0) this.#run();
    else this.#isScheduled = false;
  }
}
