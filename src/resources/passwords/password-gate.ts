// Limits how many password hashes run at once, and decides which client is next.
import { ClientGone } from '../../db/scheduling/requester.ts';
import { unavailable, type Problem } from '../../errors.ts';
import { GroupedQueue, type QueuePosition } from './grouped-queue.ts';

/**
 * The class in which a client waits for a password hash:
 * - `network`: the network has logged in recently;
 * - `name`: the user name has logged in recently, from another network;
 * - `unknown`: neither;
 * - `new`: a new password is hashed. One client can ask for any number of these.
 */
export type PriorityClass = 'network' | 'name' | 'unknown' | 'new';

/** Who wants to run a hash. */
export interface SlotRequest {
  /** Each client has its own queue; the queues take turns. */
  readonly client: string;
  readonly priority: PriorityClass;
  /** The clients of a group share one turn. The default is a group for each client. */
  readonly group?: string | undefined;
  /** The network of the client, and the largest one that one customer may own. */
  readonly from?: { readonly network: string; readonly widestNetwork: string } | undefined;
  /** Aborted when the client disconnects; the request then leaves the queue. */
  readonly signal?: AbortSignal | undefined;
}

export interface GateOptions {
  /** How many may run at once. */
  readonly atOnce: number;
  /** How many of these places unknown clients must leave to others. New passwords must leave as many. */
  readonly reserved: number;
  /** How many may wait in each class. */
  readonly maxWaiting: number;
  /** Milliseconds. Requests that would wait longer are refused immediately. */
  readonly maxWait: number;
}

interface Waiter {
  readonly start: () => void;
  readonly refuse: () => void;
}

/** A request with its place in the queues. */
interface Queued extends QueuePosition, Pick<SlotRequest, 'signal'> {
  readonly priority: PriorityClass;
}

/**
 * Runs the work when a place is free.
 * @throws Problem 503 when the wait would be too long
 * @throws ClientGone when the client disconnects first
 */
export type Gate = <T>(request: SlotRequest, work: () => Promise<T>) => Promise<T>;

/** At most two hashes at once: at most one of them for unknown clients, and at most one for new passwords. */
export const GATE_LIMITS: GateOptions = { atOnce: 2, reserved: 1, maxWaiting: 200, maxWait: 2_000 };

const busy = (): Problem => unavailable('Too many passwords are being checked. Try again.');

/** The weight of the latest duration in the moving average, and its initial value in milliseconds. */
const LATEST_WEIGHT = 0.2;
const INITIAL_MEAN = 30;

/** Limits how many hashes run at once, fairly between clients. A flood of unknown clients does not delay known clients. */
export function createGate({ atOnce, reserved, maxWaiting, maxWait }: GateOptions): Gate {
  const unreserved = Math.max(1, atOnce - reserved);
  /** `mean` is the average duration in milliseconds. */
  const classOf = (limit: number) => ({
    queue: new GroupedQueue<Waiter>(),
    limit,
    running: 0,
    mean: INITIAL_MEAN,
  });
  const classes = {
    network: classOf(atOnce),
    name: classOf(atOnce),
    unknown: classOf(atOnce - reserved),
    new: classOf(unreserved),
  };
  /** How many requests of each network wait or run. */
  const attempts = new Map<string, number>();
  let running = 0;
  /** The classes of known clients, the next one first. They alternate, so that a flood of one does not starve the other. */
  let knownClasses: readonly ['network' | 'name', 'network' | 'name'] = ['network', 'name'];

  const mayStart = (priority: PriorityClass): boolean =>
    running < atOnce && classes[priority].running < classes[priority].limit;

  function begin(priority: PriorityClass): void {
    running += 1;
    classes[priority].running += 1;
  }

  /**
   * Unknown clients are grouped by network. Of several concurrent requests from one network, only the first gets the class
   * `name`: otherwise an attacker could learn from response times which names have logged in.
   */
  function place({ client, priority, group = client, from, signal }: SlotRequest): Queued {
    const isUnknown = priority === 'unknown' || (priority === 'name' && from && attempts.has(from.network));
    if (!isUnknown) return { group, client, priority, signal };
    const { network, widestNetwork } = from ?? { network: client, widestNetwork: client };
    return { group: widestNetwork, client: network, priority: 'unknown', signal };
  }

  /** How many requests of other classes run before a new request. @param ahead the requests of its own class before it */
  function othersBefore(priority: PriorityClass, ahead: number): number {
    const [network, name] = [classes.network.queue.size, classes.name.queue.size];
    if (priority === 'new') return network + name;
    if (priority === 'unknown') return 0;
    return Math.min(ahead + 1, priority === 'name' ? network : name);
  }

  /** Whether a new request would probably start within `maxWait`. */
  function startsInTime(queued: Queued): boolean {
    const { priority } = queued;
    const slots = priority === 'unknown' || priority === 'new' ? unreserved : Math.max(1, reserved);
    const { queue, mean } = classes[priority];
    const ahead = queue.ahead(queued);
    // Half of it, since the mean is an estimate and a late refusal wastes the client's time.
    return ((ahead + othersBefore(priority, ahead)) * mean) / slots <= maxWait / 2;
  }

  /** Whether the queue has room for a new request. A full queue drops the last request of the largest group. */
  function makeRoom(queued: Queued): boolean {
    const { queue } = classes[queued.priority];
    if (queue.size < maxWaiting) return true;
    const displaced = queue.displacedBy(queued);
    displaced?.refuse();
    return displaced !== undefined;
  }

  function wait(queued: Queued): Promise<void> {
    const { priority, signal } = queued;
    if (!startsInTime(queued) || !makeRoom(queued)) return Promise.reject(busy());
    const { queue } = classes[priority];
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
      };
      const waiter: Waiter = {
        start: () => {
          end();
          begin(priority);
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

  function startNext(priority: PriorityClass): void {
    if (!mayStart(priority)) return;
    const waiter = classes[priority].queue.shift();
    if (waiter && priority === knownClasses[0]) knownClasses = [knownClasses[1], knownClasses[0]];
    waiter?.start();
  }

  function leave(priority: PriorityClass): void {
    running -= 1;
    classes[priority].running -= 1;
    // Unknown clients get unreserved places first, so that known clients do not starve them.
    for (const next of ['unknown', ...knownClasses, 'new'] as const) startNext(next);
  }

  async function run<T>(queued: Queued, work: () => Promise<T>): Promise<T> {
    const { priority, signal } = queued;
    if (signal?.aborted) throw new ClientGone();
    if (mayStart(priority)) begin(priority);
    else await wait(queued);
    const started = performance.now();
    try {
      return await work();
    } finally {
      const ran = classes[priority];
      ran.mean += (performance.now() - started - ran.mean) * LATEST_WEIGHT;
      leave(priority);
    }
  }

  return async (request, work) => {
    const queued = place(request);
    const network = request.from?.network;
    if (network === undefined) return run(queued, work);
    attempts.set(network, (attempts.get(network) ?? 0) + 1);
    try {
      return await run(queued, work);
    } finally {
      const left = (attempts.get(network) ?? 1) - 1;
      if (left > 0) attempts.set(network, left);
      else attempts.delete(network);
    }
  };
}
