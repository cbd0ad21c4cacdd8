// SQL of records whose long values PostgreSQL cuts, for the admin area.
import { EMPTY, join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { output, type Column } from '../../db/schema/model.ts';
import { concat, jsonField } from '../statements/record-json.ts';
import { ROOT } from '../plan.ts';

/** The JSON key of a cut value's size in bytes. No column name starts with `#`. */
export const sizeKey = ({ key }: Column): string => `#${key}`;

/** Which values are cut, and where. */
export interface Cut {
  /** Values with more bytes are cut. */
  readonly over: Fragment;
  /** The number of characters that stay. */
  readonly characters: number;
}

/** Cuts values over so many bytes. A character has up to 4 bytes, so a cut never keeps the whole value. */
export const cutOver = (bytes: number): Cut => ({ over: raw(String(bytes)), characters: bytes / 4 });

/** The JSON of a column that may be cut: `"key":value`, or `"key":"beginning","#key":bytes`. */
function cutField(alias: string, column: Column, { over, characters }: Cut): Fragment {
  const name = raw(`'"${column.key}":'`);
  const size = raw(`',"${sizeKey(column)}":', octet_length(t)`);
  const value = column.type.json === 'bare' ? raw('t') : raw('to_json(t)::text');
  const beginning = raw(`to_json(left(t, ${characters}))`);
  const isCut = sql`octet_length(t) > ${over}`;
  const whole = sql`concat(${name}, coalesce(${value}, 'null'))`;
  // `offset 0` keeps PostgreSQL from computing the text once per use.
  const text = sql`(select ${output(alias, column)}::text offset 0) value (t)`;
  return sql`(select case when ${isCut} then concat(${name}, ${beginning}, ${size}) else ${whole} end from ${text})`;
}

export const isLongColumn = ({ type }: Column): boolean => type.long === true;

/** A record's JSON in which PostgreSQL cuts long values. */
export function cutRecord(
  columns: readonly Column[],
  cut: Cut,
  isCut: (column: Column) => boolean = isLongColumn,
): Fragment {
  const fields = columns.map((column) =>
    isCut(column) ? cutField(ROOT, column, cut) : jsonField(ROOT, column),
  );
  return sql`concat('{', ${concat(fields, ',')}, '}')`;
}

/** Maximum characters of a cut value in a form. */
const FORM_CHARACTERS = 300;

/**
 * The cut for a form. Nothing is cut while the values of these columns have at most `bytes` bytes together. Otherwise each
 * value with more than an equal share is cut.
 * @returns the cut, and the join that computes the sizes
 */
export function cutForForm(columns: readonly Column[], bytes: number): Cut & { readonly joins: Fragment } {
  if (columns.length === 0) return { ...cutOver(bytes), joins: EMPTY };
  const sizes = columns.map(
    (column) => sql`coalesce(octet_length(${output(ROOT, column)}::text), 0)::bigint`,
  );
  const share = Math.floor(bytes / columns.length);
  return {
    over: raw(`case when sizes.bytes > ${bytes} then ${share} else ${bytes} end`),
    characters: Math.floor(Math.min(FORM_CHARACTERS, share / 4)),
    joins: sql` cross join lateral (select ${join(sizes, ' + ')} as bytes offset 0) sizes`,
  };
}
