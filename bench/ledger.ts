// A ledger of writes and their answers, and its comparison with the tables and the history.
import { hash } from '@node-rs/argon2';
import type { Sql } from 'postgres';
import { basic, PASSWORD } from './client.ts';
import { sessions } from './postgres.ts';
import { until } from './processes.ts';
import type { Service } from './service.ts';

/** What a client knows of its write: a success, an error that means "not made", or neither. */
export type Belief = 'made' | 'not made' | 'unknown';

/**
 * Why a write did not succeed. `busy`: a 429, or a 503 that means "not made". `lost`: a 503 that says that it is not known.
 * `cut`: the connection broke after the request was sent. `reset`: so did a new connection, which the service may never have
 * accepted. `refused`: the request was never sent. `conflict`: 412, or 404 of a DELETE.
 * `left`: the client closed its connection on purpose.
 */
export type Failure = 'busy' | 'lost' | 'cut' | 'reset' | 'refused' | 'conflict' | 'left' | 'unexpected';

export type Model = 'entry' | 'counter';
/** The columns of a record; those that a write names. */
export type Values = Readonly<Record<string, string | number>>;

export interface Operation {
  /** Unique; each POST and PUT writes it into the record. */
  readonly token: string;
  readonly model: Model;
  readonly action: 'create' | 'update' | 'delete';
  /** The key; of a POST known after its success only. */
  record: string | undefined;
  readonly values: Values;
  /** The token of the write with an unknown outcome that this one repeats, with the same `If-Match`. */
  readonly repeats?: string | undefined;
  /** Logical times, from one clock for all clients. */
  readonly started: number;
  ended: number;
  belief: Belief;
  failure?: Failure | undefined;
  /** For people: status and detail, or the error. */
  answer: string;
}

/** All writes of a round, in the order in which they were sent. */
export interface Ledger {
  readonly operations: Operation[];
  /** Answers that do not fit their request: another record, other values than those acknowledged. */
  readonly mixups: string[];
  /** Reads that were answered with 200, and the answers to the others. */
  reads: number;
  readonly failedReads: string[];
  readonly begin: (
    operation: Pick<Operation, 'model' | 'action' | 'record' | 'repeats'> & {
      readonly values: (token: string) => Values;
    },
  ) => Operation;
  /** Notes the end of a write. */
  readonly end: (operation: Operation, outcome: Pick<Operation, 'belief' | 'failure' | 'answer'>) => void;
}

/** @param round distinguishes the tokens of this round from all others */
export function createLedger(round: string): Ledger {
  const operations: Operation[] = [];
  let clock = 0;
  return {
    operations,
    mixups: [],
    reads: 0,
    failedReads: [],
    begin({ model, action, record, repeats, values }) {
      const started = (clock += 1);
      const token = `${round}-${started}`;
      const operation: Operation = {
        token,
        model,
        action,
        record,
        repeats,
        values: values(token),
        started,
        ended: Infinity,
        belief: 'unknown',
        answer: '',
      };
      operations.push(operation);
      return operation;
    },
    end(operation, outcome) {
      operation.ended = clock += 1;
      Object.assign(operation, outcome);
    },
  };
}

/** A text that shows whether all of it was written by one write. */
export const payloadOf = (token: string, repetitions: number): string => `${token}/`.repeat(repetitions);

/** An entry of the service's own history. */
export interface HistoryEntry {
  readonly id: string;
  readonly user: string | null;
  readonly door: string;
  readonly action: string;
  readonly model: string;
  readonly record: string;
  /** JSON. */
  readonly before: string | null;
  readonly after: string | null;
}

export const USER = 'faults';

export const AUTHORIZATION = basic(USER);

/** The state of a counter before a round. */
const initialCounter = (id: string): Values => ({ id: Number(id), token: `start ${id}`, value: 0 });

const parse = (text: string | null) => (text === null ? undefined : (JSON.parse(text) as Values));

const isPart = (part: Values, whole: Values): boolean =>
  Object.entries(part).every(([key, value]) => whole[key] === value);

/**
 * Applies the history from its beginning, and checks each entry against the write that it belongs to.
 * @param fault takes what is wrong with the history
 * @returns how often each write was made, by its token (deletes by `delete <model> <record>`), and the last state of each record
 */
