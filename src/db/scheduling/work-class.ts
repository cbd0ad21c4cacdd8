/**
 * The class of a statement that uses an exclusive connection:
 * - `short`: statements that are certain to be short, while the pipelined connection cannot take them
 * - `write`: changes
 * - `admin`: reads of the admin area
 * - `brief`: reads that have been fast so far
 * - `read`: other reads
 * - `trial`: reads that may cost more than PostgreSQL estimates
 * - `attempt`: reads that may be costly only with some values
 * - `slow`: reads that are known to be costly
 */
export type WorkClass = 'short' | 'write' | 'admin' | 'brief' | 'read' | 'trial' | 'attempt' | 'slow';

/** The number of exclusive connections. */
export const CONNECTIONS = 17;

/**
 * Milliseconds after which a statement must have lost its connection: PostgreSQL ends each one sooner. Its duration says nothing
 * about its cost or its client.
 */
export const LOST_AFTER = 12_000;

/** How many of the exclusive connections the statements of a class get. */
export interface Share {
  readonly max: number;
  /** Maximum while none has run for `LONG`, so that others need not wait for a long one. Default: `max`. */
  readonly maxShort?: number;
  /** Kept free for this class, whatever the other classes do. */
  readonly reserved: number;
  /** Maximum for one client, so that a second client finds a connection. */
  readonly perClient: number;
  /** While fewer statements of the class are running, and they are fast, a client may have more than its maximum. */
  readonly uncontested?: number;
  /**
   * Whether a client with connections gets another one only while more than twice as many are free. So clients whose statements wait
   * for locks leave some to those that have none.
   */
  readonly leavesRoom?: boolean;
}

/** Milliseconds after which a slow statement is longer than most: see `Share.maxShort`. */
export const LONG = 1_000;

/** Those of a process that is alone. */
export const SHARES: Readonly<Record<WorkClass, Share>> = {
  short: { max: 4, reserved: 1, perClient: 3 },
  write: { max: 10, reserved: 2, perClient: 4, uncontested: 7, leavesRoom: true },
  admin: { max: 3, reserved: 1, perClient: 2 },
  brief: { max: 6, reserved: 1, perClient: 6 },
  slow: { max: 2, reserved: 1, perClient: 2 },
  read: { max: 4, reserved: 1, perClient: 3 },
  trial: { max: 3, reserved: 1, perClient: 1 },
  attempt: { max: 3, reserved: 1, perClient: 1 },
};

/** How much of a limit one process gets. */
export const shareOfProcess = (limit: number, processes: number): number => Math.ceil(limit / processes);

/** Classes of reads whose cost is not known well. They get half of their connections while slow statements have all of theirs. */
export const UNCERTAIN: ReadonlySet<WorkClass> = new Set(['read', 'trial', 'attempt']);

/**
 * The shares of one of several processes: those for reads of uncertain cost are divided, but a client never gets all of such a
 * class. Those for slow ones are divided until one of them takes long.
 */
export function sharesOf(processes: number): typeof SHARES {
  return forEachClass((name) => {
    const share = SHARES[name];
    if (name === 'slow') return { ...share, maxShort: shareOfProcess(share.max, processes) };
    if (!UNCERTAIN.has(name)) return share;
    const max = Math.max(2, shareOfProcess(share.max, processes));
    return { ...share, max, perClient: Math.min(max - 1, share.perClient) };
  });
}

/** The order in which the classes are served when several may use a free connection. */
const CLASSES = Object.keys(SHARES) as readonly WorkClass[];

/** Classes whose statements may turn out to be slow. */
export const READ_CLASSES: readonly WorkClass[] = ['attempt', 'trial', 'read', 'brief'];

/** Classes for risky reads: a waiting read that is reassigned to or from one of them must move. */
const ISOLATED: ReadonlySet<WorkClass> = new Set(['slow', 'trial', 'attempt']);

/** Whether a read that waits in one class must move to another. Between `read` and `brief` it may stay. */
export const mustMove = (from: WorkClass, to: WorkClass): boolean =>
  to !== from && (ISOLATED.has(to) || ISOLATED.has(from));

/** Makes a value for each class. */
export const forEachClass = <T>(make: (name: WorkClass) => T): Readonly<Record<WorkClass, T>> =>
  Object.fromEntries(CLASSES.map((name) => [name, make(name)])) as Record<WorkClass, T>;
