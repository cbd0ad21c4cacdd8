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

/** Milliseconds in which the first events of a kind are recorded one by one, and then the number of the others. */
const INTERVAL = 60_000;
/** How many are recorded one by one for each user, or each address without one. Those of tokens are as frequent as programs like. */
const MAX_EACH = 20;
const MAX_OF_TOKENS = 1;
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
  const record: RecordEvent = async (name, facts, transaction) => {
    await storeEvent(name, facts, transaction);
    const { user, address, request, detail } = facts;
    log({ event: name, user: user?.name ?? null, address, id: request, detail });
  };

  /** Records the first events of a key, and then how many followed in the interval. @param common what the record of these says */
  async function recordFirst(
    [counts, key, most]: readonly [counts: Map<string, number>, key: string, most: number],
    name: EventName,
    facts: EventFacts,
    common?: EventFacts['detail'],
  ): Promise<void> {
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    const recordOthers = (): void => {
      const times = (counts.get(key) ?? 0) - most;
      counts.delete(key);
      if (times > 0) void record(name, { ...facts, detail: { ...common, times } });
    };
    if (count === 1) setTimeout(recordOthers, INTERVAL).unref();
    if (count <= most) await record(name, facts);
  }

  const ofUsers = new Map<string, number>();
  const recordEvent: RecordEvent = (name, facts, transaction) => {
    // What a transaction does is limited by itself: it reads a form, and writes records.
    if (transaction) return record(name, facts, transaction);
    const most = name.startsWith('token.') ? MAX_OF_TOKENS : MAX_EACH;
    return recordFirst([ofUsers, `${name} ${facts.user?.id ?? facts.address}`, most], name, facts);
  };

  const ofAnyone = new Map<string, number>();
  function countEvent(name: EventName, facts: EventFacts): void {
    const own = [name, facts.address, facts.user?.id].join(' ');
    const isSeparate = ofAnyone.has(own) || ofAnyone.size < MAX_COUNTED;
    const counted = isSeparate ? facts : { detail: { address: 'others' } };
    void recordFirst([ofAnyone, isSeparate ? own : name, 1], name, counted, counted.detail);
  }
  return { recordEvent, storeEvent, countEvent };
}
