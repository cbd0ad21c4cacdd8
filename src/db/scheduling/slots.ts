// A limited number of slots for long-lasting work: streams and transactions.
import { Problem, unavailable } from '../../errors.ts';
import { FairQueue } from './fair-queue.ts';
import { ClientGone, type Requester } from './requester.ts';
import { increment } from '../counts.ts';

/** Milliseconds that a client waits for a slot, unless the limits say another time. */
const MAX_WAIT = 2_000;
/** Seconds after which a refused client should try again, unless the limits say another time. */
const RETRY_AFTER = 10;

type ClientKind = Requester['clientKind'];

/** Gives a slot back: at once, or when the promise passed to it resolves. Further calls do nothing. */
export type LeaveSlot = (end?: Promise<void>) => void;

/**
 * Takes one of the slots that a client may have in all processes together.
 * @returns undefined if the client has all of them
 * @throws Problem 503 without an answer; ClientGone
 */
export type ClaimSlot = (requester: Requester) => Promise<LeaveSlot | undefined>;

export interface SlotLimits {
  /** How many slots may be taken, by all clients together, before this kind of client gets no more. */
  readonly max: Readonly<Record<ClientKind, number>>;
  /** Maximum slots of one client. */
  readonly perClient: Readonly<Record<ClientKind, number>>;
  /** Limits each client in other processes as well. */
  readonly claim?: ClaimSlot | undefined;
  /** Milliseconds that a client waits for a slot. */
  readonly maxWait?: number;
  /** Seconds after which a refused client should try again. */
  readonly retryAfter?: number;
  /** The detail of the 429 for a client that has all slots it may have. */
  readonly ownMessage: string;
  /** The detail of the 503 when all slots are taken. */
  readonly fullMessage: string;
  /** The detail of the 429 for a client in its cooldown. */
  readonly cooldownMessage?: string;
}

/** Work whose slot another client may need. */
export interface Holder {
  /** Whether it uses its slot so little that another client may have it. */
  readonly isIdle: () => boolean;
  /** Ends the work, which must give its slot back at once. */
  readonly end: () => void;
}

interface Entry {
  readonly requester: Requester;
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

/** How often to look for an idle holder while a client waits (milliseconds). */
const IDLE_CHECK = 250;

/** Clients get free slots in turn. */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #waiting = new FairQueue<Entry>();
  /** How many slots each client has. */
  readonly #takenBy = new Map<string, number>();
  /** How many of its slots each client is about to give back. */
  readonly #ending = new Map<string, number>();
  readonly #holders = new Map<Holder, ClientKind>();
  /** Until when clients may take no slot. */
  readonly #cooldowns = new Map<string, number>();
  #taken = 0;

  constructor(limits: SlotLimits) {
    this.#limits = limits;
  }

  get #retryAfter(): number {
    return this.#limits.retryAfter ?? RETRY_AFTER;
  }

  /**
   * Takes a slot, after a short wait if none is free.
   * @param holder work that may be ended for clients that wait; without it nothing ends the work
   * @throws Problem 429 for a client in its cooldown or with all slots it may have, 503 when none becomes free; ClientGone
   */
  async enter(requester: Requester, holder?: Holder): Promise<LeaveSlot> {
    const { claim } = this.#limits;
    if (!claim) return this.#enter(requester, holder);
    this.#assertAllowed(requester); // spares the other processes the question
    const leaveAll = await claim(requester);
    if (!leaveAll) throw this.#ownRefusal();
    try {
      const leave = await this.#enter(requester, holder);
      return (end) => {
        leave(end);
        leaveAll(end);
      };
    } catch (error) {
      leaveAll();
      throw error;
    }
  }

  async #enter(requester: Requester, holder: Holder | undefined): Promise<LeaveSlot> {
    const { key, clientKind } = requester;
    this.#assertAllowed(requester);
    if (!this.#isAtLimit(requester) && this.#taken < this.#limits.max[clientKind]) this.#take(key);
    else await this.#wait(requester);
    let isTaken = true;
    if (holder) this.#holders.set(holder, clientKind);
    return (end) => {
      if (!isTaken) return;
      isTaken = false;
      if (holder) this.#holders.delete(holder);
      if (!end) return this.#leave(key);
      increment(this.#ending, key, 1);
      void end.then(() => {
        increment(this.#ending, key, -1);
        this.#leave(key);
      });
    };
  }

  /** Refuses the client for some time, including its requests that wait already. */
  coolDown(key: string, milliseconds: number): void {
    if (milliseconds === 0) return;
    const until = performance.now() + milliseconds;
    if (until <= (this.#cooldowns.get(key) ?? 0)) return;
    this.#cooldowns.set(key, until);
    setTimeout(() => {
      if (this.#cooldowns.get(key) === until) this.#cooldowns.delete(key);
    }, milliseconds).unref();
    for (const [client, entry] of [...this.#waiting.entries()])
      if (client === key) entry.refuse(this.#cooldownRefusal(key));
  }

  #isAtLimit({ key, clientKind }: Requester): boolean {
    return (this.#takenBy.get(key) ?? 0) >= this.#limits.perClient[clientKind];
  }

  /** @throws Problem 429 */
  #assertAllowed(requester: Requester): void {
    const { key } = requester;
    if (this.#cooldowns.has(key)) throw this.#cooldownRefusal(key);
    if (this.#isAtLimit(requester) && !this.#ending.has(key)) throw this.#ownRefusal();
  }

  #ownRefusal(): Problem {
    const headers = { 'Retry-After': String(this.#retryAfter) };
    return new Problem(429, this.#limits.ownMessage, { headers });
  }

  #cooldownRefusal(key: string): Problem {
    const left = Math.max(0, (this.#cooldowns.get(key) ?? 0) - performance.now());
    const seconds = Math.max(1, Math.ceil(left / 1000));
    return new Problem(429, this.#limits.cooldownMessage ?? this.#limits.ownMessage, {
      headers: { 'Retry-After': String(seconds) },
    });
  }

  #take(key: string): void {
    this.#taken += 1;
    increment(this.#takenBy, key, 1);
  }

  #wait(requester: Requester): Promise<void> {
    requester.pause();
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
          withdraw(error);
        },
      };
      const withdraw = (error: Error): void => {
        if (!this.#waiting.remove(key, entry)) return;
        clearTimeout(timer);
        clearInterval(check);
        reject(error);
      };
      const timer = setTimeout(() => {
        entry.refuse(unavailable(this.#limits.fullMessage, this.#retryAfter));
      }, this.#limits.maxWait ?? MAX_WAIT);
      const check = setInterval(() => this.#endIdle(requester), IDLE_CHECK);
      this.#waiting.push(key, entry);
      const stopListening = requester.onGone(() => withdraw(new ClientGone()));
      this.#endIdle(requester);
    });
  }

  /** Ends one idle holder of the same or a lower kind of client, if this makes room for the client that waits. */
  #endIdle(requester: Requester): void {
    const { clientKind } = requester;
    const { max } = this.#limits;
    if (this.#taken !== max[clientKind] || this.#isAtLimit(requester)) return;
    for (const [holder, heldBy] of this.#holders)
      if (max[heldBy] <= max[clientKind] && holder.isIdle()) return holder.end();
  }

  #leave(key: string): void {
    this.#taken -= 1;
    increment(this.#takenBy, key, -1);
    const next = this.#waiting.shift((client, { requester: { clientKind } }) => {
      if (this.#taken >= this.#limits.max[clientKind]) return false;
      return (this.#takenBy.get(client) ?? 0) < this.#limits.perClient[clientKind];
    });
    next?.start();
  }
}
