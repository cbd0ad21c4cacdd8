import type { Stage } from './stage.ts';

/** `count` and `ratio` hold on any machine, and are all that the short form checks; `time` and `memory` depend on it. */
export type Kind = 'count' | 'ratio' | 'time' | 'memory';

/** One measured value and the limit that it must keep. */
export interface Row {
  readonly what: string;
  readonly kind: Kind;
  readonly limit: number;
  /** Whether the limit is the most or the least that is allowed. */
  readonly bound: 'at most' | 'at least';
  readonly value: number;
  /** Such as `ms`, `MB`, `%`; `×` for a multiple of the reference. */
  readonly unit: string;
  /** What the value was compared with. */
  readonly note?: string;
}

/** One kind of attack. */
export interface Scenario {
  readonly name: string;
  readonly title: string;
  readonly run: (stage: Stage) => Promise<readonly Row[]>;
}

/** A value that must not be above its limit. */
export const atMost = (
  kind: Kind,
  what: string,
  limit: number,
  value: number,
  unit = '',
  note?: string,
): Row => ({
  what,
  kind,
  limit,
  bound: 'at most',
  value,
  unit,
  ...(note === undefined ? {} : { note }),
});

/** A value that must not be below its limit. */
export const atLeast = (...parts: Parameters<typeof atMost>): Row => ({
  ...atMost(...parts),
  bound: 'at least',
});

/** A condition that must hold. */
export const holds = (what: string, isTrue: boolean, note?: string): Row =>
  atLeast('count', what, 1, isTrue ? 1 : 0, '', note);

/** The short form allows ratios this many times their limit, since it measures for a moment only. */
const TOLERANCE = 3;

/** Whether the row keeps its limit; undefined where the short form does not check it. */
export function isKept({ kind, bound, limit, value }: Row, isShort: boolean): boolean | undefined {
  if (isShort && (kind === 'time' || kind === 'memory')) return undefined;
  const tolerance = isShort && kind === 'ratio' ? TOLERANCE : 1;
  // Without a value (NaN) the limit is not kept.
  return bound === 'at most' ? value <= limit * tolerance : value >= limit / tolerance;
}

/** The middle one of some numbers. */
export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN;
}

/** The value below which this part of the numbers lies. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.floor((sorted.length - 1) * part)] ?? NaN;
}
