// Runs inside each process of the service (--import): appends a line to the file SIEGE_HOLDS each time the event loop was held.
import { openSync, readSync, writeSync } from 'node:fs';

/** Milliseconds between two looks, and how late a look must be to count. */
const TICK = 5;
const LATE = 10;
const file = openSync(process.env['SIEGE_HOLDS'] ?? '/dev/null', 'a');

const buffer = Buffer.alloc(64);

/** The times of the main thread; undefined where the system has no /proc. Opened once, since a look must cost next to nothing. */
const times = ((): number | undefined => {
  try {
    return openSync('/proc/thread-self/schedstat', 'r');
  } catch {
    return undefined;
  }
})();

/**
 * Processor time of the main thread, milliseconds; undefined where it is not known. It tells work that holds the loop from a
 * thread that waits for a core.
 */
function processorTime(): number | undefined {
  if (times === undefined) return undefined;
  try {
    const time = Number.parseInt(buffer.toString('latin1', 0, readSync(times, buffer, 0, 64, 0)), 10) / 1e6;
    return Number.isNaN(time) ? undefined : time;
  } catch {
    return undefined;
  }
}

let before = performance.now();
let usedBefore = processorTime();
setInterval(() => {
  const now = performance.now();
  const late = now - before - TICK;
  const used = processorTime();
  if (late > LATE) {
    const busy = used === undefined || usedBefore === undefined ? late : Math.min(late, used - usedBefore);
    writeSync(file, `${Math.round(performance.timeOrigin + now)} ${busy.toFixed(1)}\n`);
  }
  before = now;
  usedBefore = used;
}, TICK).unref();
