// Clients that write through the service, and note each answer in a ledger.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { headerOf, openConnection, type NoAnswer } from './client.ts';
import { AUTHORIZATION, COUNTERS, payloadOf, type Ledger, type Operation, type Values } from './ledger.ts';

const LOST = /not known whether the change was made/;
/** Milliseconds between a failure and the next try. */
const PAUSE = 40;
/** The service answers any request within 15 s; a client that hears nothing for this long reports it (milliseconds). */
const SILENCE = 40_000;

/** How the clients reach the service, and how many they are. */
export interface Reach {
  /** The ports of the services: what a client reads after a write, it reads from the next one. */
  readonly ports: readonly number[];
  readonly writers?: number;
  readonly incrementers?: number;
  readonly leavers?: number;
  readonly repeaters?: number;
  /** What one further client each reads over and over. */
  readonly paths?: readonly string[];
  /** How long the service may take until every client can write again (45 seconds). */
  readonly patience?: number;
  /** What a writer does between a write and the read of the record. */
  readonly beforeRead?: (id: string, expected: Values) => Promise<void>;
}

/** An answer; without one the status is 0. */
export interface Reply {
  readonly status: number;
  readonly etag: string;
  readonly text: string;
  readonly reason?: NoAnswer['reason'];
}

interface Sending {
  readonly method: string;
  readonly path: string;
  readonly ifMatch?: string | undefined;
  /** The Idempotency-Key. */
  readonly key?: string | undefined;
  readonly body?: Values | undefined;
  readonly leaveAfter?: number | undefined;
}

/** Sends requests as the user of the ledger, with the position of the last write, as the typed client does. */
export class Session {
  readonly #connections;
  #turn = 0;
  #position = '';

  constructor(ports: readonly number[]) {
    this.#connections = ports.map(openConnection);
  }

