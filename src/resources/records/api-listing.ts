// Lists and streams records for the API.
import type { Database } from '../../db/connection/database.ts';
import { CostlyStatement, type RunOptions } from '../../db/statement-kinds.ts';
import type { Model } from '../../db/schema/model.ts';
import { addError, badQuery, errorOf, type FieldErrors, type Problem } from '../../errors.ts';
import { estimateStatement } from '../../query/statements/bulk-statements.ts';
import { csvRow } from '../../query/csv/csv-rows.ts';
import { cursorLinks, type CursorTokens, type Neighbors } from '../../query/cursor.ts';
import { parseListQuery, parseParameters, type ListQuery } from '../../query/parse/grammar.ts';
import {
  mayHideRows,
  planList,
  ROOT,
  type Boundary,
  type ListPlan,
  type Projection,
} from '../../query/plan.ts';
import { isShort, pageStatement, streamStatement, type Page } from '../../query/read.ts';
import { recordLine } from '../../query/statements/record-json.ts';
import type { SqlCache } from '../../db/sql-cache.ts';
import { openExport } from './record-export.ts';
import { ADMIN, ANYONE, meets, readerOf } from '../access/access.ts';
import type { ResourceView } from '../access/resource-view.ts';
import { messageOf } from '../../messages.ts';

/** The output format of a page's records. `html` is JSON that a page for browsers shows. */
type PageFormat = 'json' | 'csv' | 'html';
type StreamFormat = 'ndjson' | 'csv';

/** The first line of CSV. Column names never need quotes. */
export const csvHead = ({ output }: ResourceView): string => `${output.map(({ key }) => key).join()}\r\n`;

export interface RecordPage extends Neighbors {
  readonly query: ListQuery;
  /** 0 for a page with a cursor. */
  readonly page: bigint;
  /** Whether its links have cursors. */
  readonly hasCursors: boolean;
  /** The records as PostgreSQL wrote them: the parts of CSV rows, or of JSON objects with commas between them. */
  readonly objects: readonly Buffer[];
  /** The number of records that the filters match; undefined unless requested. */
  readonly total: RecordCount | undefined;
}

/** How to count the records that the filters match. */
export const COUNTINGS = ['exact', 'capped', 'estimated'] as const;
export type Counting = (typeof COUNTINGS)[number];

export interface RecordCount {
  /** A number; with `+` behind it if there are more than this limit. */
  readonly value: string;
  readonly counting: Counting;
}

/** The default limit of capped counts, and the largest exact count of `estimated`. */
const MAX_EXACT = 10_000;

/** Whether the access gets exact counts past `maxCount`. */
const mayCountAll = ({ name, maxCount, countLevel, seenBy }: ResourceView): boolean =>
  maxCount === undefined || meets(readerOf(seenBy, name), countLevel);

/** How an access's records are counted. */
const permitted = (resource: ResourceView, counting: Counting | undefined): Counting | undefined =>
  counting === 'exact' && !mayCountAll(resource) ? 'capped' : counting;

/** Whether the access may send costly queries and streams. */
const mayCost = ({ name, seenBy, costly }: ResourceView): boolean => meets(readerOf(seenBy, name), costly);

const COMMA = Buffer.from(',');

const numberedLinks = ({ hasMore }: Page, page: bigint): Neighbors => ({
  next: hasMore ? `page=${page + 1n}` : undefined,
  previous: page > 1n ? `page=${page - 1n}` : undefined,
});

/** The parts of a page, with commas between them if it is JSON. */
const withCommas = (objects: readonly Buffer[], format: PageFormat): readonly Buffer[] =>
  format === 'csv' ? objects : objects.flatMap((object, index) => (index === 0 ? [object] : [COMMA, object]));

/** Maximum bytes of the records on a page for browsers. Their markup is several times as long. */
export const MAX_HTML = 2 * 1024 * 1024;

/** The problem for a page that PostgreSQL left out because it exceeds the limit. */
export const pageTooLarge = (maxBytes: number): Problem =>
  badQuery(errorOf('limit', messageOf('largePage', { max: maxBytes })));

