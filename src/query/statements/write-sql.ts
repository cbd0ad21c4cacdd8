// SQL that inserts, updates and deletes one record. Each statement checks and writes in one round trip.
import { EMPTY, exactText, identifier, join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { booleans, isTrue, text, type RawRow } from '../../db/rows.ts';
import { output, reference, servedRow, type Column, type Model } from '../../db/schema/model.ts';
import { source, writtenTable } from '../source.ts';
import { cast } from '../../db/types/column-types.ts';
import {
  assertWrittenSql,
  assigned,
  checksSql,
  FOUND,
  matchesDigest,
  type BoundCheck,
} from './check-statements.ts';
import {
  changedValues,
  historyInsert,
  recordsSameColumns,
  returningHistory,
  wholeRow,
  type Recording,
} from './history-sql.ts';
import { ROOT } from '../plan.ts';
import { recordJson, rowVersion } from './record-json.ts';

/** What the writing statements know of a resource. */
export interface WriteTarget {
  readonly model: Model;
  /** The columns of the output, with its date format. */
  readonly formatted: readonly Column[];
  /** The column with the key of the only user who may change or delete a record. */
  readonly owner: Column | undefined;
  /** What the history records; undefined for nothing. */
  readonly recording: Recording | undefined;
}

/** The positions of cells in the rows of a writing statement. */
export interface WrittenCells {
  readonly json: number;
  readonly version?: number;
  /** Left out if the caller knows the key. */
  readonly key?: number;
}

/** A new value of a column as a parameter. */
export interface BoundChange {
  readonly column: Column;
  readonly value: Fragment;
  /** Salt and digest of a password that may be the stored hash itself. */
  readonly digest: readonly Fragment[] | undefined;
}

/** A `Write` (see write-statements.ts) with its values as parameters. */
export interface BoundWrite {
  readonly id: Fragment | undefined;
  readonly changes: readonly BoundChange[];
  readonly checks: readonly BoundCheck[];
  readonly precondition: Fragment | undefined;
  readonly versions: Fragment | undefined;
  /** The caller's key, if the record must be the caller's. */
  readonly owner: Fragment | undefined;
  /** See `authorSql`; empty if nothing is recorded. */
  readonly author: Fragment;
}

const VERSION = raw('f."vitrine version"');
const MATCHES = raw('f."vitrine matches"');
const RESULTS = raw('f."vitrine checks"');
/** The row's version, or null, and whether `If-Match` matches. */
const FOUND_COLUMNS = sql`${VERSION}, ${MATCHES}`;
/** The version of a row that this statement writes. RETURNING cannot read `xmin` of a partitioned table. */
const newVersion = ({ model }: WriteTarget): Fragment =>
  model.version === 'xmin' ? raw('pg_current_xact_id()::xid::text') : rowVersion(ROOT, model);
/**
 * No constraint keeps the key of a view unique, so a statement that finds two rows must not change both. The condition
 * on the key lets a foreign server find the row. With the join alone, PostgreSQL would fetch and lock all of its rows.
 */
const isOnlyRow = (model: Model, { id = EMPTY }: BoundWrite): Fragment =>
  model.isTable
    ? EMPTY
    : sql` and ${isKey(model, id)} and ${raw('(select count(*) from "vitrine found") = 1')}`;
const newValueAlias = (index: number): Fragment => raw(`"vitrine new ${index}"`);

export const isKey = ({ primaryKey }: Model, id: Fragment): Fragment =>
  sql`${reference(ROOT, primaryKey)} = ${cast(id, primaryKey)}`;

const isSameRow = ({ primaryKey }: Model): Fragment =>
  sql`${reference(ROOT, primaryKey)} = ${reference(FOUND, primaryKey)}`;

/**
 * Whether an UPDATE or DELETE found the row, and whether `If-Match` matches. A row of another owner is not found, and no row is
 * found if the precondition fails.
 */
export interface FoundRow {
  readonly isFound: boolean;
  readonly isMatch: boolean;
}

const isFoundRow = (row: RawRow | undefined): boolean => (row?.[0] ?? null) !== null;
const isMatchingRow = (row: RawRow | undefined): boolean => isTrue(row?.[1]);

/**
 * Finds and locks the row by its key, as "vitrine found". It finds only rows of the caller, so that others do not wait for the lock.
 * @param lock the weakest sufficient one: `no key update` does not block inserts of records that refer to the row
 */
function foundSql(
  { model, owner }: WriteTarget,
  { id = EMPTY, versions, precondition, owner: caller }: BoundWrite,
  lock: 'update' | 'no key update',
): Fragment {
  const version = rowVersion(ROOT, model);
  const matches = versions ? sql`${version} = any(${versions})` : raw('true');
  const isOwner = owner && caller && sql`${reference(ROOT, owner)} = ${cast(caller, owner)}`;
  const conditions = [isKey(model, id), precondition, isOwner].filter((one) => one !== undefined);
  return sql`"vitrine found" as materialized (select ${servedRow(ROOT, model)}, ${version} as "vitrine version", ${matches} as "vitrine matches" from ${source(model, ROOT)} where ${join(conditions, ' and ')}${model.isLockable ? sql` for ${raw(lock)}` : EMPTY})`;
}

/** The new value of a column. */
function newValueOf({ column, value, digest }: BoundChange): Fragment {
  const present = reference(FOUND, column);
  const newValue = cast(value, column);
  if (digest) return sql`case when ${matchesDigest(present, digest)} then ${present} else ${newValue} end`;
  return column.isPassword ? newValue : assigned(newValue, column);
}

/** Outcome of an INSERT. The record is undefined if nothing was inserted. */
export const readInserted = ([row]: readonly RawRow[]) => ({
  record: row?.[0] ? { json: row[0], version: text(row[1]) ?? '', id: text(row[2]) ?? '' } : undefined,
  checks: booleans(row?.[3]),
});

export const INSERTED_CELLS: WrittenCells = { json: 0, version: 1, key: 2 };

/**
 * Inserts the record if all checks and the precondition hold. If a trigger cancels that, the statement ends with an error for which
 * `isRolledBack` is true, which undoes what the trigger has written.
 */
export function insertSql(target: WriteTarget, write: BoundWrite): Fragment {
  const { changes, checks, precondition, author } = write;
  const { model, formatted, recording } = target;
  const into = sql`insert into ${writtenTable(model)} as ${raw(ROOT)}`;
  const names = join(changes.map(({ column }) => identifier(column.field)), ', '); // prettier-ignore
  // They are read before the functions of defaults run, which may change how PostgreSQL reads them.
  const given = changes.map(({ column, value }, index) => sql`, ${cast(value, column)} as ${newValueAlias(index)}`); // prettier-ignore
  const values = join(changes.map((_, index) => sql`checked.${newValueAlias(index)}`), ', '); // prettier-ignore
  // The history reuses the output's JSON if both have the same columns.
  const isReused = recording !== undefined && recordsSameColumns(formatted, recording);
  const forHistory = recording
    ? returningHistory(
        ROOT,
        model.primaryKey,
        raw('null'),
        isReused ? raw('null') : wholeRow(ROOT, recording),
      )
    : EMPTY;
  const returning = sql`returning ${recordJson(ROOT, formatted)} as record, ${newVersion(target)} as version, ${output(ROOT, model.primaryKey)}::text as key${forHistory}`;
  const intoHistory = recording
    ? historyInsert(recording, author, 'create', 'inserted', isReused ? raw('inserted.record') : undefined)
    : EMPTY;
  const columns = changes.length > 0 ? sql` (${names})` : EMPTY;
  const row = sql`${into}${columns} select ${values} from checked where checked.ok ${returning}`;
  const conditions = sql`true = all (results)${precondition ? sql` and ${precondition}` : EMPTY}`;
  const checked = sql`checked as materialized (select c.*, ${conditions} as ok from (select ${checksSql(checks)} as results${join(given, '')}) c)`;
  const isWritten = assertWrittenSql(raw('c.ok is not true or i.record is not null'));
  return sql`with ${checked}, inserted as (${row})${intoHistory} select i.record, i.version, i.key, c.results, ${isWritten} from checked c left join inserted i on true`;
}

/** Outcome of an UPDATE. */
export const readUpdated = ([row]: readonly RawRow[]) => ({
  isFound: isFoundRow(row),
  isMatch: isMatchingRow(row),
  checks: booleans(row?.[2]),
  json: row?.[3] ?? Buffer.alloc(0),
  version: text(row?.[4]) ?? '',
});

export const UPDATED_CELLS: WrittenCells = { json: 3, version: 4 };

/**
 * Finds and locks the row, makes the checks, and updates it if they hold and a column differs. If a trigger cancels that, the
 * statement ends with an error as `insertSql` does.
 */
export function updateSql(target: WriteTarget, write: BoundWrite): Fragment {
  const { model, formatted, recording } = target;
  const { changes, checks, author } = write;
  const row = foundSql(target, write, 'no key update');
  const newValues = changes.map((change, index) => sql`, ${newValueOf(change)} as ${newValueAlias(index)}`);
  const decided = sql`decided as materialized (select f.*, ${checksSql(checks)} as "vitrine checks"${join(newValues, '')} from (select) one left join "vitrine found" f on true)`;
  const present = recordJson(FOUND, formatted);
  if (changes.length === 0)
    return sql`with ${row}, ${decided} select ${FOUND_COLUMNS}, ${RESULTS}, ${present}, ${VERSION} from decided f`;
  const sets = changes.map(
    ({ column }, index) => sql`${identifier(column.field)} = f.${newValueAlias(index)}`,
  );
  const conditions = changes.map(
    ({ column }, index) =>
      sql`${exactText(reference(FOUND, column))} is distinct from ${exactText(sql`f.${newValueAlias(index)}`)}`,
  );
  const differs = sql`(${join(conditions, ' or ')})`;
  const touches = sql`${MATCHES} and true = all (${RESULTS}) and ${differs}`;
  const valuesOf = (alias: string, one: Recording): Fragment =>
    changedValues(alias, changes, one, [FOUND, ROOT]);
  const forHistory = recording
    ? returningHistory(ROOT, model.primaryKey, valuesOf(FOUND, recording), valuesOf(ROOT, recording))
    : EMPTY;
  const changed = sql`changed as (update ${writtenTable(model)} ${raw(ROOT)} set ${join(sets, ', ')} from decided f where ${isSameRow(model)} and ${touches}${isOnlyRow(model, write)} returning ${recordJson(ROOT, formatted)} as record, ${newVersion(target)} as version${forHistory})`;
  // Without a row to change, there is nothing to do.
  const isWritten = assertWrittenSql(sql`(${touches}) is not true or c.version is not null`);
  const intoHistory = recording ? historyInsert(recording, author, 'update', 'changed') : EMPTY;
  return sql`with ${row}, ${decided}, ${changed}${intoHistory} select ${FOUND_COLUMNS}, ${RESULTS}, coalesce(c.record, ${present}), coalesce(c.version, ${VERSION}), ${isWritten} from decided f left join changed c on true`;
}

/** Outcome of a DELETE. */
export const readDeleted = ([row]: readonly RawRow[]) => ({
  isFound: isFoundRow(row),
  isMatch: isMatchingRow(row),
  isDeleted: isTrue(row?.[2]),
});

/** Finds and locks the row, makes the checks, and deletes it if they hold. */
export function deleteSql(target: WriteTarget, write: BoundWrite): Fragment {
  const { model, recording } = target;
  const forHistory = recording
    ? returningHistory(ROOT, model.primaryKey, wholeRow(ROOT, recording), raw('null'))
    : EMPTY;
  const row = foundSql(target, write, 'update');
  const deleted = sql`delete from ${writtenTable(model)} ${raw(ROOT)} using "vitrine found" f where ${isSameRow(model)} and ${MATCHES}${isOnlyRow(model, write)} returning true${forHistory}`;
  const intoHistory = recording ? historyInsert(recording, write.author, 'delete', 'deleted') : EMPTY;
  return sql`with ${row}, deleted as (${deleted})${intoHistory} select ${FOUND_COLUMNS}, exists (select from deleted) from (select) one left join "vitrine found" f on true`;
}
