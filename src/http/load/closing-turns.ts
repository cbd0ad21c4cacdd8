// Closes connections in several turns of the event loop.
import type { Socket } from 'node:net';

/** Undocumented: the system's side of a connection. */
interface Handle {
  readonly readStop: () => void;
  close: (callback: () => void) => void;
}

/** Milliseconds of each turn in which connections are closed. The other connections wait for the next turns. */
const TURN = 5;

/**
 * Limits how long closing connections holds the event loop. The system frees what a connection has received when it is closed,
 * which takes milliseconds if a client has sent thousands of packets that nobody read.
 */
export class ClosingTurns {
  readonly #waiting: (() => void)[] = [];
  #used = 0;
  #isScheduled = false;

  /**
   * Makes the connection wait for its turn when it is destroyed. Only the system's side waits, and receives nothing meanwhile: for
   * everything else it is closed.
   */
  add(socket: Socket): void {
    const { _handle: handle } = socket as { _handle?: Handle | null };
    if (!handle) return;
    const close = handle.close.bind(handle);
    handle.close = (callback) => {
      handle.readStop();
      this.#take(() => close(callback));
    };
  }

  #take(close: () => void): void {
    if (this.#used < TURN && this.#waiting.length === 0) this.#run(close);
    else this.#waiting.push(close);
    this.#schedule();
  }

  #run(close: () => void): void {
    const start = performance.now();
    close();
    this.#used += performance.now() - start;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#used = 0;
      for (let close; this.#used < TURN && (close = this.#waiting.shift());) this.#run(close);
      if (this.#waiting.length > 0) this.#schedule();
    });
  }
}
