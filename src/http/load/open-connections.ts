// Limits how many connections are open at once, because each of them takes memory.
import type { Socket } from 'node:net';
import { ClientQueue } from '../../db/scheduling/client-queue.ts';
import { clientNetwork, widestNetwork } from '../message/client-networks.ts';
import { memoryLimit } from './overload.ts';

/** Bytes that a connection takes while it sends the largest head: Node keeps it in two forms. */
const CONNECTION_SIZE = 64 * 1024;
/** The part of the memory that connections may take. */
const SHARE = 1 / 4;
const MIN_CONNECTIONS = 1_024;
/** Beyond these, idle connections are closed early, which clients bear. */
const MAX_CONNECTIONS = 4_096;
/** How many connections of a network are searched for an idle one. */
const SEARCHED = 64;

/** The maximum of open connections of one of several processes. */
export function maxConnections(processes = 1, memory = memoryLimit()): number {
  const fitting = Math.floor((memory * SHARE) / CONNECTION_SIZE / processes);
  return Math.min(MAX_CONNECTIONS, Math.max(MIN_CONNECTIONS, fitting));
}

/** All open connections, by the network of their client; for IPv6 its /48. */
export class OpenConnections extends ClientQueue<Socket> {
  readonly #max: number;
  readonly #isBusy: (socket: Socket) => boolean;
  readonly #known = new WeakSet<Socket>();

  /** @param isBusy whether the connection has an unanswered request */
  constructor(max: number, isBusy: (socket: Socket) => boolean) {
    super();
    this.#max = max;
    this.#isBusy = isBusy;
  }

  /**
   * Adds a connection. Beyond the maximum, one of the network with the most is closed.
   * @returns whether the connection is new: after an Upgrade, the server gets the same one again
   */
  add(socket: Socket): boolean {
    if (this.#known.has(socket)) return false;
    this.#known.add(socket);
    const network = widestNetwork(clientNetwork(socket.remoteAddress ?? ''));
    this.push(network, socket);
    socket.once('close', () => this.remove(network, socket));
    if (this.size > this.#max) this.#closeOne();
    return true;
  }

  /** Closes an idle connection, an old one if possible, else the newest. */
  #closeOne(): void {
    const key = this.longestKey(0) ?? '';
    let one: Socket | undefined;
    let searched = 0;
    // A copy of thousands of sockets for each new connection would occupy the garbage collector.
    for (const socket of this.waiting.get(key) ?? []) {
      one = socket;
      if (searched++ < SEARCHED && !this.#isBusy(socket)) break;
    }
    if (!one) return;
    this.remove(key, one); // `close` is emitted later.
    one.destroy();
  }
}
