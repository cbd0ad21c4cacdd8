// Imports a file in one transaction: as a trial for the preview, or for good.
import { createHash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { asProblem } from '../../db/connection/database-errors.ts';
import type { FieldErrors } from '../../errors.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { PIECE } from '../web/html.ts';
import type { ImportFile } from './import-file.ts';
import {
  createImporter,
  faulty,
  lockMatched,
  matchRows,
  WHOLE_ROW,
  type MatchedRow,
  type RowKind,
  type RowOutcome,
} from './import-rows.ts';
import { assertSession } from '../session/assert-session.ts';
import { isOwnUser } from '../session/lock-out.ts';

export interface ImportOutcome {
  readonly counts: Readonly<Record<RowKind, number>>;
  /** The first rows of each kind. */
  readonly shown: Readonly<Record<RowKind, readonly RowOutcome[]>>;
  /** A digest of all changes. A different digest means that the import would change something else. */
  readonly digest: string;
}

/** The maximum number of rows of each kind kept for the preview. Faulty rows may have an error per column. */
const MAX_SHOWN: Readonly<Record<RowKind, number>> = { new: 200, changed: 200, unchanged: 0, faulty: 50 };
/** The number of rows per savepoint. Savepoints slow down other transactions, so one for each row would be too many. */
const GROUP_SIZE = 64;

/**
 * Whether rows cannot affect each other: no unique column except the key, and no reference to the same table. A preview can
 * then undo each group of rows before the next one.
 */
const hasIndependentRows = ({ model }: AdminResource): boolean =>
  model.uniques.size > 0 &&
  [...model.uniques.values()].every((columns) => columns.length === 1 && columns[0] === model.primaryKey) &&
  model.columns.every(({ references }) => references?.table !== model.table);

/** Thrown to roll the transaction back. */
class Rollback extends Error {}

/** The row's errors from a database error. @throws the error itself if it is not the row's fault */
function errorsOf(error: unknown): FieldErrors {
  const problem = asProblem(error);
  if (!problem || problem.status >= 500) throw error;
  return problem.errors ?? { [WHOLE_ROW]: [problem.message] };
}

const charactersIn = ({ row: { cells } }: MatchedRow): number =>
  cells.reduce((length, cell) => length + (cell?.length ?? 0), 0);

/** Adds texts to a hash without ambiguity: their lengths come first. JSON of a long text would block the event loop. */
function addTexts(hash: Hash, texts: readonly (string | null)[]): void {
  hash.update(`${texts.map((text) => text?.length ?? 'null').join(',')};`);
  for (const text of texts) if (text !== null) hash.update(text);
}

/** Counts the rows, keeps the first of each kind, and computes the digest. */
function createTally(resource: AdminResource, { columns }: ImportFile) {
  const counts = { new: 0, changed: 0, unchanged: 0, faulty: 0 };
  const shown: Record<RowKind, RowOutcome[]> = { new: [], changed: [], unchanged: [], faulty: [] };
  const hash = createHash('sha256').update(resource.name);
  return {
    add(outcome: RowOutcome, { row: { cells } }: MatchedRow): void {
      const { kind, line, id, changes } = outcome;
      counts[kind] += 1;
      if (shown[kind].length < MAX_SHOWN[kind]) shown[kind].push(outcome);
      // Excludes generated values of new records (a key, the time), which differ in every trial.
      const values = changes
        .filter(({ column }) => columns.includes(column))
        .flatMap(({ column, before, after }) => [column.key, before, after]);
      addTexts(hash, [String(line), kind, id ?? null, ...(kind === 'new' ? cells : values)]);
    },
    outcome: (): ImportOutcome => ({ counts, shown, digest: hash.digest('base64url') }),
  };
}

/**
 * Imports a file in one transaction, and commits it only if `isWanted` accepts the outcome.
 * @param mark identifies the submitted form, so that it is imported only once
 * @param isPreview whether the transaction is rolled back in any case
 * @returns `alreadyDone` if the form was imported before
 * @throws Problem 503 if the database cannot run the import now, 403 if the session has ended meanwhile
 */
export async function runImportFile(
  context: ResourceContext,
  file: ImportFile,
  isWanted: (outcome: ImportOutcome) => boolean,
  mark: string | undefined,
  isPreview: boolean,
): Promise<ImportOutcome | 'alreadyDone'> {
  const { resource, inTransaction, sessions, caller, token } = context;
  const tally = createTally(resource, file);
  const undoesGroups = isPreview && hasIndependentRows(resource);
  let outcome: ImportOutcome | 'alreadyDone' | undefined;
  try {
    await inTransaction(async (operations, transaction) => {
      const { run, send } = transaction;
      if (mark !== undefined && (await sessions.whatWasDone(transaction, token, mark)) !== undefined) {
        outcome = 'alreadyDone';
        return;
      }
      const importRow = createImporter(operations, resource, caller, file, (id) => isOwnUser(context, id));

      /** Imports rows in order. If one fails, it halves the list and tries again, until only that row is left out. */
      async function importRows(rows: readonly MatchedRow[]): Promise<RowOutcome[]> {
        const outcomes: RowOutcome[] = [];
        await send('savepoint rows');
        try {
          for (const row of rows) {
            // An invalid row sends no statement, so nothing else would let other requests run.
            if (charactersIn(row) > PIECE) await setImmediate();
            outcomes.push(await importRow(row));
          }
        } catch (error) {
          const errors = errorsOf(error);
          await send('rollback to savepoint rows');
          const [first] = rows;
          const middle = rows.length >> 1;
          outcomes.length = 0;
          if (first && middle === 0) outcomes.push(faulty(first, errors));
          else
            for (const half of [rows.slice(0, middle), rows.slice(middle)])
              outcomes.push(...(await importRows(half)));
        }
        await send('release savepoint rows');
        return outcomes;
      }

      // Checks deferred constraints at each row, so that an error belongs to its row.
      await send('set constraints all immediate');
      const matched = await matchRows(run, resource, file, !undoesGroups);
      for (let at = 0; at < matched.length; at += GROUP_SIZE) {
        const group = matched.slice(at, at + GROUP_SIZE);
        if (undoesGroups) await send('savepoint passing');
        if (undoesGroups) await lockMatched(run, resource, group);
        const outcomes = await importRows(group);
        // Releases the locks before the next group.
        if (undoesGroups) await send('rollback to savepoint passing');
        if (undoesGroups) await send('release savepoint passing');
        group.forEach((row, index) => {
          const done = outcomes[index];
          if (done) tally.add(done, row);
        });
      }
      outcome = tally.outcome();
      if (!isWanted(outcome)) throw new Rollback();
      await assertSession(context);
      if (mark !== undefined) await sessions.noteDone(transaction, token, mark, 'imported');
    });
  } catch (error) {
    if (!(error instanceof Rollback)) throw error;
  }
  if (!outcome) throw new Error('the import has no outcome');
  return outcome;
}
