// Reads again what a statement has written, where triggers may have changed it since.
import { arrayText, Parameters, raw, sql } from '../../db/fragment.ts';
import { text, type FollowUp, type RawRow } from '../../db/rows.ts';
import { reference, type Column, type Model } from '../../db/schema/model.ts';
import { source } from '../source.ts';
import { cast } from '../../db/types/column-types.ts';
import { ROOT, type RowVisibility } from '../plan.ts';
import { recordJson, rowVersion } from './record-json.ts';

/** The positions of cells in the rows of a writing statement. */
export interface WrittenCells {
  readonly json: number;
  readonly version: number;
  /** Left out if the caller knows the key. */
  readonly key?: number;
}

/** @param id the key, for a statement that does not return it */
export type ReadBack = (
  rows: readonly RawRow[],
  cells: WrittenCells,
  id?: string | null,
) => FollowUp | undefined;

/**
 * Reads the written records again by their keys. Triggers may also have removed one: it stays as the statement returned it.
 * @returns undefined where a statement returns what is stored
 */
export function readBackOf({
  model,
  formatted,
  visibility,
}: {
  readonly model: Model;
  readonly formatted: readonly Column[];
  readonly visibility: RowVisibility;
}): ReadBack | undefined {
  const { isReadBack, primaryKey } = model;
  if (!isReadBack) return undefined;
  const isSame = sql`${reference(ROOT, primaryKey)} = ${cast(raw('wanted.key'), primaryKey)}`;
  // No constraint keeps the key of a view unique.
  const parameters = new Parameters();
  const keys = parameters.add(null);
  const rows = parameters.take(source(model, ROOT, visibility));
  const [, ...ofCaller] = parameters.values;
  const record = sql`select ${recordJson(ROOT, formatted)} as json, ${rowVersion(ROOT, model)} as version from ${rows} where ${isSame} limit 1`;
  const wanted = sql`unnest(${keys}::text[]) with ordinality wanted (key, position)`;
  const statement = parameters.compile(
    sql`select found.json, found.version from ${wanted} left join lateral (${record}) found on true order by position`,
  );
  const keyOf = (cell: Buffer | null | undefined): string | null => {
    const parsed = primaryKey.type.parse(text(cell) ?? '', primaryKey);
    return parsed.fault === undefined ? parsed.value : null;
  };
  return (rows, { json, version, key }, id = null) => {
    if (!rows.some((row) => row[json])) return undefined;
    const keys = rows.map((row) => (key === undefined ? id : keyOf(row[key])));
    const merge = (read: readonly RawRow[]): RawRow[] =>
      rows.map((row, index) => {
        const [found, current = null] = read[index] ?? [];
        if (!found) return row;
        const cells = [...row];
        cells[json] = found;
        cells[version] = current;
        return cells;
      });
    const values = [arrayText(keys), ...ofCaller];
    return { statement: { text: statement, values, fixed: ofCaller.length === 0 }, merge };
  };
}
