import {
  compile,
  EMPTY,
  identifier,
  join,
  raw,
  sql,
  table,
  value,
  valueList,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { output, reference, typed, type Column, type Model } from '../../db/schema/model.ts';
import type { Change } from './change.ts';
import { changedValues, isRecorded, logged, returningLog, wholeRow, type Recording } from './history-sql.ts';
import { ROOT } from '../plan.ts';
import { version } from './read-statements.ts';
import { record } from './record-json.ts';

/** Something about a body that only the database can tell; asked in the same statement that writes. */
export interface Check {
  readonly column: Column;
  /** For `unchanged` and a password the seal of the text that was sent. */
  readonly value: string;
  /**
   * `reference`: the related record is there. `unchanged`: the column has this value, which breaks a rule, already.
   * `key`: this is the key of the record as it is output, or `asked` where there is no record.
   */
  readonly kind: 'reference' | 'unchanged' | 'key';
  /** The key by which the record was asked for. */
  readonly asked?: string;
  /** The field of the body, and what is wrong with it where the check does not hold. */
  readonly key: string;
  readonly fault: string;
}

export interface Guard {
  /** The owner column and the caller's key, where the resource is owner-restricted. */
  readonly owner?: { readonly column: Column; readonly caller: string } | undefined;
  /** The versions of `If-Match`; undefined without the header, or when any will do. */
  readonly versions?: readonly string[] | undefined;
  /** What must hold of a caller who is known from an earlier request; undefined where the caller was read for this one. */
  readonly precondition?: Fragment | undefined;
}

/** The row as it was found and locked; the names beside its columns are ones that no table has. */
const FOUND = 'f';
const VERSION = raw('f."vitrine version"');
const MATCHES = raw('f."vitrine matches"');
const RESULTS = raw('f."vitrine checks"');
/** The version of a row that this very statement writes: its `xmin`, which RETURNING does not give of a partitioned table. */
const NEW_VERSION = raw('pg_current_xact_id()::xid::text');
const newValue = (index: number): Fragment => raw(`"vitrine new ${index}"`);

/** Whether the column holds the text of a seal: see `seal` in resources/passwords.ts. */
function isSealed(present: Fragment, sealed: string): Fragment {
  const [salt = '', digest = ''] = sealed.split(':');
  return sql`coalesce(encode(sha256(convert_to(${value(salt)} || ${present}, 'UTF8')), 'hex') = ${value(digest)}, false)`;
}

function checkSql({ kind, column, value: text, asked }: Check): Fragment {
  if (kind === 'key') {
    const shown = column.type.output(typed(text, column), column);
    return sql`coalesce(${output(FOUND, column)}::text, ${value(asked ?? null)}) = ${shown}::text`;
  }
  if (kind === 'unchanged') {
    const present = reference(FOUND, column);
    if (column.isPassword) return isSealed(present, text);
    const shown = (one: Fragment): Fragment =>
      column.type.comparable?.(one) ?? sql`${column.type.output(one, column)}::text`;
    return sql`coalesce(${shown(present)} = ${shown(typed(text, column))}, false)`;
  }
  if (!column.references) return raw('true');
  const { table: target, primaryKey } = column.references;
  return sql`exists (select from ${table(target)} r where ${reference('r', primaryKey)} = ${typed(text, column)})`;
}

/** The results of the checks as an array, in their order; the row that they ask about stands under the alias FOUND. */
const checksSql = (checks: readonly Check[]): Fragment =>
  sql`array[${join(checks.map(checkSql), ', ')}]::bool[]`;

/**
 * Which of the checks hold, by themselves: for a body that is faulty anyway, so that all its faults are told at once.
 * @param id the record that would be changed, if any
 */
export function checkStatement(model: Model, id: string | undefined, checks: readonly Check[]): Statement {
  const key =
    id === undefined
      ? raw('false')
      : sql`${reference(FOUND, model.primaryKey)} = ${typed(id, model.primaryKey)}`;
  const row = sql`(select) one left join ${table(model.table)} ${raw(FOUND)} on ${key}`;
  return compile(sql`select ${checksSql(checks)} from ${row}`);
}

/**
 * POST: inserts where every check holds, and what must hold of the caller.
 * @param recording where the change is written down, if anywhere
 * @returns one row: the record's JSON and its version and key (null where nothing was inserted), the checks as `{t,f}`
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
        isRecorded(columns, recording) ? raw('null') : wholeRow(ROOT, recording),
      )
    : EMPTY;
  const returning = sql`returning ${record(ROOT, columns)} as record, ${NEW_VERSION} as version, ${key} as key${forLog}`;
  // A record that is output whole is put together once.
  const whole = recording && isRecorded(columns, recording) ? raw('inserted.record') : undefined;
  const log = recording ? logged(recording, 'create', 'inserted', whole) : EMPTY;
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

/** What the answer says of the row: its version, or null, and whether `If-Match` matches. */
const VERDICT = sql`${VERSION}, ${MATCHES}`;

/**
 * The row by its key as "vitrine found", locked; only if the caller owns it, since others need not wait for somebody who changes
 * it to hear that it is not theirs.
 * @param lock the weakest that does: one that leaves the key alone does not hold up inserts of records that refer to it
 */
function found(
  model: Model,
  id: string,
  { owner, versions, precondition }: Guard,
  lock: 'update' | 'no key update',
): Fragment {
  const key = sql`${reference(ROOT, model.primaryKey)} = ${typed(id, model.primaryKey)}`;
  const matches = versions ? sql`${version(ROOT)} = any(${valueList(versions)})` : raw('true');
  const isOwn = owner && sql`${reference(ROOT, owner.column)} = ${typed(owner.caller, owner.column)}`;
  const conditions = [precondition, isOwn].flatMap((condition) =>
    condition ? [sql` and ${condition}`] : [],
  );
  return sql`"vitrine found" as materialized (select ${raw(ROOT)}.*, ${version(ROOT)} as "vitrine version", ${matches} as "vitrine matches" from ${table(model.table)} ${raw(ROOT)} where ${key}${join(conditions, '')} for ${raw(lock)})`;
}

/** Whether the record is the caller's, for one that could not be had: one cell, or no row where there is none. */
export function ownedStatement(
  model: Model,
  id: string,
  { column, caller }: NonNullable<Guard['owner']>,
): Statement {
  const key = sql`${reference(ROOT, model.primaryKey)} = ${typed(id, model.primaryKey)}`;
  const isOwn = sql`coalesce(${reference(ROOT, column)} = ${typed(caller, column)}, false)`;
  return compile(sql`select ${isOwn} from ${table(model.table)} ${raw(ROOT)} where ${key}`);
}

/** The new value of a column: what the type makes of it beside the present one, for instance to keep microseconds. */
function assigned({ column, value: text, hash }: Change): Fragment {
  const present = reference(FOUND, column);
  if (hash !== undefined) {
    const fresh = typed(hash, column);
    return text === null
      ? fresh
      : sql`case when ${isSealed(present, text)} then ${present} else ${fresh} end`;
  }
  const fresh = typed(text, column);
  return column.type.assign?.(fresh, present, column) ?? fresh;
}

/**
 * PUT: finds and locks the row, decides, and changes it where everything allows and some column really differs. With a column
 * that is not output it is written in any case: an unchanged version would confirm a guess. No one guesses the hash of a password.
 * @returns one row: the version that was found and locked (null: no record, not the caller's, or a precondition that does not hold),
 * whether `If-Match` matches, the checks as `{t,f}`, the record's JSON, its version now,
 * whether the database has suppressed a change
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
  const fresh = changes.map((change, index) => sql`, ${assigned(change)} as ${newValue(index)}`);
  const decided = sql`decided as materialized (select f.*, ${checksSql(checks)} as "vitrine checks"${join(fresh, '')} from (select) one left join "vitrine found" f on true)`;
  const verdict = sql`${VERDICT}, ${RESULTS}`;
  const present = sql`${record(FOUND, columns)}, ${VERSION}`;
  if (changes.length === 0)
    return compile(sql`with ${row}, ${decided} select ${verdict}, ${present}, false from decided f`);
  const sets = changes.map(({ column }, index) => sql`${identifier(column.field)} = f.${newValue(index)}`);
  const each = changes.map(
    ({ column }, index) => sql`${reference(FOUND, column)}::text is distinct from f.${newValue(index)}::text`,
  );
  const differs = sql`(${join(each, ' or ')})`;
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
  const changed = sql`changed as (update ${table(model.table)} ${raw(ROOT)} set ${join(sets, ', ')} from decided f where ${keys} and ${touches} returning ${record(ROOT, columns)} as record, ${NEW_VERSION} as version${forFilter}${forLog})`;
  // The history has only what changed.
  const rows = isHidden ? 'changed where differs' : 'changed';
  const log = recording ? logged(recording, 'update', rows) : EMPTY;
  return compile(
    sql`with ${row}, ${decided}, ${changed}${log} select ${verdict}, coalesce(c.record, ${record(FOUND, columns)}), coalesce(c.version, ${VERSION}), ${allowed} and ${differs} and c.version is null from decided f left join changed c on true`,
  );
}

/**
 * DELETE: finds and locks the row, decides, and deletes it where everything allows.
 * @returns one row: the first two columns of `updateStatement`, and whether the record is gone
 */
export function deleteStatement(model: Model, id: string, guard: Guard, recording?: Recording): Statement {
  const keys = sql`${reference(ROOT, model.primaryKey)} = ${reference(FOUND, model.primaryKey)}`;
  const forLog = recording
    ? returningLog(ROOT, model.primaryKey, wholeRow(ROOT, recording), raw('null'))
    : EMPTY;
  const row = found(model, id, guard, 'update');
  const gone = sql`delete from ${table(model.table)} ${raw(ROOT)} using "vitrine found" f where ${keys} and ${MATCHES} returning true${forLog}`;
  const log = recording ? logged(recording, 'delete', 'gone') : EMPTY;
  return compile(
    sql`with ${row}, gone as (${gone})${log} select ${VERDICT}, exists (select from gone) from (select) one left join "vitrine found" f on true`,
  );
}

/** Which of these foreign keys have a row that refers to the record: an array of booleans in their order. */
export function referrersStatement(
  foreignKeys: readonly { model: Model; column: Column }[],
  id: string,
): Statement {
  const each = foreignKeys.map(
    ({ model, column }) =>
      // A record that refers to itself does not keep itself.
      sql`exists (select from ${table(model.table)} r where ${reference('r', column)} = ${typed(id, column)}${
        model === column.references
          ? sql` and ${reference('r', model.primaryKey)} <> ${typed(id, model.primaryKey)}`
          : EMPTY
      })`,
  );
  return compile(sql`select array[${join(each, ', ')}]::bool[]`);
}
