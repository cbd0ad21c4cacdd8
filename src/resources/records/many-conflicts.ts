// Explains why the database rejected several new records.
import type { Database } from '../../db/connection/database.ts';
import {
  isDatabaseError,
  isRaised,
  isRuleError,
  type DatabaseError,
} from '../../db/connection/database-errors.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { Column } from '../../db/schema/model.ts';
import { addError, MAX_REPORTED, Problem, type FieldErrors } from '../../errors.ts';
import type { Change } from '../../query/statements/change.ts';
import { isRolledBack } from '../../query/statements/check-statements.ts';
import { duplicatesStatement } from '../../query/statements/insert-many.ts';
import type { ServedResource } from '../serve/served-resource.ts';
import {
  BrokenRule,
  conflict,
  conflictProblem,
  valuesIn,
  explainNew,
  explainRule,
  isFromTrigger,
  locateError,
  UNIQUE_VIOLATION,
} from './conflicts.ts';
import { FOREIGN_KEY_VIOLATION, missingReference } from '../references/reference-checks.ts';
import { isRewrittenByRule, suppressed } from './write-result.ts';

/** A record that is to be created. */
export interface NewRecord {
  readonly changes: readonly Change[];
}

/** A fault's name: the position of the record, from 0, and the name of the field. */
export const nameOf = (index: number, key: string): string => `${index}.${key}`;

/** The errors of the first record first. */
export const inOrder = (errors: FieldErrors): FieldErrors =>
  Object.fromEntries(Object.entries(errors).sort(([one], [other]) => parseInt(one) - parseInt(other)));

export interface RejectedRecords {
  readonly records: readonly NewRecord[];
  readonly resource: ServedResource;
  readonly database: Pick<Database, 'run'>;
  readonly yieldIfDue: YieldIfDue;
  /** Inserts the first records without a lasting effect. It always throws: `isRolledBack` if it succeeds. */
  readonly tryFirst: (count: number) => Promise<void>;
}

/** The values of a record in some columns; undefined where it lacks one, as NULL is never a duplicate. */
function valuesOf({ changes }: NewRecord, columns: readonly Column[]): string[] | undefined {
  const values = columns.map((column) => changes.find((change) => change.column === column)?.value ?? null);
  return values.every((value) => value !== null) ? values : undefined;
}

/** The errors of records that have the values of a stored record, or of one before them, in unique columns. */
async function duplicateErrorsOfMany({
  records,
  resource: { model, owner },
  database,
  yieldIfDue,
}: RejectedRecords): Promise<FieldErrors> {
  const errors: FieldErrors = {};
  let count = 0;
  for (const columns of model.wholeUniques) {
    const sent: { readonly index: number; readonly values: readonly string[] }[] = [];
    for (const [index, record] of records.entries()) {
      const pause = yieldIfDue();
      if (pause) await pause;
      const values = valuesOf(record, columns);
      if (values) sent.push({ index, values });
    }
    if (sent.length === 0) continue;
    const rows = sent.map(({ values }) => values);
    const found = await database.run(duplicatesStatement(model, columns, rows), 'write');
    for (const { index } of sent.filter((_, at) => found[at])) {
      if ((count += 1) > MAX_REPORTED) break;
      for (const column of columns)
        if (column !== owner) addError(errors, nameOf(index, column.key), 'another record has this value');
    }
  }
  return errors;
}

/** SQLSTATEs of refused values and rows. */
const REFUSED = /^(22|23|44)/;

const isRefusal = (error: DatabaseError): boolean =>
  REFUSED.test(error.code) || isRewrittenByRule(error) || isRuleError(error);

/** Explains why the database rejected the records, see `conflictProblem`. */
export async function manyConflicts(cause: unknown, rejected: RejectedRecords): Promise<unknown> {
  const { records, resource, database } = rejected;
  const error = await locateError(cause, { resource, records, isNew: true }, database);
  if (!isDatabaseError(error)) return error;
  if (isRewrittenByRule(error) || isRolledBack(error)) return suppressed();
  const explained = await explain(error, rejected);
  const isSearched = explained === error ? isOfOneRecord(error) : isUnnamed(error, explained);
  return isSearched
    ? explainRecord(error, explained, rejected)
    : withoutFields(explainRule(error, resource, explained, valuesIn(records)), explained);
}

