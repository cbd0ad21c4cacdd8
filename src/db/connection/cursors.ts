import type postgres from 'postgres';
import { Problem, unavailable } from '../../errors.ts';
import { openDedicated, type OpenClient, type RawRow } from './driver.ts';
import type { Statement } from '../fragment.ts';
import { ClientGone, type Requester } from '../scheduling/requester.ts';
import { Slots } from '../scheduling/slots.ts';
import { Usage } from '../scheduling/client-usage.ts';

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
const BATCH_TIMEOUT = { anonymous: 10_000, user: 60_000, admin: 5 * 60_000 };
/** Milliseconds that PostgreSQL gets to report that a batch took too long; without an answer the connection is dead. */
const MARGIN = 5_000;

/**
 * While others wait for a stream, one whose client took less than this in the latest seconds ends. What the client's system has
 * buffered counts as taken.
 */
const CONTENDED = { bytesPerSecond: 64 * 1024, seconds: 2 };

interface Rate {
  /** Notes that the client has got so much, and must now take it. */
  readonly begin: (bytes: number) => void;
  /** Notes that the client has room for more. */
  readonly end: () => void;
  /** Whether the stream waits for its client, and has moved little lately. */
  readonly isSlow: () => boolean;
}

function watchRate(): Rate {
  let sent: { readonly at: number; readonly bytes: number }[] = [];
  let isWaiting = false;
  const begun = performance.now();
  const window = CONTENDED.seconds * 1000;
  const since = (from: number): void => {
    sent = sent.filter(({ at }) => at >= from);
  };
  return {
    begin: (bytes) => {
      isWaiting = true;
      const now = performance.now();
      if (sent.length > 0 && (sent[0]?.at ?? now) < now - window) since(now - window);
      // Batches that come fast are counted together, so that there are few.
      const last = sent.at(-1);
      if (last && now - last.at < 100) sent[sent.length - 1] = { at: last.at, bytes: last.bytes + bytes };
      else sent.push({ at: now, bytes });
    },
    end: () => {
      isWaiting = false;
    },
    isSlow: () => {
      const from = performance.now() - window;
      since(from);
      const bytes = sent.reduce((sum, one) => sum + one.bytes, 0);
      return isWaiting && begun < from && bytes < CONTENDED.bytesPerSecond * CONTENDED.seconds;
    },
  };
}

const slots = (): Slots =>
  new Slots({
    max: { anonymous: 3, user: 5, admin: 6 },
    perClient: { anonymous: 1, user: 1, admin: 2 },
    ownMessage: 'One of your streams is still running. Read it to its end first.',
    fullMessage: 'Too many streams and exports are running. Try again.',
    cooldownMessage: 'Your latest stream took long to find its first records. Ask for the next one later.',
  });

/**
 * How long an anonymous client rests after a stream, as a multiple of the time that PostgreSQL has searched for its records.
 * Without the rest it could ask again at once, and keep a processor of the database for good.
 */
const REST = 4;
/** A client whose streams were searched for no more than this lately (milliseconds, besides a share of the time) does not rest. */
const REST_FROM = 500;
/** A batch that took less (milliseconds) was there, and not searched for. */
const SEARCH_FROM = 50;
/** While others wait for a stream, one of an anonymous client that has searched for so long (milliseconds) ends. */
const LONG_SEARCH = 2_000;

const setTimeLimit = (milliseconds: number): string => `set local statement_timeout = ${milliseconds}`;

/**
 * @param slowTimeout milliseconds that PostgreSQL may take for the first batch of an anonymous client, as for a page: a costly
 * filter takes its time there
 * @returns reads the rows of a statement in batches, in a transaction of its own
 */
export function createCursors(open: OpenClient, slowTimeout: number) {
  const streams = slots();
  const searches = new Usage(REST_FROM);

  return async function* cursor(
    { text, values }: Statement,
    maxRows: number,
    requester: Requester,
  ): AsyncGenerator<RawRow[], void> {
    const { origin } = requester;
    const rate = watchRate();
    const giveWay = (): void => cut(unavailable('The stream was read slowly, and others wait.', 10));
    const isStranger = origin === 'anonymous';
    /** When the search for the next records began. */
    let searchingSince: number | undefined;
    let searched = 0;
    const noteSearch = (): void => {
      const took = performance.now() - (searchingSince ?? Infinity);
      searchingSince = undefined;
      if (took >= SEARCH_FROM) searched += took;
    };
    const isIdle = (): boolean =>
      rate.isSlow() || (isStranger && performance.now() - (searchingSince ?? Infinity) > LONG_SEARCH);
    const leave = await streams.enter(requester, { isIdle, end: giveWay });
    const connection = openDedicated(open);
    let isOver = false;
    const end = (): void => {
      if (!isOver && isStranger) rest();
      isOver = true;
      leave();
      clearTimeout(timer);
      stopListening();
    };
    /** Before the slot is given back, as the next request of the client may wait for it. */
    const rest = (): void => {
      const { key } = requester;
      noteSearch();
      if (searched === 0) return;
      const now = performance.now();
      searches.charge(key, searched, now);
      if (searches.isCostly(key, now)) streams.coolDown(key, REST * searched);
    };
    const cut = (reason: Error): void => {
      connection.abort(reason);
      end();
    };
    const timer = setTimeout(() => cut(unavailable('The stream took too long.', 10)), LIFETIME[origin]);
    const stopListening = requester.onGone(() => cut(new ClientGone()));
    try {
      const firstTimeout = isStranger ? slowTimeout : BATCH_TIMEOUT[origin];
      const limits = `${setTimeLimit(firstTimeout)}; set local idle_in_transaction_session_timeout = '90s'`;
      const run = <T>(start: (sql: postgres.Sql) => PromiseLike<T>): Promise<T> =>
        connection.run(start, BATCH_TIMEOUT[origin] + MARGIN);
      await connection.run((sql) => sql.unsafe(`begin read only; ${limits}`), BEGIN_TIMEOUT);
      await run((sql) => sql.unsafe(`declare c no scroll cursor for ${text}`, values as string[]));
      let isFirst = true;
      for (let count = Math.min(FIRST_ROWS, maxRows); ;) {
        searchingSince = performance.now();
        const rows: RawRow[] = await run((sql) => sql.unsafe(`fetch ${count} from c`).raw()).catch(
          (error: unknown) => {
            if (error instanceof Problem) searchingSince = undefined; // The database is away, and has searched for nothing.
            throw error;
          },
        );
        noteSearch();
        if (rows.length === 0) return;
        const bytes = rows.flat().reduce((sum, cell) => sum + (cell?.length ?? 0), 1);
        count = Math.min(maxRows, Math.max(1, Math.floor((rows.length * BATCH_BYTES) / bytes)));
        rate.begin(bytes);
        yield rows;
        rate.end();
        if (isStranger && isFirst) await run((sql) => sql.unsafe(setTimeLimit(BATCH_TIMEOUT[origin])));
        isFirst = false;
      }
    } finally {
      end();
      await connection.end(0);
    }
  };
}
