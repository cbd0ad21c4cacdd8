// What an excluded column holds must not show in any answer.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { encode, insert } from './samples.ts';
import { after, before, describe, test } from 'node:test';

const person = { type: 'foreignKey', references: 'person', null: true } as const;

const task = {
  columns: {
    title: { type: 'string' },
    doer: person,
    judge: person,
    payer: person,
    price: { type: 'decimal', null: true },
    labels: { type: 'array', of: 'string', null: true },
    marks: { type: 'array', of: 'integer', null: true },
  },
  exclude: ['payer', 'price', 'marks'],
  limit: 2,
} as const;

const seatOf = (start: string) => [`${start}line`, `${start}place`] as const;

const registry = [
  {
    model: 'person',
    columns: {
      name: { type: 'string' },
      age: { type: 'integer', null: true },
      salary: { type: 'integer', null: true },
      diary: { type: 'text', null: true },
      fired: { type: 'boolean', null: true },
      chief: person,
      mentor: person,
    },
    exclude: ['salary', 'diary', 'fired', 'chief'],
    ordering: '-age',
    limit: 2,
  },
  { model: 'task', ...task },
  { model: 'task_view', ...task, primaryKey: { type: 'integer', column: 'id' } },
  {
    model: 'seat',
    primaryKey: { columns: seatOf('') },
    columns: {
      line: { type: 'string' },
      place: { type: 'integer' },
      name: { type: 'string', null: true },
      bid: { type: 'integer', null: true },
      marks: { type: 'array', of: 'integer', null: true },
      next_line: { type: 'string', null: true },
      next_place: { type: 'integer', null: true },
      past_line: { type: 'string', null: true },
      past_place: { type: 'integer', null: true },
    },
    // One hidden column is enough to hide a foreign key.
    foreignKeys: {
      next: { columns: seatOf('next_'), references: 'seat' },
      former: { columns: seatOf('past_'), references: 'seat' },
    },
    exclude: ['bid', 'marks', 'past_place'],
    limit: 2,
  },
] as const satisfies readonly Resource[];

const EXCLUDED = ['salary', 'diary', 'fired', 'chief', 'chief_id', 'payer', 'payer_id', 'price', 'bid', 'marks', 'former', 'past_place']; // prettier-ignore
const OPERATORS = ['eq', 'ne', 'lt', 'gte', 'in', 'is', 'like', 'ilike', 'contains'];
const VALUES = ['1', '2', '1000', '2000', '1,2', 'null', 'true', 'false', 'ada', 'a%', '%', '%se%', '', 'x"', '-1', '0.5', '\\', '[1]', 'a,1']; // prettier-ignore

const TASKS = `
  create table task (id integer primary key, title varchar(255) not null, doer_id integer, judge_id integer, payer_id integer,
    price numeric, labels varchar(255)[], marks integer[]);
  create view task_view as select * from task`;

const people = ['ada', 'bob', 'cleo', 'dan', 'eve'].map((name, index) => ({
  id: index + 1,
  name,
  age: [30, null, 20, 30, 40][index],
  mentor_id: [null, 1, 1, 2, 5][index],
}));
const tasks = Array.from({ length: 6 }, (_, index) => ({
  id: index + 1,
  title: `t${index % 3}`,
  doer_id: [1, 2, null, 3, 5, 1][index],
  judge_id: [2, null, 2, 4, 1, 1][index],
  labels: [[], ['a'], ['a', null], null, ['b', 'a'], ['a']][index],
}));
const seats = Array.from({ length: 6 }, (_, index) => ({
  line: 'ab'[index % 2],
  place: 1 + (index >> 1),
  name: `s${index}`,
  next_line: index > 2 ? 'a' : null,
  next_place: index > 2 ? index - 2 : null,
  past_line: 'b',
}));

