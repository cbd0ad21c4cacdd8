// Events: what happened besides changes of records. Each is a line of the log, and a row of `vitrine_event`.
import type { Database } from '../../db/connection/database.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import type { Model } from '../../db/schema/model.ts';
import { eventStatement } from '../../query/statements/system-statements.ts';

// prettier-ignore
export type EventName =
  | 'login' | 'login.failed' | 'login.throttled' | 'logout' | 'session.ended'
  | 'second-factor.set' | 'second-factor.reset' | 'second-factor.used-recovery' | 'password.link' | 'password.set'
  | 'token.made' | 'token.used' | 'token.revoked'
  | 'export' | 'import' | 'bulk.change' | 'bulk.delete' | 'action' | 'command' | 'history.broken';

/** Who caused an event, from where, and what else there is to say. */
export interface EventFacts {
  readonly user?: { readonly id: string; readonly name: string } | undefined;
  readonly address?: string | undefined;
  /** The id of the request. */
  readonly request?: string | undefined;
  readonly detail?: Readonly<Record<string, unknown>> | undefined;
}

/** The facts of an event that a request causes. */
export const factsOf = (
  request: { readonly id: string; readonly client: () => { readonly network: string } },
  user: EventFacts['user'],
  detail?: EventFacts['detail'],
): EventFacts => ({ user, address: request.client().network, request: request.id, detail });

/**
 * Records an event. This never fails, and no request waits for it. In a transaction, the event is there exactly if what the
 * transaction does is, too.
 */
export type RecordEvent = (
  name: EventName,
  facts: EventFacts,
  transaction?: Pick<Transaction, 'run'>,
) => Promise<void>;

/** Milliseconds in which an event that clients can cause at will is recorded at first, and once more with the number of the others. */
const INTERVAL = 60_000;
/** Maximum users and addresses that are counted separately in that time. */
const MAX_COUNTED = 100;

export interface Events {
  readonly recordEvent: RecordEvent;
  /** Stores an event without a line of the log. */
  readonly storeEvent: RecordEvent;
  /** Records an event that clients can cause at will, such as a failed login, so that they cannot fill the database. */
  readonly countEvent: (name: EventName, facts: EventFacts) => void;
}

/**
 * @param table undefined if the database has none: then events are only logged
 * @param log writes a line of the log
 */
export function createEvents(
  database: Database,
  table: Model | undefined,
  log: (fields: Readonly<Record<string, unknown>>) => void,
): Events {
  const storeEvent: RecordEvent = async (name, { user, address, request, detail }, transaction) => {
    if (!table) return;
    const values = [name, user?.id, user?.name, address, request, detail && JSON.stringify(detail)];
    const statement = eventStatement(table, values.map((one) => one ?? null)); // prettier-ignore
    await (transaction
      ? transaction.run(statement)
      : database.run(statement, 'write').catch(() => undefined));
  };
  const recordEvent: RecordEvent = async (name, facts, transaction) => {
    await storeEvent(name, facts, transaction);
    const { user, address, request, detail } = facts;
    log({ event: name, user: user?.name ?? null, address, id: request, detail });
  };

  /** How often each event has happened since it was recorded. */
  const counts = new Map<string, number>();
  function countEvent(name: EventName, facts: EventFacts): void {
    const own = [name, facts.address, facts.user?.id].join(' ');
    const isSeparate = counts.has(own) || counts.size < MAX_COUNTED;
    const key = isSeparate ? own : name;
    const counted = isSeparate ? facts : { detail: { address: 'others' } };
    const count = counts.get(key);
    counts.set(key, (count ?? -1) + 1);
    if (count !== undefined) return;
    void recordEvent(name, counted);
    const recordOthers = (): void => {
      const times = counts.get(key) ?? 0;
      counts.delete(key);
      if (times > 0) void recordEvent(name, { ...counted, detail: { ...counted.detail, times } });
    };
    setTimeout(recordOthers, INTERVAL).unref();
  }
  return { recordEvent, storeEvent, countEvent };
}
