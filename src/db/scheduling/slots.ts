import { Problem, unavailable } from '../../errors.ts';
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
  /** The detail of the 429 for a client that rests. */
  readonly restMessage?: string;
}

/** Work that has a slot. */
export interface Holder {
  /** Whether it makes so little use of its slot that another client may have it. */
  readonly isIdle: () => boolean;
  /** Ends the work; its slot must be given back at once. */
  readonly end: () => void;
}

interface Entry {
  readonly requester: Requester;
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

/** How often an idle holder is looked for while a client waits (milliseconds). */
const CHECK = 250;

/** A few places for work that lasts: streams and transactions. Clients get free places in turn. */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #waiting = new FairQueue<Entry>();
  readonly #byClient = new Map<string, number>();
  readonly #holders = new Map<Holder, Origin>();
  /** When clients that rest may take a slot again. */
  readonly #rests = new Map<string, number>();
  #taken = 0;

  constructor(limits: SlotLimits) {
    this.#limits = limits;
  }

  /**
   * Takes a slot, after a short wait if none is free.
   * @param holder gives way to clients that wait; without it nothing ends the work
   * @returns gives it back; calling it again does nothing
   * @throws Problem 429 for a client that rests or has all slots it may have, 503 when none becomes free; ClientGone
   */
  async enter(requester: Requester, holder?: Holder): Promise<() => void> {
    const { key, origin } = requester;
    if (this.#rests.has(key)) throw this.#restRefusal(key);
    if ((this.#byClient.get(key) ?? 0) >= this.#limits.perClient[origin])
      throw new Problem(429, this.#limits.ownMessage, { headers: { 'Retry-After': String(RETRY_AFTER) } });
    if (this.#taken < this.#limits.most[origin]) this.#take(key);
    else await this.#wait(requester);
    let isTaken = true;
    if (holder) this.#holders.set(holder, origin);
    return () => {
      if (!isTaken) return;
      isTaken = false;
      if (holder) this.#holders.delete(holder);
      this.#leave(key);
    };
  }

  /** Refuses the client for some time, which includes those of its requests that wait. */
  rest(key: string, milliseconds: number): void {
    const until = performance.now() + milliseconds;
    if (until <= (this.#rests.get(key) ?? 0)) return;
    this.#rests.set(key, until);
    setTimeout(() => {
      if (this.#rests.get(key) === until) this.#rests.delete(key);
    }, milliseconds).unref();
    for (const [client, entry] of [...this.#waiting.entries()])
      if (client === key) entry.refuse(this.#restRefusal(key));
  }

  #restRefusal(key: string): Problem {
    const left = Math.max(0, (this.#rests.get(key) ?? 0) - performance.now());
    const seconds = Math.max(1, Math.ceil(left / 1000));
    return new Problem(429, this.#limits.restMessage ?? this.#limits.ownMessage, {
      headers: { 'Retry-After': String(seconds) },
    });
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
          clearInterval(check);
          stopListening();
          this.#take(key);
          resolve();
        },
        refuse: (error) => {
          stopListening();
          leave(error);
        },
      };
      const leave = (error: Error): void => {
        if (!this.#waiting.remove(key, entry)) return;
        clearTimeout(timer);
        clearInterval(check);
        reject(error);
      };
      const timer = setTimeout(() => {
        entry.refuse(unavailable(this.#limits.fullMessage, RETRY_AFTER));
      }, MAX_WAIT);
      const check = setInterval(() => this.#endIdle(requester), CHECK);
      this.#waiting.push(key, entry);
      const stopListening = requester.onGone(() => leave(new ClientGone()));
      this.#endIdle(requester);
    });
  }

  /** Ends one idle holder of the same origin or a lower one, if that makes room for the client that waits. */
  #endIdle({ origin }: Requester): void {
    const { most } = this.#limits;
    if (this.#taken > most[origin]) return;
    for (const [holder, held] of this.#holders)
      if (most[held] <= most[origin] && holder.isIdle()) return holder.end();
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
