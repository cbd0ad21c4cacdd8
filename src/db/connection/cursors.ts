// Reads large results in batches, through PostgreSQL cursors: the streams and exports.
import type postgres from 'postgres';
import { unavailable } from '../../errors.ts';
import { Lane, type LaneState } from '../lanes/lane.ts';
import { type RawRow, type Statement } from '../rows.ts';
import { ClientGone, type Requester } from '../lanes/requester.ts';
import { RESET_IN_TRANSACTION } from '../session-state.ts';
import { countLosses, openDedicated, type OpenClient } from './driver.ts';
import { assertReached, type ServerGuard } from './server-guard.ts';
import { messageOf } from '../../messages.ts';

/** Approximate size of a batch (bytes). */
const BATCH_BYTES = 65_536;
/** Rows in the first batch, when their size is not known yet. */
const FIRST_ROWS = 10;
/** Each kind of client has some connections that the ones before it cannot take. */
const LIMITS = {
  connections: 6,
  maxOf: { anonymous: 3, user: 5 },
  maxWait: 4_000,
  own: messageOf('tooManyOwnStreams'),
  full: messageOf('tooManyStreams'),
};

/** Maximum duration of a stream (milliseconds). Streams are few, and each keeps PostgreSQL from removing old row versions. */
const LIFETIME = { anonymous: 10 * 60_000, user: 60 * 60_000, admin: 60 * 60_000 };
/** Milliseconds that PostgreSQL may take for one batch. */
const BATCH_TIMEOUT = { anonymous: 10_000, user: 60_000, admin: 5 * 60_000 };
/** Milliseconds after the batch timeout until PostgreSQL must have answered. Otherwise the connection is dead. */
const TIMEOUT_MARGIN = 5_000;
/** Milliseconds that BEGIN may take. */
const BEGIN_TIMEOUT = 15_000;

/**
 * While another client waits for a stream, one ends whose client has not taken a batch for this long, or whose search for an
 * anonymous client takes longer (milliseconds). The buffers of the network take some batches at once.
 */
const MAX_IDLE = 2_000;

const setTimeLimit = (milliseconds: number): string => `set local statement_timeout = ${milliseconds}`;

export interface CursorOptions {
  readonly open: OpenClient;
  /** Milliseconds that the first batch of an anonymous client may take. */
  readonly slowTimeout: number;
  /** For a replica. */
  readonly guard?: ServerGuard | undefined;
}

export class Cursors {
  readonly #lane = new Lane(LIMITS);
  readonly #options: CursorOptions;

  constructor(options: CursorOptions) {
    this.#options = options;
  }

  get state(): LaneState {
    return this.#lane.state;
  }

  /** The rows of a statement in batches, read in a transaction on a dedicated connection. See `Database.cursor`. */
  async *read<T>(
    { text, values, decode, preamble }: Statement<T>,
    maxRows: number,
    requester: Requester,
  ): AsyncGenerator<T, void> {
    const { open, slowTimeout, guard } = this.#options;
    const { clientKind } = requester;
    const isAnonymous = clientKind === 'anonymous';
    /** Since when it searches for an anonymous client, or its client takes a batch. */
    let since = Infinity;
    const holder = {
      mayEnd: () => performance.now() - since > MAX_IDLE,
      end: () => abort(unavailable(messageOf('slowStream'), 10)),
    };
    const leave = await this.#lane.enter(requester, undefined, holder);
    let connection = openDedicated(open);
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      leave();
      clearTimeout(timer);
      stopListening();
    };
    const abort = (reason: Error): void => {
      end();
      connection.abort(reason);
    };
    const timer = setTimeout(() => abort(unavailable(messageOf('longStream'), 10)), LIFETIME[clientKind]);
    const stopListening = requester.onGone(() => abort(new ClientGone()));
    try {
      // As for a page: a costly filter makes this batch slow.
      const firstTimeout = isAnonymous ? slowTimeout : BATCH_TIMEOUT[clientKind];
      const timeouts = `${setTimeLimit(firstTimeout)}; set local idle_in_transaction_session_timeout = '90s'; set local jit = off`;
      const run = <T>(start: (sql: postgres.Sql) => PromiseLike<T>): Promise<T> =>
        connection.run(start, BATCH_TIMEOUT[clientKind] + TIMEOUT_MARGIN);
      const fetch = (count: number): Promise<RawRow[]> => {
        since = isAnonymous ? performance.now() : Infinity;
        // The rows of a batch may have changed the settings.
        return run((sql) => sql.unsafe(`fetch ${count} from c; ${RESET_IN_TRANSACTION}`).raw());
      };
      const mayRepeat = guard ? undefined : countLosses();
      let count = Math.min(FIRST_ROWS, maxRows);
      /** Opens the cursor, and reads the first batch. */
      const begin = async (): Promise<RawRow[]> => {
        try {
          await connection.run((sql) => sql.unsafe(`begin read only; ${timeouts}`), BEGIN_TIMEOUT);
          if (guard) await run((sql) => assertReached(sql, guard));
          if (preamble !== undefined) await run((sql) => sql.unsafe(preamble));
          await run((sql) => sql.unsafe(`declare c no scroll cursor for ${text}`, values as string[]));
          return await fetch(count);
        } catch (error) {
          if (isOver || !mayRepeat?.(error)) throw error;
          void connection.end(0);
          connection = openDedicated(open);
          return begin();
        }
      };
      let isFirst = true;
      for (let rows = await begin(); rows.length > 0; rows = await fetch(count)) {
        const isLast = rows.length < count;
        const bytes = rows.flat().reduce((sum, cell) => sum + (cell?.length ?? 0), 1);
        const fitting = Math.floor((rows.length * BATCH_BYTES) / bytes);
        // The next records may be much larger than these.
        count = Math.min(maxRows, 2 * rows.length, Math.max(1, fitting));
        since = performance.now();
        yield decode(rows);
        if (isLast) return;
        if (isAnonymous && isFirst) await run((sql) => sql.unsafe(setTimeLimit(BATCH_TIMEOUT[clientKind])));
        isFirst = false;
      }
    } finally {
      end();
      await connection.end(0);
    }
  }
}
