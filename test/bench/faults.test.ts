// The verification of `npm run faults` finds each kind of damage.
import assert from 'node:assert/strict';
import {
  createLedger,
  payloadOf,
  USER,
  verify,
  type Counts,
  type Failure,
  type Found,
  type HistoryEntry,
  type Ledger,
  type Operation,
  type Row,
  type Values,
} from '../../bench/ledger.ts';
import { outcomeOf } from '../../bench/writers.ts';
import { describe, test } from 'node:test';

interface Round {
  readonly ledger: Ledger;
  readonly entries: Row[];
  readonly counters: Row[];
  readonly history: HistoryEntry[];
  readonly create: Operation;
  readonly update: Operation;
}

const acknowledged = { belief: 'made', failure: undefined, answer: '200' } as const;
const unknown = { belief: 'unknown', failure: 'lost', answer: '503' } as const;

const logEntry = (
  id: number,
  action: string,
  record: string,
  states: readonly [Values | undefined, Values | undefined],
): HistoryEntry => ({
  id: String(id),
  user: USER,
  door: 'api',
  action,
  model: 'entry',
  record,
  before: states[0] ? JSON.stringify(states[0]) : null,
  after: states[1] ? JSON.stringify(states[1]) : null,
});

/** A correct round: an entry was created and changed, and a counter was incremented once. */
function correctRound(): Round {
  const ledger = createLedger('r');
  const values = (number: number) => (token: string) => ({ token, number, payload: payloadOf(token, 3) });
  const create = ledger.begin({ model: 'entry', action: 'create', record: undefined, values: values(1) });
  ledger.end(create, acknowledged);
  create.record = '7';
  const update = ledger.begin({ model: 'entry', action: 'update', record: '7', values: values(2) });
  ledger.end(update, acknowledged);
  const counted = (token: string): Values => ({ token, value: 1 });
  const increment = ledger.begin({ model: 'counter', action: 'update', record: '1', values: counted });
  ledger.end(increment, acknowledged);
  return {
    ledger,
    create,
    update,
    entries: [{ id: '7', values: { id: 7, ...update.values } }],
    counters: [{ id: '1', values: { id: 1, ...increment.values } }],
    history: [
      logEntry(1, 'create', '7', [undefined, { id: 7, ...create.values }]),
      logEntry(2, 'update', '7', [create.values, update.values]),
      {
        ...logEntry(3, 'update', '1', [{ token: 'start 1', value: 0 }, increment.values]),
        model: 'counter',
      },
    ],
  };
}

const countsOf = (one: Round, allowed: readonly Failure[] = ['lost', 'busy']): Counts =>
  verify(one.ledger, one satisfies Found, new Set(allowed)).counts;

const REPLACED: Values = { id: 7, token: 'r-999', number: 5, payload: payloadOf('r-999', 3) };

/** Damage, and the columns of the table that report it. */
const DAMAGE: readonly [
  description: string,
  columns: readonly (keyof Counts)[],
  damage: (one: Round) => void,
][] = [
  ['a record is missing', ['lost', 'history'], (one) => one.entries.pop()],
  ['a record has the values before its last change', ['lost', 'history'], (one) => one.entries.splice(0, 1, { id: '7', values: { id: 7, ...one.create.values } })],
  ['a record has a value of another write', ['torn', 'history'], (one) => one.entries.splice(0, 1, { id: '7', values: { id: 7, ...one.update.values, number: 1 } })],
  ['a record has the values of no write', ['lost', 'torn', 'history'], (one) => one.entries.splice(0, 1, { id: '7', values: REPLACED })],
  ['a record exists twice', ['doubled', 'history'], (one) => one.entries.push({ id: '8', values: { id: 8, ...one.update.values } })],
  ['a change is in the history twice', ['doubled', 'history'], (one) => one.history.push(logEntry(4, 'update', '7', [one.create.values, one.update.values]))],
  ['a change is not in the history', ['history'], (one) => one.history.splice(1, 1)],
  [
    'the history has wrong values before a change',
    ['history'],
    (one) =>
      one.history.splice(
        1,
        1,
        logEntry(2, 'update', '7', [{ ...one.create.values, number: 9 }, one.update.values]),
      ),
  ],
  ['the history has another user', ['history'], (one) => one.history.forEach((entry, at) => (one.history[at] = { ...entry, user: null }))],
  ['a counter has lost an increment', ['lost', 'history'], (one) => one.counters.splice(0, 1, { id: '1', values: { id: 1, token: 'start 1', value: 0 } })],
  ['an error that means "not made" comes after a write that was made', ['lost', 'wrong503'], (one) => Object.assign(one.update, { belief: 'not made', failure: 'busy' })],
  ['a response belongs to another request', ['unexpected'], (one) => one.ledger.mixups.push('entry 8 for entry 7')],
  ['the fault does not explain a response', ['unexpected'], (one) => Object.assign(one.update, { failure: 'cut', belief: 'unknown' })],
]; // prettier-ignore

