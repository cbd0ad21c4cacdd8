/** Bucket bounds for the durations of requests and statements (seconds). */
export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** Counts values in buckets by size. `observe` allocates no memory. */
export class Histogram {
  /** The upper bound of each bucket, inclusive and ascending. */
  readonly ends: readonly number[];
  /** The number of values per bucket. The last bucket is for values above all bounds. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(ends: readonly number[] = SECONDS) {
    this.ends = ends;
    this.counts = new Float64Array(ends.length + 1);
  }

  observe(value: number): void {
    const { ends, counts } = this;
    let bucket = 0;
    while (bucket < ends.length && value > (ends[bucket] ?? Infinity)) bucket += 1;
    counts[bucket] = (counts[bucket] ?? 0) + 1;
    this.sum += value;
  }
}
