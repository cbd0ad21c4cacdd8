// Requests of the program that embeds the service: answered like those over HTTP, but in the same process.
import { randomUUID } from 'node:crypto';
import type { Settings } from '../../config.ts';
import { isClientGone, SERVICE } from '../../db/lanes/requester.ts';
import type { Caller } from '../../resources/access/access.ts';
import { dispatch, type Site } from '../api/dispatch.ts';
import { OTHER_ROUTE } from '../api/api-routes.ts';
import { isStreamed, Unauthorized, type ApiRequest } from '../message/message.ts';
import { splitTarget } from '../message/request-head.ts';
import { withPosition } from '../message/write-position.ts';
import type { Logger } from '../observability/logger.ts';
import { errorReply } from './error-replies.ts';

/** A request as the handlers of the API see it. @param name the user; undefined for a caller without credentials */
function requestOf(
  target: string,
  init: RequestInit,
  name: string | undefined,
  site: Site,
  settings: Settings,
) {
  const [path, query] = splitTarget(target);
  const { signal, method = 'GET', body } = init;
  const bytes = Buffer.from(typeof body === 'string' ? body : '');
  let caller: Caller | undefined;
  const onGone = (callback: () => void): (() => void) => {
    signal?.addEventListener('abort', callback, { once: true });
    return () => signal?.removeEventListener('abort', callback);
  };
  const request: ApiRequest & { readonly isInAdminArea: false; pattern: string } = {
    id: `program-${randomUUID()}`,
    isInAdminArea: false,
    pattern: OTHER_ROUTE,
    method,
    path,
    query,
    // Only its presence counts: `authenticate` does not read it.
    headers: {
      ...Object.fromEntries(new Headers(init.headers)),
      ...(name === undefined ? {} : { authorization: 'program' }),
    },
    body: () => Promise.resolve(bytes),
    ignoreBody: () => Promise.resolve(),
    client: () => ({ network: 'program', isSecure: true, origin: settings.publicUrl[0] ?? '' }),
    requester: {
      ...SERVICE,
      key: `program ${name ?? ''}`,
      clientKind: 'user',
      onGone,
      turnForHtml: () => undefined,
      turnForDocument: () => Promise.resolve(),
    },
    get caller() {
      return caller;
    },
    authenticate: async () => {
      if (name === undefined || !site.authentication) throw new Unauthorized();
      return (caller ??= await site.authentication.callerNamed(name));
    },
    recall: () => undefined,
    recognize: (known) => void (caller = known),
  };
  return request;
}

/** A `fetch` for the paths of the API, as a user. */
export const fetchAs = (
  name: string | undefined,
  site: Site,
  settings: Settings,
  logger: Logger,
): typeof fetch =>
  async function answer(target, init = {}) {
    init.signal?.throwIfAborted();
    const request = requestOf(target as string, init, name, site, settings);
    const reply = await Promise.resolve()
      .then(() => dispatch(request, site))
      .catch((error: unknown) => {
        if (isClientGone(error)) throw init.signal?.reason as Error;
        return errorReply(error, request.id, logger);
      });
    if (isStreamed(reply)) throw new Error('Streams need HTTP.');
    const position = site.positionAfter(request.requester, reply.status);
    const { status, headers, body } = position
      ? await withPosition(request, reply, position, undefined)
      : reply;
    const bytes = Array.isArray(body) ? Buffer.concat(body as Buffer[]) : body;
    return new Response(bytes as string | Uint8Array<ArrayBuffer>, {
      status,
      headers: headers as Record<string, string>,
    });
  };
