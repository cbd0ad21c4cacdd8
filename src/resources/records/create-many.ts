// Creates several records with one statement: all of them, or none.
import { setImmediate } from 'node:timers/promises';
import type { Database } from '../../db/connection/database.ts';
import { isDatabaseError, isOfTable, type DatabaseError } from '../../db/connection/database-errors.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { addError, badBody, Problem, type FieldErrors } from '../../errors.ts';
import type { Change } from '../../query/statements/change.ts';
import { duplicatesStatement } from '../../query/statements/check-statements.ts';
import {
  existingStatement,
  isIncomplete,
  type InsertedRecord,
  type InsertGroup,
  type References,
} from '../../query/statements/insert-many.ts';
import type { Passwords } from '../passwords/password-hashing.ts';
import { CallerChanged, type Caller, type ServedResource } from '../serve/served-resource.ts';
import { checkBody, type CheckedBody } from './checked-body.ts';
import {
  explainRule,
  FOREIGN_KEY_VIOLATION,
  missingReferences,
  historyFault,
  UNIQUE_VIOLATION,
  unspecificConflict,
} from './conflicts.ts';
import { hashChanges, type WaitingClient } from './hash-changes.ts';
import type { JsonFields } from './json-fields.ts';
import { NOT_SUPPORTED, runWrite, suppressed } from './write-result.ts';

/** Maximum number of records. */
export const MAX_RECORDS = 1_000;
/** Maximum number of different sets of fields. Nullable fields without a default do not count. */
const MAX_GROUPS = 32;
/** Records that are checked in one turn of the event loop. */
const RECORDS_PER_TURN = 50;

export interface ManyOptions {
  readonly database: Pick<Database, 'run'>;
  readonly passwords: Passwords;
  readonly requester: WaitingClient;
  readonly mayRead: (model: Model) => boolean;
  /** Whether the caller's precondition still holds. */
  readonly holds: (caller: Caller) => Promise<boolean>;
}

/** A fault's name: the position of the record, from 0, and the name of the field. */
const nameOf = (index: number, key: string): string => `${index}.${key}`;

/** One reference of a record, with where to find its key among those of its column. */
interface Reference {
  readonly index: number;
  readonly key: string;
  readonly fault: string;
  readonly value: string;
}

/** The references that must exist, by column. Each key is asked for once. */
class ReferenceChecks {
  readonly #byColumn = new Map<Column, Reference[]>();

  add(column: Column, reference: Reference): void {
    const known = this.#byColumn.get(column);
    if (known) known.push(reference);
    else this.#byColumn.set(column, [reference]);
  }

  get wanted(): References[] {
    return [...this.#byColumn].map(([column, references]) => ({
      column,
      keys: [...new Set(references.map(({ value }) => value))],
    }));
  }

  /** @param existing the answers for `wanted` */
  addErrors(
    wanted: readonly References[],
    existing: readonly (readonly boolean[])[],
    errors: FieldErrors,
  ): void {
    wanted.forEach(({ column, keys }, at) => {
      const missing = new Set(keys.filter((_, position) => existing[at]?.[position] !== true));
      for (const { index, key, fault, value } of this.#byColumn.get(column) ?? [])
        if (missing.has(value)) addError(errors, nameOf(index, key), fault);
    });
  }
}

/** A record that is to be created. */
interface NewRecord extends Pick<CheckedBody, 'hiddenReferences'> {
  readonly changes: readonly Change[];
}

/** Records with the same columns. */
interface Group {
  readonly columns: readonly Column[];
  /** The positions of the records in the request. */
  readonly positions: number[];
}

/**
 * Groups records by their columns. A nullable column without a default that only some records have is NULL in the others, so that
 * fewer sets of columns differ.
 * @throws Problem 400 for too many groups, each of which is a part of the statement
 */
function groupRecords(records: readonly NewRecord[], { primaryKey, columns }: Model): Group[] {
  const used = new Set(records.flatMap(({ changes }) => changes.map(({ column }) => column)));
  const filled = [...used].filter(({ nullable, hasDefault }) => nullable && !hasDefault);
  const inOrder = [primaryKey, ...columns].filter((column) => used.has(column));
  const groups = new Map<string, Group>();
  records.forEach(({ changes }, index) => {
    const own = new Set([...filled, ...changes.map(({ column }) => column)]);
    const ordered = inOrder.filter((column) => own.has(column));
    const shape = ordered.map(({ key }) => key).join();
    let group = groups.get(shape);
    if (!group) groups.set(shape, (group = { columns: ordered, positions: [] }));
    group.positions.push(index);
  });
  if (groups.size > MAX_GROUPS)
    throw new Problem(400, `The records have more than ${MAX_GROUPS} different sets of fields.`);
  return [...groups.values()];
}

/** The values of a group's records. */
function rowsOf({ columns, positions }: Group, records: readonly NewRecord[]): InsertGroup {
  const rows = positions.map((position) => {
    const changes = records[position]?.changes ?? [];
    const values = new Map(changes.map(({ column, value, hash }) => [column, hash ?? value]));
    return columns.map((column) => values.get(column) ?? null);
  });
  return { columns, rows };
}

