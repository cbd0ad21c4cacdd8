// Follows the position of the primary: how far a replica must be, and what a write has reached.
import type { Database } from '../connection/database.ts';
import type { Reached } from '../connection/server-guard.ts';
import { DURABLE, WRITTEN } from './server-state.ts';

/** A durable position of the primary, read at `at` or just after it (milliseconds of `performance.now`). */
interface Sample extends Reached {
  readonly at: number;
}

/** How many samples the time of MAX_LAG is divided into. */
const SAMPLES = 100;
/** Milliseconds that the answer to a write waits for its position. */
const MAX_WAIT = 2_000;

export class PrimaryPositions {
  readonly #database: Database;
  /** Milliseconds for which samples are kept. */
  readonly #lifetime: number;
  /** The oldest first, all of one timeline. */
  #samples: Sample[] = [];
  #latest: Sample | undefined;
  /** The next statement that reads the position of writes: it is sent after the answer to the one before it. */
  #next: Promise<Reached> | undefined;
  #running: Promise<unknown> = Promise.resolve();

  /** @param lifetime milliseconds for which the positions are kept */
  constructor(database: Database, lifetime: number) {
    this.#database = database;
    this.#lifetime = lifetime;
  }

  /** Undefined before the first sample. */
  get latest(): Sample | undefined {
    return this.#latest;
  }

  /** Asks the primary for its position. @throws the errors of the database */
  async sample(): Promise<void> {
    const at = performance.now();
    const reached = await this.#database.run(DURABLE, 'quick');
    if (reached.timeline !== this.#latest?.timeline) this.#samples = [];
    this.#latest = { ...reached, at };
    const previous = this.#samples.at(-1);
    if (!previous || at - previous.at >= this.#lifetime / SAMPLES) this.#samples.push(this.#latest);
    while ((this.#samples[0]?.at ?? Infinity) < at - this.#lifetime) this.#samples.shift();
  }

  /**
   * The position that a replica must have replayed for its state to be at most this old.
   * @param age milliseconds
   * @returns undefined if the primary has not answered for that time
   */
  since(age: number): Sample | undefined {
    const earliest = performance.now() - age;
    const sample = this.#samples.find(({ at }) => at >= earliest) ?? this.#latest;
    return sample && sample.at >= earliest ? sample : undefined;
  }

  /** Milliseconds by which a state is older than the primary's, as far as samples go back. */
  lagOf(position: bigint): number {
    const latest = this.#latest;
    if (!latest || position >= latest.position) return 0;
    const passed = this.#samples.findLast((sample) => sample.position <= position) ?? this.#samples[0];
    return performance.now() - (passed ?? latest).at;
  }

  /**
   * The position after a write that has been committed. Writes that end while a statement is running share the next one.
   * @returns undefined if it cannot be read soon
   */
  afterWrite(): Promise<Reached | undefined> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      const reading = this.#database.run(WRITTEN, 'quick');
      this.#running = reading.catch(() => undefined);
      return reading;
    });
    const reading = this.#next.catch(() => undefined);
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), MAX_WAIT);
    });
    return Promise.race([reading, timeout]).finally(() => clearTimeout(timer));
  }
}