function replay(
  operations: readonly Operation[],
  history: readonly HistoryEntry[],
  fault: (text: string) => void,
) {
  const byToken = new Map(operations.map((operation) => [operation.token, operation]));
  const made = new Map<string, number>();
  const states = new Map<string, Values>();
  /** The latest start of the writes that each record has seen so far. */
  const latest = new Map<string, number>();

  /** What one entry says of the record, or why it cannot be. */
  function apply(entry: HistoryEntry, state: Values | undefined): string | undefined {
    const { action, record, model } = entry;
    const [before, after] = [parse(entry.before), parse(entry.after)];
    const key = `${model} ${record}`;
    if (action === 'delete') {
      states.delete(key);
      if (!state) return 'deletes a record that is not there';
      return before && !after && isPart(state, before) ? undefined : 'does not have the deleted values';
    }
    const operation = byToken.get(String(after?.['token']));
    states.set(key, { ...state, ...after });
    if (!operation || !after) return 'is of no write';
    if (operation.action !== action || operation.model !== model) return 'has another action or model';
    if (operation.record !== undefined && operation.record !== record) return 'has another record';
    operation.record = record;
    if (!isPart(after, { ...operation.values, id: Number(record) })) return 'has other values than were sent';
    if (action === 'create')
      return before || state || !isPart(operation.values, after) ? 'does not have the new values' : undefined;
    if (!state || !before) return 'changes a record that is not there';
    if (!isPart(before, state)) return 'has other values before than the entry before it has after';
    if (Object.keys(before).join() !== Object.keys(after).join())
      return 'has different columns before and after';
    if (!isPart(operation.values, { ...state, ...after })) return 'lacks a change';
    return model === 'counter' && Number(after['value']) !== Number(before['value']) + 1
      ? 'increments by another number than 1'
      : undefined;
  }

  for (const entry of history) {
    const { action, model, record, user, door } = entry;
    const key = `${model} ${record}`;
    const state = states.get(key) ?? (model === 'counter' ? initialCounter(record) : undefined);
    const wrong = apply(entry, state);
    const shown = `${action} of ${key} (entry ${entry.id})`;
    if (wrong !== undefined) fault(`${shown} ${wrong}`);
    if (user !== USER || door !== 'api') fault(`${shown} is by ${user} through ${door}`);
    const token = action === 'delete' ? `delete ${key}` : String(parse(entry.after)?.['token']);
    made.set(token, (made.get(token) ?? 0) + 1);
    const operation = byToken.get(token);
    if (!operation) continue;
    const sent = latest.get(key) ?? 0;
    // A write that was acknowledged before another one was sent comes before it.
    if (operation.belief === 'made' && operation.ended < sent) fault(`${shown} follows a later write`);
    latest.set(key, Math.max(sent, operation.started));
  }
  return { made, states };
}

/** A record as the table has it, with its key as text. */
export interface Row {
  readonly id: string;
  readonly values: Values;
}

/** What the database has after a round. */
export interface Found {
  readonly entries: readonly Row[];
  readonly counters: readonly Row[];
  /** In the order of their keys. */
  readonly history: readonly HistoryEntry[];
}

/** What is counted, with its name in tables. */
const TITLES = {
  acknowledged: 'acknowledged',
  /** Writes with an unknown outcome that were made, and that were not. */
  unknownMade: 'unknown, made',
  unknownNotMade: 'unknown, not made',
  /** Acknowledged writes that are gone. */
  lost: 'lost',
  /** Records that no single write can have left like this. */
  torn: 'torn',
  /** Writes that were made more than once. */
  doubled: 'doubled',
  /** History entries that are missing, superfluous, wrong or out of order. */
  history: 'history',
  /** Errors that mean "not made" after a write that was made, and "not known" where the outcome is known. */
  wrong503: 'wrong 503',
  /** Answers that the fault does not explain, or that belong to another request. */
  unexpected: 'unexpected',
};
export type Counts = Record<keyof typeof TITLES, number>;
export const COLUMNS = Object.entries(TITLES) as [keyof Counts, string][];

/** These follow from what a client itself does. */
const ALWAYS_ALLOWED: ReadonlySet<Failure> = new Set(['conflict', 'left']);

const shown = ({ action, model, record, token, answer }: Operation): string =>
  `${action} of ${model} ${record ?? ''} (${token}: ${answer})`;

function groupBy<T>(all: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const group = groups.get(keyOf(one));
    if (group) group.push(one);
    else groups.set(keyOf(one), [one]);
  }
  return groups;
}

