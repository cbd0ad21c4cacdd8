import type { AccessLevel, Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { asProblem } from '../../db/connection/database-errors.ts';
import { addError, badQuery, Problem, type FieldErrors } from '../../errors.ts';
import { parseParameters } from '../../query/parse/grammar.ts';
import { parseJsonFields, type JsonFields } from '../../resources/records/json-fields.ts';
import { NO_CHUNKS } from '../../resources/records/record-export.ts';
import type { Listing, RecordPage } from '../../resources/records/listing.ts';
import { CostlyStatement } from '../../db/connection/runner.ts';
import { ClientGone, type Requester } from '../../db/scheduling/requester.ts';
import type { Operations, Versions } from '../../resources/records/operations.ts';
import { readRecord } from '../../resources/records/read-record.ts';
import {
  CallerChanged,
  meets,
  type Caller,
  type ServedResource,
  type ServedResources,
} from '../../resources/serve/served-resource.ts';
import { readJsonText } from './request-body.ts';
import { entityTag, isNotModified, parseIfMatch } from '../message/entity-tag.ts';
import { csvReply, streamReply } from './export-replies.ts';
import { json, Unauthorized, type ApiRequest, type Reply } from '../message/message.ts';
import { FORMATS, MEDIA_TYPES, negotiate, type Format } from './negotiation.ts';
import { createOpenApi } from '../openapi/openapi.ts';
import { assertOrigin } from '../auth/request-origin.ts';
import type { ApiPages } from './api-pages.ts';
import { pageLinks } from './page-links.ts';
import type { ResourceRoute } from './api-routes.ts';

export interface Api {
  readonly index: (request: ApiRequest) => Reply | Promise<Reply>;
  /** The description of what the caller may see. */
  readonly openapi: (request: ApiRequest) => Promise<Reply>;
  /** Answers a request whose route and method are known to fit. */
  readonly answer: (request: ApiRequest, route: ResourceRoute) => Promise<Reply>;
}

/** The collection's document around the records, which are passed through as PostgreSQL made them. */
function pageBody(resource: ServedResource, page: RecordPage): Buffer {
  const { next, previous } = pageLinks(resource, page);
  const links = `"next":${JSON.stringify(next)},"previous":${JSON.stringify(previous)}`;
  const meta = `{"model":"${resource.name}","page":${page.query.page},${links}}`;
  return Buffer.concat([Buffer.from(`{"meta":${meta},"objects":[`), page.objects, Buffer.from(']}')]);
}

/** Of a preference that is stated twice the first one counts (RFC 7240, section 2). */
function wantsCount(prefer: string | string[] | undefined): boolean {
  const preferences = String(prefer ?? '').split(/[,;]/);
  const count = preferences.find((preference) => /^\s*count\s*=/i.test(preference));
  return /=\s*"?exact"?\s*$/i.test(count ?? '');
}

/** Only collections take parameters, and only for GET: elsewhere each is unknown. */
function assertNoParameters(query: string): void {
  const errors: FieldErrors = {};
  for (const { name } of parseParameters(query)) addError(errors, name, 'this path takes no parameters here');
  if (Object.keys(errors).length > 0) throw badQuery(errors);
}

/** Whether a further statement would be useless: the database is away or overloaded, or the client has left. */
const isUnavailable = (error: unknown): boolean =>
  error instanceof ClientGone || [429, 503].includes(asProblem(error)?.status ?? 0);

/** The versions that a write may find: none where it asks for the record not to be there, and then it cannot be written. */
const wantedVersions = ({ headers }: ApiRequest): Versions =>
  headers['if-none-match']?.trim() === '*' ? [] : parseIfMatch(headers['if-match']);

/** All paths but collections. */
const FEW_FORMATS: readonly Format[] = ['json', 'html'];

const notAcceptable = (formats: readonly Format[]): Problem =>
  new Problem(406, `This path answers with ${formats.map((format) => MEDIA_TYPES[format]).join(', ')}.`);

const countHeaders = ({ total }: RecordPage): Record<string, string> =>
  total === undefined ? {} : { 'X-Total-Count': total, 'Preference-Applied': 'count=exact' };

export interface ApiOptions {
  readonly resources: ServedResources;
  readonly database: Pick<Database, 'for'>;
  readonly operations: (requester: Requester) => Operations;
  readonly listing: (requester: Requester) => Listing;
  readonly pages: ApiPages;
  readonly settings: Settings;
}

export function createApi({ resources, database, operations, listing, pages, settings }: ApiOptions): Api {
  const hasReadLevels = [...resources.values()].some(({ read }) => read !== 'default');

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

  /**
   * Does a write for its caller. One who is known from an earlier request is confirmed by the statement that writes, which
   * saves a round trip; where it does not come to that, what is wrong with the caller goes before what is wrong otherwise,
   * unless the database is away.
   */
  async function asWriter<T>(
    request: ApiRequest,
    resource: ServedResource,
    write: (caller: Caller) => Promise<T>,
  ): Promise<T> {
    const recalled = request.recall();
    if (!recalled || !meets(resource.access, recalled)) return write(await requireWriter(request, resource));
    try {
      assertOrigin(request.headers, settings);
      return await write(recalled);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      const caller = await requireWriter(request, resource);
      // What an admin is told of hidden records is not for someone who no longer is one.
      if (!(error instanceof CallerChanged) && caller.admin === recalled.admin) throw error;
      return write(caller);
    }
  }

  /** The body of a write, read once. */
  function membersOf(request: ApiRequest): () => Promise<JsonFields> {
    let members: Promise<JsonFields> | undefined;
    return () => (members ??= readJsonText(request).then(parseJsonFields));
  }

  /** Who reads a collection; credentials that make no difference are not looked at. */
  async function readerOf(
    request: ApiRequest,
    resource: ServedResource,
    query: string,
  ): Promise<Caller | undefined> {
    if (resource.read !== 'default') return requireLevel(request, resource.read);
    if (request.headers.authorization === undefined) return undefined;
    if (listing(request.requester).needsCaller(resource, query)) return request.authenticate();
    request.takeTurnsAsUser();
    return undefined;
  }

  /** Who looks at a page: it shows what they may filter by. Credentials that nothing needs may be wrong. */
  async function visitorOf(request: ApiRequest): Promise<Caller | undefined> {
    if (request.headers.authorization === undefined || !hasReadLevels) return undefined;
    try {
      return await request.authenticate();
    } catch (error) {
      if (error instanceof Unauthorized || error instanceof Problem) return undefined;
      throw error;
    }
  }

  async function showCollection(request: ApiRequest, resource: ServedResource): Promise<Reply> {
    const caller =
      resource.read === 'default' ? await visitorOf(request) : await requireLevel(request, resource.read);
    return pages.collection(request, resource, caller, async (query, counted) => {
      const reader = caller ?? (await readerOf(request, resource, query));
      const page = await listing(request.requester).list(resource, query, reader, counted, 'html');
      await request.requester.turnForPage(page.objects.length);
      return page;
    });
  }

  function list(request: ApiRequest, resource: ServedResource): Promise<Reply> {
    const format = negotiate(request.headers.accept, FORMATS);
    if (format === 'html') return showCollection(request, resource);
    if (resource.read !== 'default' || request.headers.authorization !== undefined)
      return listFor(request, resource, format);
    if (format === undefined) throw notAcceptable(FORMATS);
    const page = listAs(undefined, request, resource, format);
    return resource.costly === 'default' ? page : page.catch(askAgain(request, resource, format));
  }

  async function listFor(
    request: ApiRequest,
    resource: ServedResource,
    format: 'json' | 'csv' | 'ndjson' | undefined,
  ): Promise<Reply> {
    const caller = await readerOf(request, resource, request.query);
    if (format === undefined) throw notAcceptable(FORMATS);
    return listAs(caller, request, resource, format).catch(askAgain(request, resource, format));
  }

  /** Asks for the credentials that a costly query needs, and lists again with them. */
  const askAgain =
    (request: ApiRequest, resource: ServedResource, format: 'json' | 'csv' | 'ndjson') =>
    async (error: unknown): Promise<Reply> => {
      if (!(error instanceof CostlyStatement)) throw error;
      return listAs(await requireLevel(request, resource.costly), request, resource, format);
    };

  async function listAs(
    caller: Caller | undefined,
    request: ApiRequest,
    resource: ServedResource,
    format: 'json' | 'csv' | 'ndjson',
  ): Promise<Reply> {
    const { query, headers } = request;
    if (format === 'ndjson' && request.method === 'HEAD') {
      // A cursor and its place would serve for nothing.
      listing(request.requester).checkStream(resource, query, caller);
      return streamReply(NO_CHUNKS);
    }
    if (format === 'ndjson')
      return streamReply(await listing(request.requester).stream(resource, query, caller));
    const counted = wantsCount(headers['prefer']);
    const page = await listing(request.requester).list(resource, query, caller, counted, format);
    if (format === 'csv') return csvReply(resource, page, countHeaders(page));
    return json(200, pageBody(resource, page), countHeaders(page));
  }

  async function read(request: ApiRequest, resource: ServedResource, id: string): Promise<Reply> {
    let caller = resource.read === 'default' ? undefined : await requireLevel(request, resource.read);
    const format = negotiate(request.headers.accept, FEW_FORMATS);
    if (format === undefined) throw notAcceptable(FEW_FORMATS);
    const isFullValue = format === 'html' && request.query === pages.jsonQuery;
    if (!isFullValue) assertNoParameters(request.query);
    if (format === 'html' && !isFullValue) {
      const record = await listing(request.requester).preview(resource, id);
      caller ??= await visitorOf(request);
      await request.requester.turnForPage(record.length);
      return pages.record(request, resource, caller, record);
    }
    if (!caller && request.headers.authorization !== undefined) request.takeTurnsAsUser();
    const record = await readRecord(database.for(request.requester), resource, id);
    const headers = { ETag: entityTag(record.version) };
    if (isNotModified(request.headers['if-none-match'], record.version))
      return { status: 304, headers, body: '' };
    return json(200, record.json, headers);
  }

  async function create(request: ApiRequest, resource: ServedResource): Promise<Reply> {
    const members = membersOf(request);
    const record = await asWriter(request, resource, async (caller) => {
      assertNoParameters(request.query);
      return operations(request.requester).create(resource, await members(), caller);
    });
    const location = `/api/${resource.name}/${encodeURIComponent(record.id)}/`;
    return json(201, record.json, { Location: location, ETag: entityTag(record.version) });
  }

  async function update(request: ApiRequest, resource: ServedResource, id: string): Promise<Reply> {
    const members = membersOf(request);
    const record = await asWriter(request, resource, async (caller) => {
      assertNoParameters(request.query);
      const sent = await members();
      return operations(request.requester).update(resource, id, sent, caller, wantedVersions(request));
    });
    return json(200, record.json, { ETag: entityTag(record.version) });
  }

  async function remove(request: ApiRequest, resource: ServedResource, id: string): Promise<Reply> {
    await asWriter(request, resource, async (caller) => {
      assertNoParameters(request.query);
      await operations(request.requester).remove(resource, id, caller, wantedVersions(request));
    });
    return json(200, '{"deleted": 1}');
  }

  const documents = createOpenApi(resources);

  async function openapi(request: ApiRequest): Promise<Reply> {
    const { headers, query } = request;
    const isOpen = headers.authorization === undefined;
    const { body, version } = documents.of(
      isOpen || !documents.needsCaller ? undefined : await request.authenticate(),
    );
    assertNoParameters(query);
    // Kept copies are asked about each time: what another caller gets has another tag.
    const kept = { ETag: entityTag(version), ...(isOpen ? { 'Cache-Control': 'no-cache' } : {}) };
    if (isNotModified(headers['if-none-match'], version)) return { status: 304, headers: kept, body: '' };
    return json(200, body, kept);
  }

  return {
    openapi,
    index: (request) => {
      const format = negotiate(request.headers.accept, FEW_FORMATS);
      if (format === undefined) throw notAcceptable(FEW_FORMATS);
      assertNoParameters(request.query);
      if (format === 'html') return visitorOf(request).then((caller) => pages.index(request, caller));
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
