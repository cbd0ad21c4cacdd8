// Counts the rows of an import, and keeps what the preview shows of them.
import { createHash, type Hash } from 'node:crypto';
import type { Column } from '../../db/schema/model.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { cutForShortening, shownValue } from '../web/display-text.ts';
import type { ImportFile } from './import-file.ts';
import type { MatchedRow } from './import-matches.ts';
import type { RowKind, RowOutcome } from './import-rows.ts';

/** The number of characters that the preview shows of a value. */
export const SHOWN_LENGTH = 80;

export interface ImportOutcome {
  readonly counts: Readonly<Record<RowKind, number>>;
  /** The columns that change in existing records. */
  readonly changed: ReadonlySet<Column>;
  /** The first rows of each kind. */
  readonly shown: Readonly<Record<RowKind, readonly RowOutcome[]>>;
  /** A digest of the rows and the values that they replace. A different one means that the records have changed. */
  readonly digest: string;
}

/** The maximum number of rows of each kind kept for the preview. Faulty rows may have an error per column. */
const MAX_SHOWN: Readonly<Record<RowKind, number>> = { new: 200, changed: 200, unchanged: 0, faulty: 50 };
/** The maximum number of changes and errors kept of each kind: a row of a wide table has one for each column. */
const MAX_DETAILS = 10_000;
/** An outcome that has only the beginnings of long values. */
export interface CondensedOutcome extends RowOutcome {
  /** A digest of the whole row and of the values that it replaces. */
  readonly digest: Buffer;
}

/** Adds texts to a hash without ambiguity: their lengths come first. JSON of a long text would block the event loop. */
function addTexts(hash: Hash, texts: readonly (string | null)[]): Hash {
  hash.update(`${texts.map((text) => text?.length ?? 'null').join(',')};`);
  for (const text of texts) if (text !== null) hash.update(text);
  return hash;
}

/** What the preview needs of a value. A key stays complete, because its record is looked up. */
function condensed(column: Column, text: string | null): string | null {
  if (text === null) return null;
  const beginning = cutForShortening(text, SHOWN_LENGTH);
  const part =
    column.references || beginning === text
      ? text
      : cutForShortening(String(shownValue(column, text)), SHOWN_LENGTH);
  // A part of a string would keep all of it in memory.
  return Buffer.from(part).toString();
}

/** Counts the rows, keeps the first of each kind, and computes the digest. */
export function createTally(resource: AdminView, { columns }: ImportFile) {
  const counts = { new: 0, changed: 0, unchanged: 0, faulty: 0 };
  const shown: Record<RowKind, RowOutcome[]> = { new: [], changed: [], unchanged: [], faulty: [] };
  const changed = new Set<Column>();
  const details = { new: 0, changed: 0, unchanged: 0, faulty: 0 };
  const hash = createHash('sha256').update([resource.name, ...columns.map(({ key }) => key)].join());
  return {
    condense(outcome: RowOutcome, { row: { cells } }: MatchedRow): CondensedOutcome {
      const { kind, line, id, changes } = outcome;
      // The file, and what the records have now. What the database computes (a key, the time) differs in every trial.
      const replaced = changes
        .filter(({ column, before }) => before !== null && columns.includes(column))
        .flatMap(({ column, before }) => [column.key, before]);
      const texts = [String(line), kind, id ?? null, ...cells, ...replaced];
      return {
        ...outcome,
        changes: changes.map(({ column, before, after }) => ({
          column,
          before: condensed(column, before),
          after: condensed(column, after),
        })),
        digest: addTexts(createHash('sha256'), texts).digest(),
      };
    },

    add(this: void, outcome: CondensedOutcome): void {
      const { kind, digest, changes, errors } = outcome;
      counts[kind] += 1;
      if (kind === 'changed') changes.forEach(({ column }) => changed.add(column));
      if (shown[kind].length < MAX_SHOWN[kind] && details[kind] < MAX_DETAILS) {
        details[kind] += changes.length + Object.keys(errors).length;
        shown[kind].push(outcome);
      }
      hash.update(digest);
    },

    outcome: (): ImportOutcome => ({ counts, changed, shown, digest: hash.digest('base64url') }),
  };
}
