import { text, type Database } from '../../db/connection/database.ts';
import { CostlyStatement } from '../../db/connection/runner.ts';
import { noSuchText } from '../../db/connection/database-errors.ts';
import { EMPTY, raw, sql, type Statement } from '../../db/fragment.ts';
import { addError, badQuery, notFound, type FieldErrors, type Problem } from '../../errors.ts';
import { csvRow, exportStatement } from '../../query/statements/csv.ts';
import { parseListQuery, parseParameters, type ListQuery } from '../../query/parse/grammar.ts';
import { planList, ROOT, type ListPlan } from '../../query/plan.ts';
import { preview } from '../../query/statements/preview-sql.ts';
import {
  isFirstQuickPage,
  isQuick,
  pageStatement,
  plainRecord,
  recordStatement,
  type RowOutput,
} from '../../query/statements/read-statements.ts';
import { recordJson } from '../../query/statements/record-json.ts';
import { openExport } from './record-export.ts';
import { requireId } from './operations.ts';
import {
  meets,
  viewOf,
  type Caller,
  type ServedResource,
  type ServedResources,
} from '../serve/served-resource.ts';
import { NO_RECORD } from './write-result.ts';

/** How the records of a page are written; for HTML as JSON whose long values are cut, see `preview`. */
export type PageFormat = 'json' | 'csv' | 'html';

export interface RecordPage {
  readonly query: ListQuery;
  /** The records as PostgreSQL wrote them: rows of CSV, or else JSON with commas between them. */
  readonly objects: Buffer;
  readonly hasNext: boolean;
  /** How many records the filters match; only when it was asked for. */
  readonly total: string | undefined;
}

/** Reading records of a resource, all but one in full; access levels are the caller's to check. */
export interface Listing {
  /** Whether the query would reach into a resource that not everyone may read, so that credentials make a difference. */
  readonly needsCaller: (resource: ServedResource, query: string) => boolean;
  /**
   * @throws Problem 400 that names each parameter that cannot be used; CostlyStatement where the caller does not meet the
   * resource's level for what the query costs
   */
  readonly list: (
    resource: ServedResource,
    query: string,
    caller: Caller | undefined,
    counted: boolean,
    format?: PageFormat,
  ) => Promise<RecordPage>;
  /** A record as a browser is shown it. @throws Problem 404 */
  readonly preview: (resource: ServedResource, id: string) => Promise<Buffer>;
  /**
   * All records that the filters match, in the order that the query asks for: a line of JSON each.
   * @throws Problem 400, 503 when too many are being read; nothing has been given by then
   */
  readonly stream: (
    resource: ServedResource,
    query: string,
    caller: Caller | undefined,
  ) => Promise<AsyncIterable<Buffer>>;
  /** Checks the query of a stream without reading anything. @throws Problem 400, CostlyStatement */
  readonly checkStream: (resource: ServedResource, query: string, caller: Caller | undefined) => void;
}

/** Maximum bytes of the records that a browser is shown with markup, which is several times as long. */
const MAX_HTML = 2 * 1024 * 1024;

/** Refuses a page whose records PostgreSQL has not output. */
export const pageTooLarge = (maxBytes: number): Problem =>
  badQuery({
    limit: [
      `the page has more than ${maxBytes} bytes: ask for fewer records with limit, or for a stream of all of them (Accept: application/x-ndjson)`,
    ],
  });

/** Text of a `json` column stands as it was sent, and may have line breaks between its tokens: nowhere else does JSON have any. */
const oneLine = (alias: string, { output }: ServedResource) =>
  output.some(({ type }) => type.input.json === 'json')
    ? sql`translate(${recordJson(alias, output)}, e'\\n\\r', '  ')`
    : recordJson(alias, output);

/** A stream has no pages; what asks for one must not be taken for a filter that was heard. */
function addPagingErrors(query: string, errors: FieldErrors): void {
  for (const { name } of parseParameters(query))
    if (name === 'limit' || name === 'page')
      addError(errors, name, 'cannot be used here: a stream has no pages');
}

/** How a record is written. */
function shownAs(format: PageFormat, { output }: ServedResource, { limit }: ListQuery): RowOutput {
  if (format === 'html') return preview(output, limit);
  return format === 'json' ? plainRecord(output) : { value: csvRow(ROOT, output), joins: EMPTY };
}

