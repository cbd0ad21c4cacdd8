// Detects that the process is overloaded, so that it sheds load instead of becoming slow for everyone.
import { getHeapStatistics } from 'node:v8';
import { totalmem } from 'node:os';
import type { Settings } from '../../config.ts';

/** Milliseconds between measurements of the event loop and of the memory. */
const INTERVAL = 100;
/** Weight of the latest measurement in the average. */
const WEIGHT = 0.3;
/** Average delay of the event loop at which shedding begins, and below which it ends (milliseconds). */
const DELAY = { begin: 250, end: 100 };
/** Caps one measurement (milliseconds), so that a single long task does not start shedding. */
const MAX_DELAY = 500;
/** Used memory at which shedding begins, and below which it ends, as a share of the limit. */
const MEMORY = { begin: 0.85, end: 0.75 };
/**
 * Up to this number of requests in flight nothing is shed: they are not what holds the memory, and other processes of the machine
 * also delay the event loop.
 */
const FEW_IN_FLIGHT = 8;

/** The memory limit of the process in bytes: that of systemd or the container, else the machine's memory. */
export function memoryLimit(): number {
  // Without a limit, Node 20 returns 0 or a huge number.
  const constrained = process.constrainedMemory?.() ?? 0;
  const total = totalmem();
  return constrained > 0 && constrained < total ? constrained : total;
}

/** Memory that a process needs besides two of the largest pages (bytes). With less, it refuses requests. */
const MIN_MEMORY = 192 * 1024 * 1024;

/**
 * The warning about too little memory for each of several processes, if there is too little.
 * @param limit bytes that all processes may use
 */
export function memoryWarning(
  { workers, maxPage }: Pick<Settings, 'workers' | 'maxPage'>,
  limit = memoryLimit(),
): string | undefined {
  const needed = workers * (MIN_MEMORY + 2 * maxPage);
  if (limit >= needed) return undefined;
  const [have, need] = [limit, needed].map((bytes) => Math.floor(bytes / 1024 ** 2));
  return `WORKERS=${workers} may refuse requests for lack of memory: its processes share ${have} MiB and need ${need} MiB; use fewer, or allow more (MemoryMax of systemd)`;
}

/** The larger of two shares: of the heap's own limit, and of the process's limit. */
function memoryShare(limit: number): number {
  const heap = getHeapStatistics();
  const all = heap.total_heap_size + heap.external_memory;
  return Math.max(heap.used_heap_size / heap.heap_size_limit, all / limit);
}

/**
 * Starts measuring the delay of the event loop and the memory.
 * @param inFlight returns the number of requests in flight
 * @param processes how many processes share the memory
 */
export function watchOverload(inFlight: () => number, processes: number) {
  const limit = memoryLimit() / processes;
  let due = performance.now() + INTERVAL;
  let delay = 0;
  let memory = 0;
  let isLate = false;
  let isFull = false;
  const timer = setInterval(() => {
    const now = performance.now();
    delay += WEIGHT * (Math.min(MAX_DELAY, Math.max(0, now - due)) - delay);
    due = now + INTERVAL;
    memory = memoryShare(limit);
    isLate = delay > (isLate ? DELAY.end : DELAY.begin);
    isFull = memory > (isFull ? MEMORY.end : MEMORY.begin);
  }, INTERVAL).unref();
  return {
    /** The resource that is exhausted, so that new requests must be refused; undefined if there is enough of each. */
    shortage: (): 'event-loop' | 'memory' | undefined => {
      if ((!isLate && !isFull) || inFlight() <= FEW_IN_FLIGHT) return undefined;
      return isLate ? 'event-loop' : 'memory';
    },
    /** Used memory as a share of the limit, 0 to 1. */
    memory: () => memory,
    close: () => clearInterval(timer),
  };
}
