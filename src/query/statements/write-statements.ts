// The statements that insert, update and delete one record. Each decides and writes in one round trip.
import {
  compile,
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
import { version } from './read-statements.ts';
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

/**
 * POST: inserts the record if all checks and the precondition hold.
 * @param recording what the history records, if anything
 * @returns one row: the record's JSON, version and key (null if nothing was inserted), the checks as `{t,f}`
 */
export function insertStatement(
  model: Model,
  columns: readonly Column[],
  changes: readonly Change[],
  checks: readonly Check[],
  { precondition }: Pick<Guard, 'precondition'>,
  recording?: Recording,
): Statement {
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
    return compile(
      sql`with checked as materialized (select ${checksSql(checks)} as results), inserted as (${rows})${log} select i.record, i.version, i.key, c.results from checked c left join inserted i on true`,
    );
  }
  const row =
    changes.length === 0
      ? sql`${into} default values ${returning}`
      : sql`${into} (${names}) ${precondition ? sql`select ${values} where ${precondition}` : sql`values (${values})`} ${returning}`;
  return compile(
    recording ? sql`with inserted as (${row})${log} select record, version, key from inserted` : row,
  );
}

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

/** Asks whether a record that was not found and locked belongs to the caller. @returns one cell, or no row without a record */
export function ownedStatement(
  model: Model,
  id: string,
  { column, caller }: NonNullable<Guard['owner']>,
): Statement {
  const key = sql`${reference(ROOT, model.primaryKey)} = ${typed(id, model.primaryKey)}`;
  const isOwner = sql`coalesce(${reference(ROOT, column)} = ${typed(caller, column)}, false)`;
  return compile(sql`select ${isOwner} from ${table(model.table)} ${raw(ROOT)} where ${key}`);
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
 * @returns one row: the version found and locked (null: no record, not the caller's, or the precondition fails), whether
 * `If-Match` matches, the checks as `{t,f}`, the record's JSON, its new version, whether the database suppressed a change
 */
export function updateStatement(
  model: Model,
  columns: readonly Column[],
  id: string,
  changes: readonly Change[],
  checks: readonly Check[],
  guard: Guard,
  recording?: Recording,
): Statement {
  const row = found(model, id, guard, 'no key update');
  const newValues = changes.map((change, index) => sql`, ${assigned(change)} as ${newValueAlias(index)}`);
  const decided = sql`decided as materialized (select f.*, ${checksSql(checks)} as "vitrine checks"${join(newValues, '')} from (select) one left join "vitrine found" f on true)`;
  const writeResult = sql`${WRITE_RESULT}, ${RESULTS}`;
  const present = sql`${recordJson(FOUND, columns)}, ${VERSION}`;
  if (changes.length === 0)
    return compile(sql`with ${row}, ${decided} select ${writeResult}, ${present}, false from decided f`);
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
  return compile(
    sql`with ${row}, ${decided}, ${changed}${log} select ${writeResult}, coalesce(c.record, ${recordJson(FOUND, columns)}), coalesce(c.version, ${VERSION}), ${allowed} and ${differs} and c.version is null from decided f left join changed c on true`,
  );
}

/**
 * DELETE: finds and locks the row, decides, and deletes it if that is allowed.
 * @returns one row: the first two columns of `updateStatement`, and whether the record was deleted
 */
export function deleteStatement(model: Model, id: string, guard: Guard, recording?: Recording): Statement {
  const keys = sql`${reference(ROOT, model.primaryKey)} = ${reference(FOUND, model.primaryKey)}`;
  const forLog = recording
    ? returningLog(ROOT, model.primaryKey, wholeRow(ROOT, recording), raw('null'))
    : EMPTY;
  const row = found(model, id, guard, 'update');
  const gone = sql`delete from ${table(model.table)} ${raw(ROOT)} using "vitrine found" f where ${keys} and ${MATCHES} returning true${forLog}`;
  const log = recording ? logInsert(recording, 'delete', 'gone') : EMPTY;
  return compile(
    sql`with ${row}, gone as (${gone})${log} select ${WRITE_RESULT}, exists (select from gone) from (select) one left join "vitrine found" f on true`,
  );
}

/** Asks which of these foreign keys refer to the record from any row. @returns one cell: an array of booleans in their order */
export function referrersStatement(
  foreignKeys: readonly { model: Model; column: Column }[],
  id: string,
): Statement {
  const conditions = foreignKeys.map(
    ({ model, column }) =>
      // A record that refers to itself can still be deleted.
      sql`exists (select from ${table(model.table)} r where ${reference('r', column)} = ${typed(id, column)}${
        model === column.references
          ? sql` and ${reference('r', model.primaryKey)} <> ${typed(id, model.primaryKey)}`
          : EMPTY
      })`,
  );
  return compile(sql`select array[${join(conditions, ', ')}]::bool[]`);
}
