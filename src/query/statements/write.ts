// Compiles writes to SQL. Each statement checks and writes in one round trip. Its text is built once for all values.
import {
  boundText,
  EMPTY,
  exactText,
  identifier,
  join,
  Parameters,
  raw,
  sql,
  value,
  valueList,
  type Fragment,
} from '../../db/fragment.ts';
import {
  booleans,
  createStatement,
  isTrue,
  number,
  text,
  type RawRow,
  type Statement,
} from '../../db/rows.ts';
import { output, reference, servedRow, type Column, type Model } from '../../db/schema/model.ts';
import { createSqlCache } from '../../db/sql-cache.ts';
import { cast } from '../../db/types/column-types.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { fromWhere } from '../read.ts';
import { source, wholeRows, writtenTable } from '../source.ts';
import {
  assertWrittenSql,
  assigned,
  bindCheck,
  checkSqlKey,
  checkSql,
  checksSql,
  existingSql,
  FOUND,
  matchesDigest,
  bindKeys,
  type BoundKeys,
  type BoundCheck,
} from './check-statements.ts';
import {
  authorSql,
  changedValues,
  deletionHistory,
  historyInsert,
  recordsSameColumns,
  returningDeleted,
  returningHistory,
  wholeRow,
  type Author,
  type Recording,
} from './history-sql.ts';
import { recordJson, rowVersion } from './record-json.ts';
import { lockRecord } from './records-by-key.ts';
import { readBackOf, type ReadBack, type WrittenCells } from './read-back.ts';
import {
  keyInsert,
  keyStatement,
  keyValues,
  type Action,
  type KeptRecord,
  type RequestKey,
} from './system-statements.ts';
import { countedBytes, faultsSql, newValue } from './new-values.ts';
import { cellAlias, cellOf, valueRows } from './value-rows.ts';
import type {
  Change,
  Counts,
  Deleted,
  DeletePlan,
  Inserted,
  InsertPlan,
  NewRows,
  RecordRow,
  RowGroup,
  Updated,
  UpdatePlan,
  WritePlan,
  WriteTarget,
  WrittenRecord,
} from './write-plan.ts';

/** @param target without what is derived from it */
export function createWriteTarget(
  target: Omit<WriteTarget, 'sql' | 'readBack'>,
  cache = createSqlCache(),
): WriteTarget {
  return { ...target, sql: cache, readBack: readBackOf(target) };
}

const VERSION = raw('f."vitrine version"');
const MATCHES = raw('f."vitrine matches"');
const RESULTS = raw('f."vitrine checks"');
/** The row's version, or null, and whether `If-Match` matches. */
const FOUND_COLUMNS = sql`${VERSION}, ${MATCHES}`;
/** The rows of a selection, and the values that they get. */
const FOUND_ROWS = raw(`"vitrine found" ${FOUND}, given`);

const newValueAlias = (index: number): Fragment => raw(`"vitrine new ${index}"`);
const findAlias = (index: number): Fragment => raw(`"vitrine find ${index}"`);
/** See `faultsSql`. */
const FAULTS = raw('given."vitrine faults"');
const HAS_FAULTS = raw('(given."vitrine faults" ~ \'[1-9]\')');

/** The key of a request, with its values as parameters. */
interface BoundKey extends Pick<RequestKey, 'table'> {
  readonly values: Fragment;
}

const bindKey = (key: RequestKey | undefined, parameters: Parameters): BoundKey | undefined =>
  key && { table: key.table, values: parameters.take(keyValues(key)) };

/** `, kept as (insert …)`: the key of the request, if it has one. @param kept see `keyInsert` */
const keyCte = (
  key: BoundKey | undefined,
  action: Action,
  ...kept: readonly [records: Fragment, from: Fragment]
): Fragment => (key ? sql`, kept as (${keyInsert(key, key.values, action, kept)})` : EMPTY);

/** Reads the records again, and then stores the key of the request, so that it keeps what was sent. */
const keepingReadBack = (
  next: ReturnType<ReadBack>,
  key: RequestKey | undefined,
  action: Action,
  keptOf: (rows: readonly RawRow[]) => readonly KeptRecord[] | undefined,
): ReturnType<ReadBack> =>
  key && next
    ? {
        ...next,
        last: (rows) => {
          const records = keptOf(rows);
          return records && keyStatement(key, action, records);
        },
      }
    : next;

