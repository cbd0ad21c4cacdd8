// Runs inside each process of the service (--import): appends a line to the file SIEGE_HOLDS each time the event loop was held.
import { openSync, readFileSync, writeSync } from 'node:fs';

/** Milliseconds between two looks, and how late a look must be to count. */
const TICK = 5;
const LATE = 10;
const file = openSync(process.env['SIEGE_HOLDS'] ?? '/dev/null', 'a');

/**
 * Processor time of the main thread, milliseconds; undefined where the system has no /proc. It tells work that holds the
 * loop from a thread that waits for a core.
 */
function processorTime(): number | undefined {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1e6;
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
