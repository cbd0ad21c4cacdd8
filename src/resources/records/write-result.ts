// Runs the statements of writes, and reads the results of their checks.
import type { Database } from '../../db/connection/database.ts';
import { LostWrite } from '../../db/connection/database-errors.ts';
import { isUnanswered } from '../../db/connection/driver.ts';
import type { Statement } from '../../db/rows.ts';
import { addError, type FieldErrors } from '../../errors.ts';
import type { Check } from '../../query/statements/check-statements.ts';

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
