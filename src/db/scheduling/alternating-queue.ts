import { TimeQueue } from './time-queue.ts';

/** Two queues that take turns, so that many strangers do not delay users. Within each, clients get equal time. */
export class AlternatingQueue<T> {
  readonly #known = new TimeQueue<T>();
  readonly #strangers = new TimeQueue<T>();
  #strangersNext = false;

  /** The queue of the users, or the one of the strangers. */
  of(isKnown: boolean): TimeQueue<T> {
    return isKnown ? this.#known : this.#strangers;
  }

  get size(): number {
    return this.#known.size + this.#strangers.size;
  }

  /** How many clients have entries. */
  get clients(): number {
    return this.#known.clients + this.#strangers.clients;
  }

  /**
   * How many entries are probably served before a new one of this client.
   * @param mean milliseconds that an entry is expected to take
   */
  ahead(key: string, isKnown: boolean, mean: number): number {
    const queue = this.of(isKnown);
    const sameKind = queue.ahead(key, mean);
    return sameKind + Math.min(this.size - queue.size, sameKind + 1);
  }

  /**
   * Takes the next entry. `begin` must follow on the queue of its client.
   * @param mayRun skips clients for which it is false
   */
  shift(mayRun: (key: string, isKnown: boolean) => boolean): T | undefined {
    this.#strangersNext = !this.#strangersNext;
    return this.#take(!this.#strangersNext, mayRun) ?? this.#take(this.#strangersNext, mayRun);
  }

  #take(isKnown: boolean, mayRun: (key: string, isKnown: boolean) => boolean): T | undefined {
    const queue = this.of(isKnown);
    return queue.size === 0 ? undefined : queue.shift((key) => mayRun(key, isKnown));
  }

  /** All entries with their queues, in no particular order. */
  *entries(): Iterable<readonly [queue: TimeQueue<T>, key: string, entry: T]> {
    for (const queue of [this.#known, this.#strangers])
      for (const [key, entry] of queue.entries()) yield [queue, key, entry];
  }
}