/** The version of a row that this statement writes. RETURNING cannot read `xmin` of a partitioned table. */
const newVersion = ({ model }: WriteTarget): Fragment =>
  model.version === 'xmin' ? raw('pg_current_xact_id()::xid::text') : rowVersion(ROOT, model);

/** The JSON of a row as its author may read it, where that depends on the row. */
function maskedRecord({ model, formatted, visibility }: WriteTarget, alias: string): Fragment | undefined {
  const columns = visibility.rows(model)?.columns;
  if (!columns) return undefined;
  const row = sql`(select ${raw(alias)}.*) ${raw(ROOT)}`;
  return sql`(select ${recordJson(ROOT, formatted)} from (select ${columns} from ${row}) ${raw(ROOT)})`;
}

const isKey = ({ primaryKey }: Model, id: Fragment): Fragment =>
  sql`${reference(ROOT, primaryKey)} = ${cast(id, primaryKey)}`;

const isSameRow = ({ primaryKey }: Model): Fragment =>
  sql`${reference(ROOT, primaryKey)} = ${reference(FOUND, primaryKey)}`;

/** A new value of a column as a parameter. */
interface BoundChange {
  readonly change: Change;
  readonly column: Column;
  readonly value: Fragment;
  /** Salt and digest of a password that may be the stored hash itself. */
  readonly digest: readonly Fragment[] | undefined;
  /** See `Change`. */
  readonly find: Fragment | undefined;
}

/** The rows that are written: one, or those of a selection. */
type BoundRows =
  | {
      readonly id: Fragment;
      readonly versions: Fragment | undefined;
      /** The condition of the records that the author may write. */
      readonly allowed: Fragment | undefined;
      readonly precondition: Fragment | undefined;
      /** Whether the statement fails where it would wait for the lock. */
      readonly isNowait: boolean;
      /** The records that the author may read, if not all. */
      readonly source: Fragment | undefined;
    }
  | { readonly from: Fragment };

/** An update or a deletion with its values as parameters. PostgreSQL refuses a parameter that the SQL does not use. */
interface BoundWrite {
  readonly rows: BoundRows;
  readonly changes: readonly BoundChange[];
  readonly checks: readonly BoundCheck[];
  /** See `authorSql`; empty if nothing is recorded. */
  readonly author: Fragment;
  readonly required: Fragment | undefined;
  /** The record after and before the write, see `maskedRecord`. */
  readonly record: Fragment | undefined;
  readonly present: Fragment | undefined;
  readonly key: BoundKey | undefined;
}

/** New rows with the types of their columns. A CTE hides tables of its name. */
const NEW_ROWS = raw('"vitrine rows"');
const insertedAlias = (index: number): Fragment => raw(`"vitrine inserted ${index}"`);
const resultAlias = (index: number): Fragment => raw(`results${index}`);

const INSERTED_CELLS: WrittenCells = { json: 0, version: 1, key: 2 };

function readInserted({ rows, references }: InsertPlan): Statement<Inserted>['decode'] {
  const positions = rows.groups.flatMap((group) => group.positions);
  return (answer) => {
    const records: WrittenRecord[] = [];
    answer.forEach(([json, version, key], at) => {
      if (json) records[positions[at] ?? 0] = { json, version: text(version) ?? '', id: text(key) ?? '' };
    });
    return { records, existing: references.map((_, index) => booleans(answer[0]?.[index + 4])) };
  };
}

/** An insertion with its values as parameters. */
interface BoundInsert extends Pick<NewRows, 'columns' | 'groups'> {
  /** The values, see `valueRows`. */
  readonly cells: readonly Fragment[];
  /** The number of records. */
  readonly size: number;
  /** The keys that must exist. */
  readonly wanted: readonly BoundKeys[];
  readonly precondition: Fragment | undefined;
  /** The number of records that must be inserted. */
  readonly expected: Fragment;
  readonly author: Fragment;
  readonly required: Fragment | undefined;
  /** See `maskedRecord`. */
  readonly masked: Fragment | undefined;
  readonly key: BoundKey | undefined;
  /** The positions of the records in the order of the groups, for a key. */
  readonly places: Fragment | undefined;
}

/** The index of the group of each record. */
function groupsOfRecords(groups: readonly RowGroup[]): string[] {
  const indexes: string[] = [];
  for (const [index, { positions }] of groups.entries())
    for (const position of positions) indexes[position] = String(index);
  return indexes;
}

