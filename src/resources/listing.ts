import { text, type Database } from '../db/connection.ts';
import { EMPTY, raw, sql } from '../db/fragment.ts';
import { addError, badQuery, type FieldErrors } from '../errors.ts';
import { csvRow, exportStatement } from '../query/csv.ts';
import { parseListQuery, parseParameters, type ListQuery } from '../query/grammar.ts';
import { planList, ROOT, type ListPlan } from '../query/plan.ts';
import { countStatement, isQuick, pageStatement, plainRecord } from '../query/read.ts';
import { record } from '../query/record.ts';
import { openExport } from './export.ts';
import { meets, viewOf, type Caller, type ServedResource, type ServedResources } from './served.ts';

/** How the records of a page are written. */
export type PageFormat = 'json' | 'csv';

export interface Page {
  readonly query: ListQuery;
  /** The records as PostgreSQL wrote them: JSON with commas between them, or rows of CSV. */
  readonly objects: Buffer;
  readonly hasNext: boolean;
  /** How many records the filters match; only when it was asked for. */
  readonly total: string | undefined;
}

/** Reading many records of a resource; access levels are the caller's to check. */
export interface Listing {
  /** Whether the query would reach into a resource that not everyone may read, so that credentials make a difference. */
  readonly needsCaller: (resource: ServedResource, query: string) => boolean;
  /** @throws Problem 400 that names each parameter that cannot be used */
  readonly list: (
    resource: ServedResource,
    query: string,
    caller: Caller | undefined,
    counted: boolean,
    format?: PageFormat,
  ) => Promise<Page>;
  /**
   * All records that the filters match, in the order that the query asks for: a line of JSON each.
   * @throws Problem 400, 503 when too many are being read; nothing has been given by then
   */
  readonly stream: (
    resource: ServedResource,
    query: string,
    caller: Caller | undefined,
  ) => Promise<AsyncIterable<Buffer>>;
}

/** How many cursors the API may have open: fewer than there are, so that clients leave one to the admin area. */
const MOST_STREAMS = 3;

/** Text of a `json` column stands as it was sent, and may have line breaks between its tokens: nowhere else does JSON have any. */
const oneLine = (alias: string, { output }: ServedResource) =>
  output.some(({ type }) => type.input.json === 'json')
    ? sql`translate(${record(alias, output)}, e'\\n\\r', '  ')`
    : record(alias, output);

/** A stream has no pages; what asks for one must not be taken for a filter that was heard. */
function addPagingErrors(query: string, errors: FieldErrors): void {
  for (const { name } of parseParameters(query))
    if (name === 'limit' || name === 'page')
      addError(errors, name, 'cannot be used here: a stream has no pages');
}

export function createListing(
  database: Pick<Database, 'run' | 'cursor'>,
  resources: ServedResources,
): Listing {
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
      const [query, planned] = plan(resource, queryText, caller, {});
      const isShort = isQuick(planned);
      const isJson = format === 'json';
      const shown = isJson
        ? plainRecord(resource.output)
        : { value: csvRow(ROOT, resource.output), joins: EMPTY };
      // The first pages are few texts whatever clients ask for, as long as they leave the page size alone.
      const statement = {
        ...pageStatement(planned, shown, raw(isJson ? `','` : `''`)),
        fixed: isShort && isJson && query.limit === resource.limit,
      };
      const [[page], counts] = await Promise.all([
        database.run(statement, isShort ? 'quick' : 'work'),
        counted ? database.run(countStatement(planned), 'work') : undefined,
      ]);
      const total = counts && (text(counts[0]?.[0]) ?? '0');
      return { query, objects: page?.[0] ?? Buffer.alloc(0), hasNext: text(page?.[1]) === 't', total };
    },

    async stream(resource, queryText, caller) {
      const errors: FieldErrors = {};
      addPagingErrors(queryText, errors);
      const [, planned] = plan(resource, queryText, caller, errors);
      const statement = exportStatement(planned, (alias) => sql`${oneLine(alias, resource)} || e'\\n'`);
      return openExport(database, statement, { start: '', between: '', end: '' }, MOST_STREAMS);
    },
  };
}
