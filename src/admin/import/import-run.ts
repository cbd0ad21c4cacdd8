// Imports a file in one transaction, as a trial for the preview or for good, and tallies what that changes.
import { createHash, type Hash } from 'node:crypto';
import { asProblem } from '../../db/connection/database-errors.ts';
import { checkedAtEnd, SAVEPOINT } from '../../db/connection/transactions.ts';
import type { Column } from '../../db/schema/model.ts';
import type { FieldErrors } from '../../errors.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { BrokenRule } from '../../resources/records/explain.ts';
import { assertSession } from '../session/assert-session.ts';
import { isOwnUser } from '../session/password-confirmation.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { cutForShortening, shownValue } from '../web/display-text.ts';
import { separated, t } from '../web/language.ts';
import { sentence } from '../web/widgets.ts';
import type { FileRow, ImportFile } from './import-file.ts';
import type { Mapping } from './import-mapping.ts';
import {
  createImporter,
  faulty,
  matchRows,
  type MatchedRow,
  type RowKind,
  type RowOutcome,
} from './import-rows.ts';
import { readRows, WHOLE_ROW } from './import-values.ts';

/** The number of characters that the preview shows of a value. */
export const SHOWN_LENGTH = 80;

export interface ImportOutcome {
  readonly counts: Readonly<Record<RowKind, number>>;
  /** The columns that change in existing records. */
  readonly changed: ReadonlySet<Column>;
  /** The first rows of each kind. */
  readonly shown: Readonly<Record<RowKind, readonly CondensedOutcome[]>>;
  /** Why rows are faulty, by their lines. */
  readonly reasons: ReadonlyMap<number, string>;
  /** A digest of the rows and the values that they replace. A different one means that the records have changed. */
  readonly digest: string;
}

/** The maximum number of rows of each kind kept for the preview. Faulty rows may have an error per column. */
const MAX_SHOWN: Readonly<Record<RowKind, number>> = { new: 200, changed: 200, unchanged: 0, faulty: 50 };
/** The maximum number of changes and errors kept of each kind: a row of a wide table has one for each column. */
const MAX_DETAILS = 10_000;
/** Maximum characters of the reasons why a row is faulty. */
const MAX_REASON = 2000;
/** The outcome of a row with only the beginnings of long values. */
export interface CondensedOutcome extends Pick<RowOutcome, 'kind' | 'changes'> {
  readonly line: number;
  /** The record's key; undefined if the database generates it. */
  readonly id: string | undefined;
  /** Its errors as texts, with the cells that have them. */
  readonly faults: readonly (readonly [text: string, cell: string])[];
  /** A digest of the whole row and of the values that it replaces. */
  readonly digest: Buffer;
}

/** Adds texts to a hash without ambiguity: their lengths come first. JSON of a long text would block the event loop. */
function addTexts(hash: Hash, texts: readonly (string | null)[]): Hash {
  hash.update(`${texts.map((text) => text?.length ?? 'null').join(',')};`);
  for (const text of texts) if (text !== null) hash.update(text);
  return hash;
}

/** A part of a string would keep all of it in memory. */
const copied = (part: string): string => Buffer.from(part).toString();

/** The part of a text that the preview shows. */
const beginningOf = (text: string): string => copied(cutForShortening(text, SHOWN_LENGTH));

/** What the preview needs of a value. A key stays complete, because its record is looked up. */
function condensed(column: Column, text: string | null): string | null {
  if (text === null) return null;
  const isWhole = column.references || cutForShortening(text, SHOWN_LENGTH) === text;
  return isWhole ? copied(text) : beginningOf(String(shownValue(column, text)));
}

