// Shares a fixed amount of memory among clients.
import { enclosingNetworks } from '../message/client-networks.ts';

/** The part of the total that a client may always hold while there is room: enough for an ordinary request. */
const ORDINARY_SHARE = 1 / 64;

/**
 * Divides a total number of bytes among clients, so that one client cannot use all of it. While n clients hold more than an
 * ordinary request needs, each of them may hold total / (n + 1), and must leave as much free for the next client.
 */
class Shares {
  readonly #total: number;
  readonly #ordinary: number;
  readonly #byClient = new Map<string, number>();
  /** Number of clients that hold more than an ordinary request needs. */
  #large = 0;
  #used = 0;

  constructor(total: number) {
    this.#total = total;
    this.#ordinary = total * ORDINARY_SHARE;
  }

  get used(): number {
    return this.#used;
  }

  heldBy(client: string): number {
    return this.#byClient.get(client) ?? 0;
  }

  /** The limit that the additional bytes would exceed, if any. The only client may exceed the total. */
  excess(client: string, bytes: number): 'share' | 'total' | undefined {
    if (this.#used === 0) return undefined;
    const before = this.#byClient.get(client) ?? 0;
    const after = before + bytes;
    const free = this.#total - this.#used - bytes;
    if (after <= this.#ordinary) return free >= 0 ? undefined : 'total';
    const share = this.#total / (this.#large + (before > this.#ordinary ? 1 : 2));
    if (after > share) return before > 0 ? 'share' : 'total';
    return free >= share ? undefined : 'total';
  }

  change(client: string, bytes: number): void {
    const before = this.#byClient.get(client) ?? 0;
    const after = before + bytes;
    this.#used += bytes;
    this.#large += Number(after > this.#ordinary) - Number(before > this.#ordinary);
    if (after > 0) this.#byClient.set(client, after);
    else this.#byClient.delete(client);
  }
}

/**
 * Divides a total number of bytes among clients, and for IPv6 also among the /48 networks, of which one customer can have a whole
 * one with 65,536 clients.
 */
export class ByteBudget {
  readonly #clients: Shares;
  readonly #widest: Shares;

  constructor(total: number) {
    this.#clients = new Shares(total);
    this.#widest = new Shares(total);
  }

  get used(): number {
    return this.#clients.used;
  }

  heldBy(client: string): number {
    return this.#clients.heldBy(client);
  }

  /** The limit that the additional bytes would exceed, if any. */
  excess(client: string, bytes: number): 'share' | 'total' | undefined {
    return this.#clients.excess(client, bytes) ?? this.#widest.excess(widestOf(client), bytes);
  }

  take(client: string, bytes: number): void {
    this.#clients.change(client, bytes);
    this.#widest.change(widestOf(client), bytes);
  }

  release(client: string, bytes: number): void {
    this.take(client, -bytes);
  }
}

const widestOf = (client: string): string => enclosingNetworks(client).at(-1) ?? client;
