// Runs statements in a transaction, on a dedicated connection.
import {
  countLosses,
  openDedicated,
  sendStatement,
  type DedicatedConnection,
  type OpenClient,
  type RawRows,
} from './driver.ts';
import { type BoundSql } from '../fragment.ts';
import { type Statement } from '../rows.ts';
import { RESET_IN_TRANSACTION } from '../session-state.ts';
import { ClientGone, isClientGone, type Requester } from '../lanes/requester.ts';
import { Lane } from '../lanes/lane.ts';
import { isConnectionError, isDatabaseError, LostWrite } from './database-errors.ts';
import { messageOf } from '../../messages.ts';

/** Runs statements one after the other in one transaction. */
export interface Transaction {
  readonly run: <T>(statement: Statement<T>) => Promise<T>;
  /** Runs SQL that is no `Statement`: a savepoint, a setting, a change of the schema, a panel's query. */
  readonly send: (text: string, values?: BoundSql['values']) => Promise<RawRows>;
}

/** Statements that undo a part of a transaction. */
export const SAVEPOINT = {
  set: 'savepoint part',
  rollBack: 'rollback to savepoint part',
  release: 'release savepoint part',
};
/** Checks deferred constraints, and from then on with each statement. */
export const CHECK_AT_ONCE = 'set constraints all immediate';

/**
 * Checks deferred constraints after the work, so that its records may swap values. If that fails, the work is done again with a check
 * after each statement, whose error belongs to its record.
 */
export async function checkedAtEnd<T>(
  { send }: Pick<Transaction, 'send'>,
  work: () => Promise<T>,
): Promise<T> {
  await send('savepoint whole');
  const done = await work();
  try {
    await send(CHECK_AT_ONCE);
    return done;
  } catch (error) {
    if (!isDatabaseError(error) || isConnectionError(error)) throw error;
  }
  await send('rollback to savepoint whole');
  await send(CHECK_AT_ONCE);
  return work();
}

/** PostgreSQL would compile the long statements that read the catalog, which takes seconds, and run them in milliseconds. */
const WITHOUT_JIT = 'set local jit = off';
/** The start reads the catalog up to three times, and planning takes ten times as long as reading. */
const PLANNED_ONCE = 'set local plan_cache_mode = force_generic_plan';

/**
 * The settings of a transaction by its purpose. Schema changes have no timeouts, as large tables take long. What reads the
 * catalog or a panel of the start page is read-only, and the statements that read the catalog see one state of it.
 */
const LIMITS = {
  schema: `set local statement_timeout = 0; set local lock_timeout = 0; ${WITHOUT_JIT}; ${PLANNED_ONCE}`,
  catalog: `set transaction isolation level repeatable read, read only; set local statement_timeout = '60s'; ${WITHOUT_JIT}; ${PLANNED_ONCE}`,
  bulk: "set local statement_timeout = '5min'; set local lock_timeout = '5s'; set local idle_in_transaction_session_timeout = '60s'",
  panel: "set transaction read only; set local statement_timeout = '3s'; set local lock_timeout = '1s'",
};

export type TransactionLimits = keyof typeof LIMITS;

/** Milliseconds after which PostgreSQL would have ended a statement: without an answer by then, the connection is dead. */
const TIMEOUTS: Readonly<Record<TransactionLimits, number | undefined>> = {
  schema: undefined,
  catalog: 70_000,
  bulk: 6 * 60_000,
  panel: 10_000,
};

/** Panels have a lane of their own, so that neither they nor bulk changes keep the others from running. */
const LANES = {
  changes: {
    connections: 8,
    maxOf: { anonymous: 2, user: 4 },
    maxWait: 10_000,
    own: messageOf('tooManyOwnChanges'),
    full: messageOf('tooManyChanges'),
  },
  // Each panel is a client, and waits as long as another one may take.
  panels: {
    connections: 4,
    maxWait: 5_000,
    full: messageOf('tooManyPanels'),
  },
};
/** Milliseconds that BEGIN and ROLLBACK may take. */
const BEGIN_TIMEOUT = 15_000;
const ROLLBACK_TIMEOUT = 5_000;

/** Milliseconds for which a connection that has read or changed the schema waits for the next such transaction. */
const KEPT_FOR = 1_000;

/** Longer texts are those of single statements, of which PostgreSQL would keep some 10 MB each. */
const MAX_PREPARED_TEXT = 32 * 1024;

const isOfSchema = (limits: TransactionLimits): boolean => limits === 'catalog' || limits === 'schema';
const isReadOnly = (limits: TransactionLimits): boolean => limits === 'catalog' || limits === 'panel';

