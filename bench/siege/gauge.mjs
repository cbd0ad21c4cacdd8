// Runs inside each process of the service (--import): appends a line to the file SIEGE_HOLDS each time the event loop was held.
import { openSync, readSync, writeSync } from 'node:fs';
import { Buffer } from 'node:buffer';
import process from 'node:process';
import { setInterval } from 'node:timers';
import { performance } from 'node:perf_hooks';

/** Milliseconds between two looks, and how late a look must be to count. */
const TICK = 5;
const LATE = 10;
const file = openSync(process.env['SIEGE_HOLDS'] ?? '/dev/null', 'a');
const buffer = Buffer.alloc(64);
/** The times of the main thread, opened once, since a look must cost next to nothing. */
const times = openSync('/proc/thread-self/schedstat', 'r');

/** Processor time of the main thread, milliseconds: waiting for a core does not count. */
const processorTime = () =>
  Number.parseInt(buffer.toString('latin1', 0, readSync(times, buffer, 0, 64, 0)), 10) / 1e6;

let before = performance.now();
let usedBefore = processorTime();
setInterval(() => {
  const now = performance.now();
  const used = processorTime();
  const late = now - before - TICK;
  if (late > LATE) {
    const busy = Math.min(late, used - usedBefore);
    writeSync(file, `${Math.round(performance.timeOrigin + now)} ${busy.toFixed(1)}\n`);
  }
  before = now;
  usedBefore = used;
}, TICK).unref();