/** The columns of an inserted row that the statement uses, and what it records in the history. */
function insertedSql(
  { model, formatted, recording }: WriteTarget,
  { author, required, masked }: BoundInsert,
  isWhole: boolean,
  version: Fragment,
): { readonly record: Fragment; readonly intoHistory: Fragment } {
  // The history reuses the output's JSON if both have the same columns.
  const isReused = recording !== undefined && !masked && recordsSameColumns(formatted, recording);
  const json = isWhole || isReused ? (masked ?? recordJson(ROOT, formatted)) : raw("''::text");
  const allowed = required ? sql`, coalesce(${required}, false) as allowed` : EMPTY;
  const shown = sql`${json} as record, ${version} as version, ${output(ROOT, model.primaryKey)}::text as key${allowed}`;
  if (!recording) return { record: shown, intoHistory: EMPTY };
  const none = raw('null');
  const after = isReused ? none : wholeRow(ROOT, recording);
  const reused = isReused ? raw('inserted.record') : undefined;
  return {
    record: sql`${shown}${returningHistory(ROOT, model.primaryKey, none, after)}`,
    intoHistory: historyInsert(recording, author, 'create', 'inserted', reused),
  };
}

/**
 * Inserts all records if all references exist and the author's precondition holds. PostgreSQL inserts and returns the rows of a
 * group in their order. If a trigger cancels one of them, the statement ends with an error for which `isRolledBack` is true, which
 * undoes what the trigger has written.
 */
function insertSql(target: WriteTarget, insert: BoundInsert, isWhole: boolean): Fragment {
  const { columns, groups, cells, size, wanted, precondition, expected, required } = insert;
  const { model } = target;
  const isSingle = size === 1;
  const isOneGroup = groups.length === 1;
  const version = isWhole ? newVersion(target) : raw('null');
  const shownVersion = isOneGroup ? version : raw(`${ROOT}."vitrine version"`);
  const { record, intoHistory } = insertedSql(target, insert, isWhole, shownVersion);
  // The records of several groups are formatted together, which keeps the statement short.
  const returning = isOneGroup ? record : sql`${servedRow(ROOT, model)}, ${version} as "vitrine version"`;
  // The values of all rows are read before any is inserted: defaults and triggers may change how PostgreSQL reads them.
  const values = columns.map(
    (column, index) => sql`${cast(sql`rows.${cellAlias(index)}`, column)} as ${cellAlias(index)}, `,
  );
  const group = cellAlias(columns.length);
  const ofGroup = isOneGroup ? EMPTY : sql`rows.${group}::int4 as ${group}, `;
  const row = join(values, '');
  const source = valueRows('rows', cells, size);
  const given = sql`${NEW_ROWS} as materialized (select ${row}${ofGroup}rows.position from ${source}), `;
  const conditions = [
    raw('true'),
    ...wanted.map((_, index) => sql`true = all (${resultAlias(index)})`),
    ...(precondition ? [precondition] : []),
    ...(isOneGroup ? [] : [sql`(select count(*) from ${NEW_ROWS}) > 0`]),
  ];
  const ok = sql`${join(conditions, ' and ')} as ok`;
  const results = wanted.map((one, index) => sql`${existingSql(one)} as ${resultAlias(index)}`);
  const found = sql`(select ${join(results, ', ')}) found`;
  // A single row is read with the checks: a join would be slower.
  const checked = isSingle
    ? sql`checked as materialized (select found.*, ${row}${ok} from ${found}, ${source})`
    : sql`${given}checked as materialized (select found.*, ${ok} from ${found})`;
  const checkedRows = isSingle ? raw('checked r where r.ok') : sql`checked, ${NEW_ROWS} r where checked.ok`;
  const aliases = new Map(columns.map((column, index) => [column, cellAlias(index)]));
  const into = sql`insert into ${writtenTable(model)} as ${raw(ROOT)}`;
  const order = isSingle ? EMPTY : raw(' order by r.position');
  const names = groups.map((_, index) => (isOneGroup ? raw('inserted') : insertedAlias(index)));
  const inserts = groups.map(({ columns: own }, index) => {
    const fields = own.map(({ field }) => identifier(field));
    const named = own.length > 0 ? sql` (${join(fields, ', ')})` : EMPTY;
    const assignedCells = own.map((column) => sql`r.${aliases.get(column) ?? EMPTY}`);
    const isOfGroup = isOneGroup ? EMPTY : sql` and r.${group} = ${raw(String(index))}`;
    return sql`, ${names[index] ?? EMPTY} as (${into}${named} select ${join(assignedCells, ', ')} from ${checkedRows}${isOfGroup}${order} returning ${returning})`;
  });
  const all = names.map((name) => sql`select * from ${name}`);
  const union = isOneGroup
    ? EMPTY
    : sql`, inserted as (select ${record} from (${join(all, ' union all ')}) ${raw(ROOT)})`;
  const count = raw(isSingle ? 'num_nonnulls(i.record)' : '(select count(*) from inserted)');
  const isComplete = assertWrittenSql(
    sql`c.ok is not true or ${count} = ${expected}::int8`,
    required &&
      raw(isSingle ? 'i.allowed is not false' : '(select bool_and(allowed) from inserted) is not false'),
  );
  const shown = isWhole ? raw('i.record') : raw('left(i.record, 0)');
  const answers = wanted.map((_, index) => sql`, c.${resultAlias(index)}`);
  const { key, places } = insert;
  const kept = sql`json_build_array(${shown}, i.version, i.key)`;
  const placed = places
    ? sql`(select *, (${places}::int4[])[row_number() over ()] as place from inserted)`
    : raw('inserted');
  const intoKeys = isSingle
    ? keyCte(key, 'create', sql`json_build_array(${kept})`, raw(' from inserted i'))
    : keyCte(
        key,
        'create',
        sql`json_agg(${kept}${raw(places ? ' order by i.place' : '')})`,
        sql` from ${placed} i having count(*) > 0`,
      );
  const forgotten = target.ownedByUser.map(
    (table, index) =>
      sql`, ${raw(`forgotten${index}`)} as (delete from ${writtenTable(table)} where user_key in (select key from inserted))`,
  );
  return sql`with ${checked}${join(inserts, '')}${union}${intoHistory}${intoKeys}${join(forgotten, '')} select ${shown}, i.version, i.key, ${isComplete}${join(answers, '')} from checked c left join inserted i on true`;
}