/** @throws LostWrite if the answer to the commit of a write is lost, so that the outcome is unknown */
async function commit({ send }: Transaction, limits: TransactionLimits): Promise<void> {
  try {
    await send('commit');
  } catch (error) {
    const isRefused = isDatabaseError(error) && !isConnectionError(error);
    if (isReadOnly(limits) || isClientGone(error) || isRefused) throw error;
    throw new LostWrite(error as Error);
  }
}

/** Keeps one connection between transactions on the schema, with its prepared statements. */
function createKeeper(open: OpenClient) {
  let kept: DedicatedConnection | undefined;
  let timer: NodeJS.Timeout | undefined;
  const take = (): DedicatedConnection | undefined => {
    const connection = kept;
    clearTimeout(timer);
    kept = undefined;
    return connection;
  };
  const close = async (): Promise<void> => take()?.end(5);
  const closeLater = (): void => void close().catch(() => undefined);
  return {
    open: (): DedicatedConnection => {
      if (kept?.isLost()) closeLater();
      return take() ?? openDedicated(open);
    },
    keep: (connection: DedicatedConnection): void => {
      closeLater();
      kept = connection;
      timer = setTimeout(closeLater, KEPT_FOR).unref();
    },
    close,
  };
}

/** Runs statements in one transaction on a dedicated connection. An error rolls it back, and so does a client that disconnects. */
export interface Transactions {
  readonly run: <T>(
    work: (transaction: Transaction) => Promise<T>,
    limits: TransactionLimits,
    requester: Requester,
  ) => Promise<T>;
  readonly close: () => Promise<void>;
}

/**
 * @param isDirect whether no pooler gives the server's connection to others between two transactions
 */
export function createTransactions(open: OpenClient, isDirect: boolean): Transactions {
  const changes = new Lane(LANES.changes);
  const panels = new Lane(LANES.panels);
  const keeper = createKeeper(open);
  let isClosed = false;

  const run: Transactions['run'] = async (work, limits, requester) => {
    const mayRepeat = isReadOnly(limits) ? countLosses() : undefined;
    for (;;)
      try {
        return await runOnce(work, limits, requester);
      } catch (error) {
        if (!mayRepeat?.(error)) throw error;
      }
  };

  const runOnce: Transactions['run'] = async (work, limits, requester) => {
    const leave = await (limits === 'panel' ? panels : changes).enter(requester);
    const isKept = isDirect && isOfSchema(limits);
    // On a lost connection, the rollback of the driver's own `begin` would end the process.
    const connection = isKept ? keeper.open() : openDedicated(open);
    let isCommitted = false;
    const stopListening = requester.onGone(() => connection.abort(new ClientGone()));
    // Preparing is safe without a limit of their number: the connection ends with the transaction.
    const send: Transaction['send'] = (text, values = []) => {
      const isPrepared = values.length > 0 && text.length <= MAX_PREPARED_TEXT;
      return connection.run((sql) => sendStatement(sql, { text, values }, isPrepared), TIMEOUTS[limits]);
    };
    let isFirst = true;
    const sendNext = async ({ text, values }: BoundSql): Promise<RawRows> => {
      if (!isFirst) {
        // If it fails, the transaction is aborted, and so the statement fails, too.
        const reset = connection.run((sql) => sql.unsafe(RESET_IN_TRANSACTION)).catch(() => undefined);
        if (!isDirect) await reset;
      }
      isFirst = false;
      return send(text, values);
    };
    const running: Transaction = {
      run: async ({ decode, followUp, ...statement }) => {
        const rows = await sendNext(statement);
        const next = followUp?.(rows);
        if (!next) return decode(rows);
        const merged = next.merge(await sendNext(next.statement));
        const last = next.last?.(merged);
        if (last) await sendNext(last);
        return decode(merged);
      },
      send,
    };
    try {
      await connection.run(
        (sql) => sql.unsafe(`${RESET_IN_TRANSACTION}; begin; ${LIMITS[limits]}`),
        BEGIN_TIMEOUT,
      );
      const result = await work(running);
      await commit(running, limits);
      isCommitted = true;
      return result;
    } catch (error) {
      await connection.run((sql) => sql.unsafe('rollback'), ROLLBACK_TIMEOUT).catch(() => undefined);
      throw error;
    } finally {
      stopListening();
      leave();
      if (isKept && isCommitted && !isClosed) keeper.keep(connection);
      else await connection.end(5);
    }
  };

  const close = (): Promise<void> => {
    isClosed = true;
    return keeper.close();
  };
  return { run, close };
}
