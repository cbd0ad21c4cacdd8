// Exports the records of a list as a CSV or JSON file.
import { asProblem } from '../../db/connection/database-errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { ROOT } from '../../query/plan.ts';
import { streamStatement } from '../../query/read.ts';
import { csvRow } from '../../query/csv/csv-rows.ts';
import { recordJson } from '../../query/statements/record-json.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { Selection } from '../../query/selection.ts';
import { NO_CHUNKS, openExport, type Frame } from '../../resources/records/record-export.ts';
import { isCodeDue } from '../session/password-confirmation.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { redirect } from '../web/admin-request.ts';
import { SAFE_HEADERS } from '../web/layout.ts';
import { links, selectionFacts, selectionOf, LinkParameters } from '../web/admin-links.ts';

/** CSV for Excel begins with a byte order mark; without it, Excel reads the file in an old encoding of the system. */
export type ExportFormat = 'csv' | 'excel.csv' | 'json';

const frameOf = ({ output }: AdminView, format: ExportFormat): Frame => {
  if (format === 'json') return { start: '[', between: ',\n', end: ']\n' };
  const names = output.map(({ key }) => key).join();
  return { start: `${format === 'csv' ? '' : '\uFEFF'}${names}\r\n`, between: '', end: '' };
};

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
 * @param isHead for a HEAD request, which needs no cursor
 * @returns a redirect, if the caller must give a code before an export of many records
 * @throws Problem 400 before the response starts
 */
export async function exportRecords(
  context: ResourceContext,
  selection: Selection,
  format: ExportFormat,
  isHead = false,
): Promise<Reply> {
  const { browsing, database, resource, report } = context;
  const { name, output } = resource;
  if (isCodeDue(context) && (await isLarge(context, selection))) {
    const state = LinkParameters.parse(selection.query).with('_search', selection.search);
    const list = links.list(name, state);
    return redirect(`${links.page('confirm')}?next=${encodeURIComponent(list)}`);
  }
  const query = LinkParameters.parse(selection.query).without('limit', 'page').toString();
  const plan = browsing.plan(resource, { ...selection, query });
  const statement = streamStatement(plan, (format === 'json' ? recordJson : csvRow)(ROOT, output));
  const recordExport = (rows: number, isWhole: boolean): void => {
    const detail = {
      resource: name,
      format,
      ...selectionFacts({ ...selection, query }),
      rows,
      whole: isWhole,
    };
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
    body: isHead ? NO_CHUNKS : await openExport(database, statement, frameOf(resource, format), recordExport),
  };
}

/** The records of the list with the query of the request, as a file. */
export function exportList(context: ResourceContext, format: ExportFormat): Promise<Reply> {
  const { query, method } = context.request;
  const selection = selectionOf(LinkParameters.parse(query));
  return exportRecords(context, selection, format, method === 'HEAD');
}
