import postgres from 'postgres';
import { openDedicated, type RawRow } from './driver.ts';
import type { Statement } from '../fragment.ts';
import type { Requester } from '../scheduling/requester.ts';
import { Slots } from '../scheduling/slots.ts';
import { isCut, isDatabaseError, LostWrite } from './database-errors.ts';

/** The rows of a statement, and the names of their columns where it has rows to give. */
export type RawRows = RawRow[] & { readonly columns?: readonly { readonly name: string }[] };

/** Runs one statement of a transaction. */
export type RunInTransaction = (text: string, values?: Statement['values']) => Promise<RawRows>;

/**
 * How long a transaction may take. Schema changes get the time that large tables need, and wait for their locks; bulk changes
 * get minutes; a panel of the start page gets seconds, and may change nothing.
 */
const LIMITS = {
  schema: 'set local statement_timeout = 0; set local lock_timeout = 0',
  bulk: "set local statement_timeout = '5min'; set local lock_timeout = '5s'; set local idle_in_transaction_session_timeout = '60s'",
  panel: "set transaction read only; set local statement_timeout = '3s'; set local lock_timeout = '1s'",
};

export type TransactionLimits = keyof typeof LIMITS;

/** Milliseconds after which PostgreSQL would have ended a statement, so that a missing answer means a dead connection. */
const TIMEOUTS: Readonly<Record<TransactionLimits, number | undefined>> = {
  schema: undefined,
  bulk: 6 * 60_000,
  panel: 10_000,
};

/** Milliseconds until a transaction must have begun, and until it must be rolled back. */
const BEGIN_TIMEOUT = 15_000;
const ROLLBACK_TIMEOUT = 5_000;

/** Keeps parameters whose type PostgreSQL infers as text; the driver would turn them into other values. */
const AS_TEXT = { to: 25, from: [16, 17, 114, 1082, 1114, 1184, 3802], serialize: String, parse: String };

/** Without values the driver would use the simple protocol, which takes several statements. Its type declarations leave this out. */
const ONE_STATEMENT = { prepare: false, simple: false } as postgres.UnsafeQueryOptions;

/** @throws LostWrite where the answer to the commit is missing: only the database knows whether it has happened */
async function commit(run: RunInTransaction): Promise<void> {
  try {
    await run('commit');
  } catch (error) {
    if (isDatabaseError(error) && !isCut(error)) throw error;
    throw new LostWrite(error as Error);
  }
}

/** @returns runs statements one after the other in one transaction on a dedicated connection; an error rolls it back */
export function createTransactions(url: string, options: postgres.Options<Record<string, never>>) {
  const slots = new Slots({
    max: { anonymous: 2, user: 4, admin: 8 },
    perClient: { anonymous: 1, user: 2, admin: 6 },
    ownMessage: 'Your changes of many records are still running. Wait for their end first.',
    fullMessage: 'Too many changes of many records are running. Try again.',
  });

  return async function transaction<T>(
    work: (run: RunInTransaction) => Promise<T>,
    limits: TransactionLimits,
    requester: Requester,
  ): Promise<T> {
    const leave = await slots.enter(requester);
    // The driver's own `begin` would send its rollback on a lost connection, which ends the process.
    const connection = openDedicated((onclose) =>
      postgres(url, { ...options, types: { text: AS_TEXT }, onclose }),
    );
    // The connection ends with the transaction, so what it has prepared does not stay.
    const run: RunInTransaction = (text, values = []) =>
      connection.run(
        (sql) => sql.unsafe(text, values as string[], { ...ONE_STATEMENT, prepare: values.length > 0 }).raw(),
        TIMEOUTS[limits],
      );
    try {
      await connection.run((sql) => sql.unsafe(`begin; ${LIMITS[limits]}`), BEGIN_TIMEOUT);
      const result = await work(run);
      await commit(run);
      return result;
    } catch (error) {
      await connection.run((sql) => sql.unsafe('rollback'), ROLLBACK_TIMEOUT).catch(() => undefined);
      throw error;
    } finally {
      leave();
      await connection.end(5);
    }
  };
}