function compileInsert(target: WriteTarget, plan: InsertPlan): Statement<Inserted> {
  const { rows, references, author, returning, required } = plan;
  const { columns, groups } = rows;
  const { readBack } = target;
  const parameters = new Parameters();
  const size = groups.reduce((sum, { positions }) => sum + positions.length, 0);
  const isWhole = returning === 'records';
  const isOneGroup = groups.length === 1;
  // The group of each record also makes rows of records without columns.
  const hasGroups = !isOneGroup || (size > 1 && columns.length === 0);
  const cells = hasGroups ? [...rows.cells, cellOf(groupsOfRecords(groups))] : rows.cells;
  const masked = isWhole ? maskedRecord(target, ROOT) : undefined;
  const isReadBack = isWhole && readBack !== undefined;
  const key = isReadBack || returning === 'nothing' ? undefined : bindKey(author?.key, parameters);
  const insert: BoundInsert = {
    columns,
    groups,
    cells: cells.map((cell) => parameters.take(cell)),
    size,
    wanted: references.map((keys) => bindKeys(keys, parameters, target.visibility)),
    precondition: author?.precondition && parameters.take(author.precondition),
    // No count is -1, so what returns nothing ends with the error.
    expected: parameters.add(returning === 'nothing' ? '-1' : String(size)),
    author: target.recording ? parameters.take(authorSql(target.recording.history, author)) : EMPTY,
    required: required && parameters.take(required),
    masked: masked && parameters.take(masked),
    key,
    places:
      key && !isOneGroup
        ? parameters.take(valueList(groups.flatMap((group) => group.positions.map(String))))
        : undefined,
  };
  const decode = readInserted(plan);
  const build = (): string => parameters.compile(insertSql(target, insert, isWhole));
  // Different sets of fields are too many texts to keep.
  return {
    text: isOneGroup ? target.sql(insertSqlKey(plan, insert), build) : build(),
    values: parameters.values,
    decode,
    rows: size,
    followUp: isReadBack
      ? (inserted) =>
          keepingReadBack(
            readBack(inserted, INSERTED_CELLS),
            author?.key,
            'create',
            (rows) => decode(rows).records,
          )
      : undefined,
  };
}

/** What SQL depends on because of the rules about rows. A rule may have no parameters: `false`, or a test for NULL. */
const rulesKey = (part: Fragment | undefined): string => ` [${part ? boundText(part) : ''}]`;