/** What the listings of all clients share. */
export interface ListingSite {
  readonly resources: ServedResources;
  /** Maximum bytes of a page's records. */
  readonly maxPage: number;
  /** The statements of first pages: the most frequent ones, and few. */
  readonly firstPages: Map<string, Statement>;
}

/** The statement of a page. Those of first pages are built once. */
function statementOf(
  { firstPages }: ListingSite,
  resource: ServedResource,
  [query, planned]: readonly [ListQuery, ListPlan],
  format: PageFormat,
  counted: boolean,
  maxBytes: number,
): Statement {
  const build = (isFixed: boolean): Statement => {
    const between = raw(format === 'csv' ? `''` : `','`);
    const shown = shownAs(format, resource, query);
    const { text: sqlText, values } = pageStatement(planned, shown, maxBytes, between, counted);
    return { text: sqlText, values, fixed: isFixed, isPage: true };
  };
  // A page for HTML depends on more.
  if (format === 'html' || counted || !isFirstQuickPage(planned)) return build(false);
  const [ordering] = planned.orderings;
  const key = `${resource.name} ${format} ${query.limit} ${ordering?.descending}`;
  const known = firstPages.get(key);
  if (known) return known;
  // They are few texts whatever clients ask for, as long as they leave the page size alone.
  const statement = build(format === 'json' && query.limit === resource.limit);
  firstPages.set(key, statement);
  return statement;
}

export function createListing(database: Pick<Database, 'run' | 'cursor'>, site: ListingSite): Listing {
  const { resources, maxPage } = site;

  function plan(
    resource: ServedResource,
    queryText: string,
    caller: Caller | undefined,
    errors: FieldErrors,
  ): [ListQuery, ListPlan] {
    const query = parseListQuery(queryText, resource, errors);
    const view = viewOf(resources, (level) => meets(level, caller));
    const planned = planList(query, resource.model, view, resource.ordering, errors);
    if (Object.keys(errors).length > 0) throw badQuery(errors);
    return [query, planned];
  }

  function planStream(resource: ServedResource, queryText: string, caller: Caller | undefined): ListPlan {
    if (!meets(resource.costly, caller)) throw new CostlyStatement();
    const errors: FieldErrors = {};
    addPagingErrors(queryText, errors);
    return plan(resource, queryText, caller, errors)[1];
  }

  return {
    needsCaller(resource, queryText) {
      let needed = false;
      const view = viewOf(resources, (level) => {
        needed ||= level !== 'default';
        return true;
      });
      planList(parseListQuery(queryText, resource, {}), resource.model, view, [], {});
      return needed;
    },

    async list(resource, queryText, caller, counted, format = 'json') {
      const planned = plan(resource, queryText, caller, {});
      const [query] = planned;
      // PostgreSQL may have to make a long text of a value before it can cut it.
      const isShort = format !== 'html' && !counted && isQuick(planned[1]);
      const maxBytes = format === 'html' ? Math.min(maxPage, MAX_HTML) : maxPage;
      const statement = statementOf(site, resource, planned, format, counted, maxBytes);
      const options = { refuseCostly: !meets(resource.costly, caller) };
      const [page] = await database.run(statement, isShort ? 'quick' : 'read', options);
      if (page && !page[0]) throw pageTooLarge(maxBytes);
      const total = counted ? (text(page?.[2]) ?? '0') : undefined;
      return { query, objects: page?.[0] ?? Buffer.alloc(0), hasNext: text(page?.[1]) === 't', total };
    },

    async preview(resource, id) {
      const statement = recordStatement(resource.model, preview(resource.output, 1));
      const [row] = await database.run(statement(requireId(resource, id)), 'read').catch(noSuchText);
      if (!row?.[0]) throw notFound(NO_RECORD);
      return row[0];
    },

    async stream(resource, queryText, caller) {
      const planned = planStream(resource, queryText, caller);
      const statement = exportStatement(planned, (alias) => sql`${oneLine(alias, resource)} || e'\\n'`);
      return openExport(database, statement, { start: '', between: '', end: '' });
    },

    checkStream: (resource, queryText, caller) => void planStream(resource, queryText, caller),
  };
}
