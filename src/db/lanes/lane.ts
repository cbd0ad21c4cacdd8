// A lane: the connections of one kind of statements (a bulkhead), which clients get in turn.
import { Refusal } from '../../errors.ts';
import { increment } from '../counts.ts';
import { Comebacks } from './comebacks.ts';
import { FairQueue } from './fair-queue.ts';
import { ClientGone, SERVICE, type Requester } from './requester.ts';
import { messageOf, type Message } from '../../messages.ts';

/** Maximum waiting entries of each kind of client together, and of one client. */
const MAX_WAITING = 1_000;
const MAX_WAITING_OF_CLIENT = 256;
/**
 * How often to look at what waits (milliseconds): for what has waited too long, and for a holder that gives way. None does for a
 * client that has waited for less than this, since short statements soon leave a connection.
 */
const CHECK = 100;
/** Weight of the latest entry in the average time that one uses its connection. */
const WEIGHT = 0.1;

type ClientKind = Requester['clientKind'];

export interface LaneLimits {
  readonly connections: number;
  /** How many this kind of client may use, so that it cannot keep out the others. */
  readonly maxOf?: Partial<Record<ClientKind, number>>;
  /** Milliseconds that an entry may wait. */
  readonly maxWait: number;
  /** The detail of the 429 for a client that waits for its own entries, which else gets the 503, and of the 503. */
  readonly own?: Message;
  readonly full?: Message;
}

/** What uses a connection that another client may need. */
export interface Holder {
  /** Whether it uses the connection so little, or for so long, that another client may have it. */
  readonly mayEnd: () => boolean;
  /** Ends the use of the connection, which must be given back at once. */
  readonly end: () => void;
}

/** The client that waits for a connection. */
export type LaneClient = Pick<Requester, 'key' | 'clientKind' | 'onGone'>;

interface Entry {
  readonly requester: LaneClient;
  /** The record that a write locks: writes of one take turns. */
  readonly lock: string | undefined;
  readonly holder: Holder | undefined;
  /** Since when it waits (milliseconds, as of `performance.now`). */
  readonly since: number;
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

type Demand = Pick<Entry, 'requester' | 'lock' | 'holder'>;

/** The counters of a lane, for the metrics. */
export interface LaneState {
  readonly running: number;
  readonly waiting: number;
  /** Entries that were refused because too many waited, or for too long. */
  readonly refused: number;
  /** Reads that went on in another lane. */
  readonly moved: number;
}

/** Gives the connection back. */
export type Leave = () => void;

export class Lane {
  readonly #limits: LaneLimits;
  /** Users and anonymous clients take turns, so that many addresses do not delay users. */
  readonly #queues = { users: new FairQueue<Entry>(), anonymous: new FairQueue<Entry>() };
  #isTurnOfUsers = false;
  readonly #runningOf = new Map<string, number>();
  readonly #runningOfKind = { anonymous: 0, user: 0, admin: 0 };
  readonly #locks = new Set<string>();
  /** With the kinds of their clients, in the order in which they began. */
  readonly #holders = new Map<Holder, ClientKind>();
  #check: NodeJS.Timeout | undefined;
  #running = 0;
  #refused = 0;
  readonly #comebacks = new Comebacks();
  /** The average use of a connection (milliseconds), and the sum of the times at which those that run began. */
  #use = 0;
  #begun = 0;
  moved = 0;

  constructor(limits: LaneLimits) {
    this.#limits = limits;
  }

