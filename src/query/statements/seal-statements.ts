// Statements on the seals of the history: the digests of entries, and the checkpoints.
import { identifier, join, literal, quotedTable, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import { createStatement, json, oneCell, text, type RawRow, type Statement } from '../../db/rows.ts';
import type { Model } from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../source.ts';
import { isReadable } from './history-entries.ts';
import { isInSpan, type Span } from './watermark-statements.ts';

type NamedTable = Pick<Model, 'name' | 'table'>;

export interface SealedTable extends NamedTable {
  /** Its columns by name, without the id. */
  readonly columns: readonly string[];
}

/** An entry of a sealed table, or its digest: the id, and a text. */
export interface Entry {
  readonly id: bigint;
  readonly text: string;
}

/** A checkpoint as it is stored. */
export interface StoredSeal {
  readonly id: bigint;
  readonly content: string;
  readonly signature: string;
}

const sha256 = (of: Fragment): Fragment => sql`encode(sha256(convert_to(${of}, 'UTF8')), 'base64')`;
const textOf = (column: string): Fragment => sql`t.${identifier(column)}::text`;

/**
 * The digest of an entry: of the names of its columns, each with the digest of its text, without those that are NULL. So a column that is
 * added later does not change older entries, and PostgreSQL needs no more memory than for one value, however long.
 */
const digestOf = (columns: readonly string[]): Fragment => {
  const lines = columns.map((one) => sql`${literal(`${one} `)} || ${sha256(textOf(one))} || e'\\n'`);
  return sha256(sql`concat(${join(lines, ', ')})`);
};

/** The JSON of an entry: its texts, and `{"sha256":…}` for those that are too large to be read. */
const jsonOf = (columns: readonly string[]): Fragment => {
  const cells = columns.map(
    (one) =>
      sql`${literal(`${JSON.stringify(one)}:`)} || case when ${isReadable('t', [one])} then to_json(${textOf(one)})::text else '{"sha256":"' || ${sha256(textOf(one))} || '"}' end`,
  );
  return sql`concat('{', concat_ws(',', ${join(cells, ', ')}), '}')`;
};

const entriesOf = (rows: readonly RawRow[]): Entry[] =>
  rows.map((row) => ({ id: BigInt(text(row[0]) ?? 0), text: text(row[1]) ?? '' }));

/** Those of the tables that the database has. */
export const existingTables = (tables: readonly NamedTable[]): Statement<SealedTable[]> =>
  createStatement(
    sql`select name, (select coalesce(json_agg(attname order by attname), '[]') from pg_attribute where attrelid = to_regclass(place) and attnum > 0 and attname <> 'id' and not attisdropped) from (values ${join(
      tables.map(({ name, table }) => sql`(${literal(name)}, ${literal(quotedTable(table))})`),
      ', ',
    )}) wanted (name, place) where to_regclass(place) is not null`,
    (rows) =>
      tables.flatMap((table) => {
        const row = rows.find(([name]) => text(name) === table.name);
        return row ? [{ ...table, columns: json<string[]>(row[1]) }] : [];
      }),
  );

/** The digests of the first entries of a span. */
export const digestsIn = ({ table, columns }: SealedTable, span: Span, limit: number): Statement<Entry[]> =>
  createStatement(
    sql`select t.id::text, ${digestOf(columns)} from ${allRows({ table }, 't')} where ${isInSpan('t', span)} order by t.id limit ${raw(String(limit))}`,
    entriesOf,
  );

/** All entries in the order of their ids, as JSON or as digests. */
export const allEntries = ({ table, columns }: SealedTable, isWhole: boolean): Statement<Entry[]> =>
  createStatement(
    sql`select t.id::text, ${isWhole ? jsonOf(columns) : digestOf(columns)} from ${allRows({ table }, 't')} order by t.id`,
    entriesOf,
  );

const SEAL: Fragment = raw('t.id::text, t.content, t.signature');
const sealsOf = (rows: readonly RawRow[]): StoredSeal[] =>
  rows.map(([id, content, signature]) => ({
    id: BigInt(text(id) ?? 0),
    content: text(content) ?? '',
    signature: text(signature) ?? '',
  }));

export const allSeals = ({ table }: NamedTable): Statement<StoredSeal[]> =>
  createStatement(sql`select ${SEAL} from ${allRows({ table }, 't')} order by t.id`, sealsOf);

export const lastSeal = ({ table }: NamedTable): Statement<StoredSeal | undefined> =>
  createStatement(
    sql`select ${SEAL} from ${allRows({ table }, 't')} order by t.id desc limit 1`,
    (rows) => sealsOf(rows)[0],
  );

/** Adds a checkpoint. It returns false if there is one with this number, which another process has made. */
export const addSeal = (table: NamedTable, { id, content, signature }: StoredSeal): Statement<boolean> =>
  createStatement(
    sql`insert into ${writtenTable(table)} (id, content, signature) values (${value(String(id))}::bigint, ${value(content)}, ${value(signature)}) on conflict do nothing returning 't'`,
    oneCell((cell) => text(cell) !== null),
  );
