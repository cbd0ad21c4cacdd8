// Sends reads to replicas that have what their client has written, and everything else to the primary.
import { startError } from '../../errors.ts';
import type { Database } from '../connection/database.ts';
import { isDatabaseError } from '../connection/database-errors.ts';
import type { Reached } from '../connection/server-guard.ts';
import type { Requester } from '../lanes/requester.ts';
import { createPositionTokens, type WrittenPosition } from './position-token.ts';
import { PrimaryPositions } from './primary-positions.ts';
import { ReplicaReads, type Choice } from './replica-reads.ts';
import { Replica, type ReplicaState } from './replica.ts';
import { DATABASE_ONLY, IDENTITY, type Identity } from './server-state.ts';
import { WriteNotes } from './write-notes.ts';

/** Where statements run. Without replicas, everywhere on the primary. */
export interface Replicas {
  /** The primary. It notes which requests write. */
  readonly primary: Database;
  /**
   * The database for a request that only reads.
   * @param position what the client has sent as the positions of its last writes
   */
  readonly reading: (requester: Requester, position: string | undefined) => Database;
  /** The primary, for a request whose reads decide what it writes. What they have found must be there when its client looks. */
  readonly changing: (requester: Requester) => Database;
  /**
   * The position after the writes of a request, for the client to send with later reads.
   * @param status of the response
   * @returns undefined for a request that has not tried to write
   */
  readonly positionAfter: (requester: Requester, status: number) => Promise<string> | undefined;
  readonly states: () => readonly ReplicaState[];
  readonly close: () => Promise<void>;
}

export interface ReplicasOptions {
  readonly urls: readonly string[];
  /** Seconds. */
  readonly maxLag: number;
  /** See `openDatabase`. */
  readonly slowTimeout: number;
  readonly primary: Database;
  /** A secret that all processes on the database share. */
  readonly secret: Buffer;
  readonly report: (level: 'info' | 'warn', message: string) => void;
}

/** Milliseconds between two questions to a server while there are reads, and otherwise. */
const INTERVAL = 100;
const IDLE_INTERVAL = 1_000;
/** Milliseconds without a read after which the service counts as idle. */
const IDLE_AFTER = 5_000;
/**
 * Milliseconds beyond MAX_LAG after which a position of another timeline, or an unknown one, requires nothing more: every
 * replica in the rotation has what was written then. It allows for clocks that differ.
 */
const EXPIRY = 10 * 60_000;

/** Statuses of writes that were refused without looking at the record: for the credentials, or how many were sent. */
const REFUSED_UNSEEN: ReadonlySet<number> = new Set([401, 429]);

/** Without replicas. */
export const onlyPrimary = (primary: Database): Replicas => ({
  primary,
  reading: (requester) => primary.for(requester),
  changing: (requester) => primary.for(requester),
  positionAfter: () => undefined,
  states: () => [],
  close: () => Promise.resolve(),
});

async function identityOf(primary: Database): Promise<Identity> {
  try {
    return await primary.run(IDENTITY, 'read');
  } catch (error) {
    if (isDatabaseError(error) && error.code === '42501') return primary.run(DATABASE_ONLY, 'read');
    throw error;
  }
}

/**
 * Asks all replicas once, and from then on again and again.
 * @throws StartError for a server that is not a replica of the primary, or that refuses the service
 */
export async function openReplicas(options: ReplicasOptions): Promise<Replicas> {
  const { urls, slowTimeout, primary, secret, report } = options;
  if (urls.length === 0) return onlyPrimary(primary);
  const maxLag = options.maxLag * 1000;
  const identity = await identityOf(primary);
  const tokens = createPositionTokens(secret, `${identity.system} ${identity.database}`);
  const positions = new PrimaryPositions(primary, maxLag);
  const notes = new WriteNotes();
  let lastRead = -Infinity;
  let isClosed = false;
  const timers = new Map<object, NodeJS.Timeout>();

  const onChange = (replica: Replica, reason: string | undefined): void => {
    if (reason === undefined) report('info', `the replica ${replica.name} answers reads`);
    else report('warn', `the replica ${replica.name} does not answer reads: ${reason}`);
  };
  const replicas = urls.map(
    (url) => new Replica({ url, slowTimeout, maxLag, primary: positions, identity, onChange }),
  );

  /** Runs a question again and again, each time some time after its answer. */
  function repeat(key: object, ask: () => Promise<unknown>): void {
    if (isClosed) return;
    const isIdle = performance.now() - lastRead > IDLE_AFTER;
    const interval = isIdle ? Math.min(IDLE_INTERVAL, maxLag / 4) : INTERVAL;
    const timer = setTimeout(() => {
      void ask()
        .catch(() => undefined)
        .then(() => repeat(key, ask));
    }, interval).unref();
    timers.set(key, timer);
  }

  const close = async (): Promise<void> => {
    isClosed = true;
    for (const timer of timers.values()) clearTimeout(timer);
    await Promise.all(replicas.map((replica) => replica.close()));
  };

  /**
   * What a client with these writes requires of a replica.
   * @returns undefined if only the primary will do
   */
  function requiredBy(written: readonly WrittenPosition[]): Reached | undefined {
    const least = positions.since(maxLag);
    if (!least) return undefined;
    let required: Reached = least;
    for (const { reached, issued } of written) {
      const isComparable = reached?.timeline === least.timeline;
      if (!isComparable && Date.now() - issued <= maxLag + EXPIRY) return undefined;
      if (isComparable && reached.position > required.position) required = reached;
    }
    return required;
  }

  let turn = 0;
  /** The replica with the fewest reads among those that have what the client requires. */
  function choose(written: readonly WrittenPosition[]): Choice | undefined {
    lastRead = performance.now();
    const required = requiredBy(written);
    if (!required) return undefined;
    turn += 1;
    let best: Replica | undefined;
    for (let index = 0; index < replicas.length; index += 1) {
      const replica = replicas[(turn + index) % replicas.length];
      if (replica?.has(required) && replica.running < (best?.running ?? Infinity)) best = replica;
    }
    return best && { replica: best, required };
  }

  const compare = (): void => {
    for (const replica of replicas) replica.compare();
  };

  try {
    await positions.sample();
    const refusals = await Promise.all(replicas.map((replica) => replica.ask()));
    const faults = refusals.flatMap((reason, index) =>
      reason === undefined ? [] : [`${replicas[index]?.name}: ${reason}`],
    );
    if (faults.length > 0) throw startError('DATABASE_READ_URL cannot be used', faults);
    await positions.sample();
    compare();
  } catch (error) {
    await close();
    throw error;
  }
  repeat(positions, () => positions.sample().then(compare));
  for (const replica of replicas) repeat(replica, () => replica.ask());

  return {
    primary: notes.noting(primary),
    reading: (requester, position) => {
      const written = position === undefined ? [] : tokens.decodeAll(position);
      return new ReplicaReads(primary.for(requester), requester, () => written && choose(written));
    },
    changing: (requester) => notes.noting(primary.for(requester), requester, true),
    positionAfter: (requester, status) => {
      // Also after a refusal by the primary, such as 412: what refuses the write must be there when its client looks.
      if (!notes.has(requester) || REFUSED_UNSEEN.has(status)) return undefined;
      // After a 5xx it may be unknown what was written.
      const reached = status >= 500 ? Promise.resolve(undefined) : positions.afterWrite();
      return reached.then((known) => tokens.encode({ reached: known, issued: Date.now() }));
    },
    states: () => replicas.map(({ state }) => state),
    close,
  };
}
