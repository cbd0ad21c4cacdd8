// Runs the statements of writes, and reads the results of their checks.
import type { Database } from '../../db/connection/database.ts';
import { isLocked, LostWrite } from '../../db/connection/database-errors.ts';
import { isUnanswered } from '../../db/connection/driver.ts';
import { nothing, type Statement } from '../../db/rows.ts';
import { addError, type FieldErrors } from '../../errors.ts';
import type { Check } from '../../query/statements/check-statements.ts';

/** How often a write in a snapshot is begun that finds its record locked. */
const MAX_TRIES = 20;

/**
 * Runs a statement that writes. One that finds its record locked waits for the lock, in turn, and then sees the state of that moment.
 * A snapshot is of the moment when the wait began, so the wait is a transaction before it.
 * @throws LostWrite when the connection ended before the answer
 */
export async function runWrite<T>(
  database: Pick<Database, 'run'>,
  statement: Statement<T>,
  tries = MAX_TRIES,
): Promise<T> {
  const { lock, isSnapshot, record } = statement;
  try {
    return await database.run(statement, 'write');
  } catch (error) {
    if (isUnanswered(error)) throw new LostWrite(error as Error);
    if (!lock || !isLocked(error) || tries <= 1) throw error;
  }
  if (!isSnapshot) return runWrite(database, { ...statement, preamble: lock(), lock: undefined });
  await database.run({ text: 'select', values: [], preamble: lock(), decode: nothing, record }, 'write');
  return runWrite(database, statement, tries - 1);
}

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