/** Compares the answers with what the database has. A violation is one line for each broken invariant. */
export function verify(
  ledger: Ledger,
  found: Found,
  allowed: ReadonlySet<Failure>,
): { readonly counts: Counts; readonly violations: readonly string[] } {
  const counts = Object.fromEntries(COLUMNS.map(([key]) => [key, 0])) as Counts;
  const violations: string[] = [];
  const note = (kind: keyof Counts, text: string): void => {
    counts[kind] += 1;
    violations.push(`${kind}: ${text}`);
  };
  const { operations } = ledger;
  const byToken = new Map(operations.map((operation) => [operation.token, operation]));
  const byRecord = groupBy(
    operations.filter(({ record }) => record !== undefined),
    ({ model, record }) => `${model} ${record}`,
  );
  const of = (model: string, record: string): readonly Operation[] =>
    byRecord.get(`${model} ${record}`) ?? [];

  const { made, states } = replay(operations, found.history, (text) => note('history', text));
  const timesMade = ({ action, model, record, token }: Operation): number =>
    made.get(action === 'delete' ? `delete ${model} ${record}` : token) ?? 0;

  function judgeOperation(operation: Operation): void {
    const { belief, failure, repeats } = operation;
    const times = timesMade(operation);
    if (belief === 'made') counts.acknowledged += 1;
    if (belief === 'made' && times === 0) note('history', `no entry of the ${shown(operation)}`);
    if (times > 1) note('doubled', shown(operation));
    // Of a DELETE the history cannot tell which of several tries was the one: see judgeDeletes.
    if (belief === 'not made' && times > 0 && operation.action !== 'delete')
      note('wrong503', `made, though the answer means that it was not: ${shown(operation)}`);
    if (belief === 'unknown') counts[times > 0 ? 'unknownMade' : 'unknownNotMade'] += 1;
    if (failure === 'lost' && !allowed.has('lost'))
      note('wrong503', `the outcome is known here: ${shown(operation)}`);
    else if (failure && !allowed.has(failure) && !ALWAYS_ALLOWED.has(failure))
      note('unexpected', `${failure}: ${shown(operation)}`);
    else if (failure === 'reset' && times > 0 && !allowed.has('cut'))
      note('unexpected', `made, and its connection was reset: ${shown(operation)}`);
    // Of several tries with the same If-Match one can succeed; the others after it meet a conflict.
    const first = repeats === undefined ? undefined : byToken.get(repeats);
    if (first?.action !== 'update') return;
    const tries = operations.filter((one) => one === first || one.repeats === repeats);
    const successes = tries.filter((one) => timesMade(one) > 0).length;
    if (successes > 1) note('doubled', `two tries with one If-Match: ${shown(operation)}`);
    if (successes === 0 && failure === 'conflict')
      note('wrong503', `a conflict, though no try was made: ${shown(operation)}`);
  }

  /** A record that was deleted needs a try that may have done so. */
  function judgeDeletes(): void {
    for (const key of made.keys()) {
      if (!key.startsWith('delete ')) continue;
      const tries = (byRecord.get(key.slice('delete '.length)) ?? []).filter(
        ({ action }) => action === 'delete',
      );
      if (tries.every(({ belief }) => belief === 'not made'))
        note('wrong503', `deleted, though every answer means that it was not: ${key}`);
      if (tries.filter(({ belief }) => belief === 'made').length > 1)
        note('doubled', `two successes: ${key}`);
    }
  }

  /** Without the history: the last acknowledged write, or one with an unknown outcome, is what the record shows. */
  function judgeEntry(created: Operation, row: Row | undefined): void {
    const all = of('entry', created.record ?? '');
    const deletes = all.filter(({ action }) => action === 'delete');
    if (!row) {
      if (deletes.every(({ belief }) => belief === 'not made'))
        note('lost', `the record of the ${shown(created)}`);
      return;
    }
    if (deletes.some(({ belief }) => belief === 'made')) return note('lost', `a delete of entry ${row.id}`);
    const writes = all.filter(({ action }) => action !== 'delete');
    const last = writes.findLast(({ belief }) => belief === 'made');
    const isPossible = (one: Operation): boolean => one === last || one.belief === 'unknown';
    if (!writes.some((one) => one.token === row.values['token'] && isPossible(one)))
      note('lost', `entry ${row.id} shows ${row.values['token']} after the ${shown(last ?? created)}`);
  }

  function judgeRow(row: Row): void {
    const { token, payload } = row.values;
    const writer = byToken.get(String(token));
    const [origin = ''] = String(payload).split('/', 1);
    const repetitions = String(payload).length / (origin.length + 1);
    const isWhole =
      writer !== undefined &&
      byToken.has(origin) &&
      payload === payloadOf(origin, repetitions) &&
      Object.entries(writer.values).every(([key, value]) => row.values[key] === value);
    if (!isWhole) note('torn', `entry ${row.id}: ${JSON.stringify(row.values).slice(0, 200)}`);
  }

  function judgeCounter({ id, values }: Row): void {
    const all = of('counter', id);
    const least = all.filter(({ belief }) => belief === 'made').length;
    const most = all.filter(({ belief }) => belief !== 'not made').length;
    const value = Number(values['value']);
    if (value < least) note('lost', `counter ${id} is ${value} after ${least} acknowledged increments`);
    if (value > most) note('doubled', `counter ${id} is ${value} after at most ${most} increments`);
  }

  function judgeStates(model: string, rows: readonly Row[]): void {
    const present = new Map(rows.map((row) => [`${model} ${row.id}`, row]));
    for (const [key, state] of states) {
      if (!key.startsWith(`${model} `) || present.has(key)) continue;
      note('history', `${key} is not there, and by the history it is ${JSON.stringify(state).slice(0, 200)}`);
    }
    for (const [key, { values }] of present) {
      const state = states.get(key);
      const isSame = state && Object.entries(values).every(([name, value]) => state[name] === value);
      if (!isSame) note('history', `${key} differs from what the history says`);
    }
  }

  operations.forEach(judgeOperation);
  judgeDeletes();
  const rows = new Map(found.entries.map((row) => [row.id, row]));
  for (const one of operations) {
    if (one.action === 'create' && one.belief === 'made') judgeEntry(one, rows.get(one.record ?? ''));
  }
  found.entries.forEach(judgeRow);
  const tokens = groupBy(found.entries, ({ values }) => String(values['token']));
  for (const [token, same] of tokens)
    if (same.length > 1) note('doubled', `${same.length} records of ${token}`);
  found.counters.forEach(judgeCounter);
  judgeStates('entry', found.entries);
  judgeStates('counter', found.counters);
  for (const text of ledger.mixups) note('unexpected', `the answer to another request: ${text}`);
  return { counts, violations };
}

