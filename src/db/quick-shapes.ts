// What is known of `quick` statements: whether one may be pipelined, where a slow or large answer delays all behind it.
import type { Statement } from './fragment.ts';
import type { RawRow } from './pool.ts';
import type { Shape } from './shapes.ts';

/** Bytes from which on an answer is large: many of them in a row delay what is behind them. */
const LARGE = 256 * 1024;
/** Milliseconds for which a shape counts as large after a large answer, whatever later answers are. */
const LARGE_FOR = 10 * 60_000;

/** The first value of an answer is nearly all of it. A page that would be too large for `MAX_PAGE` is null. */
function isLarge({ isPage }: Statement, rows: readonly RawRow[]): boolean {
  const value = rows[0]?.[0];
  return value ? value.length > LARGE : isPage === true && value === null;
}

const isKnownAsLarge = ({ largeAt }: Shape): boolean =>
  largeAt > 0 && performance.now() - largeAt < LARGE_FOR;

/** Whether it may be pipelined. A page can be large, so the first one of its shape goes another way. */
export function mayPipeline(shape: Shape, { isPage }: Statement): boolean {
  if (shape.wasSlow || isKnownAsLarge(shape)) return false;
  return !isPage || shape.isSmall;
}

/** Notes the size of an answer. */
export function noteAnswer(shape: Shape, statement: Statement, rows: readonly RawRow[]): void {
  if (isLarge(statement, rows)) {
    shape.largeAt = performance.now();
    shape.isSmall = false;
  } else if (!shape.isSmall) shape.isSmall = !isKnownAsLarge(shape);
}
