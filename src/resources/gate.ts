import { FairQueue } from '../db/fair-queue.ts';
import { ClientGone } from '../db/requester.ts';
import { unavailable, type Problem } from '../errors.ts';

/**
 * What is known of a client: its address has logged in lately, the name that it gives has logged in lately from another
 * address, or neither.
 */
export type Standing = 'address' | 'name' | 'stranger';

/** Who asks for a turn. */
export interface Turn {
  /** Clients take turns; each has a queue to itself. */
  readonly client: string;
  readonly standing: Standing;
  /** Aborted when the client is gone: a waiting turn is given back. */
  readonly signal?: AbortSignal | undefined;
}

export interface GateOptions {
  readonly atOnce: number;
  /** How many of these strangers cannot take. */
  readonly reserved: number;
  /** How many may wait, of each standing. */
  readonly maxWaiting: number;
  /** Milliseconds. What is expected to wait longer is refused at once. */
  readonly maxWait: number;
}

interface Waiter {
  readonly start: () => void;
}

export type Gate = <T>(turn: Turn, work: () => Promise<T>) => Promise<T>;

const busy = (): Problem => unavailable('Too many passwords are being checked. Try again.');

/** The order in which those are served who may take a reserved place. */
const KNOWN: readonly Standing[] = ['address', 'name'];
/** Weight of the latest duration in the mean, and the mean to begin with (milliseconds). */
const LATEST = 0.2;
const FIRST_MEAN = 30;

/** Bounds how much costly work runs at once, fairly between clients, so that a flood of strangers does not delay known clients. */
export function createGate({ atOnce, reserved, maxWaiting, maxWait }: GateOptions): Gate {
  const queues: Readonly<Record<Standing, FairQueue<Waiter>>> = {
    address: new FairQueue(),
    name: new FairQueue(),
    stranger: new FairQueue(),
  };
  let running = 0;
  let runningStrangers = 0;
  let mean = FIRST_MEAN;

  const mayStart = (standing: Standing): boolean =>
    running < atOnce && (standing !== 'stranger' || runningStrangers < atOnce - reserved);

  function begin(standing: Standing): void {
    running += 1;
    if (standing === 'stranger') runningStrangers += 1;
  }

  /** Whether a new try of the client would start in time. */
  function hasRoom({ client, standing }: Turn): boolean {
    const queue = queues[standing];
    const places = Math.max(1, standing === 'stranger' ? atOnce - reserved : reserved);
    const before = standing === 'name' ? queues.address.size : 0;
    // The mean is a guess, and a try that is refused late has waited for nothing.
    return queue.size < maxWaiting && ((queue.ahead(client) + before) * mean) / places <= maxWait / 2;
  }

  function wait(turn: Turn): Promise<void> {
    const { client, standing, signal } = turn;
    if (signal?.aborted) return Promise.reject(new ClientGone());
    if (!hasRoom(turn)) return Promise.reject(busy());
    const queue = queues[standing];
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
      };
      const waiter: Waiter = {
        start: () => {
          end();
          begin(standing);
          resolve();
        },
      };
      const leave = (reason: Error): void => {
        queue.remove(client, waiter);
        end();
        reject(reason);
      };
      const abort = (): void => leave(new ClientGone());
      const timer = setTimeout(() => leave(busy()), maxWait);
      signal?.addEventListener('abort', abort, { once: true });
      queue.push(client, waiter);
    });
  }

  function startNext(standings: readonly Standing[]): void {
    for (const standing of standings) if (mayStart(standing)) queues[standing].shift(() => true)?.start();
  }

  function leave(standing: Standing): void {
    running -= 1;
    if (standing === 'stranger') runningStrangers -= 1;
    // Strangers come first to the places that are not reserved, so that neither kind starves the other.
    startNext(['stranger', ...KNOWN]);
  }

  return async (turn, work) => {
    if (mayStart(turn.standing)) begin(turn.standing);
    else await wait(turn);
    const started = performance.now();
    try {
      return await work();
    } finally {
      mean += (performance.now() - started - mean) * LATEST;
      leave(turn.standing);
    }
  };
}
