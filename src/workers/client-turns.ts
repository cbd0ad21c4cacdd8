// Gives turns for heavy writes: a client has one at a time, whichever processes its requests reach.
import { FairQueue } from '../db/scheduling/fair-queue.ts';
import type { Turn } from '../db/scheduling/heavy-statements.ts';

export class ClientTurns {
  readonly #waiting = new FairQueue<(turn: Turn) => void>();
  /** The clients that have their turn. */
  readonly #clients = new Set<string>();
  /** The places that are free. */
  #free: number;

  /** @param places how many clients may have their turn at once */
  constructor(places: number) {
    this.#free = places;
  }

  /**
   * @param start called when the client has its turn
   * @returns takes the request back while it waits
   */
  ask(client: string, start: (turn: Turn) => void): () => void {
    this.#waiting.push(client, start);
    this.#startNext();
    return () => void this.#waiting.remove(client, start);
  }

  #startNext(): void {
    while (this.#free > 0) {
      let client = '';
      const start = this.#waiting.shift((key) => {
        client = key;
        return !this.#clients.has(key);
      });
      if (!start) return;
      this.#free -= 1;
      this.#clients.add(client);
      start(this.#turnOf(client));
    }
  }

  #turnOf(client: string): Turn {
    let [hasPlace, isOver] = [true, false];
    const leavePlace = (): void => {
      if (hasPlace) this.#free += 1;
      hasPlace = false;
      this.#startNext();
    };
    const end = (): void => {
      if (!isOver) this.#clients.delete(client);
      isOver = true;
      leavePlace();
    };
    return { leavePlace, end };
  }
}
