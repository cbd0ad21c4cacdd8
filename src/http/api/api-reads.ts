// GET of the JSON API: negotiates the format, decides who reads, and answers.
import type { AccessLevel } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { CostlyStatement } from '../../db/statement-kinds.ts';
import { Problem } from '../../errors.ts';
import {
  COUNTINGS,
  type Counting,
  type Listing,
  type RecordPage,
} from '../../resources/records/api-listing.ts';
import { readRecord } from '../../resources/records/read-record.ts';
import { NO_CHUNKS } from '../../resources/records/record-export.ts';
import {
  meets,
  type Caller,
  type ServedResource,
  type ServedResources,
} from '../../resources/serve/served-resource.ts';
import { entityTag, noneMatchLists } from '../message/entity-tag.ts';
import { withBasePath } from '../message/base-path.ts';
import { joinBody, json, lengthOf, type ApiRequest, type Reply, type WholeBody } from '../message/message.ts';
import { preference } from '../message/preferences.ts';
import type { ApiPages } from './api-pages.ts';
import { assertNoParameters, OPENAPI_PATH } from './api-routes.ts';
import { csvReply, streamReply } from './csv-and-stream-replies.ts';
import { COLLECTION_FORMATS, negotiate, notAcceptable, RECORD_FORMATS, type Format } from './negotiation.ts';
import { pageLinks } from './page-links.ts';

export interface ApiReadOptions {
  readonly resources: ServedResources;
  /** The database for the reads of a request: a replica, if there is one that has what the client has written. */
  readonly databaseFor: (request: ApiRequest) => Pick<Database, 'run' | 'cursor'>;
  readonly listing: (database: Pick<Database, 'run' | 'cursor'>) => Listing;
  readonly pages: ApiPages;
  readonly hasAdmin: boolean;
}

/** Work to render one column of an HTML page, as the bytes of records that take as long (see `turnForHtml`). */
const COLUMN_WEIGHT = 64;

/** A format that programs read. */
type DataFormat = Exclude<Format, 'html'>;

/** Wraps the records in `meta` and `objects`. The records stay as PostgreSQL encoded them. */
function pageBody(resource: ServedResource, page: RecordPage): WholeBody {
  const { next, previous } = pageLinks(resource, page);
  const links = `"next":${JSON.stringify(next)},"previous":${JSON.stringify(previous)}`;
  const meta = `{"model":"${resource.name}","page":${page.page},${links}}`;
  return joinBody([Buffer.from(`{"meta":${meta},"objects":[`), ...page.objects, Buffer.from(']}')]);
}

/** How `Prefer` asks to count all matching records. Other values are ignored, as the header demands. */
function countingOf({ headers }: ApiRequest): Counting | undefined {
  const asked = preference(headers, 'count');
  return COUNTINGS.find((counting) => counting === asked);
}

/** The total, and the preferences that the page follows. */
function pageHeaders({ total, hasCursors }: RecordPage): Record<string, string> {
  const applied = [...(hasCursors ? ['paging=cursor'] : []), ...(total ? [`count=${total.counting}`] : [])];
  return {
    ...(total && { 'X-Total-Count': total.value }),
    ...(applied.length > 0 && { 'Preference-Applied': applied.join(', ') }),
  };
}

const indexBody = (resources: ServedResources): string =>
  JSON.stringify({
    resources: [...resources.values()].map(({ name, read, access, methods }) => ({
      name,
      url: withBasePath(`/api/${name}/`),
      read,
      access,
      methods: [...methods],
    })),
  });

