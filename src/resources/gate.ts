import { ClientGone } from '../db/requester.ts';
import { unavailable, type Problem } from '../errors.ts';
import { GroupedQueue, type Place } from './grouped-queue.ts';

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
  /** Where the client is: its address, and the largest network that one customer may have. */
  readonly from?: { readonly address: string; readonly network: string } | undefined;
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
  readonly refuse: () => void;
}

/** A turn as it is queued. */
interface Queued extends Place, Pick<Turn, 'signal'> {
  readonly standing: Standing;
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
  const queues: Readonly<Record<Standing, GroupedQueue<Waiter>>> = {
    address: new GroupedQueue(),
    name: new GroupedQueue(),
    stranger: new GroupedQueue(),
  };
  /** How many tries of each network wait or run. */
  const tries = new Map<string, number>();
  let running = 0;
  let runningStrangers = 0;
  let mean = FIRST_MEAN;

  const mayStart = (standing: Standing): boolean =>
    running < atOnce && (standing !== 'stranger' || runningStrangers < atOnce - reserved);

  function begin(standing: Standing): void {
    running += 1;
    if (standing === 'stranger') runningStrangers += 1;
  }

  /**
   * Strangers take turns by network, and within it by address. A name counts for the first try from a network only: otherwise a
   * flood from there would show by its times which names have logged in.
   */
  function queuedAs({ client, standing, from, signal }: Turn): Queued {
    const isStranger = standing === 'stranger' || (standing === 'name' && from && tries.has(from.network));
    if (!isStranger) return { group: client, client, standing, signal };
    const { network, address } = from ?? { network: client, address: client };
    return { group: network, client: address, standing: 'stranger', signal };
  }

  /** Whether a new try of the client would start in time. */
  function isInTime(queued: Queued): boolean {
    const { standing } = queued;
    const places = Math.max(1, standing === 'stranger' ? atOnce - reserved : reserved);
    const before = standing === 'name' ? queues.address.size : 0;
    // The mean is a guess, and a try that is refused late has waited for nothing.
    return ((queues[standing].ahead(queued) + before) * mean) / places <= maxWait / 2;
  }

  /** Whether there is room for a new try, which may take that of a group with more tries. */
  function makeRoom(queued: Queued): boolean {
    const queue = queues[queued.standing];
    if (queue.size < maxWaiting) return true;
    const displaced = queue.displacedBy(queued);
    displaced?.refuse();
    return displaced !== undefined;
  }

  function wait(queued: Queued): Promise<void> {
    const { standing, signal } = queued;
    if (signal?.aborted) return Promise.reject(new ClientGone());
    if (!isInTime(queued) || !makeRoom(queued)) return Promise.reject(busy());
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
        refuse: () => leave(busy()),
      };
      const leave = (reason: Error): void => {
        queue.remove(queued, waiter);
        end();
        reject(reason);
      };
      const abort = (): void => leave(new ClientGone());
      const timer = setTimeout(waiter.refuse, maxWait);
      signal?.addEventListener('abort', abort, { once: true });
      queue.push(queued, waiter);
    });
  }

  function startNext(standings: readonly Standing[]): void {
    for (const standing of standings) if (mayStart(standing)) queues[standing].shift()?.start();
  }

  function leave(standing: Standing): void {
    running -= 1;
    if (standing === 'stranger') runningStrangers -= 1;
    // Strangers come first to the places that are not reserved, so that neither kind starves the other.
    startNext(['stranger', ...KNOWN]);
  }

  async function run<T>(queued: Queued, work: () => Promise<T>): Promise<T> {
    const { standing } = queued;
    if (mayStart(standing)) begin(standing);
    else await wait(queued);
    const started = performance.now();
    try {
      return await work();
    } finally {
      mean += (performance.now() - started - mean) * LATEST;
      leave(standing);
    }
  }

  return async (turn, work) => {
    const queued = queuedAs(turn);
    const network = turn.from?.network;
    if (network === undefined) return run(queued, work);
    tries.set(network, (tries.get(network) ?? 0) + 1);
    try {
      return await run(queued, work);
    } finally {
      const left = (tries.get(network) ?? 1) - 1;
      if (left > 0) tries.set(network, left);
      else tries.delete(network);
    }
  };
}
