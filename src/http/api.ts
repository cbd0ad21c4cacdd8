import type { AccessLevel, Settings } from '../config.ts';
import { badQuery, Problem } from '../errors.ts';
import { parseParameters } from '../query/grammar.ts';
import { parseMembers } from '../resources/members.ts';
import type { Operations, Page } from '../resources/operations.ts';
import { meets, type Caller, type ServedResource, type ServedResources } from '../resources/served.ts';
import { readJsonText } from './body.ts';
import { entityTag, isNotModified, parseIfMatch } from './etag.ts';
import { json, type ApiRequest, type Reply } from './message.ts';
import { assertOrigin } from './origin.ts';
import type { ResourceRoute } from './routes.ts';

export interface Api {
  readonly index: (request: ApiRequest) => Reply;
  /** Answers a request whose route and method are known to fit. */
  readonly answer: (request: ApiRequest, route: ResourceRoute) => Promise<Reply>;
}

/** The collection's document around the records, which are passed through as PostgreSQL made them. */
function pageBody({ name }: ServedResource, { query, objects, hasNext }: Page): Buffer {
  const link = (page: bigint): string => `/api/${name}/?${query.link}limit=${query.limit}&page=${page}`;
  const next = JSON.stringify(hasNext ? link(query.page + 1n) : '');
  const previous = JSON.stringify(query.page > 1n ? link(query.page - 1n) : '');
  const meta = `{"model":"${name}","page":${query.page},"next":${next},"previous":${previous}}`;
  return Buffer.concat([Buffer.from(`{"meta":${meta},"objects":[`), objects, Buffer.from(']}')]);
}

const wantsCount = (prefer: string | string[] | undefined): boolean =>
  String(prefer ?? '')
    .split(/[,;]/)
    .some((preference) => /^\s*count\s*=\s*"?exact"?\s*$/i.test(preference));

/** Only collections take parameters, and only for GET: elsewhere each is unknown. */
function assertNoParameters(query: string): void {
  const parameters = parseParameters(query);
  if (parameters.length === 0) return;
  throw badQuery(
    Object.fromEntries(parameters.map(({ name }) => [name, ['this path takes no parameters here']])),
  );
}

export function createApi(resources: ServedResources, operations: Operations, settings: Settings): Api {
  /** 401 without credentials that the level needs, 403 where they are somebody's who does not meet it. */
  async function requireLevel(request: ApiRequest, level: AccessLevel): Promise<Caller> {
    const caller = await request.authenticate();
    if (!meets(level, caller)) throw new Problem(403, 'Only admins may do this.');
    return caller;
  }

  async function requireWriter(request: ApiRequest, { access }: ServedResource): Promise<Caller> {
    const caller = await request.authenticate();
    assertOrigin(request.headers, settings);
    if (!meets(access, caller)) throw new Problem(403, 'Only admins may write here.');
    return caller;
  }

  async function list(request: ApiRequest, resource: ServedResource): Promise<Reply> {
    const { query, headers } = request;
    let caller = resource.read === 'default' ? undefined : await requireLevel(request, resource.read);
    // Credentials that make no difference are not looked at.
    if (!caller && headers.authorization !== undefined && operations.needsCaller(resource, query)) {
      caller = await request.authenticate();
    }
    const counted = wantsCount(headers['prefer']);
    const page = await operations.list(resource, query, caller, counted);
    const extra: Record<string, string> =
      page.total === undefined ? {} : { 'X-Total-Count': page.total, 'Preference-Applied': 'count=exact' };
    return json(200, pageBody(resource, page), extra);
  }

  async function read(request: ApiRequest, resource: ServedResource, id: string): Promise<Reply> {
    if (resource.read !== 'default') await requireLevel(request, resource.read);
    assertNoParameters(request.query);
    const record = await operations.read(resource, id);
    const headers = { ETag: entityTag(record.version) };
    if (isNotModified(request.headers['if-none-match'], record.version))
      return { status: 304, headers, body: '' };
    return json(200, record.json, headers);
  }

  async function create(request: ApiRequest, resource: ServedResource): Promise<Reply> {
    const caller = await requireWriter(request, resource);
    assertNoParameters(request.query);
    const members = parseMembers(await readJsonText(request));
    const record = await operations.create(resource, members, caller);
    const location = `/api/${resource.name}/${encodeURIComponent(record.id)}/`;
    return json(201, record.json, { Location: location, ETag: entityTag(record.version) });
  }

  async function update(request: ApiRequest, resource: ServedResource, id: string): Promise<Reply> {
    const caller = await requireWriter(request, resource);
    assertNoParameters(request.query);
    const members = parseMembers(await readJsonText(request));
    const versions = parseIfMatch(request.headers['if-match']);
    const record = await operations.update(resource, id, members, caller, versions);
    return json(200, record.json, { ETag: entityTag(record.version) });
  }

  async function remove(request: ApiRequest, resource: ServedResource, id: string): Promise<Reply> {
    const caller = await requireWriter(request, resource);
    assertNoParameters(request.query);
    await operations.remove(resource, id, caller, parseIfMatch(request.headers['if-match']));
    return json(200, '{"deleted": 1}');
  }

  return {
    index: ({ query }) => {
      assertNoParameters(query);
      return json(
        200,
        JSON.stringify({
          resources: [...resources.values()].map(({ name, read: readLevel, access, methods }) => ({
            name,
            url: `/api/${name}/`,
            read: readLevel,
            access,
            methods: [...methods],
          })),
        }),
      );
    },
    answer: (request, route) => {
      const { resource } = route;
      if (route.kind === 'collection') {
        return request.method === 'POST' ? create(request, resource) : list(request, resource);
      }
      if (request.method === 'PUT') return update(request, resource, route.id);
      return request.method === 'DELETE'
        ? remove(request, resource, route.id)
        : read(request, resource, route.id);
    },
  };
}