/** What the SQL depends on. JSON keys have no spaces or punctuation, which separate the parts. */
function insertSqlKey(
  { references, returning }: InsertPlan,
  { columns, size, precondition, wanted, required, masked, key }: BoundInsert,
): string {
  const written = columns.map(({ key }) => key);
  const keys = references.map(
    (one, index) => `${one.foreignKey.key}:${one.keys.length === 1}${rulesKey(wanted[index]?.referred)}`,
  );
  return `insert ${returning === 'records'} ${size === 1} ${written.join()} ${keys.join()} ${precondition && boundText(precondition)}${rulesKey(required)}${rulesKey(masked)} ${key !== undefined}`;
}

/**
 * Finds and locks the rows, as "vitrine found". Of one record it finds only the caller's, so that others do not wait for the lock.
 * Conditions and lock share one select, so PostgreSQL checks the conditions again if another transaction has changed the row.
 * @param lock the weakest sufficient one: `no key update` does not block inserts of records that refer to the row
 */
function foundSql(
  { model, visibility }: WriteTarget,
  rows: BoundRows,
  lock: 'update' | 'no key update',
): Fragment {
  const wait = 'id' in rows && rows.isNowait ? ' nowait' : '';
  const locked = model.isLockable ? raw(` for ${lock} of ${ROOT}${wait}`) : EMPTY;
  const row = servedRow(ROOT, model);
  if ('from' in rows) return sql`"vitrine found" as materialized (select ${row}${rows.from}${locked})`;
  const { id, versions, precondition, allowed } = rows;
  const version = rowVersion(ROOT, model);
  const matches = versions ? sql`${version} = any(${versions})` : raw('true');
  const conditions = [isKey(model, id), precondition, allowed].filter((one) => one !== undefined);
  return sql`"vitrine found" as materialized (select ${row}, ${version} as "vitrine version", ${matches} as "vitrine matches" from ${rows.source ?? source(model, ROOT, visibility)} where ${join(conditions, ' and ')}${locked})`;
}

/**
 * Reads all rows of a selection and the new values before any row changes. A trigger of the first row may change settings that
 * determine how PostgreSQL reads them.
 */
function givenOnce(changes: readonly BoundChange[]): Fragment {
  const values = changes.map(({ change, value: one, find }) => newValue(FOUND, change, one, find));
  const cells = changes.map(({ column, value: one, find }, index) =>
    find
      ? sql`, ${one} as ${newValueAlias(index)}, ${find} as ${findAlias(index)}`
      : sql`, ${cast(one, column)} as ${newValueAlias(index)}`,
  );
  const faults = faultsSql(
    values.map(({ fault }) => fault),
    countedBytes(values),
  );
  return sql`given as materialized (select count(*)${join(cells, '')}, ${faults} as "vitrine faults" from "vitrine found" ${raw(FOUND)})`;
}

/**
 * No constraint keeps the key of a view unique, so a statement that finds two rows must not change both. The condition
 * on the key lets a foreign server find the row. With the join alone, PostgreSQL would fetch and lock all of its rows.
 */
const isOnlyRow = (model: Model, id: Fragment): Fragment =>
  model.isTable
    ? EMPTY
    : sql` and ${isKey(model, id)} and ${raw('(select count(*) from "vitrine found") = 1')}`;

/** The new value of a column of one row. */
function newValueOf({ column, value: given, digest }: BoundChange): Fragment {
  const present = reference(FOUND, column);
  const newValue = cast(given, column);
  if (digest) return sql`case when ${matchesDigest(present, digest)} then ${present} else ${newValue} end`;
  return column.isPassword ? newValue : assigned(newValue, column);
}

/** What a write of a selection returns; see `Counts`. */
const countsSql = (attempted: Fragment, done: string): Fragment =>
  sql`(select count(*) from "vitrine found"), (select count(*) ${attempted}), (select count(*) from ${raw(done)})`;

const readCounts = ([row]: readonly RawRow[]): Counts => ({
  matched: number(row?.[0]),
  attempted: number(row?.[1]),
  done: number(row?.[2]),
  checks: booleans(row?.[3]),
  faults: text(row?.[4]) ?? '',
});

const isFoundRow = (row: RawRow | undefined): boolean => (row?.[0] ?? null) !== null;

const readUpdated = ([row]: readonly RawRow[]): Updated => ({
  isFound: isFoundRow(row),
  isMatch: isTrue(row?.[1]),
  checks: booleans(row?.[2]),
  json: row?.[3] ?? Buffer.alloc(0),
  version: text(row?.[4]) ?? '',
});

