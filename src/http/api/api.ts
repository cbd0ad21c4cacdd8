// The JSON API: dispatches each request to its operation.
import type { ServedResources } from '../../resources/serve/served-resource.ts';
import { createOpenApi } from '../openapi/openapi.ts';
import { entityTag, isNotModified } from '../message/entity-tag.ts';
import { json, type ApiRequest, type Reply } from '../message/message.ts';
import { createApiReads, type ApiReadOptions } from './api-reads.ts';
import { assertNoParameters, type ResourceRoute } from './api-routes.ts';
import { createApiWrites, type ApiWriteOptions } from './api-writes.ts';

export interface Api {
  /** The addresses of the service. */
  readonly home: (request: ApiRequest) => Reply;
  readonly index: (request: ApiRequest) => Reply | Promise<Reply>;
  /** The OpenAPI document of what the caller may see. */
  readonly openapi: (request: ApiRequest) => Promise<Reply>;
  /** @param request its method must be one that `assertAllowed` accepts for the route */
  readonly answer: (request: ApiRequest, route: ResourceRoute) => Promise<Reply>;
}

export interface ApiOptions extends ApiReadOptions, ApiWriteOptions {}

function createOpenApiReply(resources: ServedResources): Api['openapi'] {
  const documents = createOpenApi(resources);
  return async (request) => {
    const { headers, query } = request;
    const isAnonymous = headers.authorization === undefined;
    const caller = isAnonymous || !documents.needsCaller ? undefined : await request.authenticate();
    const { body, version } = documents.of(caller);
    assertNoParameters(query);
    // The document differs by caller, so caches must revalidate it by its ETag.
    const caching = { ETag: entityTag(version), ...(isAnonymous ? { 'Cache-Control': 'no-cache' } : {}) };
    if (isNotModified(headers['if-none-match'], version)) return { status: 304, headers: caching, body: '' };
    return json(200, body, caching);
  };
}

export function createApi(options: ApiOptions): Api {
  const reads = createApiReads(options);
  const writes = createApiWrites(options);
  return {
    home: (request) => reads.home(request),
    index: (request) => reads.index(request),
    openapi: createOpenApiReply(options.resources),
    answer: (request, route) => {
      const { resource } = route;
      if (route.kind === 'collection') {
        return request.method === 'POST' ? writes.create(request, resource) : reads.list(request, resource);
      }
      const { id } = route;
      if (request.method === 'PUT') return writes.update(request, resource, id);
      return request.method === 'DELETE'
        ? writes.remove(request, resource, id)
        : reads.read(request, resource, id);
    },
  };
}
