// Limits how much memory and work all clients together can use.
import type { ServerResponse } from 'node:http';
import type { Settings } from '../../config.ts';
import { OVERLOADED, Problem, unavailable } from '../../errors.ts';
import { ByteBudget, totalFor } from './byte-budget.ts';
import { isStreamed, lengthOf, type HasNetwork, type Reply } from '../message/message.ts';
import { watchOverload } from './overload.ts';
import { createUnsent } from './unsent-responses.ts';

/** Minimum budget for all request bodies in the memory of all processes (bytes). */
const MIN_BODY_BUDGET = 64 * 1024 * 1024;
/** The largest form of the admin area as a multiple of MAX_BODY. MIN_BODY_BUDGET has room for it if MAX_BODY is small. */
const FORM_FACTOR = 3;

const UNREAD = 'Too many responses are still unread by their clients. Try again later.';
const CLOSE_AND_RETRY = { Connection: 'close', 'Retry-After': '1' };

export type LoadLimits = ReturnType<typeof createLoadLimits>;

export function createLoadLimits(
  { maxBody, maxPage }: Pick<Settings, 'maxBody' | 'maxPage'>,
  inFlight: () => number,
  processes = 1,
) {
  const total = Math.max(MIN_BODY_BUDGET / processes, totalFor(FORM_FACTOR * maxBody));
  const bodies = new ByteBudget(total);
  const unsent = createUnsent(maxPage, processes);
  const overload = watchOverload(inFlight, processes);

  return {
    /** How many processes share the machine. */
    processes,
    unsent,
    overload,
    /** Bytes of all request bodies in memory. */
    bodies: (): number => bodies.used,

    /** @throws Problem 503 while the process is overloaded, except for assets. Health checks skip this check. */
    assertRoom(isAsset: boolean): void {
      if (overload.shortage() !== undefined && !isAsset) throw OVERLOADED;
    },

    /**
     * Checks a write before it starts. Refusing its response afterwards would look as if nothing was written.
     * @throws Problem 503 if the client leaves too many bytes of responses unread
     */
    assertWritable(client: HasNetwork): void {
      if (unsent.isOverdrawn(client)) throw unavailable(UNREAD, 2);
    },

    /** @throws Problem 503 for a large response to a read while clients leave too many bytes of responses unread */
    assertSendable(reply: Reply, client: HasNetwork): void {
      if (reply.isKept || isStreamed(reply)) return;
      if (!unsent.fits(client, lengthOf(reply.body))) throw unavailable(UNREAD, 2);
    },

    /**
     * Returns a function that reserves memory for the request's body until its response is complete. That function throws
     * Problem 429 beyond the client's share, and 503 beyond the total.
     */
    reserveBody(response: ServerResponse, client: HasNetwork): (bytes: number) => void {
      let held = 0;
      return (bytes) => {
        if (response.closed) return;
        const { network } = client;
        const excess = bodies.exceededLimit(network, bytes);
        if (excess === 'share')
          throw new Problem(
            429,
            'Your address is sending too many large request bodies at once. Try again later.',
            { headers: CLOSE_AND_RETRY },
          );
        if (excess === 'total')
          throw new Problem(503, 'The service is receiving too many large request bodies. Try again later.', {
            headers: CLOSE_AND_RETRY,
          });
        bodies.take(network, bytes);
        if (held === 0) response.once('close', () => bodies.release(network, held));
        held += bytes;
      };
    },

    close: () => {
      unsent.close();
      overload.close();
    },
  };
}
