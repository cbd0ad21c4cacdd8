// The statement of a stream or an export: all records of a list, the long ones in parts.
import { join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { createStatement, type RawRow, type Statement } from '../../db/rows.ts';
import { reference } from '../../db/schema/model.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { fromWhere } from './page-statements.ts';

/** A record of a stream or an export, or a part of a long one. */
export interface RecordPart {
  readonly bytes: Buffer;
  /** Whether it continues the record of the previous part. */
  readonly isContinued: boolean;
}

/** Bytes of a part. Records that are not longer have one part. */
const PART_BYTES = 16_384;

const partOf = ([bytes, number]: RawRow): RecordPart => ({
  bytes: bytes ?? Buffer.alloc(0),
  isContinued: number !== null,
});

/** The offset in the column `long` of the last character that begins at or before `offset`. A character has at most 4 bytes. */
function characterAt(offset: Fragment): Fragment {
  const begins = (back: number): Fragment =>
    sql`get_byte(long, ${offset} - ${raw(String(back))}) & 192 <> 128 then ${raw(String(back))}`;
  return sql`${offset} - case when ${offset} >= octet_length(long) then 0 when ${begins(0)} when ${begins(1)} when ${begins(2)} else 3 end`;
}

/**
 * All records that the plan matches, on all pages. Rows are formatted after sorting. PostgreSQL divides long records, so that the
 * rows of a batch are never large. It divides their bytes (`long`): finding a character takes longer the farther it is. Each part
 * is then a text again, because the output of `bytea` is longer and depends on `bytea_output`.
 */
export function streamStatement(
  plan: ListPlan,
  format: (alias: string) => Fragment,
): Statement<readonly RecordPart[]> {
  const order = plan.orderings.map(({ alias, column, descending }) =>
    descending ? sql`${reference(alias, column)} desc` : reference(alias, column),
  );
  const rows = sql`select ${raw(ROOT)}.*${fromWhere(plan)} order by ${join(order, ', ')}`;
  const size = raw(String(PART_BYTES));
  // `offset 0` keeps PostgreSQL from computing a value once per use.
  const texts = sql`(select ${format(ROOT)} as whole from (${rows}) ${raw(ROOT)} offset 0) texts`;
  const long = sql`case when octet_length(whole) > ${size} then convert_to(whole, 'UTF8') end`;
  const records = sql`(select whole, ${long} as long from ${texts} offset 0) records`;
  const parts = sql`(select whole, long, generate_series(0, coalesce((octet_length(long) - 1) / ${size}, 0)) as n from ${records}) parts`;
  const [first, next] = [characterAt(sql`n * ${size}`), characterAt(sql`(n + 1) * ${size}`)];
  const part = sql`convert_from(substring(long from ${first} + 1 for ${next} - (${first})), 'UTF8')`;
  return createStatement(
    sql`select case when long is null then whole else ${part} end, nullif(n, 0) from ${parts}`,
    (found) => found.map(partOf),
  );
}
