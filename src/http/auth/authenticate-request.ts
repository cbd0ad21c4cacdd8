// Authenticates requests to the routes of a program that embeds Vitrine.
import type { IncomingMessage } from 'node:http';
import type { Settings } from '../../config.ts';
import { asProblem } from '../../db/connection/database-errors.ts';
import { isClientGone, type Requester } from '../../db/lanes/requester.ts';
import type { Caller } from '../../resources/access/access.ts';
import { Unauthorized } from '../message/message.ts';
import type { Authentication } from './authentication.ts';
import { parseBearer } from './credentials.ts';
import { assertOrigin, clientNetworkOf } from './request-origin.ts';

/** Methods that change nothing. A page of another origin may send them. */
const SAFE_METHODS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * The user whose credentials a request carries; undefined if they are missing or wrong, or the client has disconnected.
 * @param onClose see `Connection.onClose`
 * @throws Problem 429, 503; 403 for a write of a user from a foreign origin, as in the API
 */
export async function authenticateRequest(
  authentication: Authentication,
  { method, headers, socket }: IncomingMessage,
  settings: Pick<Settings, 'corsOrigins' | 'publicUrl' | 'trustProxy'>,
  onClose: Requester['onGone'],
): Promise<Pick<Caller, 'id' | 'name' | 'admin'> | undefined> {
  // A program does not know the scope of a token, and may have tokens of its own.
  if (parseBearer(headers.authorization ?? '') !== undefined) return undefined;
  const network = clientNetworkOf(headers, socket.remoteAddress, settings.trustProxy);
  const onGone = (callback: () => void): (() => void) => {
    // A closed socket does not emit `close` again.
    if (socket.destroyed) queueMicrotask(callback);
    return onClose(callback);
  };
  try {
    const { id, name, admin } = await authentication.authenticate(headers.authorization, network, onGone);
    if (!SAFE_METHODS.has(method)) assertOrigin(headers, settings, settings.corsOrigins);
    return { id, name, admin };
  } catch (error) {
    if (error instanceof Unauthorized || isClientGone(error)) return undefined;
    throw asProblem(error) ?? error;
  }
}
