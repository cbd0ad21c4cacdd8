// What may be read of an entry of a table that only grows, such as the history: an entry can be larger than any reader can take.
import { identifier, join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { fixedStatement, text, type Statement } from '../../db/rows.ts';
import type { Model } from '../../db/schema/model.ts';
import { allRows } from '../source.ts';
import { isInSpan, type Span } from './watermark-statements.ts';

/** Maximum bytes of the values of an entry that is read. Of a larger one, PostgreSQL could not make JSON, or only with gigabytes. */
export const MAX_READ_BYTES = 32 * 1024 * 1024;

/** The columns of the history with values of records. */
export const VALUES: readonly string[] = ['before', 'after'];

/** The bytes of columns. PostgreSQL knows those of a long text without reading it. */
const bytesOf = (alias: string, columns: readonly string[]): Fragment =>
  join(
    columns.map((name) => sql`coalesce(octet_length(${raw(alias)}.${identifier(name)}::text), 0)`),
    ' + ',
  );

/** Whether the values of an entry are read. */
export const isReadable = (alias: string, columns = VALUES): Fragment =>
  sql`${bytesOf(alias, columns)} <= ${raw(String(MAX_READ_BYTES))}`;

/** In place of the values of an entry that is not read. No column has this key. */
export const UNREADABLE = { key: '#', json: `{"#":"more than ${MAX_READ_BYTES} bytes"}` };

let unreadable = 0;
/** Counts an entry whose values were left out. */
export const countUnreadable = (): void => void (unreadable += 1);
/** How often the values of an entry were left out in this process. */
export const unreadableEntries = (): number => unreadable;

/** How much is read at once. */
export interface Portion {
  readonly entries: number;
  readonly bytes: number;
}

/** Up to which entry a portion of a span goes: at least to the first one. It returns 0 if there is none. */
export function portionEnd(
  table: Pick<Model, 'table'>,
  span: Span,
  { entries, bytes }: Portion,
  columns = VALUES,
): Statement<bigint> {
  const first = sql`select t.id, ${bytesOf('t', columns)} as bytes from ${allRows(table, 't')} where ${isInSpan('t', span)} order by t.id limit ${raw(String(entries))}`;
  const sums = sql`select id, sum(bytes) over (order by id) - bytes as earlier from (${first}) entry`;
  return fixedStatement(
    sql`select max(id)::text from (${sums}) summed where earlier < ${raw(String(bytes))}`,
    ([row]) => BigInt(text(row?.[0]) ?? 0),
  );
}