const UPDATED_CELLS: WrittenCells = { json: 3, version: 4 };

/**
 * Finds and locks the rows, makes the checks, and updates the rows in which a column differs: a single row only if the checks hold.
 * If a trigger cancels the update of a single row, the statement ends with an error as an INSERT does.
 */
function updateSql(target: WriteTarget, bound: BoundWrite): Fragment {
  const { rows, changes, checks, author, required } = bound;
  const { model, formatted, recording } = target;
  const found = foundSql(target, rows, 'no key update');
  const given = changes.map(({ change, column, find }, index) => {
    if (!('from' in rows)) return sql`f.${newValueAlias(index)}`;
    const one = sql`given.${newValueAlias(index)}`;
    if (!find) return assigned(one, column);
    const { value: next } = newValue(FOUND, change, one, sql`given.${findAlias(index)}`);
    // PostgreSQL does not build what is too large.
    return sql`case when ${HAS_FAULTS} then ${exactText(reference(FOUND, column))} else ${next} end`;
  });
  const newValueAt = (index: number): Fragment => given[index] ?? EMPTY;
  const sets = changes.map(({ column, find }, index) => {
    const one = newValueAt(index);
    return sql`${identifier(column.field)} = ${find ? cast(one, column) : one}`;
  });
  // Compares with the locked row: the statement's snapshot may have an older version.
  const conditions = changes.map(
    ({ column }, index) =>
      sql`${exactText(reference(FOUND, column))} is distinct from ${exactText(newValueAt(index))}`,
  );
  const isChanged = sql`(${join(conditions, ' or ')})`;
  const differs = 'from' in rows ? sql`(not ${HAS_FAULTS} and ${isChanged})` : isChanged;
  const valuesOf = (alias: string, one: Recording): Fragment =>
    changedValues(alias, changes, one, [FOUND, ROOT]);
  const forHistory = recording
    ? returningHistory(ROOT, model.primaryKey, valuesOf(FOUND, recording), valuesOf(ROOT, recording))
    : EMPTY;
  const intoHistory = recording ? historyInsert(recording, author, 'update', 'changed') : EMPTY;
  const changed = (from: Fragment, touches: Fragment, returning: Fragment): Fragment =>
    sql`changed as (update ${writtenTable(model)} ${raw(ROOT)} set ${join(sets, ', ')} from ${from} where ${isSameRow(model)} and ${touches} returning ${returning}${forHistory})${intoHistory}`;

  if ('from' in rows) {
    const attempted = sql`from ${FOUND_ROWS} where ${differs}`;
    const written = required ? sql`coalesce(${required}, false) as allowed` : raw('true');
    const areAllowed = required
      ? sql`, ${assertWrittenSql(raw('true'), raw('(select bool_and(allowed) from changed) is not false'))}`
      : EMPTY;
    const results = checks.map((one) => sql`not exists (select ${attempted} and not ${checkSql(one)})`);
    return sql`with ${found}, ${givenOnce(changes)}, ${changed(FOUND_ROWS, differs, written)} select ${countsSql(attempted, 'changed')}, array[${join(results, ', ')}]::bool[], (select ${FAULTS} from given)${areAllowed}`;
  }
  const newValues = changes.map((change, index) => sql`, ${newValueOf(change)} as ${newValueAlias(index)}`);
  const decided = sql`decided as materialized (select f.*, ${checksSql(checks)} as "vitrine checks"${join(newValues, '')} from (select) one left join "vitrine found" f on true)`;
  const present = bound.present ?? recordJson(FOUND, formatted);
  const intoKeys = (json: Fragment, version: Fragment, from: Fragment): Fragment =>
    keyCte(
      bound.key,
      'update',
      sql`json_build_array(json_build_array(${json}, ${version}, ${rows.id}))`,
      sql` from ${from} where ${MATCHES} and true = all (${RESULTS})`,
    );
  if (changes.length === 0)
    return sql`with ${found}, ${decided}${intoKeys(present, VERSION, raw('decided f'))} select ${FOUND_COLUMNS}, ${RESULTS}, ${present}, ${VERSION} from decided f`;
  const touches = sql`${MATCHES} and true = all (${RESULTS}) and ${differs}`;
  const allowed = required ? sql`, coalesce(${required}, false) as allowed` : EMPTY;
  const returning = sql`${bound.record ?? recordJson(ROOT, formatted)} as record, ${newVersion(target)} as version${allowed}`;
  const row = changed(raw('decided f'), sql`${touches}${isOnlyRow(model, rows.id)}`, returning);
  // Without a row to change, there is nothing to do.
  const isWritten = assertWrittenSql(
    sql`(${touches}) is not true or c.version is not null`,
    required && raw('c.allowed is not false'),
  );
  const [json, version] = [sql`coalesce(c.record, ${present})`, sql`coalesce(c.version, ${VERSION})`];
  const both = raw('decided f left join changed c on true');
  return sql`with ${found}, ${decided}, ${row}${intoKeys(json, version, both)} select ${FOUND_COLUMNS}, ${RESULTS}, ${json}, ${version}, ${isWritten} from ${both}`;
}

