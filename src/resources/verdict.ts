// What the answer of a statement that writes means to whoever has asked for it.
import { text, type RawRow } from '../db/connection.ts';
import { addError, notFound, Problem, unavailable, type FieldErrors } from '../errors.ts';
import type { Check } from '../query/write.ts';
import { CallerChanged, type Caller } from './served.ts';

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

/**
 * Runs the statement that changes or deletes a record. Where that has found none that is the caller's, it asks whose it is;
 * where the record was the caller's when it began and could not be had
 * any more, it is run anew: it has been given away or deleted meanwhile, or the caller is no longer who it was.
 */
export async function settled(
  change: () => Promise<RawRow[]>,
  whose: (() => Promise<RawRow[]>) | undefined,
  { claim }: Caller,
): Promise<RawRow | undefined> {
  const isUnsettled = (row: RawRow | undefined): boolean => !row?.[0] && text(row?.[1]) === 't';
  const run = async (): Promise<readonly [RawRow | undefined]> => {
    const [row] = await change();
    if (row?.[0] || !whose) return [row];
    const [owned] = await whose();
    return [[null, owned?.[0] ?? null, ...(row ?? []).slice(2)]];
  };
  const [row] = await run();
  if (!isUnsettled(row)) return row;
  if (claim) throw new CallerChanged();
  const [again] = await run();
  if (isUnsettled(again)) throw unavailable('Others keep changing this record. Try again.');
  return again;
}

/** A record that was not found may be one that the caller's claim has kept from being looked for. */
export function assertClaimed(row: RawRow | undefined, { claim }: Caller): void {
  if (!row?.[0] && !row?.[1] && claim) throw new CallerChanged();
}

/** In the order of the answers' precedence: 404, 403, 412. */
export function assertChangeable(row: RawRow | undefined): void {
  const [found, other, matches] = row ?? [];
  if (!found && !other) throw notFound(NO_RECORD);
  if (!found) throw new Problem(403, 'Only the owner of a record may change or delete it.');
  if (text(matches) !== 't') throw new Problem(412, 'The record has changed since it was read.');
}

/** What rules (CREATE RULE) make of a statement may be what PostgreSQL takes no records back from. */
export const NOT_SUPPORTED = '0A000';

/** A trigger can turn a write into nothing, without an error. */
export const suppressed = (): Problem => new Problem(409, 'A rule of the database does not allow this.');