/** Reports `limit` and `page` in the query of a stream, which would otherwise be silently ignored. */
function addPagingErrors({ hasCursors }: ResourceView, query: string, errors: FieldErrors): void {
  for (const { name } of parseParameters(query))
    if (name === 'limit' || name === 'page' || (hasCursors && name === 'cursor'))
      addError(errors, name, messageOf('noPages'));
}

/** The SQL that outputs a record in a format. */
const shownAs = (format: PageFormat, { formatted, plain }: ResourceView): Projection =>
  format === 'csv' ? { ...plain, value: csvRow(ROOT, formatted) } : plain;

/** Up to which number to count; undefined for no count. */
function countLimit(resource: ResourceView, counting: Counting | undefined): number | undefined {
  if (counting === undefined || counting === 'exact') return counting && Infinity;
  const { maxCount = MAX_EXACT } = resource;
  if (counting === 'capped') return maxCount;
  return mayCountAll(resource) ? MAX_EXACT : Math.min(maxCount, MAX_EXACT);
}

/** The parts that the listings of all clients share. */
export interface ListingSite {
  /** Maximum bytes of a page's records. */
  readonly maxPage: number;
  /** The SQL of pages. */
  readonly pageSql: SqlCache;
  /** The cursors of a list, by what they are bound to. */
  readonly cursors: (context: string) => CursorTokens;
}

/** How to list a collection. */
export interface ListOptions {
  /** How to count all records that match, if at all. */
  readonly counting?: Counting | undefined;
  readonly format?: PageFormat | undefined;
  /** Whether the links to other pages have cursors. A query with a cursor always has such links. */
  readonly wantsCursors?: boolean | undefined;
}

/** A query with its names resolved for an access. */
interface PlannedQuery {
  readonly query: ListQuery;
  readonly planned: ListPlan;
}

/** What a cursor is bound to: all that decides which records are listed, in which order, and in which form they are compared. */
function contextOf({ name, seenBy, hasIdentity }: ResourceView, { query, planned }: PlannedQuery): string {
  const { model, joins, visibility } = planned;
  // Where a boundary lies among the records of others may say something about them.
  const hasRules = [model, ...joins.map((join) => join.model)].some((one) => visibility.rows(one));
  const caller = hasRules || hasIdentity ? [seenBy.key, seenBy.me?.() ?? null] : [];
  const order = planned.orderings.map(({ alias, column, descending }) =>
    [alias, column.key, column.castType, descending].join(' '),
  );
  return JSON.stringify([name, query.link, query.limit, order, ...caller]);
}

export type Listing = ReturnType<typeof createListing>;