export function createApiReads({ resources, databaseFor, listing, pages, hasAdmin }: ApiReadOptions) {
  const listingFor = (request: ApiRequest): Listing => listing(databaseFor(request));

  /** @throws Unauthorized without valid credentials; Problem 403 for a caller below the level */
  async function requireLevel(request: ApiRequest, level: AccessLevel): Promise<Caller> {
    const caller = await request.authenticate();
    if (!meets(level, caller)) throw new Problem(403, 'Only admins may do this.');
    return caller;
  }

  /** The caller of a collection. Credentials that make no difference to the result are not checked. */
  async function collectionCaller(
    request: ApiRequest,
    resource: ServedResource,
    query: string,
    counting: Counting | undefined,
  ): Promise<Caller | undefined> {
    if (resource.read !== 'default') return requireLevel(request, resource.read);
    if (request.headers.authorization === undefined) return undefined;
    if (counting === 'exact' && resource.maxCount !== undefined) return request.authenticate();
    return listingFor(request).needsCaller(resource, query) ? request.authenticate() : undefined;
  }

  async function indexAsHtml(request: ApiRequest): Promise<Reply> {
    const body = indexBody(resources);
    await request.requester.turnForHtml(body.length);
    return pages.index(request, body);
  }

  async function listAsHtml(request: ApiRequest, resource: ServedResource): Promise<Reply> {
    const { query } = request;
    let caller = await collectionCaller(request, resource, query, undefined);
    const list = (one: Caller | undefined): Promise<RecordPage> => {
      caller = one;
      return listingFor(request).list(resource, query, one, { format: 'html' });
    };
    const page = await list(caller).catch(retryAuthenticated(request, resource, list));
    await request.requester.turnForHtml(lengthOf(page.objects) + resource.output.length * COLUMN_WEIGHT);
    return pages.collection(request, resource, page, caller);
  }

  async function listAs(
    caller: Caller | undefined,
    request: ApiRequest,
    resource: ServedResource,
    format: DataFormat,
  ): Promise<Reply> {
    const { query } = request;
    if (format === 'ndjson' || (format === 'csv' && preference(request.headers, 'paging') === 'none')) {
      if (request.method !== 'HEAD')
        return streamReply(format, await listingFor(request).stream(resource, query, caller, format));
      // HEAD has no body, so it needs no cursor.
      listingFor(request).checkStream(resource, query, caller);
      return streamReply(format, NO_CHUNKS);
    }
    const page = await listingFor(request).list(resource, query, caller, {
      counting: countingOf(request),
      format,
      wantsCursors: preference(request.headers, 'paging') === 'cursor',
    });
    if (format === 'csv') return csvReply(resource, page, pageHeaders(page));
    return json(200, pageBody(resource, page), pageHeaders(page));
  }

  /** Handles the rejection of a costly query: requires its access level, then lists again. */
  const retryAuthenticated =
    <T>(request: ApiRequest, resource: ServedResource, list: (caller: Caller) => Promise<T>) =>
    async (error: unknown): Promise<T> => {
      if (!(error instanceof CostlyStatement)) throw error;
      return list(await requireLevel(request, resource.costly));
    };

  async function listForCaller(
    request: ApiRequest,
    resource: ServedResource,
    format: DataFormat | undefined,
  ): Promise<Reply> {
    const caller = await collectionCaller(request, resource, request.query, countingOf(request));
    if (format === undefined) throw notAcceptable(COLLECTION_FORMATS);
    const list = (one: Caller | undefined) => listAs(one, request, resource, format);
    return list(caller).catch(retryAuthenticated(request, resource, list));
  }

  return {
    home(request: ApiRequest): Reply {
      const format = negotiate(request.headers.accept, RECORD_FORMATS);
      if (format === undefined) throw notAcceptable(RECORD_FORMATS);
      assertNoParameters(request.query);
      if (format === 'html') return pages.home();
      const admin = hasAdmin ? { admin: withBasePath('/admin/') } : {};
      return json(
        200,
        JSON.stringify({ api: withBasePath('/api/'), openapi: withBasePath(OPENAPI_PATH), ...admin }),
      );
    },

    index(request: ApiRequest): Reply | Promise<Reply> {
      const format = negotiate(request.headers.accept, RECORD_FORMATS);
      if (format === undefined) throw notAcceptable(RECORD_FORMATS);
      assertNoParameters(request.query);
      if (format === 'html') return indexAsHtml(request);
      return json(200, indexBody(resources));
    },

    list(request: ApiRequest, resource: ServedResource): Promise<Reply> {
      const format = negotiate(request.headers.accept, COLLECTION_FORMATS);
      if (format === 'html') return listAsHtml(request, resource);
      if (resource.read !== 'default' || request.headers.authorization !== undefined)
        return listForCaller(request, resource, format);
      if (format === undefined) throw notAcceptable(COLLECTION_FORMATS);
      const list = (one: Caller | undefined) => listAs(one, request, resource, format);
      const page = list(undefined);
      return resource.costly === 'default' ? page : page.catch(retryAuthenticated(request, resource, list));
    },

    async read(request: ApiRequest, resource: ServedResource, id: string): Promise<Reply> {
      const caller = resource.read === 'default' ? undefined : await requireLevel(request, resource.read);
      const format = negotiate(request.headers.accept, RECORD_FORMATS);
      if (format === undefined) throw notAcceptable(RECORD_FORMATS);
      assertNoParameters(request.query);
      const record = await readRecord(databaseFor(request), resource, id);
      if (format === 'html') {
        await request.requester.turnForHtml(record.json.length);
        return pages.record(request, resource, record.json, caller);
      }
      const headers = { ETag: entityTag(record.version) };
      if (noneMatchLists(request.headers['if-none-match'], record.version))
        return { status: 304, headers, body: '' };
      return json(200, record.json, headers);
    },
  };
}
