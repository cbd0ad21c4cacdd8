import type { Model } from '../../db/schema/model.ts';
import { isDatabaseError, isOfTable } from '../../db/connection/database-errors.ts';
import type { Recording } from '../../query/statements/history-sql.ts';
import type { Caller, ServedResource } from './served-resource.ts';

/**
 * What is written down beside a change of the resource's records.
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
 * An error of the statement that writes, where it comes from the history's own part of it: no fault of the client's, nor one
 * that a client should be told of.
 */
export function historyFault(error: unknown, log: Model | undefined): unknown {
  const isOfLog = isDatabaseError(error) && log !== undefined && isOfTable(log, error);
  return isOfLog ? new Error(`the history cannot be written: ${error.message}`, { cause: error }) : error;
}
