import { Problem, unavailable } from '../errors.ts';
import { FairQueue } from './fair-queue.ts';
import { ClientGone, type Requester } from './requester.ts';

/** Milliseconds that a client waits for a slot. */
const MAX_WAIT = 2_000;
/** Seconds after which a refused client should try again. */
const RETRY_AFTER = 10;

type Origin = Requester['origin'];

export interface SlotLimits {
  /** How many slots may be taken, by this origin and those with lower limits together. */
  readonly most: Readonly<Record<Origin, number>>;
  /** How many of them one client may take. */
  readonly perClient: Readonly<Record<Origin, number>>;
  /** The detail of the 429 for a client that has taken its slots. */
  readonly ownMessage: string;
  /** The detail of the 503 when all slots are taken. */
  readonly fullMessage: string;
}

interface Entry {
  readonly requester: Requester;
  readonly start: () => void;
}

/** A few places for work that lasts: streams and transactions. Clients get free places in turn. */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #waiting = new FairQueue<Entry>();
  readonly #byClient = new Map<string, number>();
  #taken = 0;

  constructor(limits: SlotLimits) {
    this.#limits = limits;
  }

  /**
   * Takes a slot, after a short wait if none is free.
   * @returns gives it back; calling it again does nothing
   * @throws Problem 429 for a client that has all slots it may have, 503 when none becomes free; ClientGone
   */
  async enter(requester: Requester): Promise<() => void> {
    const { key, origin } = requester;
    if ((this.#byClient.get(key) ?? 0) >= this.#limits.perClient[origin])
      throw new Problem(429, this.#limits.ownMessage, { headers: { 'Retry-After': String(RETRY_AFTER) } });
    if (this.#taken < this.#limits.most[origin]) this.#take(key);
    else await this.#wait(requester);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#leave(key);
    };
  }

  #take(key: string): void {
    this.#taken += 1;
    this.#byClient.set(key, (this.#byClient.get(key) ?? 0) + 1);
  }

  #wait(requester: Requester): Promise<void> {
    requester.park();
    const { key } = requester;
    return new Promise((resolve, reject) => {
      const entry: Entry = {
        requester,
        start: () => {
          clearTimeout(timer);
          stopListening();
          this.#take(key);
          resolve();
        },
      };
      const leave = (error: Error): void => {
        if (!this.#waiting.remove(key, entry)) return;
        clearTimeout(timer);
        reject(error);
      };
      const timer = setTimeout(() => {
        stopListening();
        leave(unavailable(this.#limits.fullMessage, RETRY_AFTER));
      }, MAX_WAIT);
      this.#waiting.push(key, entry);
      const stopListening = requester.onGone(() => leave(new ClientGone()));
    });
  }

  #leave(key: string): void {
    this.#taken -= 1;
    const left = (this.#byClient.get(key) ?? 1) - 1;
    if (left > 0) this.#byClient.set(key, left);
    else this.#byClient.delete(key);
    for (const [, entry] of this.#waiting.entries()) {
      const { requester } = entry;
      if (this.#taken >= this.#limits.most[requester.origin]) continue;
      if ((this.#byClient.get(requester.key) ?? 0) >= this.#limits.perClient[requester.origin]) continue;
      this.#waiting.remove(requester.key, entry);
      return entry.start();
    }
  }
}
