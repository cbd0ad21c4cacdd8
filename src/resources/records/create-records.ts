// Creates records: all of them, or none.
import type { Database } from '../../db/connection/database.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { Fragment } from '../../db/fragment.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { COLUMN_TYPES } from '../../db/types/column-types.ts';
import { isPresent, presentMoment, zoneOf } from '../../db/types/dates.ts';
import { DigitBudget } from '../../db/types/exponents.ts';
import { addError, badBody, MAX_REPORTED, type FieldErrors } from '../../errors.ts';
import { existingKeysStatement } from '../../query/statements/check-statements.ts';
import { cellOf } from '../../query/statements/value-rows.ts';
import { compileWrite } from '../../query/statements/write.ts';
import type { Author } from '../../query/statements/history-sql.ts';
import { keyStatement } from '../../query/statements/system-statements.ts';
import type {
  Change,
  Inserted,
  InsertPlan,
  NewRows,
  RowGroup,
  WrittenRecord,
} from '../../query/statements/write-plan.ts';
import type { Passwords } from '../users/password-hashing.ts';
import { ReferencesOfMany } from './reference-checks.ts';
import type { ResourceView } from '../access/resource-view.ts';
import { CallerChanged, inBatch, type Caller } from '../access/access.ts';
import { checkBody, type CheckedBody } from './checked-body.ts';
import { explain, nameOf } from './explain.ts';
import { hashChanges, type WaitingClient } from './hash-changes.ts';
import type { JsonFields } from './json-fields.ts';
import { runWrite } from './write-result.ts';
import { messageOf } from '../../messages.ts';

/** Maximum number of records. */
export const MAX_RECORDS = 1_000;
/**
 * Maximum number of different sets of fields in one statement. PostgreSQL plans an insertion for each set: 1,000 of them took it 2 GB
 * in a wide table.
 */
const MAX_SETS = 32;

/** What the request's `Prefer` asks for. */
export interface CreatePreferences {
  readonly isStrict?: boolean | undefined;
  /** See `Writing`. */
  readonly keepsKey?: boolean;
  /** Whether only the keys are returned. */
  readonly isMinimal?: boolean;
}

/** What runs writes: the database, or a transaction that has begun. */
export type Writer = Pick<Database, 'run'> & Partial<Pick<Database, 'transaction'>>;

export interface CreateOptions {
  readonly preferences: CreatePreferences;
  /** Whether the records were sent as an array, so that errors name their positions. */
  readonly isArray: boolean;
  readonly database: Writer;
  /** Runs the queries that explain an error. */
  readonly outside: Pick<Database, 'run'>;
  readonly passwords: Passwords;
  readonly requester: WaitingClient;
}

type Sent = readonly Change[];

/**
 * Groups records by their columns. A nullable column without a default that only some records have is NULL in the others, so that
 * fewer sets of columns differ. A column of a view may have a default that only its table knows.
 */
async function groupRecords(
  records: readonly Sent[],
  { primaryKey, columns }: Model,
  yieldIfDue: YieldIfDue,
): Promise<Pick<NewRows, 'columns' | 'groups'>> {
  const used = new Set<Column>();
  for (const changes of records) {
    for (const { column } of changes) used.add(column);
    const pause = yieldIfDue();
    if (pause) await pause;
  }
  const filled = [...used].filter((column) => column.nullable && !column.hasDefault && !column.isUnchecked);
  const ordered = [primaryKey, ...columns].filter((column) => used.has(column));
  const groups = new Map<string, { readonly columns: readonly Column[]; readonly positions: number[] }>();
  /** By the columns that a record itself has: records of one request are mostly alike. */
  const known: typeof groups = new Map();
  for (const [position, changes] of records.entries()) {
    const pause = yieldIfDue();
    if (pause) await pause;
    const given = changes.map(({ column }) => column.key).join();
    let group = known.get(given);
    if (!group) {
      const own = new Set([...filled, ...changes.map(({ column }) => column)]);
      const kept = ordered.filter((column) => own.has(column));
      const key = kept.map(({ key }) => key).join();
      group = groups.get(key) ?? { columns: kept, positions: [] };
      groups.set(key, group);
      known.set(given, group);
    }
    group.positions.push(position);
  }
  return { columns: ordered, groups: [...groups.values()] };
}

