import type { Answer } from '../connection.ts';
import type { AttackReport } from '../jobs.ts';

/** Counts what happens to an attacker's requests. */
export interface Tally {
  readonly sent: () => void;
  readonly answered: (answer: Pick<Answer, 'status' | 'size'>, milliseconds: number) => void;
  readonly closed: () => void;
  readonly report: () => AttackReport;
}

/** How many times of refusals are kept. */
const MOST_TIMES = 50_000;

/** @param ramp milliseconds whose refusals are not timed */
export function createTally(ramp = 0): Tally {
  const begun = performance.now();
  let sent = 0;
  let closed = 0;
  let largest = 0;
  const statuses: Record<string, number> = {};
  const refusals: number[] = [];
  return {
    sent: () => (sent += 1),
    closed: () => (closed += 1),
    answered({ status, size }, milliseconds) {
      statuses[status] = (statuses[status] ?? 0) + 1;
      largest = Math.max(largest, size);
      const isTimed = performance.now() - milliseconds >= begun + ramp && refusals.length < MOST_TIMES;
      if ((status === 429 || status === 503) && isTimed) refusals.push(milliseconds);
    },
    report: () => ({ sent, statuses, closed, refusals: refusals.sort((a, b) => a - b), largest }),
  };
}
