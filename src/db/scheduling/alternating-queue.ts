// A queue that serves users and anonymous clients in turn, so that many anonymous clients do not delay users.
import { TimeQueue } from './time-queue.ts';

/** Two queues that are served in turn. Within each queue, clients get equal time. */
export class AlternatingQueue<T> {
  readonly #users = new TimeQueue<T>();
  readonly #others = new TimeQueue<T>();
  #isOthersTurn = false;

  /** The queue of the users, or that of the other clients. */
  of(isUser: boolean): TimeQueue<T> {
    return isUser ? this.#users : this.#others;
  }

  get size(): number {
    return this.#users.size + this.#others.size;
  }

  /** How many clients have entries. */
  get clients(): number {
    return this.#users.clients + this.#others.clients;
  }

  /**
   * Estimates how many entries are served before a new one of this client.
   * @param mean milliseconds that an entry is expected to take
   */
  ahead(key: string, isUser: boolean, mean: number): number {
    const queue = this.of(isUser);
    const sameQueue = queue.ahead(key, mean);
    return sameQueue + Math.min(this.size - queue.size, sameQueue + 1);
  }

  /**
   * Takes the next entry. The caller must then call `beginWork` on the queue of its client.
   * @param mayRun skips clients for whose oldest entry it is false
   * @param mayBePassed whether later entries of the same client may overtake an entry that may not run
   */
  shift(mayRun: (entry: T) => boolean, mayBePassed?: (entry: T) => boolean): T | undefined {
    this.#isOthersTurn = !this.#isOthersTurn;
    const take = (isUser: boolean): T | undefined => {
      const queue = this.of(isUser);
      return queue.size === 0 ? undefined : queue.shift(mayRun, mayBePassed);
    };
    return take(!this.#isOthersTurn) ?? take(this.#isOthersTurn);
  }

  /**
   * Takes the newest entry of the client with the most entries in the longer queue, in favor of an entry of this client.
   * In this client's own queue, a client with as few entries as this one loses none.
   */
  displace(key: string, isUser: boolean): T | undefined {
    const own = this.of(isUser);
    const other = this.of(!isUser);
    return other.size > own.size ? other.takeFromLongest(0) : own.takeFromLongest(own.sizeOf(key) + 1);
  }

  /** All entries with their queues, in no particular order. */
  *entries(): Iterable<readonly [queue: TimeQueue<T>, key: string, entry: T]> {
    for (const queue of [this.#users, this.#others])
      for (const [key, entry] of queue.entries()) yield [queue, key, entry];
  }
}