/** The only difference between the two databases. */
const hidden = [
  {
    person: (id: number) => ({ salary: id * 1000, diary: `a secret of ${id}`, fired: id % 2 === 0, chief_id: 1 }),
    task: (id: number) => ({ payer_id: id % 5 || null, price: id / 2, marks: [id, 1] }),
    seat: (id: number) => ({ bid: id, marks: [1], past_place: 1 + id % 3 }),
  },
  {
    person: (id: number) => ({ salary: id === 3 ? null : -id, diary: null, fired: null, chief_id: id === 1 ? null : id - 1 }),
    task: (id: number) => ({ payer_id: id === 2 ? 2 : null, price: null, marks: id === 2 ? [] : [null, 2] }),
    seat: (id: number) => ({ bid: 7 - id, marks: null, past_place: null }),
  },
]; // prettier-ignore

const path = (columns: readonly string[]): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.array(fc.constantFrom('mentor', 'mentor_id', 'doer', 'judge', 'next'), { maxLength: 2 }),
      fc.constantFrom(...columns),
      fc.constantFrom('', 'name', 'id', 'age', ...OPERATORS),
      fc.constantFrom('', '', ...OPERATORS),
    )
    .map(([keys, ...rest]) => [...keys, ...rest.filter((part) => part !== '')].join('__'));

