// Inserts several records: all of them, or none. Also reads which keys and which combinations of values are stored already.
import { EMPTY, identifier, join, raw, sql, value, valueList, type Fragment } from '../../db/fragment.ts';
import { booleans, createStatement, oneCell, text, type RawRow, type Statement } from '../../db/rows.ts';
import { output, partsOf, reference, type Column, type Model } from '../../db/schema/model.ts';
import { source, writtenTable } from '../source.ts';
import { cast } from '../../db/types/column-types.ts';
import type { Author } from './change.ts';
import { assertWrittenSql } from './check-statements.ts';
import {
  AFTER,
  authorSql,
  historyInsert,
  recordsSameColumns,
  returningHistory,
  wholeRow,
} from './history-sql.ts';
import { ROOT } from '../plan.ts';
import { recordJson } from './record-json.ts';
import type { Reread } from './reread-sql.ts';
import type { WriteTarget, WrittenCells } from './write-sql.ts';

/** Records with values for the same columns. */
export interface InsertGroup {
  readonly columns: readonly Column[];
  /** The values of all records, for each column. */
  readonly lists: readonly Fragment[];
  /** The number of records. */
  readonly size: number;
}

/** Keys that must belong to records of the model that a foreign key refers to. */
export interface WantedKeys {
  readonly foreignKey: Column;
  /** The values of its columns, for each key. */
  readonly keys: readonly (readonly (string | null)[])[];
}

export interface InsertMany {
  readonly groups: readonly InsertGroup[];
  readonly references: readonly WantedKeys[];
  readonly author: Author;
  /** Whether only the keys are returned. */
  readonly isMinimal: boolean;
  /** Inserts nothing: if the database would accept the records, the statement ends with an error for which `isRolledBack` is true. */
  readonly isDryRun?: boolean;
}

export interface InsertedRecord {
  /** Empty where only the keys are returned. */
  readonly json: Buffer;
  readonly key: string;
}

const cellAlias = (index: number): Fragment => raw(`v${index}`);

/** Rows of texts with their positions, as `wanted`. */
function wantedSql(columns: readonly Column[], rows: readonly (readonly (string | null)[])[]): Fragment {
  const lists = columns.map((_, index) => valueList(rows.map((row) => row[index] ?? null)));
  const cells = columns.map((_, index) => cellAlias(index));
  return sql`unnest(${join(lists, ', ')}) with ordinality wanted (${join(cells, ', ')}, position)`;
}

/**
 * Whether the model has a record with the values of a row of `wanted`.
 * @param types the columns whose types the values have
 */
function isStoredSql(model: Model, columns: readonly Column[], types = columns): Fragment {
  const same = columns.map(
    (column, index) =>
      sql`${reference('r', column)} = ${cast(sql`wanted.${cellAlias(index)}`, types[index] ?? column)}`,
  );
  return sql`exists (select from ${source(model, 'r')} where ${join(same, ' and ')})`;
}

/** Which of the keys exist, as an array in their order. */
function existingSql({ foreignKey, keys }: WantedKeys): Fragment {
  const { references } = foreignKey;
  if (!references) return raw('array[]::bool[]');
  const parts = partsOf(foreignKey);
  const isStored = isStoredSql(references, partsOf(references.primaryKey), parts);
  return sql`array(select ${isStored} from ${wantedSql(parts, keys)} order by position)`;
}

const resultAlias = (index: number): Fragment => raw(`results${index}`);

const resultsOf = (references: readonly WantedKeys[]): Fragment[] =>
  references.map((one, index) => sql`${existingSql(one)} as ${resultAlias(index)}`);

/** Asks which of the keys exist, without inserting. @returns for each column the answers in the order of its keys */
export function existingKeysStatement(references: readonly WantedKeys[]): Statement<boolean[][]> {
  return createStatement(sql`select ${join(resultsOf(references), ', ')}`, ([row]) =>
    references.map((_, index) => booleans(row?.[index])),
  );
}

/**
 * Asks which of these combinations of values a stored record or an earlier row has.
 * @param columns of a unique index, which finds each combination
 * @param rows the values of the columns
 */
export function duplicatesStatement(
  model: Model,
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): Statement<boolean[]> {
  const cells = columns.map((column, index) => cast(sql`wanted.${cellAlias(index)}`, column));
  const occurrence = sql`row_number() over (partition by ${join(cells, ', ')} order by position)`;
  const wanted = sql`(select wanted.*, ${occurrence} as n from ${wantedSql(columns, rows)}) wanted`;
  return createStatement(
    sql`select array(select n > 1 or ${isStoredSql(model, columns)} from ${wanted} order by position)`,
    oneCell(booleans),
  );
}

const sourceAlias = (index: number): Fragment => raw(`source${index}`);

/** The values of a group, with the types of their columns. */
function sourceSql({ columns, lists, size }: InsertGroup): Fragment {
  // `unnest` needs an array also for records without columns. So one more is always added.
  const source = [...lists, valueList(Array<string>(size).fill(''))];
  const values = columns.map(
    (column, index) => sql`${cast(sql`rows.${cellAlias(index)}`, column)} as ${cellAlias(index)}, `,
  );
  const cells = source.map((_, index) => cellAlias(index));
  return sql`select ${join(values, '')}rows.position from unnest(${join(source, ', ')}) with ordinality rows (${join(cells, ', ')}, position)`;
}

