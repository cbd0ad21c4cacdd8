// GET of the JSON API: negotiates the format, decides who reads, and answers.
import type { Level } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { CostlyStatement } from '../../db/statement-kinds.ts';
import {
  COUNTINGS,
  type Counting,
  type Listing,
  type RecordPage,
  csvHead,
} from '../../resources/records/api-listing.ts';
import { readRecord } from '../../resources/records/read-record.ts';
import { NO_CHUNKS } from '../../resources/records/record-export.ts';
import { accessOf, forbidden, isOpen, meets, readerOf } from '../../resources/access/access.ts';
import type { ResourceView, ResourceViews } from '../../resources/access/resource-view.ts';
import { entityTag, noneMatchLists } from '../message/entity-tag.ts';
import { withBasePath } from '../message/base-path.ts';
import {
  joinBody,
  json,
  lengthOf,
  type ApiRequest,
  type Reply,
  type WholeBody,
  type Area,
} from '../message/message.ts';
import { preference } from '../message/request-headers.ts';
import { assertNoParameters, OPENAPI_PATH } from './api-routes.ts';
import {
  COLLECTION_FORMATS,
  formatOf,
  RECORD_FORMATS,
  type Format,
  MEDIA_TYPES,
  wantsHtml,
} from './negotiation.ts';
import { pageLinks, linkHeader } from './page-links.ts';

/** HTML pages of the API for browsers. Access is checked before a page is made. */
export interface ApiPages extends Pick<Area, 'problem'> {
  readonly home: () => Reply;
  /** @param json the list of resources */
  readonly index: (request: ApiRequest, json: string) => Reply;
  readonly collection: (request: ApiRequest, resource: ResourceView, page: RecordPage) => Promise<Reply>;
  readonly record: (request: ApiRequest, resource: ResourceView, record: Buffer) => Promise<Reply>;
  /** A static file of the pages. @throws Problem 404 */
  readonly asset: (path: string) => Reply;
  /**
   * Whether a path is that of a file of these pages or of the admin area. Such files are served under overload, and RATE_LIMIT
   * does not count them: they cost little, and a page that was served is unusable without them.
   */
  readonly isAsset: (path: string) => boolean;
}

export interface ApiReadOptions {
  readonly resources: ResourceViews;
  /** The database for the reads of a request: a replica, if there is one that has what the client has written. */
  readonly databaseFor: (request: ApiRequest, resource: ResourceView) => Pick<Database, 'run' | 'cursor'>;
  readonly listing: (database: Pick<Database, 'run' | 'cursor'>) => Listing;
  readonly pages: ApiPages;
  readonly hasAdmin: boolean;
}

/** Work to render one column of an HTML page, as the bytes of records that take as long (see `turnForHtml`). */
const COLUMN_WEIGHT = 64;

