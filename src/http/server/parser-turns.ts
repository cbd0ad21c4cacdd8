// Lets connections take turns at the parser, so that the bytes of one client do not delay those of others.
import type { Socket } from 'node:net';
import { FairQueue } from '../../db/scheduling/fair-queue.ts';
import { isRecent, remember, type RecentEvents } from '../../db/scheduling/recent-events.ts';
import { clientNetwork, widestNetwork } from '../message/client-networks.ts';

/** Milliseconds of parsing in one iteration of the event loop. */
const MAX_TIME = 2;
/** Iterations of the event loop between two rounds. Node accepts one connection in each, so new clients would wait otherwise. */
const ITERATIONS_BETWEEN = 8;

/** Milliseconds for which new connections of a network are read in turns after a request with too many headers. */
const TURNS_FOR = 60_000;

const waiting = new FairQueue<() => void>();
let isScheduled = false;

function runTurns(): void {
  const until = performance.now() + MAX_TIME;
  try {
    do waiting.shift(() => true)?.();
    while (waiting.size > 0 && performance.now() < until);
  } finally {
    if (waiting.size > 0) continueAfter(ITERATIONS_BETWEEN);
    else isScheduled = false;
  }
}

function continueAfter(iterations: number): void {
  setImmediate(() => (iterations > 0 ? continueAfter(iterations - 1) : runTurns()));
}

/** Calls `parse` soon. Networks (IPv6: /48) take turns. `parse` must take well below a millisecond. */
export function takeTurn(network: string, parse: () => void): void {
  waiting.push(widestNetwork(network), parse);
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(runTurns);
}

/** When a network last sent too many headers. */
const costly: RecentEvents = new Map();

/** The network of the other end of a connection, which may be a proxy. */
export const networkOf = ({ remoteAddress = '' }: Socket): string => clientNetwork(remoteAddress);

/** Whether to read new connections of a network in turns. */
export const mustReadInTurns = (network: string): boolean =>
  costly.size > 0 && isRecent(costly, network, TURNS_FOR);

/** Notes that a network has sent too many headers: its new connections are read in turns for a minute. */
export const noteTooManyHeaders = (socket: Socket): void => remember(costly, networkOf(socket));
