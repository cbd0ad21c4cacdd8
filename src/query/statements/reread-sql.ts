// Reads again what a statement has written, where triggers may have changed it since.
import { arrayText, compile, raw, sql, table, value, valueList, type Fragment } from '../../db/fragment.ts';
import type { FollowUp, RawRow } from '../../db/rows.ts';
import { text } from '../../db/rows.ts';
import { reference, type Column, type Model } from '../../db/schema/model.ts';
import { cast } from '../../db/types/column-types.ts';
import { ROOT } from '../plan.ts';
import { recordJson, rowVersion } from './record-json.ts';

/** The positions of cells in the rows of a writing statement. */
export interface WrittenCells {
  readonly json: number;
  readonly version?: number;
  /** See `writer`. */
  readonly writer: number;
  /** Left out if the caller knows the key. */
  readonly key?: number;
}

/** A column of RETURNING: the transaction that writes, to recognize its rows. NULL where nothing is read again. */
export const writer = ({ reread }: Model): Fragment =>
  raw(reread === 'own' ? 'pg_current_xact_id()::xid::text' : reread === 'latest' ? "''::text" : 'null::text');

export type Reread = (rows: readonly RawRow[], cells: WrittenCells, id?: string) => FollowUp | undefined;

/**
 * Reads the written records again by their keys. A record that another transaction has changed or deleted in between stays as the
 * statement returned it: its version is an old one then, and the caller may not be allowed to see what it is now.
 * @returns undefined where a statement returns what is stored
 */
export function rereadOf({
  model,
  shown,
}: {
  readonly model: Model;
  readonly shown: readonly Column[];
}): Reread | undefined {
  const { reread, primaryKey, table: name } = model;
  if (!reread) return undefined;
  const isSame = sql`${reference(ROOT, primaryKey)} = ${cast(raw('wanted.key'), primaryKey)}`;
  const isOwn = reread === 'own' ? sql` and ${raw(ROOT)}.xmin::text = ${value('')}` : raw('');
  // No constraint keeps the key of a view unique.
  const record = sql`select ${recordJson(ROOT, shown)} as json, ${rowVersion(ROOT, model, shown)} as version from ${table(name)} ${raw(ROOT)} where ${isSame}${isOwn} limit 1`;
  const wanted = sql`unnest(${valueList([])}) with ordinality wanted (key, position)`;
  const { text: statement } = compile(
    sql`select found.json, found.version from ${wanted} left join lateral (${record}) found on true order by position`,
  );
  const keyOf = (cell: Buffer | null | undefined): string | null => {
    const parsed = primaryKey.type.parse(text(cell) ?? '', primaryKey);
    return parsed.fault === undefined ? parsed.value : null;
  };
  return (rows, { json, version = json, writer: transaction, key }, id) => {
    const written = text(rows[0]?.[transaction]);
    if (written === null) return undefined;
    const keys = arrayText(rows.map((row) => (key === undefined ? (id ?? null) : keyOf(row[key]))));
    const values = reread === 'own' ? [keys, written] : [keys];
    const merge = (read: readonly RawRow[]): RawRow[] =>
      rows.map((row, index) => {
        const [found, current] = read[index] ?? [];
        if (!found) return row;
        const cells = [...row];
        cells[version] = current ?? null;
        cells[json] = found;
        return cells;
      });
    return { statement: { text: statement, values, fixed: true }, merge };
  };
}
