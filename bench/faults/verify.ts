import { payloadOf, type Failure, type Ledger, type Operation, type Values } from './ledger.ts';
import { replay, type HistoryEntry } from './replay.ts';

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

export interface Counts {
  acknowledged: number;
  /** Writes with an unknown outcome that were made, and that were not. */
  unknownMade: number;
  unknownNotMade: number;
  /** Acknowledged writes that are gone. */
  lost: number;
  /** Records that no single write can have left like this. */
  torn: number;
  /** Writes that were made more than once. */
  doubled: number;
  /** History entries that are missing, superfluous, wrong or out of order. */
  history: number;
  /** Errors that mean "not made" after a write that was made, and "not known" where the outcome is known. */
  wrong503: number;
  /** Answers that the fault does not explain, or that belong to another request. */
  unexpected: number;
}

export interface Verdict {
  readonly counts: Counts;
  /** One line for each broken invariant. */
  readonly violations: readonly string[];
}

export const noCounts = (): Counts => ({
  acknowledged: 0,
  unknownMade: 0,
  unknownNotMade: 0,
  lost: 0,
  torn: 0,
  doubled: 0,
  history: 0,
  wrong503: 0,
  unexpected: 0,
});

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

/** Compares what the clients were told with what the database has. */
export function verify(ledger: Ledger, found: Found, allowed: ReadonlySet<Failure>): Verdict {
  const counts = noCounts();
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
