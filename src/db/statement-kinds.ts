// How callers may let a statement run.

/**
 * How a statement runs:
 * - `quick`: certain to be short (by key, a first page), pipelined over one connection, which is fastest
 * - `read`: may be slow, on a connection to itself
 * - `write`: may wait for a lock, on a connection to itself
 */
export type StatementKind = 'quick' | 'read' | 'write';

/** Thrown instead of running a costly read, if the caller set `refuseCostly`. */
export class CostlyStatement extends Error {}

export interface RunOptions {
  /** Whether to throw CostlyStatement and not run a costly read. */
  readonly refuseCostly?: boolean;
}
