// Statements on the seals of the history: the digests of entries, and the checkpoints.
import { join, literal, quotedTable, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import { createStatement, oneCell, text, type RawRow, type Statement } from '../../db/rows.ts';
import type { Model } from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../source.ts';
import { isInSpan, type Span } from './watermark-statements.ts';

export type SealedTable = Pick<Model, 'name' | 'table'>;

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

/** All columns by name, without those that are NULL: so a column that is added later does not change older entries. */
const canonical = raw("jsonb_strip_nulls(to_jsonb(t) - 'id')::text");
const digest = sql`encode(sha256(convert_to(${canonical}, 'UTF8')), 'base64')`;

const entriesOf = (rows: readonly RawRow[]): Entry[] =>
  rows.map((row) => ({ id: BigInt(text(row[0]) ?? 0), text: text(row[1]) ?? '' }));

/** Those of the tables that the database has. */
export const existingTables = (tables: readonly SealedTable[]): Statement<string[]> =>
  createStatement(
    sql`select name from (values ${join(
      tables.map(({ name, table }) => sql`(${literal(name)}, ${literal(quotedTable(table))})`),
      ', ',
    )}) wanted (name, place) where to_regclass(place) is not null`,
    (rows) => rows.map(([name]) => text(name) ?? ''),
  );

/** The digests of the first entries of a span. */
export const digestsIn = ({ table }: SealedTable, span: Span, limit: number): Statement<Entry[]> =>
  createStatement(
    sql`select t.id::text, ${digest} from ${allRows({ table }, 't')} where ${isInSpan('t', span)} order by t.id limit ${raw(String(limit))}`,
    entriesOf,
  );

/** All entries in the order of their ids, as JSON or as digests. */
export const allEntries = ({ table }: SealedTable, isWhole: boolean): Statement<Entry[]> =>
  createStatement(
    sql`select t.id::text, ${isWhole ? canonical : digest} from ${allRows({ table }, 't')} order by t.id`,
    entriesOf,
  );

const SEAL: Fragment = raw('t.id::text, t.content, t.signature');
const sealsOf = (rows: readonly RawRow[]): StoredSeal[] =>
  rows.map(([id, content, signature]) => ({
    id: BigInt(text(id) ?? 0),
    content: text(content) ?? '',
    signature: text(signature) ?? '',
  }));

export const allSeals = ({ table }: SealedTable): Statement<StoredSeal[]> =>
  createStatement(sql`select ${SEAL} from ${allRows({ table }, 't')} order by t.id`, sealsOf);

export const lastSeal = ({ table }: SealedTable): Statement<StoredSeal | undefined> =>
  createStatement(
    sql`select ${SEAL} from ${allRows({ table }, 't')} order by t.id desc limit 1`,
    (rows) => sealsOf(rows)[0],
  );

/** Adds a checkpoint. It returns false if there is one with this number, which another process has made. */
export const addSeal = (table: SealedTable, { id, content, signature }: StoredSeal): Statement<boolean> =>
  createStatement(
    sql`insert into ${writtenTable(table)} (id, content, signature) values (${value(String(id))}::bigint, ${value(content)}, ${value(signature)}) on conflict do nothing returning 't'`,
    oneCell((cell) => text(cell) !== null),
  );
