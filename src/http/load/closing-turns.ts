// Closes connections in several turns of the event loop.
import type { Socket } from 'node:net';
import { Turns } from './turns.ts';

/** Undocumented: the system's side of a connection. */
interface Handle {
  readonly readStop: () => void;
  close: (callback: () => void) => void;
}

/**
 * Limits how long the event loop is busy with closing connections. When a connection is closed, the system frees what it has
 * received. This takes milliseconds if a client has sent thousands of packets that were not read.
 */
export class ClosingTurns {
  readonly #turns = new Turns();

  /**
   * Delays closing the connection in the system until its turn. For Node and the service it is closed before, and it receives
   * nothing meanwhile.
   */
  add(socket: Socket): void {
    const { _handle: handle } = socket as { _handle?: Handle | null };
    if (!handle) return;
    const close = handle.close.bind(handle);
    handle.close = (callback) => {
      handle.readStop();
      this.#turns.take(() => close(callback));
    };
  }
}