/** Wraps the records in `meta` and `objects`. The records stay as PostgreSQL encoded them. */
function pageBody(resource: ResourceView, page: RecordPage): WholeBody {
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

const indexBody = (resources: ResourceViews): string =>
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
  const listingFor = (request: ApiRequest, resource: ResourceView): Listing =>
    listing(databaseFor(request, resource));

  /**
   * The resource as the caller sees it.
   * @param costly the level of a costly query, which is needed besides the right to read
   * @throws Unauthorized without valid credentials; Problem 403 for a caller who may not
   */
  async function seenByCaller(
    request: ApiRequest,
    resource: ResourceView,
    costly: Level = 'default',
  ): Promise<ResourceView> {
    const access = accessOf(await request.authenticate());
    const seen = resource.for(access);
    const missed = seen.isReadable ? costly : seen.read;
    if (!seen.isReadable || !meets(readerOf(access, resource.name), costly))
      throw forbidden(missed, 'adminsOnly', access);
    return seen;
  }

  /** The resource as the reader of a collection sees it. Credentials that make no difference to the result are not checked. */
  async function seenByReader(
    request: ApiRequest,
    resource: ResourceView,
    counting?: Counting,
  ): Promise<ResourceView> {
    const { read, maxCount, isPersonal } = resource;
    if (!isOpen(read)) return seenByCaller(request, resource);
    if (request.headers.authorization === undefined) return resource;
    const matters =
      isPersonal ||
      (maxCount !== undefined && counting !== undefined && counting !== 'capped') ||
      listingFor(request, resource).needsCaller(resource, request.query);
    return matters ? seenByCaller(request, resource) : resource;
  }

  async function listAs(request: ApiRequest, resource: ResourceView, format: Format): Promise<Reply> {
    const { query } = request;
    if (format === 'html') {
      const page = await listingFor(request, resource).list(resource, query, { format });
      await request.requester.turnForHtml(lengthOf(page.objects) + resource.output.length * COLUMN_WEIGHT);
      return pages.collection(request, resource, page);
    }
    if (format === 'ndjson' || (format === 'csv' && preference(request.headers, 'paging') === 'none')) {
      if (request.method !== 'HEAD')
        return streamReply(format, await listingFor(request, resource).stream(resource, query, format));
      // HEAD has no body, so it needs no cursor.
      listingFor(request, resource).checkStream(resource, query);
      return streamReply(format, NO_CHUNKS);
    }
    const page = await listingFor(request, resource).list(resource, query, {
      counting: countingOf(request),
      format,
      wantsCursors: preference(request.headers, 'paging') === 'cursor',
    });
    if (format === 'csv') return csvReply(resource, page, pageHeaders(page));
    return json(200, pageBody(resource, page), pageHeaders(page));
  }

  async function indexAsHtml(request: ApiRequest): Promise<Reply> {
    const body = indexBody(resources);
    await request.requester.turnForHtml(body.length);
    return pages.index(request, body);
  }

  return {
    home(request: ApiRequest): Reply {
      const format = formatOf(request, RECORD_FORMATS);
      assertNoParameters(request.query);
      if (format === 'html') return pages.home();
      const admin = hasAdmin ? { admin: withBasePath('/admin/') } : {};
      return json(
        200,
        JSON.stringify({ api: withBasePath('/api/'), openapi: withBasePath(OPENAPI_PATH), ...admin }),
      );
    },

    index(request: ApiRequest): Reply | Promise<Reply> {
      const format = formatOf(request, RECORD_FORMATS);
      assertNoParameters(request.query);
      if (format === 'html') return indexAsHtml(request);
      return json(200, indexBody(resources));
    },

    async list(request: ApiRequest, resource: ResourceView): Promise<Reply> {
      const seen = await seenByReader(
        request,
        resource,
        wantsHtml(request) ? undefined : countingOf(request),
      );
      const format = formatOf(request, COLLECTION_FORMATS);
      try {
        return await listAs(request, seen, format);
      } catch (error) {
        if (!(error instanceof CostlyStatement)) throw error;
        return listAs(request, await seenByCaller(request, resource, resource.costly), format);
      }
    },

    async read(request: ApiRequest, named: ResourceView, id: string): Promise<Reply> {
      const { read, isPersonal } = named;
      const isAnonymous = request.headers.authorization === undefined;
      const resource =
        isOpen(read) && (!isPersonal || isAnonymous) ? named : await seenByCaller(request, named);
      const format = formatOf(request, RECORD_FORMATS);
      assertNoParameters(request.query);
      const record = await readRecord(databaseFor(request, resource), resource, id);
      if (format === 'html') {
        await request.requester.turnForHtml(record.json.length);
        return pages.record(request, resource, record.json);
      }
      const headers = { ETag: entityTag(record.version) };
      if (noneMatchLists(request.headers['if-none-match'], record.version))
        return { status: 304, headers, body: '' };
      return json(200, record.json, headers);
    },
  };
}

const CSV_TYPE = `${MEDIA_TYPES.csv}; charset=utf-8; header=present`;

/** A page as CSV. CSV has no place for `meta`, so a `Link` header names the next and previous pages. */
export function csvReply(
  resource: ResourceView,
  page: RecordPage,
  extra: Readonly<Record<string, string>>,
): Reply {
  return {
    status: 200,
    headers: {
      'Content-Type': CSV_TYPE,
      ...linkHeader(pageLinks(resource, page)),
      ...extra,
    },
    body: joinBody([Buffer.from(csvHead(resource)), ...page.objects]),
  };
}

/** All records as newline-delimited JSON or CSV, sent while they are read from the database. */
export const streamReply = (format: 'ndjson' | 'csv', lines: AsyncIterable<Buffer>): Reply => ({
  status: 200,
  headers:
    format === 'csv'
      ? { 'Content-Type': CSV_TYPE, 'Preference-Applied': 'paging=none' }
      : { 'Content-Type': MEDIA_TYPES.ndjson },
  body: lines,
});
