// Limits the memory of responses that clients are slow to read, and disconnects clients that read too slowly.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { increment } from '../../db/counts.ts';
import { ByteBudget, totalFor } from './byte-budget.ts';
import { widestNetwork } from '../message/client-networks.ts';
import type { HasNetwork } from '../message/message.ts';

/** Minimum rate at which a client must read, on average over some seconds. */
export interface DrainRate {
  readonly bytesPerSecond: number;
  readonly seconds: number;
  /** Maximum credit for reading fast. The kernel's buffer takes some megabytes at once, whatever the client reads. */
  readonly maxCreditSeconds: number;
}

export const PAGE_RATE: DrainRate = { bytesPerSecond: 16 * 1024, seconds: 20, maxCreditSeconds: 60 };
/** A stream holds a database snapshot open, so its client can collect no credit beyond the averaging time. */
export const STREAM_RATE: DrainRate = { bytesPerSecond: 64 * 1024, seconds: 30, maxCreditSeconds: 30 };
/** Milliseconds between checks of all slow responses. */
const INTERVAL = 1_000;

/** Responses above this size (bytes) must fit the budget. Smaller ones are sent until they exceed it by `SMALL_TOTAL`. */
const LARGE_RESPONSE = 16 * 1024;
const MIN_TOTAL = 64 * 1024 * 1024;
const SMALL_TOTAL = 16 * 1024 * 1024;
/** After this many seconds without any progress, a connection is ended if more than half of the budget is used. */
const MAX_STALL = 5;

interface SlowResponse {
  readonly response: ServerResponse;
  readonly socket: Socket;
  readonly network: string;
  /** The network by which responses are chosen to be closed. */
  readonly widest: string;
  readonly rate: DrainRate;
  /** Bytes that it takes of the budget. */
  readonly bytes: number;
  /** Bytes sent at the last check. */
  sent: number;
  /** Seconds for which the client may still be slow. */
  credit: number;
  /** Seconds in which the kernel has accepted nothing. */
  stalled: number;
  readonly end: () => void;
}

/** The bytes that the kernel has accepted. The public counters change only when a whole write is complete. */
function bytesSentBy(socket: Socket): number {
  const { _bytesDispatched: dispatched, _handle: handle } = socket as {
    _bytesDispatched?: number;
    _handle?: { writeQueueSize?: number } | null;
  };
  return dispatched !== undefined && handle?.writeQueueSize !== undefined
    ? dispatched - handle.writeQueueSize
    : socket.bytesWritten - socket.writableLength;
}

export type Unsent = ReturnType<typeof createUnsent>;

/**
 * Responses that the kernel has not accepted completely, because their clients are slow.
 * @param maxPage size of the largest page in bytes, which any client may leave unread
 * @param processes how many processes share the memory
 */
export function createUnsent(maxPage: number, processes = 1) {
  const total = Math.max(MIN_TOTAL / processes, totalFor(maxPage));
  const budget = new ByteBudget(total);
  const slowResponses = new Set<SlowResponse>();
  let checkedAt = performance.now();

  function check(): void {
    const now = performance.now();
    // Clients are not charged for a time in which the process itself was blocked.
    const seconds = Math.min(now - checkedAt, 2 * INTERVAL) / 1000;
    checkedAt = now;
    for (const slow of slowResponses) {
      const { socket, rate } = slow;
      const sent = bytesSentBy(socket);
      const credit = slow.credit + (sent - slow.sent) / rate.bytesPerSecond;
      // Without unsent bytes, it is the client that waits.
      slow.stalled = sent > slow.sent || socket.writableLength === 0 ? 0 : slow.stalled + seconds;
      slow.sent = sent;
      slow.credit = Math.min(credit, rate.maxCreditSeconds);
      if (socket.writableLength > 0) slow.credit -= seconds;
      if (slow.credit < 0) socket.destroy();
    }
    makeRoom();
  }
  /** Ends connections that have stalled, the oldest first, so that other clients do not find the budget full. */
  function makeRoom(): void {
    let excess = budget.used - total / 2;
    for (const { socket, stalled, bytes } of slowResponses) {
      if (excess <= 0) return;
      if (stalled < MAX_STALL || bytes === 0) continue;
      socket.destroy();
      excess -= bytes;
    }
  }
  function forget(slow: SlowResponse): void {
    if (!slowResponses.delete(slow)) return;
    slow.response.off('close', slow.end);
    slow.socket.off('close', slow.end);
    budget.release(slow.network, slow.bytes);
  }
  /** Closes responses in this order until the others fit the budget. @returns whether they do */
  function closeUntilFits(responses: readonly SlowResponse[]): boolean {
    for (const slow of responses) {
      if (budget.used <= total) return true;
      slow.socket.destroy();
      forget(slow); // `close` is emitted later; a second call does nothing.
    }
    return budget.used <= total;
  }
  /**
   * Closes large responses, except the latest, until the others fit the budget. Stalled ones are closed first. The order is:
   * - networks with several large responses before those with one
   * - networks that hold more bytes before others
   * - older responses before newer ones
   */
  function closeLarge(latest: SlowResponse): void {
    const large = [...slowResponses].filter(({ bytes }) => bytes > LARGE_RESPONSE);
    const counts = new Map<string, number>();
    for (const { widest } of large) increment(counts, widest, 1);
    const inOrder = large
      .filter((slow) => slow !== latest)
      .map((slow) => ({ slow, isOne: counts.get(slow.widest) === 1, held: budget.heldBy(slow.widest) }))
      .sort((one, other) => Number(one.isOne) - Number(other.isOne) || other.held - one.held)
      .map(({ slow }) => slow);
    if (!closeUntilFits(inOrder.filter(({ stalled }) => stalled > 0))) closeUntilFits(inOrder);
  }
  const timer = setInterval(check, INTERVAL).unref();

  return {
    /** Whether a response of this size fits the budget. */
    fits: ({ network }: HasNetwork, bytes: number): boolean =>
      bytes <= LARGE_RESPONSE || budget.exceededLimit(network, bytes) === undefined,

    /** Whether the client's network leaves more unread than the whole budget. */
    isOverdrawn: ({ network }: HasNetwork): boolean => budget.heldBy(widestNetwork(network)) > total,

    /** Counts the response until it is closed, and closes the connection if its client is slower than the rate. */
    watch(response: ServerResponse, rate: DrainRate, client: HasNetwork, bytes: number): void {
      const { socket } = response;
      if (!socket || socket.destroyed || response.closed) return;
      if (budget.used + bytes > total + SMALL_TOTAL && bytes <= LARGE_RESPONSE) return void socket.destroy();
      const { network } = client;
      const slow: SlowResponse = {
        response,
        socket,
        network,
        widest: widestNetwork(network),
        rate,
        bytes,
        sent: bytesSentBy(socket),
        credit: rate.seconds,
        stalled: 0,
        end: () => forget(slow),
      };
      slowResponses.add(slow);
      budget.take(network, bytes);
      response.once('close', slow.end);
      socket.once('close', slow.end);
      // A response to a write is always sent, even over budget: many writes may have started while there was room.
      if (bytes > LARGE_RESPONSE && budget.used > total) closeLarge(slow);
    },

    bytes: (): number => budget.used,
    close: () => clearInterval(timer),
  };
}
