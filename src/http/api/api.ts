// The JSON API: dispatches each request to its operation.
import { createHash } from 'node:crypto';
import type { Views } from '../../resources/access/resource-view.ts';
import { createOpenApi } from '../openapi/openapi.ts';
import { entityTag, noneMatchLists } from '../message/entity-tag.ts';
import { isStreamed, json, lengthOf, type ApiRequest, type Reply } from '../message/message.ts';
import { createApiReads, type ApiReadOptions } from './api-reads.ts';
import { assertNoParameters, effectiveMethod, type ResourceRoute } from './api-routes.ts';
import { createApiWrites, type ApiWriteOptions } from './api-writes.ts';

export interface Api {
  /** GET /: the URLs of the API, the OpenAPI document and the admin area. */
  readonly home: (request: ApiRequest) => Reply;
  readonly index: (request: ApiRequest) => Reply | Promise<Reply>;
  /** The OpenAPI document of what the caller may see. */
  readonly openapi: (request: ApiRequest) => Promise<Reply>;
  /** @param request its method must be one that `assertAllowed` accepts for the route */
  readonly answer: (request: ApiRequest, route: ResourceRoute) => Promise<Reply>;
}

export interface ApiOptions extends ApiReadOptions, ApiWriteOptions {
  readonly views: Views;
  /** Whether the registry has a user model. */
  readonly hasUsers: boolean;
}

/** Copying a document of more bytes to the system would delay other clients. */
const LARGE_DOCUMENT = 65_536;

function createOpenApiReply({ views, hasUsers }: ApiOptions): Api['openapi'] {
  const documents = createOpenApi(views, hasUsers);
  return async (request) => {
    const { headers, query } = request;
    const isAnonymous = headers.authorization === undefined;
    const caller = isAnonymous || !documents.needsCaller ? undefined : await request.authenticate();
    const { body, version } = await documents.of(caller, request.requester.workInTurns());
    assertNoParameters(query);
    // The document differs by caller, so caches must revalidate it by its ETag.
    const caching = { ETag: entityTag(version), ...(isAnonymous ? { 'Cache-Control': 'no-cache' } : {}) };
    if (noneMatchLists(headers['if-none-match'], version)) return { status: 304, headers: caching, body: '' };
    if (body.length > LARGE_DOCUMENT) await request.requester.turnForDocument();
    return { ...json(200, body, caching), isKept: true };
  };
}

/** Maximum bytes of a collection with an ETag: the digest of 1 MiB takes a millisecond, in which no other request is served. */
const MAX_TAGGED = 1024 * 1024;

/**
 * Lets caches keep what anonymous clients read, for as long as the resource says. A small collection gets a weak ETag of its bytes.
 * @param cache seconds
 */
function withCacheHeaders(request: ApiRequest, reply: Reply, cache: number): Reply {
  const { headers } = request;
  const caching = { 'Cache-Control': `public, max-age=${cache}` };
  const { status } = reply;
  if (status !== 200 && status !== 304) return reply;
  // A cache that ignores `Prefer` must not give such a response to others. The same holds for an HTML page, which contains the
  // `Host` header of the request.
  const isPage = String(reply.headers['Content-Type']).startsWith('text/html');
  if ('Preference-Applied' in reply.headers || isPage) return reply;
  const isTagged = status === 304 || reply.headers['ETag'] !== undefined;
  if (isTagged || isStreamed(reply) || typeof reply.body === 'string' || lengthOf(reply.body) > MAX_TAGGED)
    return { ...reply, headers: { ...reply.headers, ...caching } };
  const digest = createHash('sha256');
  for (const part of Buffer.isBuffer(reply.body) ? [reply.body] : reply.body) digest.update(part);
  const version = digest.digest('base64url').slice(0, 16);
  const tagged = { ...caching, ETag: `W/${entityTag(version)}` };
  return noneMatchLists(headers['if-none-match'], version)
    ? { status: 304, headers: tagged, body: '' }
    : { ...reply, headers: { ...reply.headers, ...tagged } };
}

export function createApi(options: ApiOptions): Api {
  const reads = createApiReads(options);
  const writes = createApiWrites(options);
  async function read(request: ApiRequest, route: ResourceRoute): Promise<Reply> {
    const { cache } = route.resource;
    const reply = await (route.kind === 'collection'
      ? reads.list(request, route.resource)
      : reads.read(request, route.resource, route.id));
    const isAnonymous = request.headers.authorization === undefined;
    return cache !== undefined && isAnonymous ? withCacheHeaders(request, reply, cache) : reply;
  }

  return {
    home: (request) => reads.home(request),
    index: (request) => reads.index(request),
    openapi: createOpenApiReply(options),
    answer: (request, route) => {
      const { resource } = route;
      const method = effectiveMethod(request.method);
      if (method === 'GET') return read(request, route);
      if (route.kind === 'collection') return writes.create(request, resource);
      return method === 'PUT'
        ? writes.update(request, resource, route.id)
        : writes.remove(request, resource, route.id);
    },
  };
}
