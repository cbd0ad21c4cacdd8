// A queue that gives its clients equal time, not equal turns (start-time fair queueing).
import { ClientQueue } from './client-queue.ts';

/** Maximum clients that are remembered. Those served only once are forgotten first, then those not served for longest. */
const MAX_KNOWN = 512;
/** Maximum lead of known clients over new ones, or the reverse (milliseconds). */
const MAX_LEAD = 100;

interface KnownClient {
  /** The time that the client has had (milliseconds). */
  used: number;
  /** The number of entries that had begun when its latest one began. */
  lastServed: number;
  isRepeated: boolean;
}

/** The least time that an entry counts for (milliseconds), so that known and new clients alternate even at no cost. */
const MIN_COST = 0.01;

/**
 * The next entry belongs to the client that has had the least time. So a client with brief work hardly waits for clients with
 * long work.
 *
 * A client cannot save up time: when it begins to wait, it counts as having had as much time as the client served last.
 *
 * New clients share half of the time in order of arrival. So a client with many addresses, each used once, cannot shut out
 * known clients.
 */
export class TimeQueue<T> extends ClientQueue<T> {
  readonly #known = new Map<string, KnownClient>();
  /** The waiting clients that are known, and the new ones in order of arrival: a search for one kind does not visit the other. */
  readonly #waitingKnown = new Set<string>();
  readonly #waitingNew = new Set<string>();
  /** How many entries have begun. */
  #served = 0;
  /** The used time of the known client that was served last. */
  #virtualTime = 0;
  /** The client whose entry was taken last and has not begun. */
  #taken: string | undefined;
  /** The time that known clients have had beyond that of new ones; negative if they had less (milliseconds). */
  #lead = 0;

  /**
   * Estimates how many entries are served before a new one of this client.
   * @param mean milliseconds that an entry is expected to take
   */
  ahead(key: string, mean: number): number {
    const isKnown = this.#known.has(key);
    const own = this.sizeOf(key);
    const start = this.#usedBy(key) + own * mean;
    let sameKind = own;
    let otherKind = 0;
    for (const [other, entries] of this.byClient) {
      if (other === key) continue;
      if (this.#known.has(other) !== isKnown) otherKind += entries.size;
      else if (!isKnown) sameKind += 1;
      else {
        const before = start - this.#usedBy(other);
        if (before >= 0) sameKind += Math.min(entries.size, 1 + Math.floor(before / mean));
      }
    }
    return sameKind + Math.min(otherKind, sameKind + 1);
  }

  override push(key: string, entry: T): void {
    const client = this.byClient.has(key) ? undefined : this.#known.get(key);
    if (client) client.used = Math.max(this.#virtualTime, client.used);
    if (!this.byClient.has(key)) (client ? this.#waitingKnown : this.#waitingNew).add(key);
    super.push(key, entry);
  }

  override remove(key: string, entry: T): boolean {
    const isRemoved = super.remove(key, entry);
    if (isRemoved && !this.byClient.has(key)) {
      this.#waitingKnown.delete(key);
      this.#waitingNew.delete(key);
    }
    return isRemoved;
  }

  /**
   * Takes the next entry. The caller must then call `beginWork`.
   * @param mayRun skips clients for whose oldest entry it is false
   * @param mayBePassed whether later entries of the same client may overtake an entry that may not run
   */
  shift(mayRun: (entry: T) => boolean, mayBePassed: (entry: T) => boolean = () => false): T | undefined {
    const isReady = (key: string): boolean => this.firstReady(key, mayRun, mayBePassed) !== undefined;
    let least = Infinity;
    let known: string | undefined;
    for (const key of this.#waitingKnown) {
      const used = this.#known.get(key)?.used ?? Infinity;
      if (used < least && isReady(key)) [known, least] = [key, used];
    }
    let newClient: string | undefined;
    for (const key of this.#waitingNew) {
      if (!isReady(key)) continue;
      newClient = key;
      break;
    }
    const next = this.#lead >= 0 ? (newClient ?? known) : (known ?? newClient);
    if (next === undefined) return undefined;
    const entry = this.firstReady(next, mayRun, mayBePassed);
    if (entry === undefined) return undefined;
    this.#taken = next;
    this.remove(next, entry);
    return entry;
  }

  /**
   * Records that work of a client begins, from the queue or at once.
   * @param expected milliseconds that it will take
   */
  beginWork(key: string, expected: number): void {
    const client = this.#known.get(key);
    const used = client && this.#taken === key ? client.used : this.#usedBy(key);
    this.#taken = undefined;
    this.#virtualTime = Math.max(this.#virtualTime, used);
    const cost = Math.max(MIN_COST, expected);
    this.#lead = Math.max(-MAX_LEAD, Math.min(MAX_LEAD, this.#lead + (client ? cost : -cost)));
    this.#served += 1;
    if (client) {
      client.used = used + expected;
      client.lastServed = this.#served;
      client.isRepeated = true;
      return;
    }
    if (this.#known.size >= MAX_KNOWN) this.#forgetOne();
    this.#known.set(key, { used: used + expected, lastServed: this.#served, isRepeated: false });
    if (this.#waitingNew.delete(key)) this.#waitingKnown.add(key);
  }

  /** @param milliseconds that the work took beyond the expected time; negative if it took less */
  correctTime(key: string, milliseconds: number): void {
    const client = this.#known.get(key);
    if (client) client.used += milliseconds;
  }

  /** A client that waits keeps the value from when it began to wait. */
  #usedBy(key: string): number {
    const used = this.#known.get(key)?.used ?? this.#virtualTime;
    return this.byClient.has(key) ? used : Math.max(this.#virtualTime, used);
  }

  /**
   * Forgets a client that was served once, so that a stream of new clients displaces itself; else any. A client that waits is not
   * forgotten: it would lose its place.
   */
  #forgetOne(): void {
    const oldest = this.#oldest((client) => !client.isRepeated) ?? this.#oldest(() => true);
    if (oldest !== undefined) this.#known.delete(oldest);
  }

  #oldest(isWanted: (client: KnownClient) => boolean): string | undefined {
    let oldest: string | undefined;
    let least = Infinity;
    for (const [key, client] of this.#known) {
      if (client.lastServed >= least || !isWanted(client) || this.byClient.has(key)) continue;
      [oldest, least] = [key, client.lastServed];
    }
    return oldest;
  }
}