/** Duplicates among the records and with stored ones, in unique columns that the caller may see. */
async function duplicateErrors(
  records: readonly NewRecord[],
  { model, output, owner }: ServedResource,
  database: Pick<Database, 'run'>,
): Promise<FieldErrors> {
  const errors: FieldErrors = {};
  const combinations: { readonly index: number; readonly sent: readonly Change[] }[] = [];
  const uniques = [...model.uniques.values()].filter(
    (columns) => columns.length > 0 && columns.every((column) => output.includes(column) || column === owner),
  );
  const addDuplicate = (index: number, sent: readonly Change[]): void => {
    for (const { column } of sent)
      if (column !== owner) addError(errors, nameOf(index, column.key), 'another record has this value');
  };
  for (const columns of uniques) {
    const earlier = new Set<string>();
    records.forEach(({ changes }, index) => {
      const sent = columns.flatMap((column) => changes.filter((change) => change.column === column));
      if (sent.length < columns.length || sent.some(({ value }) => value === null)) return;
      const values = JSON.stringify(sent.map(({ value }) => value));
      if (earlier.has(values)) addDuplicate(index, sent);
      else combinations.push({ index, sent });
      earlier.add(values);
    });
  }
  if (combinations.length === 0) return errors;
  const statement = duplicatesStatement(
    model,
    undefined,
    combinations.map(({ sent }) => sent),
  );
  const found = await database.run(statement, 'write');
  combinations.forEach(({ index, sent }, at) => {
    if (found[at]) addDuplicate(index, sent);
  });
  return errors;
}

/** Explains why the database rejected the records, see `conflictProblem`. */
async function rejection(
  cause: unknown,
  records: readonly NewRecord[],
  resource: ServedResource,
  database: Pick<Database, 'run'>,
): Promise<unknown> {
  const error = historyFault(cause, resource);
  if (!isDatabaseError(error)) return error;
  if (error.code === NOT_SUPPORTED || isIncomplete(error)) return suppressed();
  const explained = await explain(error, records, resource, database);
  if (explained instanceof Problem) explained.cause = error;
  return explainRule(error, resource, explained);
}

async function explain(
  error: DatabaseError,
  records: readonly NewRecord[],
  resource: ServedResource,
  database: Pick<Database, 'run'>,
): Promise<unknown> {
  const hidden = records.flatMap(({ hiddenReferences }, index) =>
    hiddenReferences.map((key) => nameOf(index, key)),
  );
  const sendsHidden = records.some(({ changes }) =>
    changes.some(({ column }) => !column.isPassword && !resource.output.includes(column)),
  );
  if (error.code === UNIQUE_VIOLATION) {
    const errors = await duplicateErrors(records, resource, database);
    const isExplained = Object.keys(errors).length > 0;
    if (!isExplained && sendsHidden && hidden.length > 0) return unspecificConflict();
    return new Problem(409, 'A record with the same value already exists.', isExplained ? { errors } : {});
  }
  if (error.code !== FOREIGN_KEY_VIOLATION || hidden.length === 0) return error;
  if (sendsHidden) return unspecificConflict();
  if (!isOfTable(resource.model, error)) return error;
  return missingReferences(hidden);
}

/**
 * Creates records in one statement.
 * @param bodies undefined for an element that is not an object
 * @returns the records in the order of the bodies
 * @throws Problem 400 that names each fault with the position of its record, 409; CallerChanged
 */
export async function createMany(
  resource: ServedResource,
  bodies: readonly (JsonFields | undefined)[],
  caller: Caller,
  isStrict: boolean | undefined,
  { database, passwords, requester, mayRead, holds }: ManyOptions,
): Promise<InsertedRecord[]> {
  const { model } = resource;
  const errors: FieldErrors = {};
  const references = new ReferenceChecks();
  const checked: CheckedBody[] = [];
  /** The position of each checked body. */
  const indexes: number[] = [];
  for (const [index, fields] of bodies.entries()) {
    if (index % RECORDS_PER_TURN === RECORDS_PER_TURN - 1) await setImmediate();
    if (!fields) {
      addError(errors, String(index), 'must be an object of fields and values');
      continue;
    }
    const body = checkBody(fields, resource, { id: undefined, caller, isStrict, mayRead });
    for (const [key, faults] of Object.entries(body.errors))
      for (const fault of faults) addError(errors, nameOf(index, key), fault);
    checked.push(body);
    indexes.push(index);
  }
  // Records may refer to each other by natural keys.
  const isKey = ({ column }: Change): boolean => column === model.primaryKey;
  const ownKeys = new Set(checked.map(({ changes }) => changes.find(isKey)?.value));
  checked.forEach(({ checks }, at) => {
    for (const { column, key, fault, value } of checks)
      if (column.references !== model || !ownKeys.has(value))
        references.add(column, { index: indexes[at] ?? 0, key, fault, value });
  });
  const wanted = references.wanted;
  if (Object.keys(errors).length > 0) {
    if (wanted.length > 0)
      references.addErrors(wanted, await database.run(existingStatement(wanted), 'write'), errors);
    throw badBody(errors);
  }
  const groups = groupRecords(checked, model);
  const records: NewRecord[] = [];
  // One after the other: hashing takes long, and each password waits for its turn.
  for (const { changes, hiddenReferences } of checked)
    records.push({ changes: await hashChanges(changes, passwords, requester), hiddenReferences });
  const statement = resource.writes.insertMany({
    groups: groups.map((group) => rowsOf(group, records)),
    references: wanted,
    author: caller,
  });
  const result = await runWrite(database, statement).catch(async (error: unknown) => {
    throw await rejection(error, records, resource, database);
  });
  if (result.records.length === 0) {
    references.addErrors(wanted, result.existing, errors);
    if (Object.keys(errors).length > 0) throw badBody(errors);
    if (caller.precondition && !(await holds(caller))) throw new CallerChanged();
    throw suppressed();
  }
  const positions = groups.flatMap((group) => group.positions);
  const inOrder: InsertedRecord[] = [];
  result.records.forEach((record, at) => (inOrder[positions[at] ?? 0] = record));
  return inOrder;
}