/** The answer where it is not known which record broke a rule: the rule's fields alone would name none. */
const withoutFields = (refusal: unknown, explained: unknown): unknown =>
  refusal instanceof BrokenRule && !(explained instanceof Problem && explained.errors)
    ? Object.assign(new BrokenRule(refusal.status, refusal.message), { cause: refusal.cause })
    : refusal;

/** Whether the values of one record are the reason, and not another record. */
const isOfOneRecord = (error: DatabaseError): boolean =>
  isRefusal(error) &&
  (isRaised(error) || (error.code !== UNIQUE_VIOLATION && error.code !== FOREIGN_KEY_VIOLATION));

/** Whether it is a duplicate that no column names, such as one in a unique index on an expression or with a condition. */
const isUnnamed = ({ code }: DatabaseError, explained: unknown): boolean =>
  code === UNIQUE_VIOLATION && explained instanceof Problem && explained.errors === undefined;

/** Explains the error, and names the position of the refused record if it is found. */
async function explainRecord(
  error: DatabaseError,
  explained: unknown,
  rejected: RejectedRecords,
): Promise<unknown> {
  const { records, resource, database } = rejected;
  const found = await refusedRecord(error, rejected);
  if (!found) return withoutFields(explainRule(error, resource, explained, valuesIn(records)), explained);
  const refused = {
    resource,
    records: records.slice(found.position, found.position + 1),
    isNew: true,
  };
  const reason = await locateError(found.error, refused, database);
  if (!isDatabaseError(reason)) return reason;
  const own = conflictProblem(reason, resource, refused);
  const refusal = explainRule(reason, resource, own, valuesIn(refused.records));
  if (!(refusal instanceof Problem)) return refusal;
  const { status, message, errors = {} } = refusal;
  const named = Object.entries(errors).map(([key, faults]) => [nameOf(found.position, key), faults] as const);
  const places: FieldErrors = named.length > 0 ? Object.fromEntries(named) : { [found.position]: [message] };
  return Object.assign(new Problem(status, message, { errors: places }), { cause: reason });
}

/** Milliseconds after which the search for a refused record ends. */
const MAX_SEARCH = 3_000;

/**
 * The first record that the database refuses after those before it. PostgreSQL does not say which it was, so the search halves the
 * range and tries all records up to its middle.
 */
async function refusedRecord(
  error: DatabaseError,
  { records, tryFirst }: RejectedRecords,
): Promise<{ position: number; error: DatabaseError } | undefined> {
  const end = performance.now() + MAX_SEARCH;
  let found = { position: records.length - 1, error };
  let accepted = 0;
  while (accepted < found.position) {
    const middle = Math.ceil((accepted + found.position) / 2);
    const outcome = await tryFirst(middle).catch((one: unknown) => one);
    if (!isDatabaseError(outcome) || performance.now() > end) return undefined;
    if (isRolledBack(outcome)) accepted = middle;
    else if (outcome.code === error.code) found = { position: middle - 1, error: outcome };
    else return undefined;
  }
  if (found.error !== error || records.length === 1) return found;
  // An AFTER trigger or a deferred constraint may have refused any of them, and does not run in a trial.
  const outcome = await tryFirst(records.length).catch((one: unknown) => one);
  return isDatabaseError(outcome) && outcome.code === error.code ? found : undefined;
}

async function explain(error: DatabaseError, rejected: RejectedRecords): Promise<unknown> {
  const { records, resource } = rejected;
  if (error.code === UNIQUE_VIOLATION && !isFromTrigger(error, resource.model))
    return conflict(await duplicateErrorsOfMany(rejected));
  const changes = records.flatMap((record) => record.changes);
  const missing = missingReference(error, resource, changes);
  if (!missing) return explainNew(error);
  const names = Object.keys(missing.errors ?? {});
  return new Problem(
    400,
    `At least one record refers with ${names.join(', ')} to a record that does not exist.`,
  );
}