/** Whether the service sets a column that a record lacks: the default of the table may have been made for the day of another TIME_ZONE. */
const isToday = ({ type, initial, generated }: Column): boolean =>
  type === COLUMN_TYPES.date && isPresent(initial, type) && !generated;

/** The records as the rows of an insertion. */
export async function rowsOf(given: readonly Sent[], model: Model, yieldIfDue: YieldIfDue): Promise<NewRows> {
  const days: Sent = model.columns.filter(isToday).map((column) => ({
    column,
    value: presentMoment('date', zoneOf(String(column.initial))),
  }));
  const records =
    days.length === 0
      ? given
      : given.map((own) => [
          ...own,
          ...days.filter(({ column }) => !own.some((change) => change.column === column)),
        ]);
  const { columns, groups } = await groupRecords(records, model, yieldIfDue);
  const values = new Map(
    columns.map((column) => [column, new Array<string | null>(records.length).fill(null)]),
  );
  for (const [position, changes] of records.entries()) {
    for (const { column, value, hash } of changes) {
      const list = values.get(column);
      if (list) list[position] = hash ?? value;
    }
    const pause = yieldIfDue();
    if (pause) await pause;
  }
  const cells: Fragment[] = [];
  for (const list of values.values()) {
    cells.push(cellOf(list));
    const pause = yieldIfDue();
    if (pause) await pause;
  }
  return { columns, cells, groups };
}

/** Splits records into lists of at most `MAX_SETS` different sets of fields, in their order: they may refer to those before them. */
function splitBySets(records: readonly Sent[], groups: readonly RowGroup[]): readonly (readonly Sent[])[] {
  const groupOf: RowGroup[] = [];
  for (const group of groups) for (const position of group.positions) groupOf[position] = group;
  const lists: Sent[][] = [[]];
  const sets = new Set<RowGroup | undefined>();
  for (const [position, record] of records.entries()) {
    sets.add(groupOf[position]);
    if (sets.size > MAX_SETS) {
      lists.push([]);
      sets.clear();
      sets.add(groupOf[position]);
    }
    lists.at(-1)?.push(record);
  }
  return lists;
}

/**
 * Creates records in one statement, or in one transaction if they have too many different sets of fields for that.
 * @param sentBodies undefined for an element that is not an object
 * @returns the records in the order of the bodies
 * @throws Problem 400 that names each fault, in an array with the position of its record; 409; CallerChanged
 */
