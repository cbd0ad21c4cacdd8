import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ByteBudget } from './byte-budget.ts';
import type { HasNetwork } from '../message/message.ts';

/** The slowest client that is served: bytes per second, on average over some seconds. */
export interface DrainRate {
  readonly bytesPerSecond: number;
  readonly seconds: number;
  /** Maximum seconds that a client can be ahead by what it took fast: the kernel takes some megabytes at once. */
  readonly maxCreditSeconds: number;
}

export const PAGE_RATE: DrainRate = { bytesPerSecond: 16 * 1024, seconds: 20, maxCreditSeconds: 60 };
/** A stream keeps a snapshot of the database, so that its client gets no more than the seconds of the average. */
export const STREAM_RATE: DrainRate = { bytesPerSecond: 64 * 1024, seconds: 30, maxCreditSeconds: 30 };
const INTERVAL = 1_000;

/** Answers past this size (bytes) need room in the budget; smaller ones are sent in any case. */
const LARGE = 256 * 1024;
const LEAST_TOTAL = 64 * 1024 * 1024;

interface SlowResponse {
  readonly socket: Socket;
  readonly rate: DrainRate;
  taken: number;
  /** Seconds that the client may still be slow. */
  left: number;
}

/** Answers that clients have not taken yet. */
export interface Unsent {
  /** Whether there is room for an answer of this size. */
  readonly fits: (client: HasNetwork, bytes: number) => boolean;
  /** Whether the client has left so much unread that nothing more may be made for it. */
  readonly isOverdrawn: (client: HasNetwork) => boolean;
  /** Counts an answer, and cuts the connection when its client is slower than the rate. */
  readonly watch: (response: ServerResponse, rate: DrainRate, client: HasNetwork, bytes: number) => void;
  readonly bytes: () => number;
  readonly close: () => void;
}

/** The bytes that the kernel has taken from the process. */
function takenBy(socket: Socket): number {
  const { _bytesDispatched: dispatched, _handle: handle } = socket as {
    _bytesDispatched?: number;
    _handle?: { writeQueueSize?: number } | null;
  };
  return dispatched !== undefined && handle?.writeQueueSize !== undefined
    ? dispatched - handle.writeQueueSize
    : socket.bytesWritten - socket.writableLength;
}

/** @param maxPage bytes: the budget has room for some pages of this size */
export function createUnsent(maxPage: number): Unsent {
  const total = Math.max(LEAST_TOTAL, maxPage * 2);
  const budget = new ByteBudget(total);
  const deliveries = new Set<SlowResponse>();
  let checked = performance.now();

  function check(): void {
    const now = performance.now();
    // A pause of the process itself is not the clients' fault.
    const seconds = Math.min(now - checked, 2 * INTERVAL) / 1000;
    checked = now;
    for (const delivery of deliveries) {
      const { socket, rate } = delivery;
      const taken = takenBy(socket);
      const ahead = delivery.left + (taken - delivery.taken) / rate.bytesPerSecond;
      delivery.taken = taken;
      delivery.left = Math.min(ahead, rate.maxCreditSeconds);
      // With nothing to take the client waits for the service.
      if (socket.writableLength > 0) delivery.left -= seconds;
      if (delivery.left < 0) socket.destroy();
    }
  }
  const timer = setInterval(check, INTERVAL).unref();

  return {
    fits: (client, bytes) => bytes <= LARGE || budget.excess(client.network, bytes) === undefined,
    isOverdrawn: (client) => budget.heldBy(client.network) > total,
    watch: (response, rate, client, bytes) => {
      const { socket } = response;
      if (!socket || response.closed) return;
      const delivery = { socket, rate, taken: takenBy(socket), left: rate.seconds };
      deliveries.add(delivery);
      const { network } = client;
      budget.take(network, bytes);
      response.once('close', () => {
        deliveries.delete(delivery);
        budget.release(network, bytes);
      });
    },
    bytes: () => budget.used,
    close: () => clearInterval(timer),
  };
}
