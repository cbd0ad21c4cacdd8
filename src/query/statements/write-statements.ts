// The statements that insert, update and delete one record. Each decides and writes in one round trip.
import {
  createStatement,
  EMPTY,
  identifier,
  join,
  raw,
  sql,
  table,
  valueList,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { booleans, isTrue, oneCell, text as textOf, type RawRow } from '../../db/rows.ts';
import { reference, typed, type Column, type Model } from '../../db/schema/model.ts';
import type { Change } from './change.ts';
import { checksSql, FOUND, matchesDigest, type Check } from './check-statements.ts';
import {
  changedValues,
  logInsert,
  recordsSameColumns,
  returningLog,
  wholeRow,
  type Recording,
} from './history-sql.ts';
import { ROOT } from '../plan.ts';
import { version, type FoundRecord } from './read-statements.ts';
import { recordJson } from './record-json.ts';

/** The conditions of a write, beside the checks of its body. */
export interface Guard {
  /** The owner column and the caller's key, if the resource is owner-restricted. */
  readonly owner?: { readonly column: Column; readonly caller: string } | undefined;
  /** The versions of `If-Match`; undefined without the header, or if any version matches. */
  readonly versions?: readonly string[] | undefined;
  /** Holds while a caller known from an earlier request is unchanged; undefined if this request has read the caller. */
  readonly precondition?: Fragment | undefined;
}

const VERSION = raw('f."vitrine version"');
const MATCHES = raw('f."vitrine matches"');
const RESULTS = raw('f."vitrine checks"');
/** The version of a row that this statement writes. RETURNING cannot read `xmin` of a partitioned table. */
const NEW_VERSION = raw('pg_current_xact_id()::xid::text');
const newValueAlias = (index: number): Fragment => raw(`"vitrine new ${index}"`);

/** Outcome of an INSERT. */
export interface Inserted {
  /** Undefined if nothing was inserted. */
  readonly record: (FoundRecord & { readonly id: string }) | undefined;
  /** The results of the checks, in their order. */
  readonly checks: readonly boolean[];
}

const readInserted = ([row]: readonly RawRow[]): Inserted => ({
  record: row?.[0] ? { json: row[0], version: textOf(row[1]) ?? '', id: textOf(row[2]) ?? '' } : undefined,
  checks: booleans(row?.[3]),
});

/**
 * POST: inserts the record if all checks and the precondition hold.
 * @param recording what the history records, if anything
 */
export function insertStatement(
  model: Model,
  columns: readonly Column[],
  changes: readonly Change[],
  checks: readonly Check[],
  { precondition }: Pick<Guard, 'precondition'>,
  recording?: Recording,
): Statement<Inserted> {
  const into = sql`insert into ${table(model.table)} as ${raw(ROOT)}`;
  const names = join(
    changes.map(({ column }) => identifier(column.field)),
    ', ',
  );
  const values = join(
    changes.map(({ column, value: text, hash }) => typed(hash ?? text, column)),
    ', ',
  );
  const key = sql`${reference(ROOT, model.primaryKey)}::text`;
  const forLog = recording
    ? returningLog(
        ROOT,
        model.primaryKey,
        raw('null'),
        recordsSameColumns(columns, recording) ? raw('null') : wholeRow(ROOT, recording),
      )
    : EMPTY;
  const returning = sql`returning ${recordJson(ROOT, columns)} as record, ${NEW_VERSION} as version, ${key} as key${forLog}`;
  // The log reuses the output's JSON if both have the same columns.
  const loggedJson = recording && recordsSameColumns(columns, recording) ? raw('inserted.record') : undefined;
  const log = recording ? logInsert(recording, 'create', 'inserted', loggedJson) : EMPTY;
  if (checks.length > 0) {
    const guarded = precondition ? sql` and ${precondition}` : EMPTY;
    const rows = sql`${into} (${names}) select ${values} from checked where true = all (checked.results)${guarded} ${returning}`;
    return createStatement(
      sql`with checked as materialized (select ${checksSql(checks)} as results), inserted as (${rows})${log} select i.record, i.version, i.key, c.results from checked c left join inserted i on true`,
      readInserted,
    );
  }
  const row =
    changes.length === 0
      ? sql`${into} default values ${returning}`
      : sql`${into} (${names}) ${precondition ? sql`select ${values} where ${precondition}` : sql`values (${values})`} ${returning}`;
  return createStatement(
    recording ? sql`with inserted as (${row})${log} select record, version, key from inserted` : row,
    readInserted,
  );
}

/** What an UPDATE or DELETE found. */
export interface FoundRow {
  /** Whether it found the row: not without a record, if it is not the caller's, or if the precondition fails. */
  readonly isFound: boolean;
  /** Whether `If-Match` matches. */
  readonly isMatch: boolean;
}

/** Outcome of an UPDATE. */
export interface Updated extends FoundRow, FoundRecord {
  /** The results of the checks, in their order. */
  readonly checks: readonly boolean[];
  /** Whether a trigger canceled a change. */
  readonly isSuppressed: boolean;
}

/** Outcome of a DELETE. */
export interface Deleted extends FoundRow {
  readonly isDeleted: boolean;
}

const readFoundRow = (row: RawRow | undefined): FoundRow => ({
  isFound: textOf(row?.[0]) !== null,
  isMatch: isTrue(row?.[1]),
});

const readUpdated = ([row]: readonly RawRow[]): Updated => ({
  ...readFoundRow(row),
  checks: booleans(row?.[2]),
  json: row?.[3] ?? Buffer.alloc(0),
  version: textOf(row?.[4]) ?? '',
  isSuppressed: isTrue(row?.[5]),
});

const readDeleted = ([row]: readonly RawRow[]): Deleted => ({
  ...readFoundRow(row),
  isDeleted: isTrue(row?.[2]),
});

/** The row's version, or null, and whether `If-Match` matches. */
const WRITE_RESULT = sql`${VERSION}, ${MATCHES}`;

/**
 * Finds and locks the row by its key, as "vitrine found". Only if the caller owns it: other callers need not wait for its lock.
 * @param lock the weakest sufficient one: `no key update` does not block inserts of records that refer to the row
 */
function found(
  model: Model,
  id: string,
  { owner, versions, precondition }: Guard,
  lock: 'update' | 'no key update',
): Fragment {
  const key = sql`${reference(ROOT, model.primaryKey)} = ${typed(id, model.primaryKey)}`;
  const matches = versions ? sql`${version(ROOT)} = any(${valueList(versions)})` : raw('true');
  const isOwner = owner && sql`${reference(ROOT, owner.column)} = ${typed(owner.caller, owner.column)}`;
  const conditions = [precondition, isOwner].flatMap((condition) =>
    condition ? [sql` and ${condition}`] : [],
  );
  return sql`"vitrine found" as materialized (select ${raw(ROOT)}.*, ${version(ROOT)} as "vitrine version", ${matches} as "vitrine matches" from ${table(model.table)} ${raw(ROOT)} where ${key}${join(conditions, '')} for ${raw(lock)})`;
}

/** Asks whether a record that was not found and locked belongs to the caller; undefined without a record. */
export function ownedStatement(
  model: Model,
  id: string,
  { column, caller }: NonNullable<Guard['owner']>,
): Statement<boolean | undefined> {
  const key = sql`${reference(ROOT, model.primaryKey)} = ${typed(id, model.primaryKey)}`;
  const isOwner = sql`coalesce(${reference(ROOT, column)} = ${typed(caller, column)}, false)`;
  return createStatement(
    sql`select ${isOwner} from ${table(model.table)} ${raw(ROOT)} where ${key}`,
    ([row]) => row && isTrue(row[0]),
  );
}

/** The new value of a column. The type may combine it with the present one, for instance to keep microseconds. */
function assigned({ column, value: text, hash }: Change): Fragment {
  const present = reference(FOUND, column);
  if (hash !== undefined) {
    const newValue = typed(hash, column);
    return text === null
      ? newValue
      : sql`case when ${matchesDigest(present, text)} then ${present} else ${newValue} end`;
  }
  const newValue = typed(text, column);
  return column.type.assign?.(newValue, present, column) ?? newValue;
}

/**
 * PUT: finds and locks the row, decides, and updates it if that is allowed and a column differs.
 * If a column is hidden from the output, it updates in any case: an unchanged version would confirm a guess of the hidden value.
 * Passwords are exempt, because their hashes cannot be guessed.
 */
export function updateStatement(
  model: Model,
  columns: readonly Column[],
  id: string,
  changes: readonly Change[],
  checks: readonly Check[],
  guard: Guard,
  recording?: Recording,
): Statement<Updated> {
  const row = found(model, id, guard, 'no key update');
  const newValues = changes.map((change, index) => sql`, ${assigned(change)} as ${newValueAlias(index)}`);
  const decided = sql`decided as materialized (select f.*, ${checksSql(checks)} as "vitrine checks"${join(newValues, '')} from (select) one left join "vitrine found" f on true)`;
  const writeResult = sql`${WRITE_RESULT}, ${RESULTS}`;
  const present = sql`${recordJson(FOUND, columns)}, ${VERSION}`;
  if (changes.length === 0)
    return createStatement(
      sql`with ${row}, ${decided} select ${writeResult}, ${present}, false from decided f`,
      readUpdated,
    );
  const sets = changes.map(
    ({ column }, index) => sql`${identifier(column.field)} = f.${newValueAlias(index)}`,
  );
  const conditions = changes.map(
    ({ column }, index) =>
      sql`${reference(FOUND, column)}::text is distinct from f.${newValueAlias(index)}::text`,
  );
  const differs = sql`(${join(conditions, ' or ')})`;
  const isHidden = changes.some(({ column }) => !column.isPassword && !columns.includes(column));
  const keys = sql`${reference(ROOT, model.primaryKey)} = ${reference(FOUND, model.primaryKey)}`;
  const allowed = sql`${MATCHES} and true = all (${RESULTS})`;
  const touches = isHidden ? allowed : sql`${allowed} and ${differs}`;
  const states = [FOUND, ROOT] as const;
  const forLog = recording
    ? returningLog(
        ROOT,
        model.primaryKey,
        changedValues(FOUND, changes, recording, states),
        changedValues(ROOT, changes, recording, states),
      )
    : EMPTY;
  const forFilter = isHidden ? sql`, ${differs} as differs` : EMPTY;
  const changed = sql`changed as (update ${table(model.table)} ${raw(ROOT)} set ${join(sets, ', ')} from decided f where ${keys} and ${touches} returning ${recordJson(ROOT, columns)} as record, ${NEW_VERSION} as version${forFilter}${forLog})`;
  // The history only records real changes.
  const rows = isHidden ? 'changed where differs' : 'changed';
  const log = recording ? logInsert(recording, 'update', rows) : EMPTY;
  return createStatement(
    sql`with ${row}, ${decided}, ${changed}${log} select ${writeResult}, coalesce(c.record, ${recordJson(FOUND, columns)}), coalesce(c.version, ${VERSION}), ${allowed} and ${differs} and c.version is null from decided f left join changed c on true`,
    readUpdated,
  );
}

/** DELETE: finds and locks the row, decides, and deletes it if that is allowed. */
export function deleteStatement(
  model: Model,
  id: string,
  guard: Guard,
  recording?: Recording,
): Statement<Deleted> {
  const keys = sql`${reference(ROOT, model.primaryKey)} = ${reference(FOUND, model.primaryKey)}`;
  const forLog = recording
    ? returningLog(ROOT, model.primaryKey, wholeRow(ROOT, recording), raw('null'))
    : EMPTY;
  const row = found(model, id, guard, 'update');
  const gone = sql`delete from ${table(model.table)} ${raw(ROOT)} using "vitrine found" f where ${keys} and ${MATCHES} returning true${forLog}`;
  const log = recording ? logInsert(recording, 'delete', 'gone') : EMPTY;
  return createStatement(
    sql`with ${row}, gone as (${gone})${log} select ${WRITE_RESULT}, exists (select from gone) from (select) one left join "vitrine found" f on true`,
    readDeleted,
  );
}

/** Asks which of these foreign keys refer to the record from any row. @returns the answers in their order */
export function referrersStatement(
  foreignKeys: readonly { model: Model; column: Column }[],
  id: string,
): Statement<boolean[]> {
  const conditions = foreignKeys.map(
    ({ model, column }) =>
      // A record that refers to itself can still be deleted.
      sql`exists (select from ${table(model.table)} r where ${reference('r', column)} = ${typed(id, column)}${
        model === column.references
          ? sql` and ${reference('r', model.primaryKey)} <> ${typed(id, model.primaryKey)}`
          : EMPTY
      })`,
  );
  return createStatement(sql`select array[${join(conditions, ', ')}]::bool[]`, oneCell(booleans));
}
