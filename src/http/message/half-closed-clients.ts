// Finds out whether a client that closed its half of the connection still reads. Only writing to it shows that.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextIteration, setTimeout as sleep } from 'node:timers/promises';
import { ClientGone } from '../../db/scheduling/requester.ts';

/** Milliseconds until the first probe of a half-closed connection. Each further wait is longer, up to the maximum. */
const FIRST_PROBE = 20;
const MAX_WAIT = 100;
/** Half-closed connections that are probed. */
let probed = 0;
/** Milliseconds that an HTTP/1.0 client that closed its half of the connection has for its response: it cannot be probed. */
const UNPROBED_TIME = 100;

/** Whether clients of this version know interim responses. Others would take one for the response. */
const knowsInterim = (httpVersion: string): boolean => httpVersion === '1.1';

/**
 * Checks before expensive work whether a client that closed its half of the connection still reads. If it does not, its system
 * responds to a first interim response with a reset, so that a second one fails.
 * @param peer remembers that the connection was checked: once is enough
 * @returns undefined if no check is needed; else a promise that resolves after the check, in about FIRST_PROBE milliseconds. A
 * client whose round trip is longer counts as reading.
 * @throws ClientGone (rejects) if the client does not read
 */
export function checkStillReads(
  { socket, httpVersion }: IncomingMessage,
  response: ServerResponse,
  peer: { wasReadingChecked: boolean },
): Promise<void> | undefined {
  if (!socket.readableEnded || !knowsInterim(httpVersion) || peer.wasReadingChecked) return undefined;
  peer.wasReadingChecked = true;
  response.writeProcessing();
  return sleep(FIRST_PROBE).then(async () => {
    if (!response.closed) {
      response.writeProcessing();
      await nextIteration();
    }
    // `response.closed` follows one iteration after a write that has failed, or later: see `ClosingTurns`.
    if (socket.destroyed) throw new ClientGone();
  });
}

/**
 * A client that closed its half of the connection may have disconnected or may still read. Sends interim responses, which HTTP/1.1
 * clients must ignore, until the response starts or the connection breaks. The connection of any other client is closed.
 */
export function probe({ httpVersion, socket }: IncomingMessage, response: ServerResponse): void {
  const isOld = !knowsInterim(httpVersion);
  const after = (wait: number): void => {
    probed += 1;
    setTimeout(() => {
      probed -= 1;
      if (response.closed || response.headersSent) return;
      if (isOld) return void socket.destroy();
      response.writeProcessing();
      // n connections wait up to n milliseconds each, so that there are at most 1,000 probes per second in total.
      after(Math.min(wait * 1.5, Math.max(MAX_WAIT, probed)));
    }, wait).unref();
  };
  after(isOld ? UNPROBED_TIME : FIRST_PROBE);
}