  async send({ method, path, ifMatch, key, body, leaveAfter }: Sending): Promise<Reply> {
    const connection = this.#connections[(this.#turn += 1) % this.#connections.length]!;
    const headers = {
      Authorization: AUTHORIZATION,
      ...(body && { 'Content-Type': 'application/json' }),
      ...(this.#position && { 'Vitrine-Position': this.#position }),
      ...(ifMatch !== undefined && { 'If-Match': ifMatch }),
      ...(key !== undefined && { 'Idempotency-Key': key }),
    };
    const request = { method, path, headers, ...(body && { body: JSON.stringify(body) }) };
    try {
      const answer = await connection.ask(request, { keepsBody: true, leaveAfter, patience: SILENCE });
      this.#position = headerOf(answer, 'vitrine-position') || this.#position;
      return { status: answer.status, etag: headerOf(answer, 'etag'), text: answer.text };
    } catch (error) {
      const { reason, message } = error as NoAnswer;
      return { status: 0, etag: '', text: message, reason };
    }
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }
}

/** What an answer means for the write that it belongs to. */
export function outcomeOf(
  { status, text, reason }: Reply,
  { action }: Pick<Operation, 'action'>,
): Pick<Operation, 'belief' | 'failure' | 'answer'> {
  if (reason) {
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

const METHODS = { create: 'POST', update: 'PUT', delete: 'DELETE' } as const;

/** One client: what it lives on, and what all kinds of clients have in common. */
class Client {
  /** When (`performance.now()`) the last acknowledged write was sent. */
  sent = 0;
  readonly ledger: Ledger;
  readonly session: Session;

  constructor(ports: readonly number[], ledger: Ledger) {
    this.ledger = ledger;
    this.session = new Session(ports);
  }

  /** Sends a write, and notes it in the ledger. */
  async write(
    operation: Operation,
    more: Pick<Sending, 'ifMatch' | 'key' | 'leaveAfter'> = {},
  ): Promise<Reply> {
    const { model, action, record, values } = operation;
    const started = performance.now();
    const reply = await this.session.send({
      method: METHODS[action],
      path: action === 'create' ? `/api/${model}/` : `/api/${model}/${record}/`,
      body: action === 'delete' ? undefined : values,
      ...more,
    });
    const outcome = outcomeOf(reply, operation);
    this.ledger.end(operation, outcome);
    if (outcome.belief === 'made') {
      this.sent = started;
      if (action !== 'delete') this.#assertSame(operation, reply.text);
      if (action === 'create') operation.record = String((JSON.parse(reply.text) as Values)['id']);
    } else if (outcome.failure !== 'conflict') await sleep(PAUSE * (0.5 + Math.random()));
    return reply;
  }

  #assertSame({ action, record, values, token }: Operation, text: string): void {
    const found = JSON.parse(text) as Values;
    const isOther = action === 'update' && String(found['id']) !== record;
    const differs = Object.entries(values).some(([key, value]) => found[key] !== value);
    if (isOther || differs) this.ledger.mixups.push(`${token} was answered with ${text.slice(0, 200)}`);
  }

  async read(path: string): Promise<Reply> {
    const reply = await this.session.send({ method: 'GET', path });
    if (reply.status === 200) this.ledger.reads += 1;
    else this.ledger.failedReads.push(`${reply.status} ${reply.text.slice(0, 200)}`);
    return reply;
  }
}

const entryValues =
  (isWhole: boolean) =>
  (token: string): Values => ({
    token,
    number: Math.floor(Math.random() * 1e9),
    ...(isWhole && {
      payload: payloadOf(token, Math.random() < 0.05 ? 4000 : 1 + Math.floor(Math.random() * 60)),
    }),
  });

const newEntry = (token: string): Values => ({
  ...entryValues(true)(token),
  counter_id: Number(COUNTERS[Math.floor(Math.random() * COUNTERS.length)]),
});

/**
 * Creates a record, changes it, reads it back and perhaps deletes it. No other client writes to it. Of a PUT or DELETE with
 * `If-Match` whose outcome is unknown it finds out what happened as docs/writing.md says: it sends it again.
 */
async function writeEntry(client: Client, isOver: () => boolean, { beforeRead }: Reach): Promise<void> {
  const { ledger } = client;

  async function readBack(id: string, expected: Values): Promise<void> {
    await beforeRead?.(id, expected);
    const { status, text } = await client.read(`/api/entry/${id}/`);
    // A replica that is behind would not have it.
    if (status === 404) ledger.mixups.push(`GET of entry ${id} gave 404`);
    if (status !== 200) return;
    const found = JSON.parse(text) as Values;
    const isSame =
      String(found['id']) === id && Object.keys(expected).every((key) => found[key] === expected[key]);
    if (!isSame) ledger.mixups.push(`GET of entry ${id} gave ${text.slice(0, 200)}`);
  }

  /** Sends a write with `If-Match` until its outcome is known. Gives the last one with its answer. */
  async function insist(action: 'update' | 'delete', record: string, ifMatch: string) {
    const values = action === 'delete' ? (): Values => ({}) : entryValues(true);
    let repeats: string | undefined;
    for (;;) {
      const operation = ledger.begin({ model: 'entry', action, record, values, repeats });
      const reply = await client.write(operation, { ifMatch });
      if (operation.belief !== 'unknown' || isOver()) return { reply, operation };
      repeats ??= operation.token;
    }
  }

  const created = ledger.begin({ model: 'entry', action: 'create', record: undefined, values: newEntry });
  let { etag } = await client.write(created);
  const { record } = created;
  if (created.belief !== 'made' || record === undefined) return;
  let state = created.values;
  for (let changes = Math.floor(Math.random() * 4); changes > 0 && !isOver(); changes -= 1) {
    if (Math.random() < 0.5) {
      const { reply, operation } = await insist('update', record, etag);
      if (operation.belief !== 'made') return;
      state = { ...state, ...operation.values };
      etag = reply.etag;
    } else {
      const values = entryValues(Math.random() < 0.5);
      const operation = ledger.begin({ model: 'entry', action: 'update', record, values });
      const reply = await client.write(operation);
      if (operation.belief === 'unknown') return;
      if (operation.belief === 'made') {
        state = { ...state, ...operation.values };
        etag = reply.etag;
      }
    }
    await readBack(record, state);
  }
  if (!isOver() && Math.random() < 0.4) await insist('delete', record, etag);
}

/** Adds 1 to each shared counter, guarded by `If-Match`, as many clients do at once. */
async function increment(client: Client): Promise<void> {
  for (const record of COUNTERS) {
    const { status, etag, text } = await client.read(`/api/counter/${record}/`);
    if (status !== 200) {
      await sleep(PAUSE);
      continue;
    }
    const value = Number((JSON.parse(text) as Values)['value']) + 1;
    const values = (token: string): Values => ({ token, value });
    const operation = client.ledger.begin({ model: 'counter', action: 'update', record, values });
    await client.write(operation, { ifMatch: etag });
  }
}

/** Creates a record and changes it, and closes the connection while the service works on these writes. */
async function leaveEntry(client: Client, isOver: () => boolean): Promise<void> {
  let record: string | undefined;
  do {
    const operation =
      record === undefined
        ? client.ledger.begin({ model: 'entry', action: 'create', record, values: newEntry })
        : client.ledger.begin({ model: 'entry', action: 'update', record, values: entryValues(true) });
    await client.write(operation, { leaveAfter: Math.random() * 12 });
    if (operation.action === 'create' && operation.belief === 'made') record = operation.record;
  } while (record !== undefined && Math.random() > 0.3 && !isOver());
}

/**
 * Creates a record, changes it and deletes it, and sends each of these writes with one Idempotency-Key until it succeeds. So there is
 * no conflict, not even after an unknown outcome.
 */
async function repeatEntry(client: Client, isOver: () => boolean): Promise<void> {
  const { ledger } = client;
  let record: string | undefined;
  let ifMatch: string | undefined;
  for (const action of ['create', 'update', 'delete'] as const) {
    const values =
      action === 'create' ? newEntry : action === 'update' ? entryValues(true) : (): Values => ({});
    const operation = ledger.begin({ model: 'entry', action, record, values });
    const key = randomUUID();
    let isUnknown = false;
    let etag: string;
    do {
      ({ etag } = await client.write(operation, { key, ifMatch }));
      isUnknown ||= operation.belief === 'unknown';
    } while (operation.belief !== 'made' && !isFinal(operation) && !isOver());
    if (operation.failure === 'conflict') ledger.mixups.push(`${operation.token} met a conflict`);
    if (operation.belief !== 'made') {
      if (isUnknown) operation.belief = 'unknown';
      return;
    }
    record = operation.record;
    ifMatch = etag;
  }
}

const isFinal = ({ failure }: Operation): boolean => failure === 'conflict' || failure === 'unexpected';

export interface Load {
  /**
   * Waits until every client that stays has a success for a write that it sent from now on.
   * @returns seconds until the first success, and until the last client had one; undefined for a client that never had
   */
  readonly recovered: () => Promise<{ readonly first: number; readonly all: number | undefined }>;
  /** Lets each client finish its last request. */
  readonly stop: () => Promise<void>;
}

/** Starts clients, which work until they are stopped. */
export function startLoad(reach: Reach, ledger: Ledger): Load {
  const {
    ports,
    writers = 8,
    incrementers = 4,
    leavers = 3,
    repeaters = 4,
    paths = [],
    patience = 45,
  } = reach;
  let isOver = false;
  const running: Promise<void>[] = [];
  const start = (
    count: number,
    live: (client: Client, isOver: () => boolean, reach: Reach) => Promise<void>,
  ): Client[] =>
    Array.from({ length: count }, () => {
      const client = new Client(ports, ledger);
      const work = async (): Promise<void> => {
        while (!isOver) await live(client, () => isOver, reach);
        client.session.close();
      };
      running.push(work());
      return client;
    });
  const staying = [
    ...start(writers, writeEntry),
    ...start(incrementers, increment),
    ...start(repeaters, repeatEntry),
  ];
  start(leavers, leaveEntry);
  for (const path of paths)
    start(1, async (client) => {
      const { status } = await client.read(path);
      if (status !== 200) await sleep(PAUSE);
    });
  return {
    recovered: async () => {
      const started = performance.now();
      let first = NaN;
      for (;;) {
        const seconds = (performance.now() - started) / 1000;
        if (Number.isNaN(first) && staying.some(({ sent }) => sent >= started)) first = seconds;
        if (staying.every(({ sent }) => sent >= started)) return { first, all: seconds };
        if (seconds > patience) return { first, all: undefined };
        await sleep(5);
      }
    },
    stop: async () => {
      isOver = true;
      await Promise.all(running);
    },
  };
}
