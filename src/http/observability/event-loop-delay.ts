// Measures how late the event loop is, for the metrics.
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Milliseconds between measurements, which Node includes in each measured value. */
const RESOLUTION = 20;
const MINUTE = 60_000;
const QUANTILES = [0.5, 0.9, 0.99, 1] as const;

const seconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - RESOLUTION / 1000);

/** Starts measuring. `close` stops it. */
export function watchEventLoop() {
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION });
  monitor.enable();
  let previousMinute: readonly number[] = QUANTILES.map(() => 0);
  let pastTotals = { sum: 0, count: 0 };
  let largestSum = 0;

  const quantiles = (): number[] =>
    QUANTILES.map((quantile) => (monitor.count > 0 ? seconds(monitor.percentile(quantile * 100)) : 0));

  function totals(): { sum: number; count: number } {
    const { count } = monitor;
    const sum = pastTotals.sum + (count > 0 ? count * seconds(monitor.mean) : 0);
    // An early measurement can lower the mean, but a counter must never decrease.
    largestSum = Math.max(largestSum, sum);
    return { sum: largestSum, count: pastTotals.count + count };
  }

  const minute = setInterval(() => {
    pastTotals = totals();
    previousMinute = quantiles();
    monitor.reset();
  }, MINUTE).unref();

  return {
    /**
     * Seconds by which the event loop was late: for each quantile the worse value of the current and the previous minute, and the
     * sum and the number of all measurements since the start.
     */
    read: () => {
      const now = quantiles();
      const worse = now.map((value, index) => Math.max(value, previousMinute[index] ?? 0));
      return {
        quantiles: QUANTILES.map((quantile, index) => [quantile, worse[index] ?? 0] as const),
        ...totals(),
      };
    },
    close: () => {
      clearInterval(minute);
      monitor.disable();
    },
  };
}
