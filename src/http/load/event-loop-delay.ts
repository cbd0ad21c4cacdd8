import { monitorEventLoopDelay } from 'node:perf_hooks';

/** How often the delay is measured (milliseconds): what each measurement takes without any delay. */
const RESOLUTION = 20;
const MINUTE = 60_000;
const QUANTILES = [0.5, 0.9, 0.99, 1] as const;

export interface EventLoopDelay {
  /** By how much the event loop was late, in seconds: the worse of the minute that is running and the one before. */
  readonly quantiles: readonly (readonly [quantile: number, seconds: number])[];
  /** Of all measurements since the start. */
  readonly sum: number;
  readonly count: number;
}

const seconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - RESOLUTION / 1000);

/** Watches how late the event loop is; `close` ends that. */
export function watchEventLoop(): { readonly read: () => EventLoopDelay; readonly close: () => void } {
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION });
  monitor.enable();
  let before: readonly number[] = QUANTILES.map(() => 0);
  let past = { sum: 0, count: 0 };
  let largestSum = 0;

  const quantiles = (): number[] =>
    QUANTILES.map((quantile) => (monitor.count > 0 ? seconds(monitor.percentile(quantile * 100)) : 0));

  function totals(): { sum: number; count: number } {
    const { count } = monitor;
    const sum = past.sum + (count > 0 ? count * seconds(monitor.mean) : 0);
    // A measurement that came a little early may lower the mean; a counter never goes down.
    largestSum = Math.max(largestSum, sum);
    return { sum: largestSum, count: past.count + count };
  }

  const minute = setInterval(() => {
    past = totals();
    before = quantiles();
    monitor.reset();
  }, MINUTE).unref();

  return {
    read: () => {
      const now = quantiles();
      return {
        quantiles: QUANTILES.map((quantile, at) => [quantile, Math.max(now[at] ?? 0, before[at] ?? 0)]),
        ...totals(),
      };
    },
    close: () => {
      clearInterval(minute);
      monitor.disable();
    },
  };
}