  get state(): LaneState {
    const waiting = this.#queues.users.size + this.#queues.anonymous.size;
    return { running: this.#running, waiting, refused: this.#refused, moved: this.moved };
  }

  /**
   * Waits for a connection.
   * @param lock the record that a write locks
   * @param holder may be ended for a client that waits
   * @throws Problem 429 or 503 if the wait is too long; ClientGone
   */
  async enter(requester: LaneClient, lock?: string, holder?: Holder): Promise<Leave> {
    const { key, clientKind } = requester;
    const queue = clientKind === 'anonymous' ? this.#queues.anonymous : this.#queues.users;
    const demand = { requester, lock, holder };
    // It overtakes none that could run: those begin as soon as they can.
    if (this.#mayRun(demand)) return this.#begin(demand);
    if (requester !== SERVICE && queue.sizeOf(key) >= MAX_WAITING_OF_CLIENT)
      throw this.#refusal(demand, true, queue.sizeOf(key));
    if (queue.size >= MAX_WAITING) {
      const dropped = queue.takeFromLongest(queue.sizeOf(key) + 1);
      if (!dropped) throw this.#refusal(demand, false, queue.size);
      dropped.refuse(this.#refusal(dropped, true, queue.sizeOf(dropped.requester.key)));
    }
    const since = performance.now();
    return new Promise((resolve, reject) => {
      const entry: Entry = {
        ...{ requester, lock, holder, since },
        start: () => {
          stopListening();
          resolve(this.#begin(demand));
        },
        refuse: (error) => {
          queue.remove(key, entry);
          stopListening();
          reject(error);
        },
      };
      const stopListening = requester.onGone(() => entry.refuse(new ClientGone()));
      queue.push(key, entry);
      this.#check ??= setInterval(() => this.#checkWaiting(), CHECK);
    });
  }

  /** Refuses what has waited too long, and ends one holder if a client waits that has no connection, and may have that one. */
  #checkWaiting(): void {
    const now = performance.now();
    const { users, anonymous } = this.#queues;
    for (const entry of [...users, ...anonymous])
      if (now - entry.since >= this.#limits.maxWait)
        entry.refuse(this.#refusal(entry, this.#runningOf.has(entry.requester.key)));
    const waiting = [...users, ...anonymous];
    if (waiting.length === 0) {
      clearInterval(this.#check);
      this.#check = undefined;
    }
    for (const [holder, kind] of this.#holders) {
      const isNext = (entry: Entry): boolean =>
        now - entry.since >= CHECK && !this.#runningOf.has(entry.requester.key) && this.#mayRun(entry, kind);
      if (!holder.mayEnd() || !waiting.some(isNext)) continue;
      this.#holders.delete(holder);
      return holder.end();
    }
  }

  /**
   * @param isOwn whether the client waits for its own entries
   * @param ahead how many wait before it; those that are refused as late have left the queue
   */
  #refusal({ requester: { key, clientKind }, lock }: Demand, isOwn: boolean, ahead?: number): Refusal {
    this.#refused += 1;
    const { connections, maxOf, own, full = messageOf('overloaded') } = this.#limits;
    // What blocks all connections shows in those that run, before any of them has ended.
    const use = Math.max(this.#use, this.#running && performance.now() - this.#begun / this.#running);
    const refuse = (status: number, detail: Message, queue: string, atOnce: number): Refusal =>
      new Refusal(status, detail, { headers: this.#comebacks.next(queue, ahead ?? 0, use / atOnce) });
    if (ahead === undefined && lock !== undefined && this.#locks.has(lock))
      return refuse(503, messageOf('recordBusy'), `record ${lock}`, 1);
    if (isOwn) return refuse(own ? 429 : 503, own ?? full, `client ${key}`, Math.ceil(connections / 2));
    return refuse(503, full, clientKind, maxOf?.[clientKind] ?? connections);
  }

  /** @param ended the kind of a client whose connection would become free */
  #mayRun({ requester, lock }: Pick<Demand, 'requester' | 'lock'>, ended?: ClientKind): boolean {
    if (lock !== undefined && this.#locks.has(lock)) return false;
    return this.#isFree(requester, ended);
  }

  /**
   * Whether the client may have one more connection. One with connections gets another only while more are free: 2 of 3 or 4, 4 of 8.
   * So clients whose statements take long, or wait for locks, leave some to those that have none.
   */
  #isFree({ key, clientKind }: LaneClient, ended?: ClientKind): boolean {
    const { connections, maxOf } = this.#limits;
    const ofAll = connections - this.#running + (ended ? 1 : 0);
    const ofKind =
      (maxOf?.[clientKind] ?? connections) - this.#runningOfKind[clientKind] + (ended === clientKind ? 1 : 0);
    const free = Math.min(ofAll, ofKind);
    return free > (this.#runningOf.get(key) ?? 0);
  }

  #begin({ requester: { key, clientKind }, lock, holder }: Demand): Leave {
    const begun = performance.now();
    this.#begun += begun;
    this.#running += 1;
    this.#runningOfKind[clientKind] += 1;
    increment(this.#runningOf, key);
    if (lock !== undefined) this.#locks.add(lock);
    if (holder) this.#holders.set(holder, clientKind);
    return () => {
      this.#begun -= begun;
      this.#use += WEIGHT * (performance.now() - begun - this.#use);
      this.#running -= 1;
      this.#runningOfKind[clientKind] -= 1;
      increment(this.#runningOf, key, -1);
      if (lock !== undefined) this.#locks.delete(lock);
      if (holder) this.#holders.delete(holder);
      this.#startNext();
    };
  }

  #startNext(): void {
    const { users, anonymous } = this.#queues;
    const mayRun = (entry: Entry): boolean => this.#mayRun(entry);
    while (users.size + anonymous.size > 0) {
      const [first, second] = this.#isTurnOfUsers ? [users, anonymous] : [anonymous, users];
      const next = first.shift(mayRun) ?? second.shift(mayRun);
      if (!next) return;
      this.#isTurnOfUsers = next.requester.clientKind === 'anonymous';
      next.start();
    }
  }
}
