import { FairQueue } from '../../db/scheduling/fair-queue.ts';
import { Usage } from '../../db/scheduling/client-usage.ts';
import { OVERLOADED, TOO_MANY } from '../../errors.ts';
import { HeavyWork, type HeavyClient } from './heavy-work.ts';
import type { HasNetwork } from '../message/message.ts';

/** Requests that are worked on at once. Those that wait for a slow statement, a body or a password check do not count. */
const MAX_ACTIVE = 64;
/** The part of them that one client may have while others are present; below it nobody is counted. */
const MAX_ACTIVE_AMONG_OTHERS = 16;
/** Requests that begin in one turn of the event loop; the others wait for the next one, in which clients take turns. */
const MAX_PER_TURN = 16;
/** Milliseconds after the first of them in which further ones begin. */
const MAX_TURN = 5;
/** Requests that may wait to be worked on: in all, of one client, and of one client while others wait as well. */
const MAX_WAITING = 4_000;
const MAX_WAITING_ALONE = 2_500;
const MAX_WAITING_AMONG_OTHERS = 128;
/** Milliseconds for which a client counts as present after its last request. */
const PRESENT = 100;
/** Milliseconds of uninterrupted work from which on it is charged to its client. */
export const MIN_CHARGED = 0.5;
/** Milliseconds of such work, beyond a share of the time, from which on a client waits in the queue of heavy work. */
const MAX_USAGE = 100;
/** What is charged for a request whose client left before the answer (milliseconds): others have worked for it in vain. */
const ABANDONED = 5;
/** Milliseconds of uninterrupted work from which on a refusal is paced. */
export const MIN_PACED = 1;

/** A request, as far as admission must know it. */
export interface AdmissionRequest extends HasNetwork {
  /** The client that the request is counted for while it is worked on; undefined where it is not counted. */
  countedFor: string | undefined;
}

/**
 * Lets requests in. Beyond what the process works on at once, clients take turns, so that one with thousands of connections
 * leaves the others their share of the processor. A client whose requests have taken much time waits in the queue of heavy work.
 */
export class Admission {
  readonly #usage = new Usage(MAX_USAGE);
  readonly #heavy = new HeavyWork((network, took) => this.charge(network, took));
  readonly #waiting = new FairQueue<() => void>();
  /** Counted requests of each client that are worked on. */
  readonly #activeOf = new Map<string, number>();
  #active = 0;
  #begun = 0;
  /** Until when requests may begin in this turn. */
  #turnEnds = Infinity;
  #isScheduled = false;
  /** The last client that was counted. */
  #latest: string | undefined;
  /** Until when more than one client is present. */
  #mixedUntil = -Infinity;

  get waiting(): number {
    return this.#waiting.size + this.#heavy.size;
  }

  /** Whether a request may have to wait for others. */
  isBusy(now: number): boolean {
    if (this.#active >= MAX_ACTIVE_AMONG_OTHERS || this.#waiting.size > 0 || !this.#hasRoom(now)) return true;
    return now < this.#usage.until || this.#heavy.isWatching(now);
  }

  /**
   * @param now milliseconds, as of `performance.now`
   * @returns undefined where the request is let in at once, else resolves when it is; `leave` must follow
   * @throws Refusal when too many requests wait
   */
  enter(entrant: AdmissionRequest, now: number): Promise<void> | undefined {
    if (!this.#isScheduled) this.#schedule();
    if (!this.isBusy(now)) {
      this.#begin(now);
      return undefined;
    }
    const key = entrant.network;
    entrant.countedFor = key;
    this.#heavy.see(key, now);
    if (key !== (this.#latest ?? key)) this.#mixedUntil = now + PRESENT;
    this.#latest = key;
    if (this.#usage.isCostly(key, now)) {
      this.#assertMayWait(key);
      return this.#heavy.turn({ key, network: key }).then(() => this.#enterAs(key, performance.now()));
    }
    return this.#enterAs(key, now);
  }

  /** @param entrant a request that was let in */
  leave({ countedFor: key }: AdmissionRequest): void {
    this.#active -= 1;
    if (key !== undefined) {
      const count = (this.#activeOf.get(key) ?? 1) - 1;
      if (count > 0) this.#activeOf.set(key, count);
      else this.#activeOf.delete(key);
    }
    if (this.#waiting.size > 0 && !this.#isScheduled) this.#schedule();
  }

  /**
   * Resolves when a piece of work that holds the event loop for long may begin: one does at a time, clients get equal time.
   * The work must follow without waiting for anything else.
   * @param bytes that are held meanwhile and counted nowhere else
   * @throws Refusal where the wait would be too long
   */
  heavySlot(client: HeavyClient, bytes?: number): Promise<void> {
    return this.#heavy.turn(client, bytes);
  }

  /** Reports how long a client's request has held the event loop. */
  charge(key: string, milliseconds: number): void {
    if (milliseconds >= MIN_CHARGED) this.#usage.charge(key, milliseconds, performance.now());
  }

  /** Reports that a client left although work for its request had begun. */
  abandon({ network }: HasNetwork): void {
    this.charge(network, ABANDONED);
  }

  #enterAs(key: string, now: number): Promise<void> | undefined {
    if (this.#waiting.size === 0 && this.#hasRoom(now) && this.#mayRun(key, now)) {
      this.#begin(now, key);
      return undefined;
    }
    this.#assertMayWait(key);
    if (!this.#isScheduled) this.#schedule();
    return new Promise((resolve) =>
      this.#waiting.push(key, () => {
        this.#begin(performance.now(), key);
        resolve();
      }),
    );
  }

  #assertMayWait(key: string): void {
    const waiting = this.#waiting.sizeOf(key);
    const isAlone = this.#waiting.clients === (waiting === 0 ? 0 : 1);
    const own = waiting + this.#heavy.sizeOf({ key, network: key });
    if (own >= (isAlone ? MAX_WAITING_ALONE : MAX_WAITING_AMONG_OTHERS)) throw TOO_MANY;
    if (this.waiting >= MAX_WAITING) throw OVERLOADED;
  }

  #begin(now: number, key?: string): void {
    if (this.#begun === 0) this.#turnEnds = now + MAX_TURN;
    this.#begun += 1;
    this.#active += 1;
    if (key !== undefined) this.#activeOf.set(key, (this.#activeOf.get(key) ?? 0) + 1);
  }

  #hasRoom(now: number): boolean {
    if (this.#active >= MAX_ACTIVE) return false;
    return this.#begun === 0 || (this.#begun < MAX_PER_TURN && now < this.#turnEnds);
  }

  #mayRun(key: string, now: number): boolean {
    return now >= this.#mixedUntil || (this.#activeOf.get(key) ?? 0) < MAX_ACTIVE_AMONG_OTHERS;
  }

  #schedule(): void {
    this.#isScheduled = true;
    setImmediate(this.#beginTurn);
  }

  readonly #beginTurn = (): void => {
    this.#isScheduled = false;
    this.#begun = 0;
    if (this.#waiting.size > 0) this.#admit();
  };

  readonly #admit = (): void => {
    if (this.#waiting.size === 0) return;
    const now = performance.now();
    if (!this.#hasRoom(now)) {
      if (this.#active < MAX_ACTIVE && !this.#isScheduled) this.#schedule();
      return;
    }
    const begin = this.#waiting.shift((key) => this.#mayRun(key, now));
    if (!begin) return; // clients that have their part go on when one of their requests leaves
    begin();
    queueMicrotask(this.#admit); // when the request has done what it does at once, which counts
  };
}
