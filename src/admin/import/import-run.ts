// Imports a file in one transaction: as a trial for the preview, or for good.
import { setImmediate } from 'node:timers/promises';
import { asProblem } from '../../db/connection/database-errors.ts';
import { CHECK_AT_ONCE, SAVEPOINT } from '../../db/connection/transactions.ts';
import type { FieldErrors } from '../../errors.ts';
import { BrokenRule } from '../../resources/records/explain.ts';
import { factsOf } from '../../resources/users/events.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { PIECE } from '../web/html.ts';
import type { ImportFile } from './import-file.ts';
import { matchRows, WHOLE_ROW, type MatchedRow } from './import-matches.ts';
import { createImporter, faulty } from './import-rows.ts';
import { createTally, type CondensedOutcome, type ImportOutcome } from './import-tally.ts';
import { assertSession } from '../session/assert-session.ts';
import { isOwnUser } from '../session/lock-out.ts';
import { inBatch } from '../../resources/access/access.ts';

/** Thrown to roll the transaction back. */
class Rollback extends Error {}

/** The row's errors from a database error. @throws the error itself if it is not the row's fault */
function errorsOf(error: unknown): FieldErrors {
  const problem = asProblem(error);
  if (!problem || problem.status >= 500) throw error;
  const { errors = {}, message } = problem;
  const texts = Object.values(errors).flat();
  // The errors of the columns may be the text that the resource has for the rule.
  const isSaid = problem instanceof BrokenRule ? texts.includes(message) : texts.length > 0;
  return isSaid ? errors : { [WHOLE_ROW]: [message], ...errors };
}

const charactersIn = ({ row: { cells } }: MatchedRow): number =>
  cells.reduce((length, cell) => length + (cell?.length ?? 0), 0);

/**
 * Imports a file in one transaction, and commits it only if `isWanted` accepts the outcome. A preview runs all rows before the
 * rollback, because a constraint or a trigger may look at any of them.
 * @param submission identifies the submitted form, so that it is imported only once
 * @returns `alreadyDone` if the form was imported before
 * @throws Problem 503 if the database cannot run the import now, 403 if the session has ended meanwhile
 */
export async function runImportFile(
  context: ResourceContext,
  file: ImportFile,
  isWanted: (outcome: ImportOutcome) => boolean,
  submission: string | undefined,
): Promise<ImportOutcome | 'alreadyDone'> {
  const { resource, inTransaction, sessions, token, request, recordEvent } = context;
  const caller = inBatch(context.caller);
  const tally = createTally(resource, file);
  let outcome: ImportOutcome | 'alreadyDone' | undefined;
  try {
    await inTransaction(async (operations, transaction) => {
      const { run, send } = transaction;
      if (
        submission !== undefined &&
        (await sessions.submittedResult(transaction, token, submission)) !== undefined
      ) {
        outcome = 'alreadyDone';
        return;
      }
      const isOwn = (id: string | undefined): boolean => isOwnUser(context, id);
      const importRow = createImporter(operations, run, resource, caller, file, isOwn);

      /** Imports rows in order. If one fails, it halves the list and tries again, until only that row is left out. */
      async function importRows(rows: readonly MatchedRow[]): Promise<CondensedOutcome[]> {
        const outcomes: CondensedOutcome[] = [];
        await send(SAVEPOINT.set);
        try {
          for (const row of rows) {
            // An invalid row sends no statement, so nothing else would let other requests run.
            if (charactersIn(row) > PIECE) await setImmediate();
            outcomes.push(tally.condense(await importRow(row), row));
          }
        } catch (error) {
          const errors = errorsOf(error);
          await send(SAVEPOINT.rollBack);
          const [first] = rows;
          const middle = rows.length >> 1;
          outcomes.length = 0;
          if (first && middle === 0) outcomes.push(tally.condense(faulty(first, errors), first));
          else
            for (const half of [rows.slice(0, middle), rows.slice(middle)])
              outcomes.push(...(await importRows(half)));
        }
        await send(SAVEPOINT.release);
        return outcomes;
      }

      await send(CHECK_AT_ONCE);
      for await (const group of matchRows(run, resource, file)) (await importRows(group)).forEach(tally.add);
      outcome = tally.outcome();
      if (!isWanted(outcome)) throw new Rollback();
      await assertSession(context);
      const detail = { resource: resource.name, ...outcome.counts };
      await recordEvent('import', factsOf(request, caller, detail), transaction);
      if (submission !== undefined) await sessions.noteResult(transaction, token, submission, 'imported');
    });
  } catch (error) {
    if (!(error instanceof Rollback)) throw error;
  }
  if (!outcome) throw new Error('the import has no outcome');
  return outcome;
}
