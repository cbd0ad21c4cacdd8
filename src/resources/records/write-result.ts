// Interprets the row that a writing statement returns: as a result, a problem, or a reason to retry.
import type { Database } from '../../db/connection/database.ts';
import {
  DatabaseFault,
  isInFunction,
  isOfTable,
  LostWrite,
  NOT_ALLOWED,
  type DatabaseError,
} from '../../db/connection/database-errors.ts';
import { isUnanswered } from '../../db/connection/driver.ts';
import type { Statement } from '../../db/rows.ts';
import { addError, notFound, Problem, RECORD_BUSY, type FieldErrors } from '../../errors.ts';
import type { Check } from '../../query/statements/check-statements.ts';
import type { FoundRow } from '../../query/statements/write-sql.ts';
import { CallerChanged, type ServedResource } from '../serve/served-resource.ts';

export const NO_RECORD = 'There is no such record.';

/** SQLSTATE of a value that is too large, such as for an index. */
const TOO_LARGE = '54000';

/**
 * The fault if an error comes from the history table. The client did not cause it. The exception is a key that is too long for the
 * index of the table.
 */
export function historyFault(
  error: DatabaseError,
  { recording }: Pick<ServedResource, 'recording'>,
): Problem | DatabaseFault | undefined {
  if (!recording || !isOfTable(recording.history, error)) return undefined;
  if (error.code === TOO_LARGE) return new Problem(400, 'The key is too long for the history of changes.');
  return new DatabaseFault(error, `the history cannot be written: ${error.message}`);
}

/** Runs a statement that writes. @throws LostWrite when the connection ended before the answer */
export const runWrite = <T>(database: Pick<Database, 'run'>, statement: Statement<T>): Promise<T> =>
  database.run(statement, 'write').catch((error: unknown) => {
    throw isUnanswered(error) ? new LostWrite(error as Error) : error;
  });

/** Reports the failed checks. */
export function addCheckErrors(
  checks: readonly Check[],
  results: readonly boolean[],
  errors: FieldErrors,
): void {
  checks.forEach(({ fieldNames, fault }, index) => {
    if (!results[index]) for (const name of fieldNames) addError(errors, name, fault);
  });
}

/** Outcome of an UPDATE or DELETE, and whether the caller owns the record. */
export interface WriteOutcome<T extends FoundRow> {
  readonly result: T;
  readonly ownership: 'own' | 'others' | 'missing';
}

/**
 * Runs the statement that changes or deletes a record. When it finds no record of the caller's, `checkOwnership` distinguishes a
 * missing record from another owner's. The statement runs once more when the caller has become the owner in between.
 * @param holds whether the caller's precondition holds; else the record may only seem to be missing
 * @throws CallerChanged if it does not
 */
export async function writeOutcome<T extends FoundRow>(
  change: () => Promise<T>,
  checkOwnership: () => Promise<boolean | undefined>,
  holds: () => Promise<boolean>,
): Promise<WriteOutcome<T>> {
  for (let attempts = 0; attempts < 2; attempts += 1) {
    const result = await change();
    if (result.isFound) return { result, ownership: 'own' };
    const isOwner = await checkOwnership();
    if (isOwner === false) return { result, ownership: 'others' };
    if (!(await holds())) throw new CallerChanged();
    if (!isOwner) return { result, ownership: 'missing' };
  }
  throw RECORD_BUSY;
}

/** @throws Problem 404, 403 or 412, in this order of precedence */
export function assertChangeable({ result, ownership }: WriteOutcome<FoundRow>): void {
  if (ownership === 'missing') throw notFound(NO_RECORD);
  if (ownership === 'others') throw new Problem(403, 'Only the owner of a record may change or delete it.');
  if (!result.isMatch) throw new Problem(412, 'The record has changed since it was read.');
}

/** SQLSTATE of what PostgreSQL does not support, and of a statement that a rule has rewritten into one without RETURNING. */
export const NOT_SUPPORTED = '0A000';

/** Whether a rule (CREATE RULE) has rewritten the statement into one without RETURNING. */
export const isRewrittenByRule = (error: DatabaseError): boolean =>
  error.code === NOT_SUPPORTED && !isInFunction(error);

/** A trigger canceled the write without an error. What the trigger itself has written may stay. */
export class SuppressedWrite extends Problem {}

/** The problem for a write that a trigger canceled without an error. */
export const suppressed = (): SuppressedWrite => new SuppressedWrite(409, NOT_ALLOWED);
