// A queue that is fair between groups of clients, and between the clients of a group.
import { FairQueue } from '../../db/scheduling/fair-queue.ts';

/** Where an entry waits: groups take turns, and within a group its clients take turns. */
export interface QueuePosition {
  readonly group: string;
  readonly client: string;
}

/** A queue that is fair between groups and between the clients of a group. A group with many clients delays only itself. */
export class GroupedQueue<T> {
  /** In the order in which the groups are served next. */
  readonly #groups = new Map<string, FairQueue<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many waiting entries are served before a new one of this client. */
  ahead({ group, client }: QueuePosition): number {
    const queue = this.#groups.get(group);
    const groups = this.#groups.size + (queue ? 0 : 1);
    return Math.min(this.#size, (queue?.ahead(client) ?? 0) * groups + groups - 1);
  }

  push({ group, client }: QueuePosition, entry: T): void {
    const queue = this.#groups.get(group) ?? new FairQueue<T>();
    queue.push(client, entry);
    this.#groups.set(group, queue);
    this.#size += 1;
  }

  remove({ group, client }: QueuePosition, entry: T): void {
    const queue = this.#groups.get(group);
    if (!queue?.remove(client, entry)) return;
    this.#size -= 1;
    if (queue.size === 0) this.#groups.delete(group);
  }

  /** Takes the oldest entry of the next client of the next group. */
  shift(): T | undefined {
    for (const [group, queue] of this.#groups) {
      const entry = queue.shift(() => true);
      this.#groups.delete(group);
      if (queue.size > 0) this.#groups.set(group, queue);
      if (entry === undefined) continue;
      this.#size -= 1;
      return entry;
    }
    return undefined;
  }

  /**
   * The entry to drop from a full queue in favor of a new one: the last of the largest group. Undefined when the new entry's
   * group would become as large.
   */
  displacedBy({ group: newGroup }: QueuePosition): T | undefined {
    let largest: FairQueue<T> | undefined;
    for (const group of this.#groups.values()) if (group.size > (largest?.size ?? 0)) largest = group;
    if (!largest || largest.size <= (this.#groups.get(newGroup)?.size ?? 0) + 1) return undefined;
    let last: T | undefined;
    for (const [, entry] of largest.entries()) last = entry;
    return last;
  }
}
