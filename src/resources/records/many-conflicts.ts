// Explains why the database rejected several new records.
import type { Database } from '../../db/connection/database.ts';
import {
  duplicateColumns,
  isDatabaseError,
  isOfTable,
  isRaised,
  isRuleError,
  type DatabaseError,
} from '../../db/connection/database-errors.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import { partsOf, type Column, type Model } from '../../db/schema/model.ts';
import { addError, badBody, MAX_REPORTED, Problem, type FieldErrors } from '../../errors.ts';
import type { Change } from '../../query/statements/change.ts';
import { isRolledBack } from '../../query/statements/check-statements.ts';
import { storedCombinationsStatement } from '../../query/statements/insert-many.ts';
import type { ServedResource } from '../serve/served-resource.ts';
import type { CheckedBody } from './checked-body.ts';
import {
  BrokenRule,
  conflict,
  duplicateErrors,
  valuesIn,
  explainNew,
  explainRule,
  isDuplicate,
  isFromTrigger,
  missingReferences,
  locateError,
  UNIQUE_VIOLATION,
  unspecificConflict,
} from './conflicts.ts';
import {
  findMissingOfMany,
  FOREIGN_KEY_VIOLATION,
  absentCompositeErrors,
  setsHidden,
  violatedComposite,
  type HiddenReference,
} from '../references/composite-references.ts';
import { isRewrittenByRule, suppressed } from './write-result.ts';

/** A record that is to be created. */
export interface NewRecord extends Pick<CheckedBody, 'hiddenReferences' | 'later'> {
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
  readonly mayRead: (model: Model) => boolean;
  readonly yieldIfDue: YieldIfDue;
  /** Inserts the first records without a lasting effect. It always throws: `isRolledBack` if it succeeds. */
  readonly tryFirst: (count: number) => Promise<void>;
}

/** The values of a record in some columns; undefined where it lacks one, as NULL is never a duplicate. */
function valuesOf({ changes }: Pick<NewRecord, 'changes'>, columns: readonly Column[]): string[] | undefined {
  const values = columns.map((column) => changes.find((change) => change.column === column)?.value ?? null);
  return values.every((value) => value !== null) ? values : undefined;
}

/**
 * Duplicates among the records and of stored ones, in unique columns that the caller may see. A caller who may not read
 * records learns of no stored one: a single request could test a thousand values.
 */
async function allDuplicateErrors({
  records,
  resource,
  database,
  mayRead,
  yieldIfDue,
}: RejectedRecords): Promise<FieldErrors> {
  const { model, output, owner } = resource;
  const errors: FieldErrors = {};
  let count = 0;
  const add = (index: number, columns: readonly Column[]): void => {
    if ((count += 1) > MAX_REPORTED) return;
    for (const column of columns)
      if (column !== owner) addError(errors, nameOf(index, column.key), 'another record has this value');
  };
  const isVisible = (column: Column): boolean => output.includes(column) || column === owner;
  const uniques = mayRead(model) ? model.wholeUniques.filter((columns) => columns.every(isVisible)) : [];
  const sent = new Map<readonly Column[], { readonly index: number; readonly values: readonly string[] }[]>();
  for (const columns of uniques) {
    const earlier = new Set<string>();
    const distinct: { readonly index: number; readonly values: readonly string[] }[] = [];
    for (const [index, record] of records.entries()) {
      const pause = yieldIfDue();
      if (pause) await pause;
      const values = valuesOf(record, columns);
      if (!values) continue;
      const text = JSON.stringify(values);
      if (earlier.has(text)) add(index, columns);
      else distinct.push({ index, values });
      earlier.add(text);
    }
    if (distinct.length > 0) sent.set(columns, distinct);
  }
  for (const [columns, distinct] of sent) {
    const rows = distinct.map(({ values }) => values);
    // PostgreSQL also finds different texts of one value, such as 1.5 and 1.50.
    const found = await database.run(
      storedCombinationsStatement(model, columns, rows, { countsRepeated: true }),
      'write',
    );
    distinct.forEach(({ index }, at) => found[at] && add(index, columns));
  }
  return errors;
}

/** SQLSTATEs of refused values and rows. */
const REFUSED = /^(22|23|44)/;

const isRefusal = (error: DatabaseError): boolean =>
  REFUSED.test(error.code) || isRewrittenByRule(error) || isRuleError(error);

const hasHiddenReference = ({ hiddenReferences }: NewRecord): boolean => hiddenReferences.length > 0;

/** The answer to records with hidden values: it must not depend on which record was refused first. */
const REFUSED_TOGETHER =
  'A record with the same value already exists, or the database does not allow these records.';

