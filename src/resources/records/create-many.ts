// Creates several records with one statement: all of them, or none.
import type { Database } from '../../db/connection/database.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import { valueList, type Fragment } from '../../db/fragment.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { DigitBudget } from '../../db/types/exponents.ts';
import { addError, badBody, MAX_REPORTED, Problem, type FieldErrors } from '../../errors.ts';
import {
  existingKeysStatement,
  type InsertedRecord,
  type InsertGroup,
} from '../../query/statements/insert-many.ts';
import type { Passwords } from '../passwords/password-hashing.ts';
import { ReferencesOfMany } from '../references/reference-checks.ts';
import { CallerChanged, type Caller, type ServedResource } from '../serve/served-resource.ts';
import { checkBody, type CheckedBody } from './checked-body.ts';
import { hashMany, type WaitingClient } from './hash-changes.ts';
import type { JsonFields } from './json-fields.ts';
import { inOrder, manyConflicts, nameOf, type NewRecord } from './many-conflicts.ts';
import { runWrite, suppressed } from './write-result.ts';

/** Maximum number of records. */
export const MAX_RECORDS = 1_000;
/** Maximum number of different sets of fields. Nullable fields without a default do not count. */
const MAX_GROUPS = 32;
/** What the request's `Prefer` asks for. */
export interface ManyPreferences {
  readonly isStrict: boolean | undefined;
  /** Whether only the keys are returned. */
  readonly isMinimal: boolean;
}

export interface ManyOptions {
  readonly database: Pick<Database, 'run'>;
  readonly passwords: Passwords;
  readonly requester: WaitingClient;
  /** Whether the caller's precondition still holds. */
  readonly holds: (caller: Caller) => Promise<boolean>;
}

/** Records with the same columns. */
interface Group {
  readonly columns: readonly Column[];
  /** The positions of the records in the request. */
  readonly positions: number[];
}

/**
 * Groups records by their columns. A nullable column without a default that only some records have is NULL in the others, so that
 * fewer sets of columns differ. A column of a view may have a default that only its table knows.
 * @throws Problem 400 for too many groups, each of which is a part of the statement
 */
async function groupRecords(
  records: readonly NewRecord[],
  { primaryKey, columns }: Model,
  yieldIfDue: YieldIfDue,
): Promise<Group[]> {
  const used = new Set<Column>();
  for (const { changes } of records) {
    for (const { column } of changes) used.add(column);
    const pause = yieldIfDue();
    if (pause) await pause;
  }
  const filled = [...used].filter((column) => column.nullable && !column.hasDefault && !column.isUnchecked);
  const orderedColumns = [primaryKey, ...columns].filter((column) => used.has(column));
  const groups = new Map<string, Group>();
  /** By the columns that a record itself has: records of one request are mostly alike. */
  const known = new Map<string, Group>();
  for (const [index, { changes }] of records.entries()) {
    const pause = yieldIfDue();
    if (pause) await pause;
    const given = changes.map(({ column }) => column.key).join();
    let group = known.get(given);
    if (!group) {
      const own = new Set([...filled, ...changes.map(({ column }) => column)]);
      const ordered = orderedColumns.filter((column) => own.has(column));
      const shape = ordered.map(({ key }) => key).join();
      group = groups.get(shape) ?? { columns: ordered, positions: [] };
      groups.set(shape, group);
      known.set(given, group);
    }
    group.positions.push(index);
    if (groups.size > MAX_GROUPS)
      throw new Problem(400, `The records have more than ${MAX_GROUPS} different sets of fields.`);
  }
  return [...groups.values()];
}

