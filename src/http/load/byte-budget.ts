// Shares a fixed amount of memory among clients.
import { widestNetwork } from '../message/client-networks.ts';

/** The part of the total that a client may always hold while there is room: enough for an ordinary request. */
const ORDINARY_SHARE = 1 / 64;
/** The part of the total that one network can hold at most. Exception: see `exceededLimit`. */
const MAX_SHARE = 1 / 2;
/** The part of its /48's share that an IPv6 client may hold. The rest is for ordinary requests of its neighbors. */
const SHARE_OF_NETWORK = 15 / 16;

/** The total of a budget in which any client may hold this many bytes beside clients with ordinary requests. */
export const totalFor = (bytes: number): number => bytes / (MAX_SHARE * SHARE_OF_NETWORK);

/**
 * Divides a total number of bytes among clients, so that one client cannot use all of it. While n networks hold more than an
 * ordinary request needs, each of them may hold total / (n + 1), and must leave as much free for the next. A network is an
 * IPv4 address, or a /48 of IPv6: one customer can have all of its 65,536 clients.
 */
export class ByteBudget {
  readonly #total: number;
  readonly #ordinary: number;
  /** The bytes of clients and of /48 networks. */
  readonly #held = new Map<string, number>();
  /** Number of networks that hold more than an ordinary request needs. */
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
    return this.#held.get(client) ?? 0;
  }

  /**
   * The limit that the additional bytes would exceed, if any: the client's own share, or what others leave of the total. While
   * nothing is held, a client may exceed both.
   */
  exceededLimit(client: string, bytes: number): 'share' | 'total' | undefined {
    if (this.#used === 0) return undefined;
    const network = widestNetwork(client);
    const before = this.heldBy(network);
    const after = before + bytes;
    const free = this.#total - this.#used - bytes;
    if (this.heldBy(client) + bytes <= this.#ordinary)
      return free >= 0 && after <= this.#total * MAX_SHARE ? undefined : 'total';
    const share = this.#total / (this.#large + (before > this.#ordinary ? 1 : 2));
    const allowed = network === client ? share : share * SHARE_OF_NETWORK;
    // A client that holds nothing is not at fault: a request of this size fits when others hold less.
    if (after > allowed) return this.heldBy(client) > 0 ? 'share' : 'total';
    return free >= share ? undefined : 'total';
  }

  take(client: string, bytes: number): void {
    const network = widestNetwork(client);
    const before = this.heldBy(network);
    this.#used += bytes;
    this.#large += Number(before + bytes > this.#ordinary) - Number(before > this.#ordinary);
    this.#change(network, bytes);
    if (network !== client) this.#change(client, bytes);
  }

  release(client: string, bytes: number): void {
    this.take(client, -bytes);
  }

  #change(key: string, bytes: number): void {
    const held = this.heldBy(key) + bytes;
    if (held > 0) this.#held.set(key, held);
    else this.#held.delete(key);
  }
}
