/** Upper ends of what requests and statements take, in seconds. */
export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** Counts values by size. Observing one costs a few comparisons and nothing for the garbage collector. */
export class Histogram {
  readonly ends: readonly number[];
  /** How many values each bucket has, the last one being for what is above all ends. */
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
