// Lets connections take turns at the parser, so that the bytes of one client do not delay those of others.
import { FairQueue } from '../../db/scheduling/fair-queue.ts';

/** Milliseconds of parsing in one iteration of the event loop. */
const MAX_TIME = 2;

const waiting = new FairQueue<() => void>();
let isScheduled = false;

function runTurns(): void {
  isScheduled = false;
  const until = performance.now() + MAX_TIME;
  try {
    do {
      const parse = waiting.shift(() => true);
      if (!parse) return;
      parse();
    } while (performance.now() < until);
  } finally {
    if (waiting.size > 0) schedule();
  }
}

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(runTurns);
}

/** Calls `parse` soon, in turn with other networks. It must take well below a millisecond. */
export function takeTurn(network: string, parse: () => void): void {
  waiting.push(network, parse);
  schedule();
}
