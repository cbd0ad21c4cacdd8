// Interprets the row that a writing statement returns: as a result, a problem, or a reason to retry.
import { text, type RawRow } from '../../db/connection/database.ts';
import { NOT_ALLOWED } from '../../db/connection/database-errors.ts';
import { addError, notFound, Problem, unavailable, type FieldErrors } from '../../errors.ts';
import type { Check } from '../../query/statements/check-statements.ts';
import { CallerChanged, type Caller } from '../serve/served-resource.ts';

export const NO_RECORD = 'There is no such record.';

/** Parses a PostgreSQL array of booleans: `{t,f}`. */
export const parseBooleans = (cell: Buffer | null | undefined): boolean[] =>
  [...(text(cell) ?? '').matchAll(/[tf]/g)].map(([letter]) => letter === 't');

/** Reports the failed checks. */
export function addCheckErrors(
  checks: readonly Check[],
  results: readonly boolean[],
  errors: FieldErrors,
): void {
  checks.forEach(({ key, fault }, index) => {
    if (!results[index]) addError(errors, key, fault);
  });
}

/** Outcome of an UPDATE or DELETE: the statement's row, and whether the caller owns the record. */
export interface WriteOutcome {
  readonly row: RawRow | undefined;
  readonly ownership: 'own' | 'others' | 'missing';
}

/**
 * Runs the statement that changes or deletes a record. When it finds no record of the caller's, `checkOwnership` distinguishes a
 * missing record from another owner's. The statement runs once more when the caller has become the owner in between.
 * @param change its row begins with the version of the record that it found
 * @throws CallerChanged when the record may only be missing because the caller's precondition failed
 */
export async function writeOutcome(
  change: () => Promise<RawRow[]>,
  checkOwnership: (() => Promise<RawRow[]>) | undefined,
  { precondition }: Caller,
): Promise<WriteOutcome> {
  const attempt = async (): Promise<WriteOutcome | undefined> => {
    const [row] = await change();
    if (row?.[0]) return { row, ownership: 'own' };
    const [owned] = (await checkOwnership?.()) ?? [];
    if (owned && text(owned[0]) !== 't') return { row, ownership: 'others' };
    if (precondition) throw new CallerChanged();
    return owned ? undefined : { row, ownership: 'missing' };
  };
  const outcome = (await attempt()) ?? (await attempt());
  if (!outcome) throw unavailable('Other requests keep changing this record. Try again.');
  return outcome;
}

/** @throws Problem 404, 403 or 412, in this order of precedence */
export function assertChangeable({ row, ownership }: WriteOutcome): void {
  if (ownership === 'missing') throw notFound(NO_RECORD);
  if (ownership === 'others') throw new Problem(403, 'Only the owner of a record may change or delete it.');
  if (text(row?.[1]) !== 't') throw new Problem(412, 'The record has changed since it was read.');
}

/** SQLSTATE of a statement that a rule (CREATE RULE) has rewritten into one without RETURNING. */
export const NOT_SUPPORTED = '0A000';

/** Whether a trigger canceled the change, by the row of `updateStatement`. */
export const isSuppressed = (row: RawRow | undefined): boolean => text(row?.[5]) === 't';

/** The problem for a write that a trigger canceled without an error. */
export const suppressed = (): Problem => new Problem(409, NOT_ALLOWED);
