/** The part of the total that a client gets as long as there is room at all: enough for an ordinary request. */
const ORDINARY = 1 / 64;

/**
 * Memory that clients can make the process hold (bytes). Shares shrink with the number of clients that hold more than an ordinary
 * request needs: each may have total / (number + 1), and must leave as much for those who come next.
 */
export class ByteBudget {
  readonly #total: number;
  readonly #ordinary: number;
  readonly #byClient = new Map<string, number>();
  /** Clients that hold more than an ordinary request needs. */
  #large = 0;
  #used = 0;

  constructor(total: number) {
    this.#total = total;
    this.#ordinary = total * ORDINARY;
  }

  get used(): number {
    return this.#used;
  }

  /** The bytes that the client holds. */
  heldBy(client: string): number {
    return this.#byClient.get(client) ?? 0;
  }

  /** What keeps the client from having so much more: its share, or what all have. A single client may exceed the total. */
  excess(client: string, bytes: number): 'share' | 'total' | undefined {
    if (this.#used === 0) return undefined;
    const before = this.#byClient.get(client) ?? 0;
    const has = before + bytes;
    const free = this.#total - this.#used - bytes;
    if (has <= this.#ordinary) return free >= 0 ? undefined : 'total';
    const share = this.#total / (this.#large + (before > this.#ordinary ? 1 : 2));
    if (has > share) return before > 0 ? 'share' : 'total';
    return free >= share ? undefined : 'total';
  }

  take(client: string, bytes: number): void {
    this.#change(client, bytes);
  }

  release(client: string, bytes: number): void {
    this.#change(client, -bytes);
  }

  #change(client: string, bytes: number): void {
    const before = this.#byClient.get(client) ?? 0;
    const has = before + bytes;
    this.#used += bytes;
    this.#large += Number(has > this.#ordinary) - Number(before > this.#ordinary);
    if (has > 0) this.#byClient.set(client, has);
    else this.#byClient.delete(client);
  }
}
