// Decides which `quick` statements may be pipelined: a slow or large answer would delay all statements behind it.
import type { BoundSql } from '../fragment.ts';
import type { RawRow } from '../rows.ts';
import type { Shape } from '../statement-shapes.ts';

/** Answers above this size (bytes) are large: several in a row delay the statements behind them. */
const LARGE = 256 * 1024;
/** Milliseconds for which a page counts as large after a large answer, even if later answers are small. */
const LARGE_FOR = 10 * 60_000;
/** Maximum large records that are remembered for one shape. */
const MAX_LARGE = 1_000;

/** The first value of an answer is nearly all of it. It is null for a page above `MAX_PAGE`. */
function isLarge({ isPage }: BoundSql, rows: readonly RawRow[]): boolean {
  const value = rows[0]?.[0];
  return value ? value.length > LARGE : isPage === true && value === null;
}

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
  return shape.large === undefined || !shape.large.has(keyOf(statement));
}

/** Remembers that the record of a statement is large. */
export const noteLarge = (shape: Shape, statement: BoundSql): void => noteRecord(shape, statement, true);

/** Remembers whether an answer was large. */
export function noteAnswer(shape: Shape, statement: BoundSql, rows: readonly RawRow[]): void {
  const isLargeAnswer = isLarge(statement, rows);
  if (!statement.isPage) return noteRecord(shape, statement, isLargeAnswer);
  if (isLargeAnswer) {
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
