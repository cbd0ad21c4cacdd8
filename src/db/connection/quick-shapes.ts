// What is known of `quick` statements: whether one may be pipelined, where a slow or large answer delays all behind it.
import type { Statement } from '../fragment.ts';
import type { RawRow } from './pool.ts';
import type { Shape } from '../statement-shapes.ts';

/** Bytes from which on an answer is large: many of them in a row delay what is behind them. */
const LARGE = 256 * 1024;
/** Milliseconds for which a page counts as large after a large answer, whatever later answers are. */
const LARGE_FOR = 10 * 60_000;
/** Records of one shape that are remembered as large. */
const MAX_LARGE = 1_000;

/** The first value of an answer is nearly all of it. A page that would be too large for `MAX_PAGE` is null. */
function isLarge({ isPage }: Statement, rows: readonly RawRow[]): boolean {
  const value = rows[0]?.[0];
  return value ? value.length > LARGE : isPage === true && value === null;
}

const isKnownAsLarge = ({ largeAt }: Shape): boolean =>
  largeAt > 0 && performance.now() - largeAt < LARGE_FOR;

const keyOf = ({ values }: Statement): string => values.join('\0');

/**
 * Whether it may be pipelined. A page can be large, so the first one of its shape goes another way. Of records it is remembered
 * which ones are large: others of the same resource stay fast.
 */
export function mayPipeline(shape: Shape, statement: Statement): boolean {
  if (shape.wasSlow || isKnownAsLarge(shape)) return false;
  if (statement.isPage) return shape.isSmall;
  return shape.large === undefined || !shape.large.has(keyOf(statement));
}

/** Notes the size of an answer. */
export function noteAnswer(shape: Shape, statement: Statement, rows: readonly RawRow[]): void {
  const answer = isLarge(statement, rows);
  if (!statement.isPage) return noteRecord(shape, statement, answer);
  if (answer) {
    shape.largeAt = performance.now();
    shape.isSmall = false;
  } else if (!shape.isSmall) shape.isSmall = !isKnownAsLarge(shape);
}

function noteRecord(shape: Shape, statement: Statement, isLarge: boolean): void {
  if (!isLarge && shape.large === undefined) return;
  const large = (shape.large ??= new Set());
  const key = keyOf(statement);
  large.delete(key); // the latest is the last, so that the oldest makes room
  if (isLarge) large.add(key);
  if (large.size > MAX_LARGE) for (const first of large) return void large.delete(first);
}
