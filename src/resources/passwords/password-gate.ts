import { ClientGone } from '../../db/scheduling/requester.ts';
import { unavailable, type Problem } from '../../errors.ts';
import { GroupedQueue, type QueuePosition } from './grouped-queue.ts';

/**
 * What is known of a client: its address has logged in lately, the name that it gives has logged in lately from another
 * address, or neither. A new password is a kind of its own, as one client can ask for any number of them.
 */
export type Standing = 'address' | 'name' | 'stranger' | 'new';

/** Who asks for a turn. */
export interface Turn {
  /** Clients take turns; each has a queue to itself. */
  readonly client: string;
  readonly standing: Standing;
  /** Clients of one group share its turns; without one, each client is a group. */
  readonly group?: string | undefined;
  /** Where the client is: its address, and the largest network that one customer may have. */
  readonly from?: { readonly address: string; readonly network: string } | undefined;
  /** Aborted when the client is gone: a waiting turn is given back. */
  readonly signal?: AbortSignal | undefined;
}

export interface GateOptions {
  readonly atOnce: number;
  /** How many of these strangers cannot take, and neither can new passwords. */
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
interface Queued extends QueuePosition, Pick<Turn, 'signal'> {
  readonly standing: Standing;
}

export type Gate = <T>(turn: Turn, work: () => Promise<T>) => Promise<T>;

const busy = (): Problem => unavailable('Too many passwords are being checked. Try again.');

/** Weight of the latest duration in the mean, and the mean to begin with (milliseconds). */
const LATEST = 0.2;
const FIRST_MEAN = 30;

/** Bounds how much costly work runs at once, fairly between clients, so that a flood of strangers does not delay known clients. */
export function createGate({ atOnce, reserved, maxWaiting, maxWait }: GateOptions): Gate {
  const queues: Readonly<Record<Standing, GroupedQueue<Waiter>>> = {
    address: new GroupedQueue(),
    name: new GroupedQueue(),
    stranger: new GroupedQueue(),
    new: new GroupedQueue(),
  };
  const unreserved = Math.max(1, atOnce - reserved);
  const most: Readonly<Record<Standing, number>> = {
    address: atOnce,
    name: atOnce,
    stranger: atOnce - reserved,
    new: unreserved,
  };
  const runningOf: Record<Standing, number> = { address: 0, name: 0, stranger: 0, new: 0 };
  /** How many tries of each network wait or run. */
  const tries = new Map<string, number>();
  let running = 0;
  let mean = FIRST_MEAN;
  /** Known clients, those first whose turn is next: a flood of one kind must not starve the other. */
  let known: readonly ['address' | 'name', 'address' | 'name'] = ['address', 'name'];

  const mayStart = (standing: Standing): boolean => running < atOnce && runningOf[standing] < most[standing];

  function begin(standing: Standing): void {
    running += 1;
    runningOf[standing] += 1;
  }

  /**
   * Strangers take turns by network, and within it by address. A name counts for the first try from a network only: otherwise a
   * flood from there would show by its times which names have logged in.
   */
  function queuedAs({ client, standing, group = client, from, signal }: Turn): Queued {
    const isStranger = standing === 'stranger' || (standing === 'name' && from && tries.has(from.network));
    if (!isStranger) return { group, client, standing, signal };
    const { network, address } = from ?? { network: client, address: client };
    return { group: network, client: address, standing: 'stranger', signal };
  }

  /** How many of another kind are served before a new try with so many of its own kind before it. */
  function othersBefore(standing: Standing, ahead: number): number {
    const { address, name } = queues;
    if (standing === 'new') return address.size + name.size;
    if (standing === 'stranger') return 0;
    return Math.min(ahead + 1, standing === 'name' ? address.size : name.size);
  }

  /** Whether a new try of the client would start in time. */
  function isInTime(queued: Queued): boolean {
    const { standing } = queued;
    const places = standing === 'stranger' || standing === 'new' ? unreserved : Math.max(1, reserved);
    const ahead = queues[standing].ahead(queued);
    // The mean is a guess, and a try that is refused late has waited for nothing.
    return ((ahead + othersBefore(standing, ahead)) * mean) / places <= maxWait / 2;
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

  function startNext(standing: Standing): void {
    if (!mayStart(standing)) return;
    const waiter = queues[standing].shift();
    if (waiter && standing === known[0]) known = [known[1], known[0]];
    waiter?.start();
  }

  function leave(standing: Standing): void {
    running -= 1;
    runningOf[standing] -= 1;
    // Strangers come first to the places that are not reserved, so that neither kind starves the other.
    for (const next of ['stranger', ...known, 'new'] as const) startNext(next);
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
