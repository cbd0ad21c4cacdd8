// Reads records by their keys: one, those of several requests at once, or for an import those of a list.
import { cast } from '../../db/types/column-types.ts';
import { literalOf } from '../../db/session-state.ts';
import {
  compile,
  join,
  LARGE,
  MAX_KEYS,
  Parameters,
  raw,
  sql,
  valueList,
  type Fragment,
} from '../../db/fragment.ts';
import { type RawRow, type Statement, createStatement, number, text as textOf } from '../../db/rows.ts';
import { output, reference, type Column, type Model } from '../../db/schema/model.ts';
import { ROOT, type Projection, type RowVisibility } from '../plan.ts';
import { allRows, source } from '../source.ts';
import { isPlainRead } from '../read.ts';
import { recordJson, rowVersion } from './record-json.ts';

/** A record whose id is in a list. */
export interface MatchedRecord {
  /** The position of the id, from 0. */
  readonly index: number;
  /** The key as the API outputs it. */
  readonly id: string;
  /** The approximate size of its values in bytes. */
  readonly bytes: number;
}

const wantedKeys = (ids: readonly string[]): Fragment =>
  sql`unnest(${valueList(ids)}) with ordinality k (id, position)`;

const hasValue = (column: Column): Fragment => sql`${reference(ROOT, column)} = ${cast(raw('k.id'), column)}`;
const hasKey = ({ primaryKey }: Model): Fragment => hasValue(primaryKey);

/** Approximate bytes of a short value and its column's name in JSON. */
const COLUMN_BYTES = 32;

/**
 * Finds the records with these values in a unique column, such as the key, without their other values.
 * @param columns the columns that count for the size
 */
export function matchedRecordsStatement(
  model: Model,
  by: Column,
  columns: readonly Column[],
  values: readonly string[],
  isLocked: boolean,
  visibility: RowVisibility,
): Statement<MatchedRecord[]> {
  const { primaryKey, isLockable } = model;
  const sizes = columns
    .filter(({ type }) => type.long === true)
    .map((column) => sql`coalesce(octet_length(${output(ROOT, column)}::text), 0)::bigint`);
  const bytes = sizes.length > 0 ? join(sizes, ' + ') : raw('0');
  const lock = raw(isLocked && isLockable ? ` for no key update of ${ROOT}` : '');
  return createStatement(
    sql`select k.position::text, (${output(ROOT, primaryKey)})::text, (${bytes})::text from ${wantedKeys(values)} join ${source(model, ROOT, visibility)} on ${hasValue(by)} order by ${reference(ROOT, primaryKey)}${lock}`,
    (rows) =>
      rows.map(([position, id, size]) => ({
        index: number(position) - 1,
        id: textOf(id) ?? '',
        bytes: number(size) + columns.length * COLUMN_BYTES,
      })),
  );
}

/** SQL without parameters that waits for the lock of a record, and takes it. */
export function lockRecord(model: Model, id: string, lock: 'update' | 'no key update'): string {
  const { primaryKey } = model;
  const key = cast(raw(literalOf(id)), primaryKey);
  return compile(
    sql`select from ${allRows(model, ROOT)} where ${reference(ROOT, primaryKey)} = ${key} for ${raw(lock)} of ${raw(ROOT)}`,
  ).text;
}

/** A record and the position of its id in a list, from 0. */
export interface IndexedRecord {
  readonly index: number;
  readonly json: string;
}

const indexedRecords = (rows: readonly RawRow[]): IndexedRecord[] =>
  rows.map(([position, json]) => ({ index: number(position) - 1, json: textOf(json) ?? '{}' }));

/** A name that columns do not have in practice. */
const POSITION = raw('"#position"');

/** The records with these ids, in the order of the list. The JSON is formatted after sorting. */
export function recordsInOrderStatement(
  model: Model,
  columns: readonly Column[],
  ids: readonly string[],
  visibility: RowVisibility,
): Statement<IndexedRecord[]> {
  const rows = sql`select k.position as ${POSITION}, ${raw(ROOT)}.* from ${wantedKeys(ids)} join ${source(model, ROOT, visibility)} on ${hasKey(model)} order by k.position`;
  return createStatement(
    sql`select ${POSITION}::text, ${recordJson(ROOT, columns)} from (${rows}) ${raw(ROOT)}`,
    indexedRecords,
  );
}

/** Opens a cursor. It outputs the records as they were then, even if the transaction changes them later. */
export function openCursor({ text, values }: Statement<unknown>, name: string): Statement<void> {
  return { text: `declare ${name} no scroll cursor for ${text}`, values, decode: () => undefined };
}