const parameter = (columns: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof(
    fc.tuple(fc.constantFrom('', '-'), path(columns), fc.constantFrom(...VALUES)).map(([sign, name, value]) => `${sign}${name}=${value}`), // prettier-ignore
    fc.tuple(fc.constantFrom('', '-'), path(columns)).map(([sign, name]) => `ordering=${sign}${name}`),
  );

/** Visible columns of each collection, by the kind of their values. */
const VISIBLE: Record<string, { numbers: string[]; texts: string[]; others?: string[] }> = {
  person: {
    numbers: ['id', 'age', 'mentor', 'mentor_id__age', 'mentor__mentor'],
    texts: ['name', 'mentor__name', 'mentor__mentor__name'],
  },
  task: {
    numbers: ['id', 'doer', 'judge_id', 'doer__age', 'judge__id', 'doer__mentor__age'],
    texts: ['title', 'doer__name', 'judge_id__name', 'judge__mentor__name'],
    others: ['labels__contains=a', '-labels=["a"]', 'labels__is=null'],
  },
  seat: {
    numbers: ['place', 'next__place', 'next_place'],
    texts: ['line', 'name', 'next__next__name', 'past_line'],
    others: [
      'id=a,1',
      'id__gt=a,2',
      '-next=a,1',
      'next__id__in="a,1","b,2"',
      'ordering=-id',
      'ordering=next',
    ],
  },
};
VISIBLE['task_view'] = VISIBLE['task'] as (typeof VISIBLE)[string];

/** A valid parameter for a collection. */
function validParameter(model: string): fc.Arbitrary<string> {
  const { numbers = [], texts = [], others = [] } = VISIBLE[model] ?? {};
  const sign = fc.constantFrom('', '-');
  const numeric = fc.tuple(sign, fc.constantFrom(...numbers), fc.constantFrom('=1', '__gt=1', '__lte=30', '__ne=2', '__in=1,3', '__is=null')); // prettier-ignore
  const textual = fc.tuple(sign, fc.constantFrom(...texts), fc.constantFrom('=ada', '__lt=c', '__like=%e%', '__ilike=T1', '__in=bob,t0')); // prettier-ignore
  const sorted = fc.tuple(fc.constantFrom('ordering=', 'ordering=-'), fc.constantFrom(...numbers, ...texts));
  return fc
    .oneof(numeric, textual, sorted, fc.constantFrom(...['page=2', ...others].map((one) => [one])))
    .map((parts) => parts.join(''));
}

const COLLECTIONS = ['person/', 'task/', 'task_view/', 'seat/'];
const target = fc.constantFrom(...COLLECTIONS, ...COLLECTIONS, 'person/2/', 'task/2/', 'task_view/2/', 'seat/a,2/'); // prettier-ignore
const isCollection = (where: string): boolean => COLLECTIONS.includes(where);

describe('an excluded column', () => {
  let services: TestService[] = [];
  before(async () => {
    services = await Promise.all(
      hidden.map(() => startService(registry, { prepare: (sql) => sql.unsafe(TASKS) })),
    );
    for (const [index, { sql }] of services.entries()) {
      const columns = hidden[index];
      await insert(sql, 'person', people.map((row) => ({ ...row, ...columns?.person(row.id) }))); // prettier-ignore
      await insert(sql, 'seat', seats.map((row, id) => ({ ...row, ...columns?.seat(id + 1) }))); // prettier-ignore
      await insert(sql, 'task', tasks.map((row) => ({ ...row, ...columns?.task(row.id) }))); // prettier-ignore
    }
  });
  after(() => Promise.all(services.map((service) => service.close())));

  /** The parts of an answer that must be equal: all but its date and its ETag, which changes with each state of a row. */
  const shown = ({ status, text, headers }: Answer): { status: number; text: string; headers: object } => {
    const kept = [...headers].filter(([name]) => name !== 'date' && name !== 'etag');
    // Each database encrypts cursors with a key of its own. They may have any letters in a row.
    const unsigned = text.replaceAll(/cursor=[\w-]+/g, 'cursor=');
    return { status, text: unsigned, headers: Object.fromEntries(kept) };
  };

  test('changes no answer: two databases that differ only in it answer alike', async () => {
    const request = target.chain((where) => {
      const probing = parameter([...EXCLUDED, 'id', 'age']);
      const asked = isCollection(where)
        ? fc.oneof(
            { arbitrary: validParameter(where.slice(0, -1)), weight: 4 },
            { arbitrary: probing, weight: 1 },
          )
        : probing;
      return fc.record({
        where: fc.constant(where),
        parameters: fc.array(asked, { maxLength: isCollection(where) ? 3 : 1 }),
        headers: fc.constantFrom({}, { prefer: 'count=exact' }, { prefer: 'paging=cursor' }),
      });
    });
    const seen = new Set<number>();
    await fc.assert(
      fc.asyncProperty(request, async ({ where, parameters, headers }) => {
        const asked = `?${encode(parameters.join('&'))}`;
        const [one, other] = await Promise.all(
          services.map((service) => service.request(`/api/${where}${asked}`, { headers })),
        );
        assert.ok(one && other);
        seen.add(one.status);
        assert.deepEqual(shown(one), shown(other), asked);
        for (const name of EXCLUDED) {
          if (one.status === 200) assert.ok(!shown(one).text.includes(name), asked);
        }
      }),
      { numRuns: 250 },
    );
    assert.deepEqual(seen, new Set([200, 400]));
  });

  test('gets the same answer as a column that does not exist', async () => {
    const query = fc.tuple(fc.array(fc.constantFrom('page=2', 'limit=3', 'id__gt=1'), { maxLength: 1 }), parameter(['COLUMN'])); // prettier-ignore
    const columns = fc.constantFrom(...EXCLUDED);
    await fc.assert(
      fc.asyncProperty(target, query, columns, async (where, [others, named], column) => {
        const [service] = services;
        assert.ok(service);
        // Of the same length, so that Content-Length must be equal, too.
        const absent = 'q'.repeat(column.length);
        const [real, unreal] = await Promise.all(
          [column, absent].map(async (name) => {
            const asked = encode([...others, named.replace('COLUMN', name)].join('&'));
            const answer = await service.request(`/api/${where}?${asked}`);
            // A name may be similar to one that the caller sees. The guess does not depend on whether there is a column.
            const [, guess] = /; did you mean (\w+)\?/.exec(answer.text) ?? [];
            assert.ok(guess === undefined || !EXCLUDED.includes(guess), guess);
            if (guess !== undefined) answer.headers.delete('content-length');
            const text = answer.text.replaceAll(/; did you mean \w+\?/g, '').replaceAll(name, 'COLUMN');
            return shown({ ...answer, text });
          }),
        );
        assert.ok(real && unreal);
        for (const { headers } of [real, unreal])
          if (!('content-length' in real.headers))
            delete (headers as Record<string, unknown>)['content-length'];
        assert.deepEqual(real, unreal, named);
        assert.equal((real as Answer).status, 400, named);
      }),
      { numRuns: 150 },
    );
  });
});
