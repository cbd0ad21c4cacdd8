// Limits the memory of responses that clients are slow to read, and disconnects clients that read too slowly.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { HasNetwork } from '../message/message.ts';
import type { ByteBudget } from './byte-budget.ts';

/** Bytes per second that a client must read on average. */
const MIN_RATE = 16 * 1024;
/** Seconds for which it may be slower. The kernel takes more only when a third of its buffer is free: 1.3 MB, 80 s at `MIN_RATE`. */
const GRACE = 90;
/** Seconds without any progress after which a connection is ended in favor of another response. */
const MAX_STALL = 5;
/** Milliseconds between checks of all slow responses. */
const INTERVAL = 1_000;
/** Responses up to this size (bytes) are always sent: a connection has only one at a time. */
const SMALL_RESPONSE = 16 * 1024;

interface SlowResponse {
  readonly socket: Socket;
  readonly network: string;
  /** Bytes that it takes of the budget. */
  readonly bytes: number;
  /** Bytes sent at the last check. */
  sent: number;
  /** Seconds for which the client may still be slow. */
  credit: number;
  /** Seconds in which nothing was sent. */
  stalled: number;
  readonly forget: () => void;
}

const bytesSentBy = ({ bytesWritten, writableLength }: Socket): number => bytesWritten - writableLength;

export type Unsent = ReturnType<typeof createUnsent>;

/** Responses that the kernel has not accepted completely, because their clients are slow. */
export function createUnsent(budget: ByteBudget) {
  /** The oldest first. */
  const slowResponses = new Set<SlowResponse>();
  let unsentBytes = 0;
  let checkedAt = performance.now();

  const timer = setInterval(() => {
    const now = performance.now();
    // Clients are not charged for a time in which the process itself was blocked.
    const seconds = Math.min(now - checkedAt, 2 * INTERVAL) / 1000;
    checkedAt = now;
    for (const slow of slowResponses) {
      const sent = bytesSentBy(slow.socket);
      const isWaiting = slow.socket.writableLength > 0; // Without unsent bytes, it is the client that waits.
      slow.stalled = sent === slow.sent && isWaiting ? slow.stalled + seconds : 0;
      slow.credit = Math.min(GRACE, slow.credit + (sent - slow.sent) / MIN_RATE);
      if (isWaiting) slow.credit -= seconds;
      slow.sent = sent;
      if (slow.credit < 0) end(slow);
    }
  }, INTERVAL).unref();

  function end(slow: SlowResponse): void {
    slow.socket.destroy();
    slow.forget(); // `close` is emitted later
  }

  return {
    /** Whether a response of this size fits the budget, if necessary without those whose clients have stopped reading. */
    hasRoom({ network }: HasNetwork, bytes: number): boolean {
      if (bytes <= SMALL_RESPONSE) return true;
      for (const slow of slowResponses) {
        if (budget.exceededLimit(network, bytes) === undefined) return true;
        if (slow.stalled >= MAX_STALL) end(slow);
      }
      return budget.exceededLimit(network, bytes) === undefined;
    },

    /** Counts the response until it is closed, and closes the connection if its client reads too slowly. */
    watch(response: ServerResponse, { network }: HasNetwork, bytes: number): void {
      const { socket } = response;
      if (!socket || socket.destroyed || response.closed) return;
      const slow: SlowResponse = {
        socket,
        network,
        bytes,
        sent: bytesSentBy(socket),
        credit: GRACE,
        stalled: 0,
        forget: () => {
          if (!slowResponses.delete(slow)) return;
          response.off('close', slow.forget);
          budget.release(network, bytes);
          unsentBytes -= bytes;
        },
      };
      slowResponses.add(slow);
      budget.take(network, bytes);
      unsentBytes += bytes;
      response.once('close', slow.forget);
      // A response to a write is sent also over budget: in place of the oldest of the client that holds most.
      while (budget.isExceeded) {
        const largest = budget.largest();
        const oldest = [...slowResponses].find(
          (one) => one.network === largest && one.bytes > 0 && one !== slow,
        );
        if (!oldest) return;
        end(oldest);
      }
    },

    bytes: (): number => unsentBytes,
    close: () => clearInterval(timer),
  };
}