/** The values of a group's records. */
async function listsOf(
  { columns, positions }: Group,
  records: readonly NewRecord[],
  yieldIfDue: YieldIfDue,
): Promise<InsertGroup> {
  const cells = new Map(
    columns.map((column) => [column, new Array<string | null>(positions.length).fill(null)]),
  );
  for (const [row, position] of positions.entries()) {
    for (const { column, value, hash } of records[position]?.changes ?? []) {
      const list = cells.get(column);
      if (list) list[row] = hash ?? value;
    }
    const pause = yieldIfDue();
    if (pause) await pause;
  }
  const lists: Fragment[] = [];
  for (const values of cells.values()) {
    lists.push(valueList(values));
    const pause = yieldIfDue();
    if (pause) await pause;
  }
  return { columns, lists, size: positions.length };
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
  { isStrict, isMinimal }: ManyPreferences,
  { database, passwords, requester, holds }: ManyOptions,
): Promise<InsertedRecord[]> {
  const { model } = resource;
  const yieldIfDue = requester.workInTurns();
  const errors: FieldErrors = {};
  const checked: CheckedBody[] = [];
  /** The position of each checked body. */
  const indexes: number[] = [];
  let faulty = 0;
  const writing = { id: undefined, caller, isStrict, digits: new DigitBudget('body') };
  for (const [index, fields] of bodies.entries()) {
    const pause = yieldIfDue();
    if (pause) await pause;
    if (faulty >= MAX_REPORTED)
      throw badBody(errors, ` The records from position ${index} on were not checked.`);
    if (!fields) {
      faulty += 1;
      addError(errors, String(index), 'must be an object of fields and values');
      continue;
    }
    const body = await checkBody(fields, resource, writing, yieldIfDue);
    const names = Object.entries(body.errors);
    faulty += names.length;
    for (const [key, faults] of names)
      for (const fault of faults) addError(errors, nameOf(index, key), fault);
    checked.push(body);
    indexes.push(index);
  }
  const references = new ReferencesOfMany(checked, model);
  const { wanted } = references;
  const addMissing = (existing: readonly (readonly boolean[])[]): void => {
    for (const { index, check } of references.failures(existing))
      for (const name of check.fieldNames) addError(errors, nameOf(indexes[index] ?? 0, name), check.fault);
  };
  if (Object.keys(errors).length > 0) {
    if (wanted.length > 0) addMissing(await database.run(existingKeysStatement(wanted), 'write'));
    throw badBody(inOrder(errors));
  }
  const groups = await groupRecords(checked, model, yieldIfDue);
  const hashed = await hashMany(
    checked.map(({ changes }) => changes),
    passwords,
    requester,
  );
  const records: NewRecord[] = checked.map(({ changes }, index) => ({ changes: hashed[index] ?? changes }));
  /** The first records, by their groups. */
  async function listsOfFirst(count: number): Promise<InsertGroup[]> {
    const lists: InsertGroup[] = [];
    for (const { columns, positions } of groups) {
      const chosen = positions.filter((position) => position < count);
      if (chosen.length > 0) lists.push(await listsOf({ columns, positions: chosen }, records, yieldIfDue));
    }
    return lists;
  }
  const author = caller;
  const lists = await listsOfFirst(records.length);
  const all = { groups: lists, references: wanted, author, isMinimal };
  const statement = resource.writes.insertMany(all);
  const result = await runWrite(database, statement).catch(async (error: unknown) => {
    const tryFirst = async (count: number): Promise<void> => {
      const some = await listsOfFirst(count);
      const trial = resource.writes.insertMany({
        groups: some,
        references: [],
        author,
        isMinimal: true,
        isDryRun: true,
      });
      await database.run(trial, 'write');
    };
    throw await manyConflicts(error, { records, resource, database, yieldIfDue, tryFirst });
  });
  if (result.records.length === 0) {
    addMissing(result.existing);
    if (Object.keys(errors).length > 0) throw badBody(inOrder(errors));
    if (caller.precondition && !(await holds(caller))) throw new CallerChanged();
    throw suppressed();
  }
  const positions = groups.flatMap((group) => group.positions);
  const inserted: InsertedRecord[] = [];
  result.records.forEach((record, at) => (inserted[positions[at] ?? 0] = record));
  return inserted;
}