/** Reads records for the API. The calling code checks the resource's own access level. */
export function createListing(database: Pick<Database, 'run' | 'cursor'>, site: ListingSite) {
  const { maxPage, pageSql, cursors } = site;

  function plan(resource: ResourceView, queryText: string, errors: FieldErrors): PlannedQuery {
    const query = parseListQuery(queryText, resource, errors);
    const planned = planList(query, resource.model, resource.visibility, resource.ordering, errors);
    if (Object.keys(errors).length > 0) throw badQuery(errors);
    return { query, planned };
  }

  /** The boundary that a query's cursor names; null without one. @throws Problem 400, the same for each reason */
  function boundaryOf({ cursor }: ListQuery, tokens: CursorTokens): Boundary | null {
    if (cursor === undefined) return null;
    const boundary = tokens.decode(cursor);
    if (!boundary) throw badQuery(errorOf('cursor', messageOf('foreignCursor')));
    return boundary;
  }

  /** The number of matching records: as the page counted them, or the planner's estimate if they exceed the limit. */
  async function totalOf(
    counted: string | undefined,
    counting: Counting,
    planned: ListPlan,
    options: RunOptions,
  ): Promise<RecordCount | undefined> {
    if (counted === undefined) return undefined;
    if (counting !== 'estimated' || !counted.endsWith('+') || mayHideRows(planned))
      return { value: counted, counting };
    const rows = await database.run(estimateStatement(planned), 'read', options);
    return { value: String(Math.max(rows, Number(counted.slice(0, -1)) + 1)), counting };
  }

  function planStream(resource: ResourceView, queryText: string): ListPlan {
    if (!mayCost(resource)) throw new CostlyStatement();
    const errors: FieldErrors = {};
    addPagingErrors(resource, queryText, errors);
    return plan(resource, queryText, errors).planned;
  }

  return {
    /** Whether the query joins a resource that not everyone may read, so that its result depends on credentials. */
    needsCaller(resource: ResourceView, queryText: string): boolean {
      let needed = false;
      const [{ visibility: open }, { visibility: all }] = [resource.for(ANYONE), resource.for(ADMIN)];
      const joinable = (model: Model): boolean => {
        const isJoinable = all.joinable(model);
        needed ||= isJoinable && (!open.joinable(model) || resource.all.get(model.name)?.isPersonal === true);
        return isJoinable;
      };
      const query = parseListQuery(queryText, resource, {});
      planList(query, resource.model, { ...all, joinable }, [], {});
      return needed;
    },

    /**
     * One page of records.
     * @throws Problem 400 that names each invalid parameter; CostlyStatement when the query is costly and the access does not meet
     * the resource's `costly` level
     */
    async list(
      resource: ResourceView,
      queryText: string,
      { counting: asked, format = 'json', wantsCursors = false }: ListOptions = {},
    ): Promise<RecordPage> {
      const plannedQuery = plan(resource, queryText, {});
      const { query, planned } = plannedQuery;
      const counting = permitted(resource, asked);
      const countTo = countLimit(resource, counting);
      const maxBytes = format === 'html' ? Math.min(maxPage, MAX_HTML) : maxPage;
      const hasCursors = query.cursor !== undefined || (wantsCursors && resource.hasCursors);
      const tokens = hasCursors ? cursors(contextOf(resource, plannedQuery)) : undefined;
      const boundary = tokens && boundaryOf(query, tokens);
      const separator = format === 'csv' ? '' : ',';
      const columns = shownAs(format, resource);
      const statement = pageStatement(
        { list: planned, columns, maxBytes, separator, boundary, countTo, isSplit: true },
        (key, build) => pageSql(`${resource.sqlKey} ${format} ${countTo} ${key}`, build),
      );
      const isQuick = !hasCursors && countTo === undefined && isShort(planned);
      // Only the default page size makes a statement that is always prepared, so clients cannot cause many of them.
      const fixed = isQuick && format === 'json' && query.limit === resource.limit;
      const options = { refuseCostly: !mayCost(resource) };
      const page = await database.run({ ...statement, fixed }, isQuick ? 'quick' : 'read', options);
      if (!page.objects) throw pageTooLarge(maxBytes);
      const links = tokens
        ? cursorLinks(page, boundary, query.page, tokens.encode)
        : numberedLinks(page, query.page);
      return {
        query,
        page: boundary ? 0n : query.page,
        hasCursors,
        next: links.next,
        previous: links.previous,
        objects: withCommas(page.objects, format),
        total: counting && (await totalOf(page.total, counting, planned, options)),
      };
    },

    /**
     * All records that the filters match, in the query's order: one line of JSON each, or CSV with the names in the first line.
     * @throws Problem 400, CostlyStatement, and Problem 503 when too many streams are open; always before the first chunk
     */
    async stream(
      resource: ResourceView,
      queryText: string,
      format: StreamFormat,
    ): Promise<AsyncIterable<Buffer>> {
      const planned = planStream(resource, queryText);
      const isCsv = format === 'csv';
      const { formatted } = resource;
      const line = isCsv ? csvRow(ROOT, formatted) : recordLine(ROOT, formatted);
      const frame = { start: isCsv ? csvHead(resource) : '', between: '', end: '' };
      return openExport(database, streamStatement(planned, line), frame);
    },

    /** Checks the query of a stream without reading anything. @throws Problem 400, CostlyStatement */
    checkStream: (resource: ResourceView, queryText: string): void => void planStream(resource, queryText),
  };
}
