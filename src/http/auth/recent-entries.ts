// A cache with an expiry time and a limit for each owner. It evicts what was set longest ago.
import { steadyClock } from './steady-clock.ts';

interface Entry<Value> {
  readonly owner: string;
  readonly value: Value;
  /** In milliseconds, as of `steadyClock`. */
  readonly expires: number;
}

export interface Bounds {
  readonly maxEntries: number;
  /** Limits the entries of one owner, so that one account cannot evict the entries of others. */
  readonly maxPerOwner: number;
  /** Milliseconds since the last `set` or `renew`. */
  readonly lifetime: number;
}

/** Milliseconds. */
const RENEWAL_INTERVAL = 1_000;

/** A bounded cache. At a limit, the least recently set entry of that owner, or of all owners, is evicted. */
export class RecentEntries<Value> {
  readonly #bounds: Bounds;
  readonly #entries = new Map<string, Entry<Value>>();
  readonly #keysOf = new Map<string, Set<string>>();

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    if (entry.expires > steadyClock.now()) return entry.value;
    this.delete(key);
    return undefined;
  }

  /** The values, the least recently set first. They may have expired. */
  *values(): Generator<Value, void> {
    for (const { value } of this.#entries.values()) yield value;
  }

  /**
   * Adds an entry, or replaces and renews it.
   * @param age milliseconds since the value was set in another process
   */
  set(key: string, owner: string, value: Value, age = 0): void {
    this.delete(key);
    const ownKeys = this.#keysOf.get(owner);
    if (ownKeys && ownKeys.size >= this.#bounds.maxPerOwner) this.#deleteFirst(ownKeys);
    if (this.#entries.size >= this.#bounds.maxEntries) this.#deleteFirst(this.#entries);
    this.#entries.set(key, { owner, value, expires: steadyClock.now() + this.#bounds.lifetime - age });
    const keys = this.#keysOf.get(owner) ?? new Set();
    this.#keysOf.set(owner, keys.add(key));
  }

  /** Renews an entry if it was not renewed within the last second: a client may use it thousands of times. */
  renew(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry || entry.expires - steadyClock.now() > this.#bounds.lifetime - RENEWAL_INTERVAL) return;
    this.set(key, entry.owner, entry.value);
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    const keys = this.#keysOf.get(entry.owner);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysOf.delete(entry.owner);
  }

  #deleteFirst(keys: { keys: () => IterableIterator<string> }): void {
    const first = keys.keys().next();
    if (!first.done) this.delete(first.value);
  }
}
