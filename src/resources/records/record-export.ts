import type { Database, RawRow } from '../../db/connection/database.ts';
import type { Statement } from '../../db/fragment.ts';

/** Rows that are fetched at once at most, and about how large a chunk is (bytes). More rows at once only cost memory. */
const ROWS_AT_ONCE = 100;
const CHUNK = 65_536;
/**
 * How long a client may take nothing (milliseconds): a cursor keeps PostgreSQL from cleaning up behind all others, and there
 * are but a few.
 */
const PATIENCE = 60_000;

/** What stands around and between the rows. */
export interface Frame {
  readonly start: string;
  readonly between: string;
  readonly end: string;
}

/** The body of a stream that is only asked for its head. */
export const NO_CHUNKS: AsyncIterable<Buffer> = {
  [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve({ done: true, value: undefined }) }),
};

/** Puts rows together to chunks of a size that is worth sending. */
async function* chunksOf(batches: AsyncIterable<RawRow[]>, frame: Frame): AsyncGenerator<Buffer> {
  const between = Buffer.from(frame.between);
  let parts: Buffer[] = [Buffer.from(frame.start)];
  let size = frame.start.length;
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
  yield Buffer.concat([...parts, Buffer.from(frame.end)]);
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
 * All rows of a statement, which has one column, as chunks of a body. They are read as they are taken; whoever gives them up,
 * or takes none for long, closes the cursor.
 * @param patience milliseconds
 * @throws what is wrong with the statement or the database, before there is a chunk; Problem 503 when too many are being read
 */
export async function openExport(
  database: Pick<Database, 'cursor'>,
  statement: Statement,
  frame: Frame,
  patience = PATIENCE,
): Promise<AsyncIterable<Buffer>> {
  const batches = database.cursor(statement, ROWS_AT_ONCE);
  const chunks = chunksOf(resumed(await batches.next(), batches), frame);
  let isGivenUp = false;
  let timer: NodeJS.Timeout | undefined;
  const close = async (): Promise<void> => {
    clearTimeout(timer);
    // A generator that was never asked for anything does not reach its `finally`, so the cursor is closed by itself.
    await chunks.return(undefined);
    await batches.return();
  };
  const wait = (): void => {
    timer = setTimeout(() => {
      isGivenUp = true;
      void close();
    }, patience).unref();
  };
  wait();
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () => {
        clearTimeout(timer);
        if (isGivenUp) throw new Error('a client took nothing of its export for too long');
        const chunk = await chunks.next();
        if (!chunk.done) wait();
        return chunk;
      },
      return: async () => {
        await close();
        return { done: true, value: undefined };
      },
    }),
  };
}
