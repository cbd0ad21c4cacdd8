// What the answer of a statement that writes means to whoever has asked for it.
import { text, type RawRow } from '../../db/connection/database.ts';
import { addError, notFound, Problem, unavailable, type FieldErrors } from '../../errors.ts';
import type { Check } from '../../query/statements/check-statements.ts';
import { CallerChanged, type Caller } from '../serve/served-resource.ts';

/** What is said of a key that no record has. */
export const NO_RECORD = 'There is no such record.';

/** PostgreSQL's `{t,f}`. */
export const parseBooleans = (cell: Buffer | null | undefined): boolean[] =>
  [...(text(cell) ?? '').matchAll(/[tf]/g)].map(([letter]) => letter === 't');

/** Reports the checks that do not hold. */
export function addCheckErrors(
  checks: readonly Check[],
  results: readonly boolean[],
  errors: FieldErrors,
): void {
  checks.forEach(({ key, fault }, index) => {
    if (!results[index]) addError(errors, key, fault);
  });
}

/** How it stands with a record that was to be changed or deleted, and what the statement that was to do so has said. */
export interface WriteOutcome {
  readonly row: RawRow | undefined;
  readonly standing: 'own' | 'others' | 'missing';
}

/**
 * Runs the statement that changes or deletes a record. Where that has found none that is the caller's, it asks whose it is;
 * where the record is the caller's after all, it is run anew: it has been given to the caller meanwhile.
 * @param change its answer begins with the version of the record that it has found
 * @throws CallerChanged where the caller's precondition may have kept the record from being looked for
 */
export async function writeOutcome(
  change: () => Promise<RawRow[]>,
  whose: (() => Promise<RawRow[]>) | undefined,
  { precondition }: Caller,
): Promise<WriteOutcome> {
  const attempt = async (): Promise<WriteOutcome | undefined> => {
    const [row] = await change();
    if (row?.[0]) return { row, standing: 'own' };
    const [owned] = (await whose?.()) ?? [];
    if (owned && text(owned[0]) !== 't') return { row, standing: 'others' };
    if (precondition) throw new CallerChanged();
    return owned ? undefined : { row, standing: 'missing' };
  };
  const outcome = (await attempt()) ?? (await attempt());
  if (!outcome) throw unavailable('Others keep changing this record. Try again.');
  return outcome;
}

/** In the order of the answers' precedence: 404, 403, 412. */
export function assertChangeable({ row, standing }: WriteOutcome): void {
  if (standing === 'missing') throw notFound(NO_RECORD);
  if (standing === 'others') throw new Problem(403, 'Only the owner of a record may change or delete it.');
  if (text(row?.[1]) !== 't') throw new Problem(412, 'The record has changed since it was read.');
}

/** What rules (CREATE RULE) make of a statement may be what PostgreSQL takes no records back from. */
export const NOT_SUPPORTED = '0A000';

/** Whether a change was turned into nothing, by the row of `updateStatement`. */
export const isSuppressed = (row: RawRow | undefined): boolean => text(row?.[5]) === 't';

/** A trigger can turn a write into nothing, without an error. */
export const suppressed = (): Problem => new Problem(409, 'A rule of the database does not allow this.');