/**
 * Explains why the database rejected the records, see `conflictProblem`. PostgreSQL inserts them one after the other, so a record
 * that breaks a rule could otherwise serve to test hidden values in those before it.
 */
export async function manyConflicts(cause: unknown, rejected: RejectedRecords): Promise<unknown> {
  const { records, resource, database } = rejected;
  const error = await locateError(cause, { resource, records, isNew: true }, database);
  if (!isDatabaseError(error)) return error;
  const sendsHidden = records.some(({ changes }) => setsHidden(changes, resource));
  const isHidden = sendsHidden && records.length > 1 && isRefusal(error);
  if (!isHidden && (isRewrittenByRule(error) || isRolledBack(error))) return suppressed();
  const explained = await (isHidden ? explainHidden(rejected) : explain(error, sendsHidden, rejected));
  if (isHidden) return Object.assign(explained as Problem, { cause: error });
  const isUnspecific = sendsHidden || records.some(hasHiddenReference);
  const isSearched =
    explained === error ? isOfOneRecord(error) : !isUnspecific && isUnnamed(error, explained);
  return isSearched && rejected.mayRead(resource.model)
    ? explainRecord(error, explained, rejected)
    : withoutFields(explainRule(error, resource, explained, valuesIn(records), isUnspecific), explained);
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
  const refused = records.slice(found.position, found.position + 1);
  const reason = await locateError(found.error, { resource, records: refused, isNew: true }, database);
  if (!isDatabaseError(reason)) return reason;
  const own =
    explained === error
      ? reason
      : conflict(
          duplicateErrors(duplicateColumns(resource.model, reason), resource, refused[0]?.changes ?? []),
        );
  const refusal = explainRule(reason, resource, own, valuesIn(refused));
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

async function explainHidden(rejected: RejectedRecords): Promise<Problem> {
  const errors = await allDuplicateErrors(rejected);
  return Object.keys(errors).length > 0 ? conflict(errors) : new Problem(409, REFUSED_TOGETHER);
}

async function explain(
  error: DatabaseError,
  sendsHidden: boolean,
  rejected: RejectedRecords,
): Promise<unknown> {
  const { records, resource } = rejected;
  const hidden = records.flatMap(({ hiddenReferences }, index) =>
    hiddenReferences.map((one) => ({ ...one, keys: one.keys.map((key) => nameOf(index, key)) })),
  );
  if (isDuplicate(error, sendsHidden) && (sendsHidden || !isFromTrigger(error, resource.model))) {
    const errors = await allDuplicateErrors(rejected);
    const isExplained = Object.keys(errors).length > 0;
    return !isExplained && sendsHidden && hidden.length > 0 ? unspecificConflict() : conflict(errors);
  }
  if (error.code !== FOREIGN_KEY_VIOLATION) return explainNew(error);
  if (sendsHidden) return hidden.length > 0 ? unspecificConflict() : explainNew(error);
  const composite = violatedComposite(error, resource);
  if (!isOfTable(resource.model, error) || !(composite || hidden.length > 0)) return explainNew(error);
  return missingRecords(composite, hidden, rejected);
}

/**
 * Adds the errors of records whose foreign keys of several columns refer to nothing.
 * @param positions of the records in the request
 */
export async function addMissingOfMany(
  records: readonly Pick<NewRecord, 'changes' | 'later'>[],
  positions: readonly number[],
  { model }: ServedResource,
  errors: FieldErrors,
  database: Pick<Database, 'run'>,
): Promise<void> {
  const keys = partsOf(model.primaryKey);
  const ownKeys = new Set(records.map((record) => JSON.stringify(valuesOf(record, keys))));
  const placed = records.map(({ later }, at) => ({ index: positions[at] ?? at, later }));
  const missing = await findMissingOfMany(placed, ownKeys, database);
  for (const { index, foreignKey } of missing.slice(0, MAX_REPORTED))
    for (const [key, fault] of absentCompositeErrors(foreignKey)) addError(errors, nameOf(index, key), fault);
}

/**
 * The error for records of which some refer to nothing. It names the references that the caller may know to be missing, else
 * all hidden ones.
 * @param composite the foreign key that PostgreSQL names: the first that it finds, which depends on the hidden ones
 */
async function missingRecords(
  composite: Column | undefined,
  hidden: readonly HiddenReference[],
  { records, resource, database }: RejectedRecords,
): Promise<Problem> {
  const errors: FieldErrors = {};
  await addMissingOfMany(records, [], resource, errors, database);
  if (Object.keys(errors).length > 0) return badBody(inOrder(errors));
  if (hidden.length > 0 || !composite) return missingReferences(hidden);
  const names = partsOf(composite).map(({ key }) => key);
  return new Problem(
    400,
    `At least one record refers with ${names.join(', ')} to a record that does not exist.`,
  );
}
