import type { Operation, Values } from './ledger.ts';

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

export interface Replayed {
  /** How often each write was made, by its token; deletes by `delete <model> <record>`. */
  readonly made: ReadonlyMap<string, number>;
  /** The last state of each record, by `<model> <record>`. */
  readonly states: ReadonlyMap<string, Values>;
}

/** The state of a counter before a round. */
export const initialCounter = (id: string): Values => ({ id: Number(id), token: `start ${id}`, value: 0 });

const parse = (text: string | null): Values | undefined =>
  text === null ? undefined : (JSON.parse(text) as Values);

const isPart = (part: Values, whole: Values): boolean =>
  Object.entries(part).every(([key, value]) => whole[key] === value);

/**
 * Applies the history from its beginning, and checks each entry against the write that it belongs to.
 * @param fault takes what is wrong with the history
 */
export function replay(
  operations: readonly Operation[],
  history: readonly HistoryEntry[],
  fault: (text: string) => void,
): Replayed {
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
