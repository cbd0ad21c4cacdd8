import type { Answer } from '../connection.ts';
import type { AttackReport } from '../jobs.ts';

/** Counts what happens to an attacker's requests. */
export interface Tally {
  /** Refusals of requests that are sent from now on are timed. */
  readonly begin: () => void;
  readonly sent: () => void;
  readonly answered: (answer: Pick<Answer, 'status' | 'size'>, milliseconds: number) => void;
  readonly closed: () => void;
  readonly report: () => AttackReport;
}

/** How many times of refusals are kept. */
const MOST_TIMES = 50_000;

export function createTally(): Tally {
  let begun = Infinity;
  let sent = 0;
  let closed = 0;
  let largest = 0;
  const statuses: Record<string, number> = {};
  const refusals: number[] = [];
  return {
    begin: () => (begun = Math.min(begun, performance.now())),
    sent: () => (sent += 1),
    closed: () => (closed += 1),
    answered({ status, size }, milliseconds) {
      statuses[status] = (statuses[status] ?? 0) + 1;
      largest = Math.max(largest, size);
      const isTimed = performance.now() - milliseconds >= begun && refusals.length < MOST_TIMES;
      if ((status === 429 || status === 503) && isTimed) refusals.push(milliseconds);
    },
    report: () => ({ sent, statuses, closed, refusals: refusals.sort((a, b) => a - b), largest }),
  };
}

/** Begins the attack once so many connections are made, each of which calls the result; at once for none. */
export function beginAfter(connections: number, begin: () => void): () => void {
  let unmade = connections;
  if (unmade === 0) begin();
  return () => {
    if ((unmade -= 1) === 0) begin();
  };
}