/** Counts the rows, keeps the first of each kind, and computes the digest. */
function createTally(resource: AdminView, { mapped, columns, by }: Mapping) {
  const counts = { new: 0, changed: 0, unchanged: 0, faulty: 0 };
  const reasons = new Map<number, string>();
  const { primaryKey, columns: all } = resource.model;
  const titles = new Map([primaryKey, ...all].map(({ key, title }) => [key, title]));
  const positions = new Map(mapped.map(({ column, index }) => [column.key, index]));
  const faultsOf = (errors: FieldErrors, { cells }: FileRow): CondensedOutcome['faults'] =>
    Object.entries(errors).map(([field, messages]) => {
      const text = separated(messages);
      const cell = field === primaryKey.key ? null : cells[positions.get(field) ?? -1];
      const shownText =
        field === WHOLE_ROW
          ? sentence(text)
          : t('labeled', { label: titles.get(field) ?? field, value: text });
      return [shownText, beginningOf(cell ?? '')];
    });
  const shown: Record<RowKind, CondensedOutcome[]> = { new: [], changed: [], unchanged: [], faulty: [] };
  const changed = new Set<Column>();
  const details = { new: 0, changed: 0, unchanged: 0, faulty: 0 };
  const hash = createHash('sha256').update([resource.name, by?.key, ...columns.map(({ key }) => key)].join());
  return {
    condense({ kind, changes, errors }: RowOutcome, { row, id }: MatchedRow): CondensedOutcome {
      const { line } = row;
      // The file, and what the records have now. What the database computes (a key, the time) differs in every trial.
      const replaced = changes
        .filter(({ column, before }) => before !== null && columns.includes(column))
        .flatMap(({ column, before }) => [column.key, before]);
      const texts = [String(line), kind, id ?? null, ...row.values, ...replaced];
      return {
        kind,
        line,
        id,
        changes: changes.map(({ column, before, after }) => ({
          column,
          before: condensed(column, before),
          after: condensed(column, after),
        })),
        faults: faultsOf(errors, row),
        digest: addTexts(createHash('sha256'), texts).digest(),
      };
    },

    add(this: void, outcome: CondensedOutcome): void {
      const { kind, line, digest, changes, faults } = outcome;
      counts[kind] += 1;
      const texts = separated(faults.map(([text]) => text));
      if (kind === 'faulty') reasons.set(line, copied(texts.slice(0, MAX_REASON)));
      if (kind === 'changed') changes.forEach(({ column }) => changed.add(column));
      if (shown[kind].length < MAX_SHOWN[kind] && details[kind] < MAX_DETAILS) {
        details[kind] += changes.length + faults.length;
        shown[kind].push(outcome);
      }
      hash.update(digest);
    },

    outcome: (): ImportOutcome => ({ counts, changed, shown, reasons, digest: hash.digest('base64url') }),
  };
}

/** Thrown to roll the transaction back. */
class Rollback extends Error {}

/** The row's errors from a database error. @throws the error itself if it is not the row's fault */
function errorsOf(error: unknown): FieldErrors {
  const problem = asProblem(error);
  if (!problem || problem.status >= 500) throw error;
  const { errors = {}, message } = problem;
  const texts = Object.values(errors).flat();
  // The values that another record has, too, are one fault.
  if (problem.status === 409 && texts.length > 1) return { [WHOLE_ROW]: texts.slice(0, 1) };
  // The errors of the columns may be the text that the resource has for the rule.
  const isSaid = problem instanceof BrokenRule ? texts.includes(message) : texts.length > 0;
  return isSaid ? errors : { [WHOLE_ROW]: [message], ...errors };
}

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
  mapping: Mapping,
  isWanted: (outcome: ImportOutcome) => boolean,
  submission: string | undefined,
): Promise<ImportOutcome | 'alreadyDone'> {
  const { caller, resource, inTransaction, sessions, token, report } = context;
  let tally = createTally(resource, mapping);
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
      const yieldIfDue = context.request.requester.workInTurns();
      const rows = await readRows(run, context, file.rows, mapping.mapped, yieldIfDue);
      const importRow = createImporter(operations, run, resource, caller, mapping, isOwn);

      /** Imports rows in order. If one fails, it imports those before that row again, and then those after it. */
      async function importRows(rows: readonly MatchedRow[]): Promise<CondensedOutcome[]> {
        if (rows.length === 0) return [];
        const outcomes: CondensedOutcome[] = [];
        await send(SAVEPOINT.set);
        try {
          for (const row of rows) {
            // An invalid row sends no statement, so nothing else would let other requests run.
            await yieldIfDue();
            outcomes.push(tally.condense(await importRow(row), row));
          }
        } catch (error) {
          const failed = rows[outcomes.length];
          if (!failed) throw error;
          const refused = tally.condense(faulty(errorsOf(error)), failed);
          await send(SAVEPOINT.rollBack);
          await send(SAVEPOINT.release);
          const before = await importRows(rows.slice(0, outcomes.length));
          return [...before, refused, ...(await importRows(rows.slice(outcomes.length + 1)))];
        }
        await send(SAVEPOINT.release);
        return outcomes;
      }

      outcome = await checkedAtEnd(transaction, async () => {
        tally = createTally(resource, mapping);
        for await (const group of matchRows(run, resource, mapping, rows, yieldIfDue))
          (await importRows(group)).forEach(tally.add);
        return tally.outcome();
      });
      if (!isWanted(outcome)) throw new Rollback();
      await assertSession(context);
      const detail = { resource: resource.name, ...outcome.counts };
      await report('import', detail, transaction);
      if (submission !== undefined) await sessions.noteResult(transaction, token, submission, 'imported');
    });
  } catch (error) {
    if (!(error instanceof Rollback)) throw error;
  }
  if (!outcome) throw new Error('the import has no outcome');
  return outcome;
}
