import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer, Connection, NoAnswer } from './connection.ts';
import { payloadOf, type Ledger, type Operation, type Values } from './ledger.ts';

/** The counters that all clients share. */
export const COUNTERS = ['1', '2'];
const LOST = /not known whether the change was made/;
/** Milliseconds between a failure and the next try. */
const PAUSE = 40;

export interface Client {
  /** Patient clients wait for every answer. */
  readonly isPatient: boolean;
  /** Acknowledged writes, and when (`performance.now()`) the last of them was sent. */
  readonly acknowledged: () => { readonly count: number; readonly sent: number };
  /** Works until `isOver` says so. */
  readonly run: (isOver: () => boolean) => Promise<void>;
}

interface Write {
  readonly operation: Operation;
  readonly ifMatch?: string | undefined;
  readonly leaveAfter?: number | undefined;
}

const METHODS = { create: 'POST', update: 'PUT', delete: 'DELETE' } as const;

/** What an answer means for the write that it belongs to. */
export function outcomeOf(
  answer: Answer | NoAnswer,
  { action }: Pick<Operation, 'action'>,
): Pick<Operation, 'belief' | 'failure' | 'answer'> {
  const { status, text } = answer;
  if ('reason' in answer) {
    const { reason } = answer;
    const belief = reason === 'refused' ? 'not made' : 'unknown';
    return { belief, failure: reason === 'silence' ? 'unexpected' : reason, answer: text };
  }
  const shown = `${status} ${status < 300 ? '' : text.slice(0, 200)}`.trim();
  if (status === (action === 'create' ? 201 : 200))
    return { belief: 'made', failure: undefined, answer: shown };
  if (status === 503 && LOST.test(text)) return { belief: 'unknown', failure: 'lost', answer: shown };
  const isConflict = status === 412 || (status === 404 && action === 'delete');
  const failure = status === 503 || status === 429 ? 'busy' : isConflict ? 'conflict' : 'unexpected';
  return { belief: 'not made', failure, answer: shown };
}

/** What all clients have in common: sends writes, and notes each in the ledger. */
function createRecorder(connection: Connection, ledger: Ledger) {
  let count = 0;
  let sent = 0;

  function assertSame(operation: Operation, text: string): void {
    const record = JSON.parse(text) as Values;
    const isOther =
      operation.record !== undefined &&
      operation.action === 'update' &&
      String(record['id']) !== operation.record;
    const differs = Object.entries(operation.values).some(([key, value]) => record[key] !== value);
    if (isOther || differs) ledger.mixups.push(`${operation.token} was answered with ${text.slice(0, 200)}`);
  }

  return {
    acknowledged: () => ({ count, sent }),
    write: async ({ operation, ifMatch, leaveAfter }: Write): Promise<Answer | NoAnswer> => {
      const { model, action, record, values } = operation;
      const started = performance.now();
      const answer = await connection.send({
        method: METHODS[action],
        path: action === 'create' ? `/api/${model}/` : `/api/${model}/${record}/`,
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
        body: action === 'delete' ? undefined : values,
        leaveAfter,
      });
      const outcome = outcomeOf(answer, operation);
      ledger.end(operation, outcome);
      if (outcome.belief === 'made') {
        count += 1;
        sent = started;
        if (action !== 'delete') assertSame(operation, answer.text);
        if (action === 'create') operation.record = String((JSON.parse(answer.text) as Values)['id']);
      } else if (outcome.failure !== 'conflict') await sleep(PAUSE * (0.5 + Math.random()));
      return answer;
    },
  };
}

const entryValues =
  (isWhole: boolean) =>
  (token: string): Values => ({
    token,
    number: Math.floor(Math.random() * 1e9),
    ...(isWhole
      ? { payload: payloadOf(token, Math.random() < 0.05 ? 4000 : 1 + Math.floor(Math.random() * 60)) }
      : {}),
  });

const newEntry = (token: string): Values => ({
  ...entryValues(true)(token),
  counter_id: Number(COUNTERS[Math.floor(Math.random() * COUNTERS.length)]),
});

/**
 * Creates records, changes them, reads them back and deletes some. No other client writes to its records. Of a PUT or DELETE
 * with `If-Match` whose outcome is unknown it finds out what happened as docs/writing.md says: it sends it again.
 */
