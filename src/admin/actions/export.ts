// Exports the records of a list as a CSV or JSON file.
import { asProblem } from '../../db/connection/database-errors.ts';
import type { Fragment } from '../../db/fragment.ts';
import type { Reply } from '../../http/message/message.ts';
import { ROOT } from '../../query/plan.ts';
import { streamStatement } from '../../query/read.ts';
import { csvRow } from '../../query/csv/csv-rows.ts';
import { relatedLabel } from '../../query/labels/labeled-record-sql.ts';
import { recordJson } from '../../query/statements/record-json.ts';
import type { Selection } from '../../query/selection.ts';
import { NO_CHUNKS, openExport, type Frame } from '../../resources/records/record-export.ts';
import { relatedOf } from '../fields/references.ts';
import { ListState } from '../web/list-state.ts';
import { isCodeDue } from '../session/password-confirmation.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { redirect } from '../web/admin-request.ts';
import { SAFE_HEADERS } from '../web/layout.ts';
import { links, selectionFacts, selectionOf, LinkParameters } from '../web/admin-links.ts';

/** CSV for Excel begins with a byte order mark; without it, Excel reads the file in an old encoding of the system. */
export type ExportFormat = 'csv' | 'excel.csv' | 'json' | 'shown.csv' | 'shown.excel.csv';

const NO_PARAMETERS = new LinkParameters([]);

/**
 * The columns of a CSV file with their titles. *As shown* has those that the list shows, after the key, so that an import finds the
 * records. A foreign key has another title where related records are named by their labels.
 */
export function exportedColumns(context: ResourceContext, isShown: boolean, parameters = NO_PARAMETERS) {
  const { output, model } = context.resource;
  const key = output.filter((column) => column === model.primaryKey);
  const shown = [...key, ...new ListState(context.resource, parameters).columns];
  return [...new Set(isShown ? shown : output)].map((column) => {
    const related = isShown ? relatedOf(column, context) : undefined;
    return { column, related, title: related ? column.name : column.key };
  });
}

/** What a file has of each record: all its columns; or those that the list shows, with the labels of related records. */
function contentsOf(
  context: ResourceContext,
  format: ExportFormat,
  parameters: LinkParameters,
): { readonly record: Fragment; readonly frame: Frame } {
  const { output, visibility } = context.resource;
  if (format === 'json')
    return { record: recordJson(ROOT, output), frame: { start: '[', between: ',\n', end: ']\n' } };
  const exported = exportedColumns(context, format.startsWith('shown'), parameters);
  const columns = exported.map(({ column }) => column);
  const labels = new Map(
    exported.flatMap(({ column, related }) =>
      related ? [[column, relatedLabel(column, related.label, visibility)] as const] : [],
    ),
  );
  const titles = exported.map(({ title }) => title).join();
  const start = `${format.endsWith('excel.csv') ? '\uFEFF' : ''}${titles}\r\n`;
  return { record: csvRow(ROOT, columns, labels), frame: { start, between: '', end: '' } };
}

/** Whether there are more records than are counted exactly, or too many to count in time. */
async function isLarge({ browsing, resource }: ResourceContext, selection: Selection): Promise<boolean> {
  try {
    return (await browsing.count(resource, selection)).precision !== 'exact';
  } catch (error) {
    if (asProblem(error)?.status !== 503) throw error;
    return true;
  }
}

/**
 * All records of a selection as a file, in the order of the list and on all its pages.
 * @param parameters of the list, which name the columns that it shows
 * @param isHead for a HEAD request, which needs no cursor
 * @returns a redirect, if the caller must give a code before an export of many records
 * @throws Problem 400 before the response starts
 */
export async function exportRecords(
  context: ResourceContext,
  selection: Selection,
  format: ExportFormat,
  parameters: LinkParameters,
  isHead = false,
): Promise<Reply> {
  const { browsing, database, resource, report } = context;
  const { name } = resource;
  if (isCodeDue(context) && (await isLarge(context, selection))) {
    const state = LinkParameters.parse(selection.query).with('_search', selection.search);
    const list = links.list(name, state);
    return redirect(`${links.page('confirm')}?next=${encodeURIComponent(list)}`);
  }
  const query = LinkParameters.parse(selection.query).without('limit', 'page').toString();
  const plan = browsing.plan(resource, { ...selection, query });
  const { record, frame } = contentsOf(context, format, parameters);
  const statement = streamStatement(plan, record);
  const recordExport = (rows: number, isWhole: boolean): void => {
    const facts = selectionFacts({ ...selection, query });
    const detail = { resource: name, format, ...facts, rows, whole: isWhole };
    void report('export', detail);
  };
  return {
    status: 200,
    headers: {
      'Content-Type': format === 'json' ? 'application/json' : 'text/csv; charset=utf-8; header=present',
      // A model name has only letters, digits and underscores, so it needs no escaping.
      'Content-Disposition': `attachment; filename="${name}.${format === 'json' ? 'json' : 'csv'}"`,
      ...SAFE_HEADERS,
    },
    body: isHead ? NO_CHUNKS : await openExport(database, statement, frame, recordExport),
  };
}

/** The records of the list with the query of the request, as a file. */
export function exportList(context: ResourceContext, format: ExportFormat): Promise<Reply> {
  const { query, method } = context.request;
  const parameters = LinkParameters.parse(query);
  return exportRecords(context, selectionOf(parameters), format, parameters, method === 'HEAD');
}
