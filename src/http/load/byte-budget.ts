// Shares a fixed amount of memory among clients.
import { increment } from '../../db/counts.ts';

/** The part of the total that a client may always hold while there is room: enough for an ordinary request. */
const ORDINARY_SHARE = 1 / 64;

/**
 * A client may hold as many bytes as are then still free: one client half of the total, two a third each, and so on (a dynamic
 * threshold, as in the buffers of switches). So there is room for the next client. While nothing is held, it may hold more.
 */
export class ByteBudget {
  readonly #total: number;
  readonly #held = new Map<string, number>();
  #used = 0;

  constructor(total: number) {
    this.#total = total;
  }

  get used(): number {
    return this.#used;
  }

  get isExceeded(): boolean {
    return this.#used > this.#total;
  }

  /** The limit that the additional bytes would exceed, if any: the client's own share, or what others leave of the total. */
  exceededLimit(client: string, bytes: number): 'share' | 'total' | undefined {
    if (this.#used === 0) return undefined;
    const before = this.#held.get(client) ?? 0;
    const free = this.#total - this.#used - bytes;
    const limit = before + bytes <= this.#total * ORDINARY_SHARE ? 0 : before + bytes;
    if (free >= limit) return undefined;
    // A client that holds nothing is not at fault: a request of this size fits when others hold less.
    return before > 0 ? 'share' : 'total';
  }

  take(client: string, bytes: number): void {
    this.#used += bytes;
    increment(this.#held, client, bytes);
  }

  release(client: string, bytes: number): void {
    this.take(client, -bytes);
  }

  /** The client that holds most. */
  largest(): string | undefined {
    let largest: string | undefined;
    let most = 0;
    for (const [client, bytes] of this.#held) if (bytes > most) [largest, most] = [client, bytes];
    return largest;
  }
}