export function createWriter(connection: Connection, ledger: Ledger): Client {
  const { write, acknowledged } = createRecorder(connection, ledger);

  async function readBack(id: string, expected: Values): Promise<void> {
    const answer = await connection.send({ method: 'GET', path: `/api/entry/${id}/` });
    // A replica that is behind would not have it.
    if (answer.status === 404) ledger.mixups.push(`GET of entry ${id} gave 404`);
    if (answer.status !== 200) return;
    const record = JSON.parse(answer.text) as Values;
    const isSame =
      String(record['id']) === id && Object.keys(expected).every((key) => record[key] === expected[key]);
    if (!isSame) ledger.mixups.push(`GET of entry ${id} gave ${answer.text.slice(0, 200)}`);
  }

  /** Sends a write with `If-Match` until its outcome is known. Gives the answer of the last one. */
  async function insist(
    action: 'update' | 'delete',
    record: string,
    ifMatch: string,
    isOver: () => boolean,
  ): Promise<{ readonly answer: Answer | NoAnswer; readonly operation: Operation }> {
    const values = action === 'delete' ? (): Values => ({}) : entryValues(true);
    let repeats: string | undefined;
    for (;;) {
      const operation = ledger.begin({ model: 'entry', action, record, values, repeats });
      const answer = await write({ operation, ifMatch });
      if (operation.belief !== 'unknown' || isOver()) return { answer, operation };
      repeats ??= operation.token;
    }
  }

  async function live(isOver: () => boolean): Promise<void> {
    const created = ledger.begin({ model: 'entry', action: 'create', record: undefined, values: newEntry });
    const first = await write({ operation: created });
    if (created.belief !== 'made' || !('etag' in first) || created.record === undefined) return;
    const { record } = created;
    let state = created.values;
    let { etag } = first;
    for (let changes = Math.floor(Math.random() * 4); changes > 0 && !isOver(); changes -= 1) {
      if (Math.random() < 0.5) {
        const { answer, operation } = await insist('update', record, etag, isOver);
        if (operation.belief !== 'made' || !('etag' in answer)) return;
        state = { ...state, ...operation.values };
        etag = answer.etag;
      } else {
        const values = entryValues(Math.random() < 0.5);
        const operation = ledger.begin({ model: 'entry', action: 'update', record, values });
        const answer = await write({ operation });
        if (operation.belief === 'unknown') return;
        if (operation.belief === 'made') state = { ...state, ...operation.values };
        if (operation.belief === 'made' && 'etag' in answer) etag = answer.etag;
      }
      await readBack(record, state);
    }
    if (!isOver() && Math.random() < 0.4) await insist('delete', record, etag, isOver);
  }

  return {
    isPatient: true,
    acknowledged,
    run: async (isOver) => {
      while (!isOver()) await live(isOver);
      connection.close();
    },
  };
}

/** Adds 1 to shared counters, guarded by `If-Match`, as many clients do at once. */
export function createIncrementer(connection: Connection, ledger: Ledger): Client {
  const { write, acknowledged } = createRecorder(connection, ledger);
  return {
    isPatient: true,
    acknowledged,
    run: async (isOver) => {
      for (let turn = 0; !isOver(); turn += 1) {
        const record = COUNTERS[turn % COUNTERS.length] ?? '';
        const answer = await connection.send({ method: 'GET', path: `/api/counter/${record}/` });
        if (answer.status !== 200 || !('etag' in answer)) {
          await sleep(PAUSE);
          continue;
        }
        const value = Number((JSON.parse(answer.text) as Values)['value']) + 1;
        const values = (token: string): Values => ({ token, value });
        const operation = ledger.begin({ model: 'counter', action: 'update', record, values });
        await write({ operation, ifMatch: answer.etag });
      }
      connection.close();
    },
  };
}

/** Closes its connection while the service works on its writes. */
export function createLeaver(connection: Connection, ledger: Ledger): Client {
  const { write, acknowledged } = createRecorder(connection, ledger);
  const leaveAfter = (): number => Math.random() * 12;
  return {
    isPatient: false,
    acknowledged,
    run: async (isOver) => {
      let record: string | undefined;
      while (!isOver()) {
        const isNew = record === undefined || Math.random() < 0.3;
        const operation = isNew
          ? ledger.begin({ model: 'entry', action: 'create', record: undefined, values: newEntry })
          : ledger.begin({ model: 'entry', action: 'update', record, values: entryValues(true) });
        await write({ operation, leaveAfter: leaveAfter() });
        if (operation.action === 'create' && operation.belief === 'made') record = operation.record;
      }
      connection.close();
    },
  };
}
