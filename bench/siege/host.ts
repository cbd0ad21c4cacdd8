// The processor time that a virtual machine's host takes away from it, which makes every measurement worse.
import { readFileSync } from 'node:fs';

/** Ticks since the start of the machine: all, and those taken by the host. Zero where the system does not tell. */
function ticks(): { readonly all: number; readonly stolen: number } {
  try {
    const [first = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1);
    const counts = first.trim().split(/\s+/).slice(1, 9).map(Number);
    return { all: counts.reduce((sum, count) => sum + count, 0), stolen: counts[7] ?? 0 };
  } catch {
    return { all: 0, stolen: 0 };
  }
}

/** Begins to measure. @returns gives the share of the processor time that the host has taken since, from 0 to 1 */
export function watchHost(): () => number {
  const before = ticks();
  return () => {
    const after = ticks();
    return after.all > before.all ? (after.stolen - before.stolen) / (after.all - before.all) : 0;
  };
}
