import { getHeapStatistics } from 'node:v8';
import { totalmem } from 'node:os';

/** How often the event loop and the memory are looked at (milliseconds). */
const INTERVAL = 100;
/** The weight of the latest measurement in the average. */
const WEIGHT = 0.3;
/** The event loop's average delay (milliseconds) at which shedding begins, and below which it ends. */
const DELAY = { begin: 250, end: 100 };
/** What one measurement counts for at most (milliseconds), so that a single long turn sheds nothing. */
const MAX_DELAY = 500;
/** The same for memory, as a share of the limit. */
const MEMORY = { begin: 0.85, end: 0.75 };
/** Requests in flight below which memory sheds nothing: refusing further ones would free none. */
const FEW_IN_FLIGHT = 8;

/** What the process has too little of. */
export type Shortage = 'event-loop' | 'memory';

export interface Overload {
  /** What keeps the service from taking a further request; undefined mostly. */
  readonly shortage: () => Shortage | undefined;
  /** Seconds by which the event loop is late, on average. */
  readonly delay: () => number;
  /** Share of the memory limit that is used. */
  readonly memory: () => number;
  readonly close: () => void;
}

/** The most memory that the process may have (bytes): what systemd or a container allows, else the machine's. */
function memoryLimit(): number {
  // Node 20 has it, and returns 0 or a huge number where there is no limit.
  const constrained = process.constrainedMemory?.() ?? 0;
  const total = totalmem();
  return constrained > 0 && constrained < total ? constrained : total;
}

/** The larger of the shares of the heap's limit and of the process's. */
function memoryShare(limit: number): number {
  const heap = getHeapStatistics();
  const all = heap.total_heap_size + heap.external_memory;
  return Math.max(heap.used_heap_size / heap.heap_size_limit, all / limit);
}

/**
 * Watches the event loop's delay and the memory.
 * @param inFlight how many requests are being answered
 */
export function watchOverload(inFlight: () => number): Overload {
  const limit = memoryLimit();
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
    shortage: () => {
      if (isLate) return 'event-loop';
      return isFull && inFlight() > FEW_IN_FLIGHT ? 'memory' : undefined;
    },
    delay: () => delay / 1000,
    memory: () => memory,
    close: () => clearInterval(timer),
  };
}
