// Gives turns for heavy writes: a client has one at a time, whichever processes its requests reach.
import { FairQueue } from '../db/scheduling/fair-queue.ts';

export class ClientTurns {
  readonly #max: number;
  readonly #waiting = new FairQueue<(release: () => void) => void>();
  readonly #running = new Set<string>();

  /** @param max how many clients may have their turn at once */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * @param start called when the client has its turn, which ends when `release` is called
   * @returns takes the request back while it waits
   */
  ask(client: string, start: (release: () => void) => void): () => void {
    this.#waiting.push(client, start);
    this.#startNext();
    return () => void this.#waiting.remove(client, start);
  }

  #startNext(): void {
    if (this.#running.size >= this.#max) return;
    let client = '';
    const start = this.#waiting.shift((key) => {
      client = key;
      return !this.#running.has(key);
    });
    if (!start) return;
    this.#running.add(client);
    let isOver = false;
    start(() => {
      if (isOver) return;
      isOver = true;
      this.#running.delete(client);
      this.#startNext();
    });
    this.#startNext();
  }
}
