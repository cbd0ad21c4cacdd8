// The queue of requests that wait for a busy process.
import { RecentMap } from '../../db/recent-map.ts';
import { FairQueue } from '../../db/scheduling/fair-queue.ts';
import type { HasNetwork } from '../message/message.ts';

/** Requests of clients with short work that start before one of a client with long work. */
const SHORT_IN_A_ROW = 4;
/** Added to a client's score for long and for short work. */
const LONG = 1;
const SHORT = -0.5;
const MAX_SCORE = 3;
/** The minimum score with which a client's work counts as repeatedly long. */
const LONG_FROM = 1.5;
/**
 * Maximum clients whose scores are remembered: more than can wait. With fewer, each could be forgotten before its work counts as
 * long.
 */
const MAX_CLIENTS = 16_384;

/** The properties of a request that admission uses. */
export interface AdmissionRequest extends HasNetwork {
  /** The client whose active requests include this one; undefined if it is not counted by client. */
  countedFor: string | undefined;
  /** Milliseconds of work for it that are not charged yet. */
  uncharged: number;
  /** Whether its work was charged, or had a turn. */
  wasCharged: boolean;
}

/**
 * Clients take turns. Those whose work is repeatedly long have a separate queue, so that a client with short work does not wait for
 * each of them. Work that was long once, for example because another process had the processor, has no effect.
 */
export class RequestQueue<T> {
  readonly #short = new FairQueue<T>();
  readonly #long = new FairQueue<T>();
  /** The scores above 0. */
  readonly #scores = new RecentMap<string, number>(MAX_CLIENTS);
  #shortInARow = 0;

  get size(): number {
    return this.#short.size + this.#long.size;
  }

  sizeOf(key: string): number {
    return this.#short.sizeOf(key) + this.#long.sizeOf(key);
  }

  /** Notes that work of a client was long, or that a request of it was short. */
  note(key: string, isLong: boolean): void {
    const before = this.#scores.get(key) ?? 0;
    const score = Math.min(MAX_SCORE, before + (isLong ? LONG : SHORT));
    if (score > 0) this.#scores.set(key, score);
    else if (before > 0) this.#scores.delete(key);
  }

  push(key: string, entry: T): void {
    (this.#hasLongWork(key) ? this.#long : this.#short).push(key, entry);
  }

  /**
   * Takes the next entry.
   * @param mayRun skips clients for which it is false
   */
  shift(mayRun: (key: string) => boolean): T | undefined {
    const isTurnOfLong = this.#shortInARow >= SHORT_IN_A_ROW;
    const first = isTurnOfLong ? this.#long.shift(mayRun) : this.#short.shift(mayRun);
    this.#shortInARow = isTurnOfLong || first === undefined ? 0 : this.#shortInARow + 1;
    return first ?? (isTurnOfLong ? this.#short : this.#long).shift(mayRun);
  }

  /** Takes the newest entry of the client with the most entries, if these are more than `count`. */
  takeFromLongest(count: number): T | undefined {
    const long = this.#long.takeFromLongest(Math.max(count, this.#short.longest));
    return long ?? this.#short.takeFromLongest(count);
  }

  #hasLongWork(key: string): boolean {
    return (this.#scores.get(key) ?? 0) >= LONG_FROM;
  }
}