/** Reads further records from a cursor over `recordsInOrderStatement`. */
export const fetchRecords = (name: string, count: number): Statement<IndexedRecord[]> => ({
  text: `fetch ${count} from ${name}`,
  values: [],
  decode: indexedRecords,
});

/** A record as PostgreSQL wrote it, and the version of its row. */
export interface FoundRecord {
  readonly json: Buffer;
  readonly version: string;
}

/** The records with these ids and the versions of their rows, in no order. */
export function foundRecordsStatement(
  model: Model,
  { value: shown, joins }: Projection,
  ids: readonly string[],
  visibility: RowVisibility,
): Statement<FoundRecord[]> {
  return createStatement(
    sql`select ${shown}, ${rowVersion(ROOT, model)} from ${wantedKeys(ids)} join ${source(model, ROOT, visibility)} on ${hasKey(model)}${joins}`,
    (rows) => rows.flatMap((row) => readFound([row]) ?? []),
  );
}

/** Makes the statement that reads one record by its key. The text is the same for each id. */
export type MakeRecordStatement = (id: string) => Statement<FoundRecord | undefined>;

const readFound = ([row]: readonly RawRow[]): FoundRecord | undefined =>
  row?.[0] ? { json: row[0], version: textOf(row[1]) ?? '' } : undefined;

/**
 * Bytes of the long values that a statement for one reader or for several formats on a shared connection, and the equal share of each
 * reader. JSON may have six times as many, which takes PostgreSQL 20 ms.
 */
const MAX_SHARED = LARGE / 2;
const SHARE = MAX_SHARED / MAX_KEYS;

export function recordStatement(
  model: Model,
  projection: Projection,
  visibility: RowVisibility,
): MakeRecordStatement {
  const { value: shown, size } = projection;
  const isPlain = isPlainRead({ model, joins: [], visibility }, projection);
  const key = reference(ROOT, model.primaryKey);
  const parameters = new Parameters();
  const id = cast(parameters.add(null), model.primaryKey);
  const rows = parameters.take(source(model, ROOT, visibility));
  const joins = parameters.take(projection.joins);
  /** The values of the caller in the rules about rows. */
  const [, ...ofCaller] = parameters.values;
  const version = rowVersion(ROOT, model);
  /** @param bytes of the record, or of all that are not larger: a large record must not take the place of others */
  const smallColumns = (bytes: Fragment | undefined, max = MAX_SHARED): Fragment => {
    const ifSmall = (one: Fragment): Fragment =>
      bytes ? sql`case when ${bytes} <= ${raw(String(max))} then ${one} end` : one;
    return sql`${ifSmall(shown)} as json, ${model.version === 'xmin' ? version : ifSmall(version)} as version`;
  };
  const oneOf = (columns: Fragment): string =>
    parameters.compile(sql`select ${columns} from ${rows}${joins} where ${key} = ${id}`);
  const wholeSql = oneOf(sql`${shown} as json, ${version} as version`);
  const smallSql = oneOf(smallColumns(size));
  const small = size && (() => smallSql);
  // Each caller has other values, so their reads cannot go together, and the text is that of one request.
  if (ofCaller.length > 0)
    return (id) => ({ text: wholeSql, small, values: [id, ...ofCaller], isPlain, decode: readFound });
  const wanted = raw('unnest($1::text[]) with ordinality wanted (id, position)');
  const on = sql`${key} = ${cast(raw('wanted.id'), model.primaryKey)}`;
  const isSmall = sql`octet_length(json) <= ${raw(String(LARGE))}`;
  const manyOf = (columns: Fragment): string => {
    // `offset 0` keeps PostgreSQL from computing the JSON twice.
    const found = sql`(select wanted.position, ${columns} from ${wanted} join ${rows} on ${on}${joins} offset 0) found`;
    return parameters.compile(
      sql`select position, case when ${isSmall} then json end, version from ${found}`,
    );
  };
  // Of integers, because PostgreSQL adds up `bigint` as slowly as decimals.
  const bytes = size && sql`least(${size}, ${raw(String(LARGE))})::integer`;
  const sum = bytes && sql`sum(${bytes}) over (order by ${bytes}, wanted.position)`;
  const [summedSql, evenSql] = [manyOf(smallColumns(sum)), manyOf(smallColumns(size, SHARE))];
  const many = (isSummed: boolean): string => (isSummed ? summedSql : evenSql);
  return (id) => ({
    ...{ text: wholeSql, small, many, values: [id] },
    ...{ fixed: true, isPlain, decode: readFound },
  });
}
