// Limits how many connections are open at once, because each of them takes memory.
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { ClientQueue } from '../../db/scheduling/client-queue.ts';
import { clientNetwork, widestNetwork } from '../message/client-networks.ts';
import { memoryLimit } from './overload.ts';

/** Bytes that a connection takes while it sends the largest head: Node keeps it in two forms. */
const CONNECTION_SIZE = 64 * 1024;
/** The part of the memory that connections may take. */
const SHARE = 1 / 4;
const MIN_CONNECTIONS = 1_024;
/** Beyond this number, one is closed for each new one, if possible an idle one: see `#closeOne`. */
const MAX_CONNECTIONS = 4_096;
/** Files of a process beside its connections to clients: the program, the log, readers of metrics, and connections to PostgreSQL. */
const OTHER_FILES = 200;
/** How many connections of a network to search for an idle one. */
const MAX_SEARCHED = 64;

/** How many files this process may have open; Infinity if the system does not say. Node.js raises the limit to its maximum. */
export function openFileLimit(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return Number(limit ?? Infinity);
  } catch {
    return Infinity;
  }
}

/**
 * Maximum open connections of one of several processes.
 * @param memory bytes that all processes may use
 * @param files that this process may have open. Some must stay free: the service accepts a connection before it closes another.
 */
export function maxConnections(processes = 1, memory = memoryLimit(), files = openFileLimit()): number {
  const fitting = Math.floor((memory * SHARE) / CONNECTION_SIZE / processes);
  const affordable = Math.min(MAX_CONNECTIONS, Math.max(MIN_CONNECTIONS, fitting));
  return Math.max(1, Math.min(affordable, files - OTHER_FILES));
}

/** The warning about a limit of open files that lowers the number of connections; undefined if it does not. */
export function openFilesWarning(processes: number, files = openFileLimit()): string | undefined {
  const wanted = maxConnections(processes, undefined, Infinity);
  const possible = maxConnections(processes, undefined, files);
  if (possible === wanted) return undefined;
  return `only ${possible} connections at once, because a process may have ${files} files open; allow ${wanted + OTHER_FILES} (LimitNOFILE of systemd, ulimit -n)`;
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

  /** Closes a connection of the network with the most: the oldest idle one among the first ones, else the newest. */
  #closeOne(): void {
    const key = this.longestKey(0) ?? '';
    let one: Socket | undefined;
    let searched = 0;
    // A copy of thousands of sockets for each new connection would occupy the garbage collector.
    for (const socket of this.byClient.get(key) ?? []) {
      one = socket;
      if (searched++ < MAX_SEARCHED && !this.#isBusy(socket)) break;
    }
    if (!one) return;
    this.remove(key, one); // `close` is emitted later.
    one.destroy();
  }
}