export async function createRecords(
  resource: ResourceView,
  sentBodies: readonly (JsonFields | undefined)[],
  caller: Caller,
  options: CreateOptions,
): Promise<readonly WrittenRecord[]> {
  const { isArray, preferences, database, outside, passwords, requester } = options;
  const { model, writes } = resource;
  const author = sentBodies.length > 1 ? inBatch(caller) : caller;
  const yieldIfDue = requester.workInTurns();
  const named: NameField = (position, key) => (isArray ? nameOf(position, key) : key);
  const errors: FieldErrors = {};
  const checked = await checkBodies(resource, sentBodies, caller, options, errors, named);
  const bodies = checked.map(({ body }) => body);
  const references = new ReferencesOfMany(bodies, model);
  const { wanted } = references;
  const rejectMissing = (existing: readonly (readonly boolean[])[]): void => {
    for (const { index, check } of references.failures(existing))
      for (const name of check.fieldNames)
        addError(errors, named(checked[index]?.position ?? 0, name), check.fault);
    if (Object.keys(errors).length > 0) throw badBody(isArray ? inOrder(errors) : errors);
  };
  if (Object.keys(errors).length > 0)
    rejectMissing(
      wanted.length > 0
        ? await database.run(existingKeysStatement(wanted, resource.visibility), 'write')
        : [],
    );
  const sent = bodies.map(({ changes }) => changes);
  const records = await hashChanges(sent, passwords, requester);
  const created = ({ records: written, existing }: Inserted): readonly WrittenRecord[] => {
    if (written.length > 0) return written;
    rejectMissing(existing);
    throw new CallerChanged(); // nothing else keeps a statement from writing
  };
  const result = preferences.isMinimal === true ? 'keys' : 'records';
  const insertOf = (
    rows: NewRows,
    references: InsertPlan['references'] = [],
    returning: InsertPlan['returning'] = result,
    writer: Author = author,
  ) => {
    const sentColumns = rows.columns.filter(
      (one) => !isToday(one) || sent.some((changes) => changes.some(({ column }) => column === one)),
    );
    const required = resource.required('create', sentColumns);
    return compileWrite(writes, { kind: 'insert', rows, references, author: writer, returning, required });
  };
  const rows = await rowsOf(records, model, yieldIfDue);
  const isOneStatement = rows.groups.length <= MAX_SETS;
  const insertLists = async ({ run }: Pick<Transaction, 'run'>): Promise<readonly WrittenRecord[]> => {
    const { key, ...writer } = author;
    const all: WrittenRecord[] = [];
    for (const [index, list] of splitBySets(records, rows.groups).entries()) {
      const some = await rowsOf(list, model, yieldIfDue);
      all.push(...created(await run(insertOf(some, index === 0 ? wanted : [], result, writer))));
    }
    if (key) await run(keyStatement(key, 'create', all));
    return all;
  };
  const tryFirst = async (count: number): Promise<unknown> =>
    database.run(insertOf(await rowsOf(records.slice(0, count), model, yieldIfDue), [], 'nothing'), 'write');
  const scope = isArray ? 'array' : 'record';
  // A search by trials of many statements would take too long.
  const trial = isOneStatement ? { tryFirst } : {};
  const attempt = { resource, kind: 'insert', scope, records, yieldIfDue, ...trial } as const;
  try {
    if (isOneStatement) return created(await runWrite(database, insertOf(rows, wanted)));
    if (database.transaction) return await database.transaction(insertLists, 'bulk');
    return await insertLists({ run: (statement) => database.run(statement, 'write') });
  } catch (error) {
    throw await explain(error, attempt, outside);
  }
}

/** The errors of the first record first. */
const inOrder = (errors: FieldErrors): FieldErrors =>
  Object.fromEntries(Object.entries(errors).sort(([one], [other]) => parseInt(one) - parseInt(other)));

/** The name of a field in errors. */
type NameField = (position: number, key: string) => string;

/** A body, and its position in the array. */
interface PlacedBody {
  readonly body: CheckedBody;
  readonly position: number;
}

/**
 * Checks the bodies until there are too many faults.
 * @throws Problem 400 if some were not checked
 */
async function checkBodies(
  resource: ResourceView,
  bodies: readonly (JsonFields | undefined)[],
  caller: Caller,
  { preferences: { isStrict, keepsKey }, requester }: CreateOptions,
  errors: FieldErrors,
  named: NameField,
): Promise<PlacedBody[]> {
  const yieldIfDue = requester.workInTurns();
  const writing = { id: undefined, caller, isStrict, keepsKey, digits: new DigitBudget('body') };
  const checked: PlacedBody[] = [];
  let faulty = 0;
  for (const [position, fields] of bodies.entries()) {
    const pause = yieldIfDue();
    if (pause) await pause;
    if (faulty >= MAX_REPORTED) throw badBody(errors, messageOf('notChecked', { position }));
    if (!fields) {
      faulty += 1;
      addError(errors, nameOf(position), messageOf('notRecord'));
      continue;
    }
    const body = await checkBody(fields, resource, writing, yieldIfDue);
    const faults = Object.entries(body.errors);
    faulty += faults.length;
    for (const [key, texts] of faults) for (const text of texts) addError(errors, named(position, key), text);
    checked.push({ body, position });
  }
  return checked;
}
