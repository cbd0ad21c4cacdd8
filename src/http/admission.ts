import { FairQueue } from '../db/fair-queue.ts';
import { OVERLOADED, TOO_MANY } from '../errors.ts';

/** Requests that are worked on at once. Those that wait for a slow statement, a body or a password check do not count. */
const MAX_ACTIVE = 64;
/** Requests that begin in one turn of the event loop; the others wait for the next one, in which clients take turns. */
const MAX_PER_TURN = 16;
/** Requests that may wait to be worked on: in all, of one client, and of one client while others wait as well. */
const MAX_WAITING = 4_000;
const MAX_WAITING_ALONE = 2_500;
const MAX_WAITING_AMONG_OTHERS = 128;

/**
 * Lets requests in. Beyond what the process works on at once, clients take turns, so that one with thousands of connections
 * leaves the others their share of the processor.
 */
export class Admission {
  readonly #waiting = new FairQueue<() => void>();
  #active = 0;
  #begun = 0;
  #isScheduled = false;

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * @param keyOf gives the client's key; only asked for when the request has to wait
   * @returns undefined where the request is let in at once, else resolves when it is; `leave` must follow
   * @throws Refusal when too many requests wait
   */
  enter(keyOf: () => string): Promise<void> | undefined {
    this.#schedule();
    if (this.#waiting.size === 0 && this.#hasRoom()) {
      this.#active += 1;
      this.#begun += 1;
      return undefined;
    }
    const key = keyOf();
    const own = this.#waiting.sizeOf(key);
    const isAlone = this.#waiting.clients === (own === 0 ? 0 : 1);
    if (own >= (isAlone ? MAX_WAITING_ALONE : MAX_WAITING_AMONG_OTHERS)) throw TOO_MANY;
    if (this.#waiting.size >= MAX_WAITING) throw OVERLOADED;
    return new Promise((resolve) => this.#waiting.push(key, resolve));
  }

  leave(): void {
    this.#active -= 1;
    if (this.#waiting.size > 0) this.#schedule();
  }

  #hasRoom(): boolean {
    return this.#active < MAX_ACTIVE && this.#begun < MAX_PER_TURN;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#begun = 0;
      while (this.#waiting.size > 0 && this.#hasRoom()) {
        this.#active += 1;
        this.#begun += 1;
        this.#waiting.shift(() => true)?.();
      }
      if (this.#waiting.size > 0 && this.#active < MAX_ACTIVE) this.#schedule();
    });
  }
}
