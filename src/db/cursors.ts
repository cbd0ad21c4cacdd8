import type postgres from 'postgres';
import { unavailable } from '../errors.ts';
import { openDedicated, type OpenClient, type RawRow } from './driver.ts';
import type { Statement } from './fragment.ts';
import { ClientGone, type Requester } from './requester.ts';
import { Slots } from './slots.ts';

/** Bytes that a cursor reads at once, about, and how many rows it reads first, before it knows their size. */
const BATCH_BYTES = 65_536;
const FIRST_ROWS = 10;
/** Milliseconds until the transaction of a cursor must have begun. */
const BEGIN_TIMEOUT = 15_000;

/**
 * How long a stream may last (milliseconds), and how long PostgreSQL may take for one batch. A stream keeps PostgreSQL from
 * removing old row versions, and there are few of them.
 */
const LIFETIME = { anonymous: 10 * 60_000, user: 60 * 60_000, admin: 60 * 60_000 };
const BATCH_TIMEOUT = { anonymous: '10s', user: '60s', admin: '5min' };

const slots = (): Slots =>
  new Slots({
    most: { anonymous: 3, user: 5, admin: 6 },
    perClient: { anonymous: 1, user: 1, admin: 2 },
    ownMessage: 'One of your streams is still running. Read it to its end first.',
    fullMessage: 'Too many streams and exports are running. Try again.',
  });

/** @returns reads the rows of a statement in batches, in a transaction of its own */
export function createCursors(open: OpenClient) {
  const streams = slots();

  return async function* cursor(
    { text, values }: Statement,
    maxRows: number,
    requester: Requester,
  ): AsyncGenerator<RawRow[], void> {
    const { origin } = requester;
    const leave = await streams.enter(requester);
    const connection = openDedicated(open);
    const end = (): void => {
      leave();
      clearTimeout(timer);
      stopListening();
    };
    const abort = (reason: Error): void => {
      connection.abort(reason);
      end();
    };
    const timer = setTimeout(() => abort(unavailable('The stream took too long.', 10)), LIFETIME[origin]);
    const stopListening = requester.onGone(() => abort(new ClientGone()));
    try {
      const limits = `set local statement_timeout = '${BATCH_TIMEOUT[origin]}'; set local idle_in_transaction_session_timeout = '90s'`;
      const run = <T>(start: (sql: postgres.Sql) => PromiseLike<T>): Promise<T> => connection.run(start);
      await connection.run((sql) => sql.unsafe(`begin read only; ${limits}`), BEGIN_TIMEOUT);
      await run((sql) => sql.unsafe(`declare c no scroll cursor for ${text}`, values as string[]));
      for (let count = Math.min(FIRST_ROWS, maxRows); ;) {
        const rows: RawRow[] = await run((sql) => sql.unsafe(`fetch ${count} from c`).raw());
        if (rows.length === 0) return;
        const bytes = rows.flat().reduce((sum, cell) => sum + (cell?.length ?? 0), 1);
        count = Math.min(maxRows, Math.max(1, Math.floor((rows.length * BATCH_BYTES) / bytes)));
        yield rows;
      }
    } finally {
      end();
      await connection.end(0);
    }
  };
}
