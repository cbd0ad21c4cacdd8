import { EMPTY, join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { output, type Column } from '../../db/schema/model.ts';
import type { Shown } from './read-statements.ts';
import { member } from './record-json.ts';
import { ROOT } from '../plan.ts';

/** Bytes of the long values that a page shows at most. They take about 30 ms to parse and indent. */
const PAGE = 256 * 1024;
/** Bytes of the longest value that is shown in full, and of one on a page of very many. */
const LONGEST = 4096;
const SHORTEST = 64;
/** PostgreSQL's functions take 100 arguments. */
const MOST_ARGUMENTS = 90;

/** The key of a cut value's size in bytes. The name of a column never begins like this. */
export const sizeKey = ({ key }: Column): string => `#${key}`;

/** The key of a mark of the whole value that was cut, in forms. */
export const markKey = ({ key }: Column): string => `##${key}`;

/** Which values are cut: those with more than so many bytes, to so many characters. */
export interface Cut {
  readonly over: Fragment;
  readonly characters: number;
  /** Whether a cut value has a mark of the whole beside it. */
  readonly isMarked?: boolean;
}

/** What `markOf` in `admin/form-values.ts` makes of the whole text, so that a change behind the beginning is seen. */
const MARK = String.raw`translate(left(encode(sha256(convert_to('text ' || replace(replace(t, e'\r\n', e'\n'), e'\r', e'\n'), 'UTF8')), 'base64'), 12), '+/', '-_')`;

/** A character has up to 4 bytes, so the beginning is never the whole value. */
export const cutOver = (bytes: number): Cut => ({ over: raw(String(bytes)), characters: bytes / 4 });

/** Members of a column whose values can be long: `"key":value`, or `"key":"beginning","#key":bytes`. */
function cutMember(alias: string, column: Column, { over, characters, isMarked }: Cut): Fragment {
  const name = raw(`'"${column.key}":'`);
  const size = raw(`',"${sizeKey(column)}":', octet_length(t)`);
  const value = column.type.json === 'bare' ? raw('t') : raw('to_json(t)::text');
  const beginning = raw(`to_json(left(t, ${characters}))`);
  const mark = isMarked ? raw(`, ',"${markKey(column)}":"', ${MARK}, '"'`) : EMPTY;
  const isCut = sql`octet_length(t) > ${over}`;
  const whole = sql`concat(${name}, coalesce(${value}, 'null'))`;
  // `offset 0` keeps PostgreSQL from computing the text once for each time that it is named.
  const text = sql`(select ${output(alias, column)}::text offset 0) value (t)`;
  return sql`(select case when ${isCut} then concat(${name}, ${beginning}, ${size}${mark}) else ${whole} end from ${text})`;
}

export const isLong = ({ type }: Column): boolean => type.long === true;

/** A record's JSON in which PostgreSQL cuts long values of these columns. */
export function cutRecord(
  columns: readonly Column[],
  cut: Cut,
  isCut: (column: Column) => boolean = isLong,
): Fragment {
  const members = columns.map((column) =>
    isCut(column) ? cutMember(ROOT, column, cut) : member(ROOT, column),
  );
  const groups: Fragment[] = [];
  for (let at = 0; at < members.length; at += MOST_ARGUMENTS)
    groups.push(sql`concat_ws(',', ${join(members.slice(at, at + MOST_ARGUMENTS), ', ')})`);
  return sql`concat('{', concat_ws(',', ${join(groups, ', ')}), '}')`;
}

/**
 * Records as pages of the API show them: the service neither receives nor parses the rest of long values.
 * @param records how many a page has at most; the more there are, the shorter the values
 */
export function preview(columns: readonly Column[], records: number): Shown {
  const long = columns.filter(isLong).length;
  const share = PAGE / (records * Math.max(1, long));
  const most = 4 * Math.floor(Math.min(LONGEST, Math.max(SHORTEST, share)) / 4);
  return { value: cutRecord(columns, cutOver(most)), joins: EMPTY };
}

/** Characters of a cut value that a form shows. */
const IN_FORM = 300;

/**
 * Which values are too long for a form: none while all values of these columns together have at most so many bytes, else those
 * with more than an equal share.
 * @returns the join that the comparison needs, too
 */
export function cutForForm(columns: readonly Column[], bytes: number): Cut & { readonly joins: Fragment } {
  if (columns.length === 0) return { ...cutOver(bytes), joins: EMPTY };
  const sizes = columns.map(
    (column) => sql`coalesce(octet_length(${output(ROOT, column)}::text), 0)::bigint`,
  );
  const share = Math.floor(bytes / columns.length);
  return {
    over: raw(`case when sizes.bytes > ${bytes} then ${share} else ${bytes} end`),
    characters: Math.floor(Math.min(IN_FORM, share / 4)),
    isMarked: true,
    joins: sql` cross join lateral (select ${join(sizes, ' + ')} as bytes offset 0) sizes`,
  };
}