/** Inserts the records of a group if all references exist and the precondition holds. */
function groupSql(
  { model, formatted, recording }: WriteTarget,
  { columns }: InsertGroup,
  source: Fragment,
  isReused: boolean,
  { isMinimal }: InsertMany,
): Fragment {
  const into = sql`insert into ${writtenTable(model)} as ${raw(ROOT)}`;
  const forHistory = recording
    ? returningHistory(
        ROOT,
        model.primaryKey,
        raw('null'),
        isReused ? raw('null') : wholeRow(ROOT, recording),
      )
    : EMPTY;
  const record = isMinimal && !isReused ? raw("''::text") : recordJson(ROOT, formatted);
  const returning = sql`returning ${record} as record, ${output(ROOT, model.primaryKey)}::text as key${forHistory}`;
  const names =
    columns.length > 0
      ? sql` (${join(
          columns.map(({ field }) => identifier(field)),
          ', ',
        )})`
      : EMPTY;
  const values = columns.map((_, index) => sql`${source}.${cellAlias(index)}`);
  return sql`${into}${names} select ${join(values, ', ')} from checked, ${source} where checked.ok order by ${source}.position ${returning}`;
}

const MANY_CELLS: WrittenCells = { json: 0, key: 1 };

/** Outcome of the statement: the records in the order of the groups, none if a key is missing or the precondition fails. */
const readMany =
  (references: readonly WantedKeys[]) =>
  (rows: readonly RawRow[]): { records: InsertedRecord[]; existing: boolean[][] } => ({
    records: rows.flatMap(([json, key]) => (json ? [{ json, key: text(key ?? null) ?? '' }] : [])),
    existing: references.map((_, index) => booleans(rows[0]?.[index + 3])),
  });

/**
 * Inserts all records if all references exist and the author's precondition holds. PostgreSQL inserts and returns the rows of a
 * group in their order.
 * The statement ends with an error for which `isRolledBack` is true if a trigger has canceled some of them, or it is a dry run.
 */
export function insertManyStatement(
  target: WriteTarget,
  many: InsertMany,
  reread: Reread | undefined,
): Statement<ReturnType<ReturnType<typeof readMany>>> {
  const { groups, references, author, isMinimal, isDryRun } = many;
  const { formatted, recording } = target;
  const isReused = recording !== undefined && recordsSameColumns(formatted, recording);
  const results = resultsOf(references);
  const conditions = [
    ...references.map((_, index) => sql`true = all (${resultAlias(index)})`),
    ...(author.precondition ? [author.precondition] : []),
    // Reads the values of all groups before any is inserted: triggers may change how PostgreSQL reads them.
    ...(groups.length > 1
      ? groups.map((_, index) => sql`(select count(*) from ${sourceAlias(index)}) > 0`)
      : []),
  ];
  const ok = conditions.length > 0 ? join(conditions, ' and ') : raw('true');
  const found =
    results.length > 0
      ? sql`select *, ${ok} as ok from (select ${join(results, ', ')}) found`
      : sql`select ${ok} as ok`;
  const sources = groups.map(
    (group, index) => sql`${sourceAlias(index)} as materialized (${sourceSql(group)}), `,
  );
  const checked = sql`${join(sources, '')}checked as materialized (${found})`;
  const name = (index: number): Fragment => raw(`inserted${index}`);
  const inserts = groups.map(
    (group, index) =>
      sql`, ${name(index)} as (${groupSql(target, group, sourceAlias(index), isReused, many)})`,
  );
  const all = join(
    groups.map((_, index) => sql`select * from ${name(index)}`),
    ' union all ',
  );
  const intoHistory = recording
    ? historyInsert(
        recording,
        authorSql(author),
        'create',
        'inserted',
        isReused ? raw('inserted.record') : AFTER,
      )
    : EMPTY;
  const rows = groups.reduce((sum, { size }) => sum + size, 0);
  // No count is -1, so a dry run that would succeed ends with the error.
  const expectedCount = value(isDryRun ? '-1' : String(rows));
  const inserted = raw('(select count(*) from inserted)');
  const isComplete = assertWrittenSql(sql`not c.ok or ${inserted} = ${expectedCount}::int8`);
  const columns = references.map((_, index) => sql`, c.${resultAlias(index)}`);
  // NULL where nothing was inserted.
  const record = isMinimal ? raw('left(i.record, 0)') : raw('i.record');
  const statement = createStatement(
    sql`with ${checked}${join(inserts, '')}, inserted as (${all})${intoHistory} select ${record}, i.key, ${isComplete}${join(columns, '')} from checked c left join inserted i on true`,
    readMany(references),
  );
  if (isMinimal || !reread) return { ...statement, rows };
  return { ...statement, rows, followUp: (inserted) => reread(inserted, MANY_CELLS) };
}
