// Limits how much memory and work all clients together can use.
import type { ServerResponse } from 'node:http';
import type { Settings } from '../../config.ts';
import { Comebacks } from '../../db/lanes/comebacks.ts';
import { Problem, Refusal, unavailable } from '../../errors.ts';
import { ByteBudget } from './byte-budget.ts';
import { isStreamed, lengthOf, type HasNetwork, type Reply } from '../message/message.ts';
import { watchOverload } from './overload.ts';
import { createUnsent } from './unsent-responses.ts';
import { messageOf } from '../../messages.ts';

/** Minimum budget for request bodies, waiting requests and unsent responses in the memory of all processes (bytes). */
const MIN_BUDGET = 96 * 1024 * 1024;
/** The largest form of the admin area as a multiple of MAX_BODY. One client may send it, or leave the largest page unread. */
const FORM_FACTOR = 3;

/** Milliseconds that a request of those takes that the overloaded process refuses, so that they come back one after the other. */
const REQUEST_TIME = 2;

const CLOSE_AND_RETRY = { headers: { Connection: 'close', 'Retry-After': '1' } };

export type LoadLimits = ReturnType<typeof createLoadLimits>;

export function createLoadLimits(
  { maxBody, maxPage }: Pick<Settings, 'maxBody' | 'maxPage'>,
  inFlight: () => number,
  processes = 1,
) {
  const largest = Math.max(FORM_FACTOR * maxBody, maxPage);
  const budget = new ByteBudget(Math.max(MIN_BUDGET / processes, 2 * largest));
  const unsent = createUnsent(budget);
  const overload = watchOverload(inFlight, processes);
  const comebacks = new Comebacks();

  return {
    budget,
    unsent,
    overload,

    /** @throws Problem 503 while the process is overloaded, except for assets. Health checks skip this check. */
    assertRoom(isAsset: boolean): void {
      if (overload.shortage() === undefined || isAsset) return;
      throw new Refusal(503, messageOf('overloaded'), { headers: comebacks.next('', 0, REQUEST_TIME) });
    },

    /** @throws Problem 503 for a large response to a read while clients leave too many bytes of responses unread */
    assertSendable(reply: Reply, client: HasNetwork): void {
      if (reply.isKept || isStreamed(reply) || unsent.hasRoom(client, lengthOf(reply.body))) return;
      throw unavailable(messageOf('tooManyUnread'), 2);
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
        const excess = budget.exceededLimit(network, bytes);
        if (excess === 'share') throw new Problem(429, messageOf('tooManyOwnBodies'), CLOSE_AND_RETRY);
        if (excess === 'total') throw new Problem(503, messageOf('tooManyBodies'), CLOSE_AND_RETRY);
        budget.take(network, bytes);
        if (held === 0) response.once('close', () => budget.release(network, held));
        held += bytes;
      };
    },

    close: () => {
      unsent.close();
      overload.close();
    },
  };
}
