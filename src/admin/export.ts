import type { RawRow } from '../db/connection.ts';
import type { Reply } from '../http/message.ts';
import { csvRow, exportStatement } from '../query/csv.ts';
import { record } from '../query/record.ts';
import type { AdminResource } from '../resources/admin.ts';
import type { Selection } from '../resources/browse.ts';
import type { Desk } from './desk.ts';
import { SAFE_HEADERS } from './layout.ts';
import { Parameters } from './links.ts';

export type ExportFormat = 'csv' | 'json';

/** Rows that are fetched at once at most, and about how large a chunk of the file is (bytes). More rows at once only cost memory. */
const ROWS_AT_ONCE = 100;
const CHUNK = 65_536;

const TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: 'text/csv; charset=utf-8; header=present',
  json: 'application/json',
};

/** What stands around and between the rows of a file. */
interface Frame {
  readonly start: string;
  readonly between: Buffer;
  readonly end: string;
}

const frameOf = ({ output }: AdminResource, format: ExportFormat): Frame =>
  format === 'csv'
    ? { start: `${output.map(({ key }) => key).join()}\r\n`, between: Buffer.alloc(0), end: '' }
    : { start: '[', between: Buffer.from(',\n'), end: ']\n' };

/** Puts rows together to chunks of a size that is worth sending. */
async function* chunksOf(
  batches: AsyncIterable<RawRow[]>,
  { start, between, end }: Frame,
): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [Buffer.from(start)];
  let size = start.length;
  let isFirst = true;
  for await (const rows of batches) {
    for (const [row] of rows) {
      if (!row) continue;
      if (!isFirst) parts.push(between);
      isFirst = false;
      parts.push(row);
      size += row.length + between.length;
      if (size < CHUNK) continue;
      yield Buffer.concat(parts);
      parts = [];
      size = 0;
    }
  }
  yield Buffer.concat([...parts, Buffer.from(end)]);
}

/** The batches, the first of which has been read already. */
async function* resumed(
  first: IteratorResult<RawRow[], void>,
  batches: AsyncGenerator<RawRow[], void>,
): AsyncGenerator<RawRow[]> {
  if (first.done) return;
  yield first.value;
  yield* batches;
}

/**
 * All records of a selection as a file, in the order of its query and without its page.
 * @throws Problem 400, before anything is sent
 */
export async function exportRecords(
  { browsing, database }: Desk,
  resource: AdminResource,
  selection: Selection,
  format: ExportFormat,
): Promise<Reply> {
  const { name, output } = resource;
  const query = Parameters.parse(selection.query).without('limit', 'page').toString();
  const plan = browsing.plan(resource, { ...selection, query });
  const statement = exportStatement(plan, (alias) => (format === 'csv' ? csvRow : record)(alias, output));
  const batches = database.cursor(statement, ROWS_AT_ONCE);
  const chunks = chunksOf(resumed(await batches.next(), batches), frameOf(resource, format));
  return {
    status: 200,
    headers: {
      'Content-Type': TYPES[format],
      // The name of a model has letters, digits and underscores only.
      'Content-Disposition': `attachment; filename="${name}.${format}"`,
      ...SAFE_HEADERS,
    },
    body: {
      [Symbol.asyncIterator]: () => ({
        next: () => chunks.next(),
        return: async () => {
          // A generator that was never asked for anything does not reach its `finally`, so the cursor is closed by itself.
          await chunks.return(undefined);
          await batches.return();
          return { done: true, value: undefined };
        },
      }),
    },
  };
}
