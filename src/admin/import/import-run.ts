import { createHash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { RawRow } from '../../db/connection/database.ts';
import type { Statement } from '../../db/fragment.ts';
import { asProblem } from '../../db/connection/database-errors.ts';
import type { FieldErrors } from '../../errors.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { createOperations } from '../../resources/records/operations.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { PIECE } from '../web/html.ts';
import type { ImportFile } from './import-file.ts';
import {
  createImporter,
  faulty,
  findNamed,
  lockNamed,
  ROW,
  type NamedRow,
  type RowKind,
  type RowOutcome,
} from './import-rows.ts';
import { isOneself } from '../session/lock-out.ts';
import type { AdminRequest } from '../web/admin-request.ts';

export interface ImportOutcome {
  readonly counts: Readonly<Record<RowKind, number>>;
  /** The first rows of each kind. */
  readonly shown: Readonly<Record<RowKind, readonly RowOutcome[]>>;
  /** Stands for all that the import does: another one means that it would do something else. */
  readonly digest: string;
}

/** How many rows of each kind are kept to be shown. A faulty row may list a fault for each of its columns. */
const MOST_SHOWN: Readonly<Record<RowKind, number>> = { new: 200, changed: 200, unchanged: 0, faulty: 50 };
/** How many rows share a savepoint, as long as none of them fails: each costs the database's other transactions something. */
const GROUP = 64;

/**
 * Whether a row can neither be a duplicate of another one, except by its key, nor refer to it. A preview can then undo one group
 * of rows before it tries the next.
 */
const hasIndependentRows = ({ model }: AdminResource): boolean =>
  model.uniques.size > 0 &&
  [...model.uniques.values()].every((columns) => columns.length === 1 && columns[0] === model.primaryKey) &&
  model.columns.every(({ references }) => references?.table !== model.table);

/** Ends a transaction that is not to be. */
class Undone extends Error {}

/** What the row cannot do, by what went wrong. @throws what is no fault of the row */
function errorsOf(error: unknown): FieldErrors {
  const problem = asProblem(error);
  if (!problem || problem.status >= 500) throw error;
  return problem.errors ?? { [ROW]: [problem.message] };
}

const lengthOf = ({ row: { cells } }: NamedRow): number =>
  cells.reduce((length, cell) => length + (cell?.length ?? 0), 0);

/** Adds texts to a hash so that no other texts give the same. JSON of a long text would hold the event loop. */
function addTexts(hash: Hash, texts: readonly (string | null)[]): void {
  hash.update(`${texts.map((text) => text?.length ?? 'null').join(',')};`);
  for (const text of texts) if (text !== null) hash.update(text);
}

/** Counts, keeps the first rows of each kind, and takes the mark of all. */
function createTally(resource: AdminResource, { columns }: ImportFile) {
  const counts = { new: 0, changed: 0, unchanged: 0, faulty: 0 };
  const shown: Record<RowKind, RowOutcome[]> = { new: [], changed: [], unchanged: [], faulty: [] };
  const hash = createHash('sha256').update(resource.name);
  return {
    add(outcome: RowOutcome, { row: { cells } }: NamedRow): void {
      const { kind, line, id, changes } = outcome;
      counts[kind] += 1;
      if (shown[kind].length < MOST_SHOWN[kind]) shown[kind].push(outcome);
      // What the database gives to a new record by itself (a number, the time) is another one each time.
      const told = changes
        .filter(({ column }) => columns.includes(column))
        .flatMap(({ column, before, after }) => [column.key, before, after]);
      addTexts(hash, [String(line), kind, id ?? null, ...(kind === 'new' ? cells : told)]);
    },
    outcome: (): ImportOutcome => ({ counts, shown, digest: hash.digest('base64url') }),
  };
}

/**
 * Imports a file in one transaction, which is kept where that is wanted of what it does, and undone else.
 * @param mark of the form: what has been kept already is not done again
 * @param isPreview whether it is undone in any case
 * @returns `done` for that
 * @throws Problem 503 when the database is in the way
 */
export async function runImportFile(
  context: AdminContext,
  { caller, token }: AdminRequest,
  resource: AdminResource,
  file: ImportFile,
  isWanted: (outcome: ImportOutcome) => boolean,
  mark: string | undefined,
  isPreview: boolean,
): Promise<ImportOutcome | 'done'> {
  const { database, resources, passwords, history, sessions } = context;
  const tally = createTally(resource, file);
  const isPassing = isPreview && hasIndependentRows(resource);
  let outcome: ImportOutcome | 'done' | undefined;
  try {
    await database.transaction(async (send) => {
      if (mark !== undefined && (await sessions.whatWasDone(send, token, mark)) !== undefined) {
        outcome = 'done';
        return;
      }
      const run = (statement: Statement): Promise<RawRow[]> => send(statement.text, statement.values);
      const operations = createOperations({ run }, resources, passwords, history.model);
      const importRow = createImporter(operations, resource, caller, file, (id) =>
        isOneself(context, resource, id, caller),
      );

      /** Imports rows one after the other; where one fails, those without it: it is found by halves. */
      async function importRows(rows: readonly NamedRow[]): Promise<RowOutcome[]> {
        const outcomes: RowOutcome[] = [];
        await send('savepoint rows');
        try {
          for (const row of rows) {
            // A faulty row sends no statement, during which other requests are served.
            if (lengthOf(row) > PIECE) await setImmediate();
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

      // What the database would find at the end only is to be told of the row that it is about.
      await send('set constraints all immediate');
      const named = await findNamed(run, resource, file, !isPassing);
      for (let at = 0; at < named.length; at += GROUP) {
        const group = named.slice(at, at + GROUP);
        if (isPassing) await send('savepoint passing');
        if (isPassing) await lockNamed(run, resource, group);
        const outcomes = await importRows(group);
        // Gives the locks back before the next group.
        if (isPassing) await send('rollback to savepoint passing');
        if (isPassing) await send('release savepoint passing');
        group.forEach((row, index) => {
          const done = outcomes[index];
          if (done) tally.add(done, row);
        });
      }
      outcome = tally.outcome();
      if (!isWanted(outcome)) throw new Undone();
      if (mark !== undefined) await sessions.noteDone(send, token, mark, 'imported');
    }, 'bulk');
  } catch (error) {
    if (!(error instanceof Undone)) throw error;
  }
  if (!outcome) throw new Error('the import has no outcome');
  return outcome;
}