const violated = (counts: Counts): string[] =>
  Object.entries(counts)
    .filter(
      ([column, count]) => count > 0 && !['acknowledged', 'unknownMade', 'unknownNotMade'].includes(column),
    )
    .map(([column]) => column);

describe('the verification of npm run faults', () => {
  test('accepts a correct round', () => {
    const counts = countsOf(correctRound());
    assert.deepEqual(violated(counts), []);
    assert.equal(counts.acknowledged, 3);
  });

  for (const [description, columns, damage] of DAMAGE) {
    test(`reports that ${description}`, () => {
      const one = correctRound();
      damage(one);
      assert.deepEqual(violated(countsOf(one)).sort(), [...columns].sort());
    });
  }

  test('accepts a write with an unknown outcome, made or not', () => {
    const made = correctRound();
    Object.assign(made.update, unknown);
    const counts = countsOf(made);
    assert.deepEqual([violated(counts), counts.unknownMade, counts.unknownNotMade], [[], 1, 0]);
    const not = correctRound();
    Object.assign(not.update, unknown);
    not.entries.splice(0, 1, { id: '7', values: { id: 7, ...not.create.values } });
    not.history.splice(1, 1);
    const others = countsOf(not);
    assert.deepEqual([violated(others), others.unknownMade, others.unknownNotMade], [[], 0, 1]);
  });

  test('reports an unknown outcome if the fault cannot cause it', () => {
    const one = correctRound();
    Object.assign(one.update, unknown);
    assert.deepEqual(violated(countsOf(one, ['busy'])), ['wrong503']);
  });

  test('reports a conflict of a repeated write if the first one was not made', () => {
    const one = correctRound();
    const [entry] = one.entries;
    const begin = (repeats?: string): Operation =>
      one.ledger.begin({
        model: 'entry',
        action: 'update',
        record: '7',
        repeats,
        values: (token) => ({ token }),
      });
    const first = begin();
    one.ledger.end(first, unknown);
    one.ledger.end(begin(first.token), { belief: 'not made', failure: 'conflict', answer: '412' });
    assert.deepEqual([violated(countsOf(one)), entry?.id], [['wrong503'], '7']);
    one.history.push(logEntry(4, 'update', '7', [{ token: one.update.token }, first.values]));
    one.entries.splice(0, 1, { id: '7', values: { id: 7, ...one.update.values, ...first.values } });
    assert.deepEqual(violated(countsOf(one)), []);
  });

  test('reports a deleted record if the response said that it was not deleted', () => {
    const one = correctRound();
    const removal = one.ledger.begin({ model: 'entry', action: 'delete', record: '7', values: () => ({}) });
    one.ledger.end(removal, { belief: 'not made', failure: 'busy', answer: '503' });
    one.entries.pop();
    one.history.push(logEntry(4, 'delete', '7', [{ id: 7, ...one.update.values }, undefined]));
    assert.deepEqual(violated(countsOf(one)).sort(), ['lost', 'wrong503']);
  });

  test('counts a 503 as "not made" unless its detail says that the outcome is not known', () => {
    const outcome = (status: number, text: string): unknown[] => {
      const { belief, failure } = outcomeOf({ status, text, etag: '' }, { action: 'update' });
      return [belief, failure];
    };
    assert.deepEqual(outcome(200, '{}'), ['made', undefined]);
    assert.deepEqual(outcome(503, '{"detail":"it is not known whether the change was made."}'), [
      'unknown',
      'lost',
    ]);
    assert.deepEqual(outcome(503, '{"detail":"The database is busy. Try again."}'), ['not made', 'busy']);
    assert.deepEqual(outcome(412, '{}'), ['not made', 'conflict']);
    assert.deepEqual(outcome(500, '{}'), ['not made', 'unexpected']);
  });
});