const readDeleted = ([row]: readonly RawRow[]): Deleted => ({
  isFound: isFoundRow(row),
  isMatch: isTrue(row?.[1]),
  isDeleted: isTrue(row?.[2]),
});

/** Finds and locks the rows, and deletes them: a single row only if `If-Match` matches. */
function deleteSql(target: WriteTarget, { rows, author, key }: BoundWrite): Fragment {
  const { model, cascades } = target;
  const found = foundSql(target, rows, 'update');
  const forHistory = returningDeleted(ROOT, target);
  const intoHistory = deletionHistory(target, author);
  const start = raw(cascades.length > 0 ? 'with recursive' : 'with');
  const deleted = (using: Fragment, touches: Fragment): Fragment =>
    sql`deleted as (delete from ${writtenTable(model)} ${raw(ROOT)} using ${using} where ${isSameRow(model)}${touches} returning true${forHistory})${intoHistory}`;
  if ('from' in rows)
    return sql`${start} ${found}, ${givenOnce([])}, ${deleted(FOUND_ROWS, EMPTY)} select ${countsSql(raw('from "vitrine found"'), 'deleted')}`;
  const row = deleted(raw('"vitrine found" f'), sql` and ${MATCHES}${isOnlyRow(model, rows.id)}`);
  const intoKeys = keyCte(key, 'delete', raw("'[]'"), raw(' from deleted'));
  return sql`${start} ${found}, ${row}${intoKeys} select ${FOUND_COLUMNS}, exists (select from deleted) from (select) one left join "vitrine found" f on true`;
}

/** What the SQL of the write of one record depends on. JSON keys have no spaces or punctuation, which separate the parts. */
function recordSqlKey(
  plan: UpdatePlan | DeletePlan,
  rows: Exclude<BoundRows, { from: Fragment }>,
  { checks, required, record, present, key }: BoundWrite,
): string {
  const { versions, allowed, precondition, isNowait, source: read } = rows;
  const rules = [allowed, read, required, record, present, ...checks.map(({ referred }) => referred)];
  const conditions = `${key !== undefined} ${versions !== undefined} ${isNowait} ${precondition && boundText(precondition)}${rules.map(rulesKey).join('')}`;
  if (plan.kind === 'delete') return `delete ${conditions}`;
  const written = plan.changes.map(({ column: { key }, value: given, hash }) =>
    hash === undefined || given === null ? key : `${key}?`,
  );
  return `update ${written.join()} ${plan.checks.map(checkSqlKey).join()} ${conditions}`;
}

function bindRows(
  { model, visibility }: WriteTarget,
  rows: RecordRow | ListPlan,
  author: Author | null,
  parameters: Parameters,
): BoundRows {
  if ('model' in rows) return { from: parameters.take(fromWhere(rows, true)) };
  const { id, versions, allowed, mayWait } = rows;
  return {
    id: parameters.add(id),
    versions: versions && parameters.take(valueList(versions)),
    allowed: allowed && parameters.take(allowed),
    precondition: author?.precondition && parameters.take(author.precondition),
    isNowait: author?.precondition !== undefined && mayWait !== true,
    source: visibility.rows(model) && parameters.take(wholeRows(model, ROOT, visibility)),
  };
}

function bindChange(change: Change, add: Parameters['add']): BoundChange {
  const { column, value: given, hash, find } = change;
  return {
    change,
    column,
    value: add(hash ?? given),
    digest: hash === undefined || given === null ? undefined : given.split(':').map(add),
    find: find === undefined ? undefined : add(find),
  };
}

