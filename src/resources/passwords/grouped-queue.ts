import { FairQueue } from '../../db/scheduling/fair-queue.ts';

/** Where an entry belongs: groups take turns, and so do the clients of each group. */
export interface QueuePosition {
  readonly group: string;
  readonly client: string;
}

/** A queue that is fair twice, so that a group with many clients delays only itself. */
export class GroupedQueue<T> {
  /** Groups are in the order in which they are served next. */
  readonly #groups = new Map<string, FairQueue<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many entries are served before a new one of this client. */
  ahead({ group, client }: QueuePosition): number {
    const own = this.#groups.get(group);
    const groups = this.#groups.size + (own ? 0 : 1);
    return Math.min(this.#size, (own?.ahead(client) ?? 0) * groups + groups - 1);
  }

  push({ group, client }: QueuePosition, entry: T): void {
    const own = this.#groups.get(group) ?? new FairQueue<T>();
    own.push(client, entry);
    this.#groups.set(group, own);
    this.#size += 1;
  }

  remove({ group, client }: QueuePosition, entry: T): void {
    const own = this.#groups.get(group);
    if (!own?.remove(client, entry)) return;
    this.#size -= 1;
    if (own.size === 0) this.#groups.delete(group);
  }

  /** Takes the oldest entry of the next client of the next group. */
  shift(): T | undefined {
    for (const [group, own] of this.#groups) {
      const entry = own.shift(() => true);
      this.#groups.delete(group);
      if (own.size > 0) this.#groups.set(group, own);
      if (entry === undefined) continue;
      this.#size -= 1;
      return entry;
    }
    return undefined;
  }

  /** The entry that makes room for a new one: the last of the largest group, unless the new one's group would be as large. */
  displacedBy({ group }: QueuePosition): T | undefined {
    let largest: FairQueue<T> | undefined;
    for (const one of this.#groups.values()) if (one.size > (largest?.size ?? 0)) largest = one;
    if (!largest || largest.size <= (this.#groups.get(group)?.size ?? 0) + 1) return undefined;
    let last: T | undefined;
    for (const [, entry] of largest.entries()) last = entry;
    return last;
  }
}