/** The counters that all clients share. */
export const COUNTERS = ['1', '2'];

/** Makes the clients' user and the counters. */
export async function populate(sql: Sql): Promise<void> {
  const password = await hash(PASSWORD, { memoryCost: 8, timeCost: 1, parallelism: 1 });
  await sql`insert into "user" (username, password) values (${USER}, ${password})`;
  for (const id of COUNTERS)
    await sql`insert into counter (token, value) values (${String(initialCounter(id)['token'])}, 0)`;
}

/** Makes each write slow enough to be struck in the middle. */
export async function slowDown(sql: Sql): Promise<void> {
  await sql.unsafe(`
    create function slow() returns trigger language plpgsql as
    $$ begin perform pg_sleep(random() * 0.006); return null; end $$`);
  for (const table of ['entry', 'counter'])
    await sql.unsafe(
      `create trigger slow after insert or update or delete on ${table} for each statement execute function slow()`,
    );
}

/** Empties the tables for the next round. */
export async function clear(sql: Sql): Promise<void> {
  await sql`truncate entry, vitrine_history`;
  await sql`update counter set value = 0, token = 'start ' || id`;
}

/** How many times in a row the service must be found at rest: a request may be between two statements. */
const QUIET = 8;

/** Waits until the service has nothing to do, not even for clients that have left. */
export async function settle(sql: Sql, service: Service): Promise<void> {
  const isQuiet = async (): Promise<boolean> =>
    (await sessions(sql, "state <> 'idle'")).length === 0 &&
    !((await service.metric('vitrine_http_requests_in_flight')) > 0);
  await until('PostgreSQL to answer', async () => (await sql`select 1`).length === 1);
  let quiet = 0;
  await until('the last statements to end', async () => {
    quiet = (await isQuiet()) ? quiet + 1 : 0;
    return quiet === QUIET;
  });
}

/** Reads what the database has, past the service, in one snapshot. */
export const read = (sql: Sql): Promise<Found> =>
  sql.begin('isolation level repeatable read', async (snapshot) => {
    const rows = async (query: string): Promise<Row[]> =>
      (await snapshot.unsafe<Record<string, string | number>[]>(query)).map((values) => ({
        id: String(values['id']),
        values: values,
      }));
    const history = await snapshot<HistoryEntry[]>`
      select id::text, user_name as user, door, action, model, record, before, after
      from vitrine_history where model in ('entry', 'counter') order by vitrine_history.id`;
    return {
      entries: await rows('select * from entry'),
      counters: await rows('select * from counter'),
      history,
    };
  });
