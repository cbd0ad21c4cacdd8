// Connects the operations that write to the history that records them.
import type { Model } from '../../db/schema/model.ts';
import { isDatabaseError, isOfTable } from '../../db/connection/database-errors.ts';
import type { Recording } from '../../query/statements/history-sql.ts';
import type { Caller, ServedResource } from './served-resource.ts';

/**
 * What the history records with a change of the resource's records; undefined where it records nothing.
 * @param log the history, or undefined for a service without one
 * @param caller null for a command
 */
export function recordingOf(
  { recorded, name, source }: ServedResource,
  caller: Caller | null,
  log: Model | undefined,
): Recording | undefined {
  return log && recorded && { log, columns: recorded, model: name, source, caller };
}

/**
 * Wraps a database error that comes from the history table, so that it becomes a 500 that the log explains. The client did
 * not cause it and must not see it.
 * @returns any other error unchanged
 */
export function historyFault(error: unknown, log: Model | undefined): unknown {
  const isOfLog = isDatabaseError(error) && log !== undefined && isOfTable(log, error);
  return isOfLog ? new Error(`the history cannot be written: ${error.message}`, { cause: error }) : error;
}
