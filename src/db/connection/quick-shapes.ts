// Decides which `quick` statements may be pipelined: a slow or large answer would delay all statements behind it.
import { LARGE, type BoundSql } from '../fragment.ts';
import type { RawRow } from '../rows.ts';
import type { Shape } from '../statement-shapes.ts';

/**
 * Milliseconds for which a page counts as large after a large answer, even if later answers are small. PostgreSQL leaves a large
 * page out, so trying again costs little, and one record that was deleted soon must not slow down a page for long.
 */
const LARGE_FOR = 10_000;
/**
 * Maximum ratio of the size that SQL computes for a value to the bytes of its JSON. An array of short numbers takes more bytes in
 * storage, and a compressed value above a limit counts as large.
 */
const MAX_OVERHEAD = 256;
/** Maximum large records that are remembered for one shape. */
const MAX_LARGE = 1_000;

/** Whether an answer lacks its record or page, because it might be large. A page is also left out above `MAX_PAGE`. */
export const isLeftOut = ({ isPage, small }: BoundSql, rows: readonly RawRow[]): boolean =>
  (isPage === true || small !== undefined) && rows[0]?.[0] === null;

/** The first value is nearly the whole answer, except on a long page, where each record may be a separate row. */
const isLarge = (statement: BoundSql, rows: readonly RawRow[]): boolean =>
  (rows[0]?.[0]?.length ?? 0) > LARGE ||
  (statement.isPage === true && rows.length > 1) ||
  isLeftOut(statement, rows);

const isKnownAsLarge = ({ largeAt }: Shape): boolean =>
  largeAt > 0 && performance.now() - largeAt < LARGE_FOR;

const keyOf = ({ values }: BoundSql): string => values.join('\0');

/**
 * Whether a statement may be pipelined. The first page of a shape may not, because a page can be large. Large records are
 * remembered one by one, so that other records of the same resource stay fast.
 */
export function mayPipeline(shape: Shape, statement: BoundSql): boolean {
  if (shape.wasSlow || isKnownAsLarge(shape)) return false;
  if (statement.isPage) return shape.isSmall;
  return !isLargeRecord(shape, statement);
}

/** Whether the statement reads a single record that was large. */
export const isLargeRecord = (shape: Shape, statement: BoundSql): boolean =>
  shape.large?.has(keyOf(statement)) === true;

/** Remembers that the record of a statement is large. */
export const noteLarge = (shape: Shape, statement: BoundSql): void => noteRecord(shape, statement, true);

/** The weight of the newest time in the mean. */
const NEWEST_WEIGHT = 0.1;

/**
 * Remembers whether an answer was large, and how long it took.
 * @param statement as it was sent, see `withoutLarge`
 */
export function noteAnswer(
  shape: Shape,
  statement: BoundSql,
  rows: readonly RawRow[],
  milliseconds = shape.quickMean || (shape.mean ?? 0),
): void {
  const isLargeAnswer = isLarge(statement, rows);
  if (shape.quickMean === 0) shape.quickMean = milliseconds;
  else shape.quickMean += (milliseconds - shape.quickMean) * NEWEST_WEIGHT;
  if (!statement.isPage) {
    // PostgreSQL may leave out a record whose JSON is shorter than its size suggests.
    const isUncertain = !isLargeAnswer && (rows[0]?.[0]?.length ?? 0) > LARGE / MAX_OVERHEAD;
    return isUncertain ? undefined : noteRecord(shape, statement, isLargeAnswer);
  }
  const { text, small } = statement;
  const isUneven = isLeftOut(statement, rows) && text === small?.(false);
  if (isUneven) shape.isUneven = true;
  else if (isLargeAnswer) {
    shape.largeAt = performance.now();
    shape.isSmall = false;
  } else if (!shape.isSmall) shape.isSmall = !isKnownAsLarge(shape);
}

function noteRecord(shape: Shape, statement: BoundSql, isLarge: boolean): void {
  if (!isLarge && shape.large === undefined) return;
  const large = (shape.large ??= new Set());
  const key = keyOf(statement);
  large.delete(key); // Reinserted last, so that the first is always the oldest.
  if (isLarge) large.add(key);
  if (large.size > MAX_LARGE) for (const first of large) return void large.delete(first);
}
