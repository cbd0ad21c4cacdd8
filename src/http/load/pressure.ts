import type { ServerResponse } from 'node:http';
import type { Settings } from '../../config.ts';
import { OVERLOADED, Problem, unavailable } from '../../errors.ts';
import { ByteBudget } from './byte-budget.ts';
import type { HasNetwork, Reply } from '../message/message.ts';
import { watchOverload, type Overload } from './overload.ts';
import { createUnsent, type Unsent } from './unsent-responses.ts';

/** The least total of request bodies that the process holds (bytes). */
const LEAST_BODIES = 64 * 1024 * 1024;
/** Forms of the admin area are up to three times as long as a MAX_BODY of some MiB. With a smaller one they have room anyway. */
const LARGEST_BODY = 3;

/** A file of the pages. It costs nothing, and a page without its style is of no use. */
const FILE = /^\/(?:api|admin)\/-\/[^/]+\.(?:css|js)$/;

/** The bounds of what all clients together can make the process hold and do. */
export interface Pressure {
  readonly unsent: Unsent;
  readonly overload: Overload;
  /** Bytes of request bodies that are held. */
  readonly bodies: () => number;
  /** @throws Problem 503 while the process is overloaded, unless it is asked for its health */
  readonly assertRoom: (path: string) => void;
  /**
   * Judges a write before it begins: once it is made, its answer is sent in any case, as a refusal would be taken for "not made".
   * @throws Problem 503 while the client leaves far too many bytes unread
   */
  readonly assertWritable: (client: HasNetwork) => void;
  /** @throws Problem 503 for a large answer to a read while clients leave too many bytes of others unread */
  readonly assertSendable: (reply: Reply, client: HasNetwork) => void;
  /**
   * A function that takes memory for the body of a request, until its answer is complete.
   * @throws Problem 429 beyond the client's share, 503 beyond the total
   */
  readonly reserveBody: (response: ServerResponse, client: HasNetwork) => (bytes: number) => void;
  readonly close: () => void;
}

const UNREAD = 'Too many answers have not been taken by their clients.';
const closing = { Connection: 'close', 'Retry-After': '1' };

export function createPressure(
  { maxBody, maxPage }: Pick<Settings, 'maxBody' | 'maxPage'>,
  inFlight: () => number,
): Pressure {
  const total = Math.max(LEAST_BODIES, 2 * LARGEST_BODY * maxBody);
  const bodies = new ByteBudget(total);
  const unsent = createUnsent(maxPage);
  const overload = watchOverload(inFlight);

  return {
    unsent,
    overload,
    bodies: () => bodies.used,
    assertRoom: (path) => {
      if (overload.shortage() !== undefined && path !== '/healthz' && !FILE.test(path)) throw OVERLOADED;
    },
    assertWritable: (client) => {
      if (unsent.isOverdrawn(client)) throw unavailable(UNREAD, 2);
    },
    assertSendable: ({ body }, client) => {
      if (typeof body !== 'string' && !Buffer.isBuffer(body)) return;
      if (!unsent.fits(client, body.length)) throw unavailable(UNREAD, 2);
    },
    reserveBody: (response, client) => {
      let held = 0;
      return (bytes) => {
        if (response.closed) return;
        const address = client.network;
        const excess = bodies.excess(address, bytes);
        if (excess === 'share')
          throw new Problem(429, 'This address sends too many large bodies at once.', { headers: closing });
        if (excess === 'total')
          throw new Problem(503, 'The service receives too many large bodies.', { headers: closing });
        bodies.take(address, bytes);
        if (held === 0) response.once('close', () => bodies.release(address, held));
        held += bytes;
      };
    },
    close: () => {
      unsent.close();
      overload.close();
    },
  };
}
