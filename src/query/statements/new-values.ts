// What a change of a selection makes of its records: the new values, and why they cannot be, known by lengths before they are built.
import { EMPTY, exactText, join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { reference } from '../../db/schema/model.ts';
import { cast } from '../../db/types/column-types.ts';
import { assigned } from './check-statements.ts';
import type { Change } from './write-plan.ts';

/** Maximum bytes of all new values together. */
export const MAX_TOGETHER = 32 * 1024 * 1024;
/** Values of up to this many bytes that are set do not count: the history writes more for each record. */
const SHORT = 1024;

/** Why new values cannot be, by their number in SQL. The last one is about all of them together. */
export const VALUE_FAULTS = [undefined, 'required', 'longerThan', 'wouldBeLarge', 'largeTogether'] as const;

/** SQL about a record. */
export interface NewValue {
  /** Whether it is another value than the present one. */
  readonly differs: Fragment;
  readonly value: Fragment;
  /** The number of its fault. */
  readonly fault: Fragment;
  /** What it counts for `MAX_TOGETHER` if it differs; undefined for nothing. */
  readonly bytes: Fragment | undefined;
}

/**
 * The new value of a column. Only the same characters are replaced, whatever the collation of the column takes as equal. As in a form,
 * clearing a text means NULL in a nullable column.
 * @param given the text of the value, or the one in place of `find`
 */
export function newValue(alias: string, change: Change, given: Fragment, find?: Fragment): NewValue {
  const { column, value, maxBytes } = change;
  const { nullable, hasDefault, maxLength } = column;
  const present = exactText(reference(alias, column));
  if (!find) {
    const next = assigned(cast(given, column), column, alias);
    const isLong = Buffer.byteLength(value ?? '') > SHORT;
    return {
      differs: sql`${present} is distinct from ${exactText(next)}`,
      value: next,
      fault: raw('0'),
      bytes: isLong ? sql`octet_length(${given})` : undefined,
    };
  }
  const times = sql`((octet_length(${present}) - octet_length(replace(${present}, ${find}, ''))) / octet_length(${find}))::int8`;
  const lengthBy = (length: Fragment): Fragment =>
    sql`${length}(${present}) + ${times} * (${length}(${given}) - ${length}(${find}))`;
  const bytes = lengthBy(raw('octet_length'));
  const faults = [
    ...(nullable || hasDefault ? [] : [sql`when ${bytes} = 0 then 1`]),
    ...(maxLength === undefined
      ? []
      : [sql`when ${lengthBy(raw('char_length'))} > ${raw(String(maxLength))} then 2`]),
    ...(maxBytes === undefined ? [] : [sql`when ${bytes} > ${raw(String(maxBytes))} then 3`]),
  ];
  const differs = sql`(${find} <> ${given} and coalesce(strpos(${present}, ${find}), 0) > 0)`;
  const replaced = sql`replace(${present}, ${find}, ${given})`;
  return {
    differs,
    value: nullable ? sql`nullif(${replaced}, case when ${present} <> '' then '' end)` : replaced,
    fault: sql`case when not ${differs} then 0 ${join(faults, ' ')} else 0 end`,
    bytes,
  };
}

/** The bytes of a row that count. */
export const countedBytes = (values: readonly NewValue[]): Fragment =>
  join(
    [
      raw('0'),
      ...values.flatMap(({ differs, bytes }) =>
        bytes ? [sql`case when ${differs} then ${bytes} else 0 end`] : [],
      ),
    ],
    ' + ',
  );

/**
 * The faults among rows: a text with a digit for each change, and one for all of them together.
 * @param faults of a row, by change
 * @param bytes of a row, which count
 * @param over for a window
 */
export function faultsSql(faults: readonly Fragment[], bytes: Fragment, over = EMPTY): Fragment {
  const highest = faults.map((fault) => sql`coalesce(max(${fault})${over}, 0), `);
  const isLarge = sql`sum(${bytes})${over} > ${raw(String(MAX_TOGETHER))}`;
  return sql`concat(${join(highest, '')}case when ${isLarge} then 4 else 0 end)`;
}
