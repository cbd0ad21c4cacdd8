/** Memory that clients can make the process hold: a total, and a share that one client may have of it (bytes). */
export class Budget {
  readonly #total: number;
  readonly #share: number;
  readonly #byClient = new Map<string, number>();
  #used = 0;

  constructor(total: number, share: number) {
    this.#total = total;
    this.#share = share;
  }

  get used(): number {
    return this.#used;
  }

  /** What keeps the client from having so much more; a client that has nothing yet gets any amount below the total. */
  excess(client: string, bytes: number): 'share' | 'total' | undefined {
    const has = this.#byClient.get(client) ?? 0;
    if (has > 0 && has + bytes > this.#share) return 'share';
    return this.#used > 0 && this.#used + bytes > this.#total ? 'total' : undefined;
  }

  take(client: string, bytes: number): void {
    this.#used += bytes;
    this.#byClient.set(client, (this.#byClient.get(client) ?? 0) + bytes);
  }

  release(client: string, bytes: number): void {
    this.#used -= bytes;
    const left = (this.#byClient.get(client) ?? 0) - bytes;
    if (left > 0) this.#byClient.set(client, left);
    else this.#byClient.delete(client);
  }
}
