/**
 * What a statement needs a connection for: `short` ones that the pipelined connection cannot take at the moment, changes, pages
 * of the admin area, reads that have been brief so far, other reads, reads that may cost more than expected, reads that are costly
 * only with some values, and reads that are known to be costly.
 */
export type WorkClass = 'short' | 'write' | 'admin' | 'brief' | 'read' | 'trial' | 'attempt' | 'slow';

/** How many of the exclusive connections the statements of a class get. */
export interface Share {
  /** At most. */
  readonly most: number;
  /** Always free for them, whatever the other classes do. */
  readonly kept: number;
  /** At most for one client, so that a second client finds a connection. */
  readonly perClient: number;
}

export const SHARES: Readonly<Record<WorkClass, Share>> = {
  short: { most: 3, kept: 1, perClient: 2 },
  write: { most: 10, kept: 2, perClient: 4 },
  admin: { most: 3, kept: 1, perClient: 2 },
  brief: { most: 10, kept: 1, perClient: 10 },
  read: { most: 4, kept: 1, perClient: 3 },
  trial: { most: 3, kept: 1, perClient: 1 },
  attempt: { most: 3, kept: 1, perClient: 1 },
  slow: { most: 2, kept: 1, perClient: 2 },
};

/** The order in which the classes are served when several may use a free connection. */
export const CLASSES = Object.keys(SHARES) as readonly WorkClass[];

/** Classes whose statements may turn out to be slow. */
export const READS: readonly WorkClass[] = ['attempt', 'trial', 'read', 'brief'];

/** Classes that no other read may use, and in whose place none may be used. */
const CAREFUL: ReadonlySet<WorkClass> = new Set(['slow', 'trial', 'attempt']);

/** Whether a class is wrong for a read, and not only more careful or less than another one. */
export const isWrong = (name: WorkClass, wanted: WorkClass): boolean =>
  wanted !== name && (CAREFUL.has(wanted) || CAREFUL.has(name));

/** Makes a value for each class. */
export const forEachClass = <T>(make: (name: WorkClass) => T): Readonly<Record<WorkClass, T>> =>
  Object.fromEntries(CLASSES.map((name) => [name, make(name)])) as Record<WorkClass, T>;