function compileChange(target: WriteTarget, plan: UpdatePlan | DeletePlan): Statement<unknown> {
  const parameters = new Parameters();
  const isUpdate = plan.kind === 'update';
  const { changes, checks } = isUpdate ? plan : { changes: [], checks: [] };
  const rows = bindRows(target, plan.rows, plan.author, parameters);
  const recordings = isUpdate ? [target] : [target, ...target.cascades];
  const recorded = recordings.find(({ recording }) => recording)?.recording;
  // An update without changes records nothing.
  const isRecorded = recorded && !(isUpdate && changes.length === 0);
  const isChange = isUpdate && changes.length > 0;
  const { readBack, model } = target;
  const isReadBack = isUpdate && readBack !== undefined;
  const { required } = plan;
  const masks = 'id' in rows;
  const takeIfAny = (part: Fragment | undefined): Fragment | undefined => part && parameters.take(part);
  const bound: BoundWrite = {
    rows,
    changes: changes.map((change) => bindChange(change, parameters.add)),
    checks: checks.map((check) => bindCheck(check, parameters, target.visibility)),
    author: isRecorded ? parameters.take(authorSql(recorded.history, plan.author)) : EMPTY,
    required: isChange && required ? parameters.take(required) : undefined,
    record: masks && isChange ? takeIfAny(maskedRecord(target, ROOT)) : undefined,
    present: masks && isUpdate ? takeIfAny(maskedRecord(target, FOUND)) : undefined,
    key: masks && !isReadBack ? bindKey(plan.author?.key, parameters) : undefined,
  };
  const build = (): string => parameters.compile((isUpdate ? updateSql : deleteSql)(target, bound));
  const sent = 'from' in rows ? build() : target.sql(recordSqlKey(plan, rows, bound), build);
  const { values } = parameters;
  if ('model' in plan.rows) return { text: sent, values, decode: readCounts };
  const { id } = plan.rows;
  return {
    text: sent,
    values,
    decode: isUpdate ? readUpdated : readDeleted,
    record: `${model.table} ${id}`,
    lock:
      'id' in rows && rows.isNowait
        ? () => lockRecord(model, id, isUpdate ? 'no key update' : 'update')
        : undefined,
    // So that the history has every row that the database changes: another transaction's change since the snapshot is an error.
    isSnapshot: !isUpdate && target.cascades.length > 0,
    followUp: isReadBack
      ? (written) =>
          keepingReadBack(readBack(written, UPDATED_CELLS, id), plan.author?.key, 'update', (rows) => {
            const { isFound, isMatch, checks: results, json, version } = readUpdated(rows);
            return isFound && isMatch && results.every(Boolean) ? [{ json, version, id }] : undefined;
          })
      : undefined,
  };
}

/** Compiles a write. */
export function compileWrite(target: WriteTarget, plan: InsertPlan): Statement<Inserted>;
export function compileWrite(target: WriteTarget, plan: UpdatePlan<RecordRow>): Statement<Updated>;
export function compileWrite(target: WriteTarget, plan: DeletePlan<RecordRow>): Statement<Deleted>;
export function compileWrite(
  target: WriteTarget,
  plan: UpdatePlan<ListPlan> | DeletePlan<ListPlan>,
): Statement<Counts>;
export function compileWrite(target: WriteTarget, plan: WritePlan): Statement<unknown> {
  return plan.kind === 'insert' ? compileInsert(target, plan) : compileChange(target, plan);
}

/** Why a write did not find a record. */
export interface NotFound {
  /** Undefined if there is no such record, or if the author may write all of them. */
  readonly isAllowed: boolean | undefined;
  /** Whether the precondition of the author holds. */
  readonly holds: boolean;
}

/** Asks why a write did not find a record. @returns undefined if there can only be no such record */
export function notFoundStatement(
  { model, visibility }: WriteTarget,
  { id, allowed }: RecordRow,
  { precondition }: Author,
): Statement<NotFound> | undefined {
  if (!allowed && !precondition) return undefined;
  const isAllowed = allowed
    ? sql`select coalesce(${allowed}, false) from ${wholeRows(model, ROOT, visibility)} where ${isKey(model, value(id))} limit 1`
    : raw('select null');
  return createStatement(sql`select (${isAllowed}), ${precondition ?? raw('true')}`, ([row]) => ({
    isAllowed: row?.[0] ? isTrue(row[0]) : undefined,
    holds: isTrue(row?.[1]),
  }));
}
