// Streams the rows of a statement through a cursor, for exports of any size.
import type { Database } from '../../db/connection/database.ts';
import type { Statement } from '../../db/rows.ts';
import type { RecordPart } from '../../query/read.ts';

/** Maximum rows per fetch. More rows only cost memory. */
const ROWS_AT_ONCE = 100;
/** Approximate bytes of a chunk. */
const CHUNK_BYTES = 65_536;
/**
 * Milliseconds after which an export is closed when its client reads nothing. An open cursor blocks VACUUM, and only few can be
 * open.
 */
const CLIENT_TIMEOUT = 60_000;

/** The texts before, between and after the rows. */
export interface Frame {
  readonly start: string;
  readonly between: string;
  readonly end: string;
}

/** An empty stream, for HEAD requests. */
export const NO_CHUNKS: AsyncIterable<Buffer> = {
  [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve({ done: true, value: undefined }) }),
};

type Batches = AsyncGenerator<readonly RecordPart[], void>;

/**
 * Joins rows into chunks, so that each one is worth sending.
 * @param first batch, which was read already
 * @param count counts a row
 */
async function* chunksOf(
  first: Awaited<ReturnType<Batches['next']>>,
  batches: Batches,
  frame: Frame,
  count: () => void,
): AsyncGenerator<Buffer> {
  const between = Buffer.from(frame.between);
  let parts: Buffer[] = [Buffer.from(frame.start)];
  let size = frame.start.length;
  let isFirst = true;
  for (let batch = first; !batch.done; batch = await batches.next()) {
    for (const { bytes, isContinued } of batch.value) {
      if (!isFirst && !isContinued) parts.push(between);
      isFirst = false;
      if (!isContinued) count();
      parts.push(bytes);
      size += bytes.length + between.length;
      if (size < CHUNK_BYTES) continue;
      yield Buffer.concat(parts);
      parts = [];
      size = 0;
    }
  }
  yield Buffer.concat([...parts, Buffer.from(frame.end)]);
}

/**
 * Streams the texts of a statement's rows as chunks of a body. Rows are fetched as the client reads. The cursor closes when
 * the client stops, or reads nothing until the timeout.
 * @param ended gets the number of rows that were sent, and whether these are all
 * @param timeout milliseconds
 * @throws database errors and Problem 503 for too many open streams, always before the first chunk
 */
export async function openExport(
  database: Pick<Database, 'cursor'>,
  statement: Statement<readonly RecordPart[]>,
  frame: Frame,
  ended: (rows: number, isWhole: boolean) => void = () => undefined,
  timeout = CLIENT_TIMEOUT,
): Promise<AsyncIterable<Buffer>> {
  const batches = database.cursor(statement, ROWS_AT_ONCE);
  let rows = 0;
  let hasEnded = false;
  const end = (isWhole: boolean): void => {
    if (!hasEnded) ended(rows, isWhole);
    hasEnded = true;
  };
  const chunks = chunksOf(await batches.next(), batches, frame, () => (rows += 1));
  let hasTimedOut = false;
  let timer: NodeJS.Timeout | undefined;
  const close = async (): Promise<void> => {
    clearTimeout(timer);
    end(false);
    // A generator that never ran skips its `finally`, so the cursor is closed explicitly.
    await chunks.return(undefined);
    await batches.return();
  };
  const wait = (): void => {
    timer = setTimeout(() => {
      hasTimedOut = true;
      void close();
    }, timeout).unref();
  };
  wait();
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () => {
        clearTimeout(timer);
        if (hasTimedOut) throw new Error(`the client read nothing of its export for ${timeout} ms`);
        const chunk = await chunks.next();
        if (chunk.done) end(true);
        else wait();
        return chunk;
      },
      return: async () => {
        await close();
        return { done: true, value: undefined };
      },
    }),
  };
}
