import assert from 'node:assert/strict';
import fc from 'fast-check';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { encode, insert } from './samples.ts';

const person = { type: 'foreignKey', references: 'person', null: true } as const;

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
  {
    model: 'task',
    columns: {
      title: { type: 'string' },
      doer: person,
      judge: person,
      payer: person,
      price: { type: 'decimal', null: true },
    },
    exclude: ['payer', 'price'],
    limit: 2,
  },
] as const satisfies readonly Resource[];

const EXCLUDED = ['salary', 'diary', 'fired', 'chief', 'chief_id', 'payer', 'payer_id', 'price'];
const OPERATORS = ['eq', 'ne', 'lt', 'gte', 'in', 'is', 'like', 'ilike'];
const VALUES = [
  '1',
  '2',
  '1000',
  '2000',
  '1,2',
  'null',
  'true',
  'false',
  'ada',
  'a%',
  '%',
  '%se%',
  '',
  'x"',
  '-1',
  '0.5',
  '\\',
];

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
}));

/** The only difference between the two databases. */
const hidden = [
  {
    person: (id: number) => ({ salary: id * 1000, diary: `a secret of ${id}`, fired: id % 2 === 0, chief_id: 1 }),
    task: (id: number) => ({ payer_id: id % 5 || null, price: id / 2 }),
  },
  {
    person: (id: number) => ({ salary: id === 3 ? null : -id, diary: null, fired: null, chief_id: id === 1 ? null : id - 1 }),
    task: (id: number) => ({ payer_id: id === 2 ? 2 : null, price: null }),
  },
]; // prettier-ignore

const path = (columns: readonly string[]): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.array(fc.constantFrom('mentor', 'mentor_id', 'doer', 'judge'), { maxLength: 2 }),
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
const VISIBLE: Record<string, { numbers: string[]; texts: string[] }> = {
  person: {
    numbers: ['id', 'age', 'mentor', 'mentor_id__age', 'mentor__mentor'],
    texts: ['name', 'mentor__name', 'mentor__mentor__name'],
  },
  task: {
    numbers: ['id', 'doer', 'judge_id', 'doer__age', 'judge__id', 'doer__mentor__age'],
    texts: ['title', 'doer__name', 'judge_id__name', 'judge__mentor__name'],
  },
};

/** A valid parameter for a collection. */
function validParameter(model: string): fc.Arbitrary<string> {
  const { numbers = [], texts = [] } = VISIBLE[model] ?? {};
  const sign = fc.constantFrom('', '-');
  const numeric = fc.tuple(sign, fc.constantFrom(...numbers), fc.constantFrom('=1', '__gt=1', '__lte=30', '__ne=2', '__in=1,3', '__is=null')); // prettier-ignore
  const textual = fc.tuple(sign, fc.constantFrom(...texts), fc.constantFrom('=ada', '__lt=c', '__like=%e%', '__ilike=T1', '__in=bob,t0')); // prettier-ignore
  const sorted = fc.tuple(fc.constantFrom('ordering=', 'ordering=-'), fc.constantFrom(...numbers, ...texts));
  return fc.oneof(numeric, textual, sorted, fc.constant(['page=2'])).map((parts) => parts.join(''));
}

const target = fc.constantFrom('person/', 'task/', 'person/', 'task/', 'person/2/', 'task/2/');
const isCollection = (where: string): boolean => where === 'person/' || where === 'task/';

describe('an excluded column', () => {
  let services: TestService[] = [];
  before(async () => {
    services = await Promise.all(hidden.map(() => startService(registry)));
    for (const [index, { sql }] of services.entries()) {
      const columns = hidden[index];
      await insert(sql, 'person', people.map((row) => ({ ...row, ...columns?.person(row.id) }))); // prettier-ignore
      await insert(sql, 'task', tasks.map((row) => ({ ...row, ...columns?.task(row.id) }))); // prettier-ignore
    }
  });
  after(() => Promise.all(services.map((service) => service.close())));

  /** The parts of an answer that must be equal: all but its date and its ETag, which changes with each state of a row. */
  const shown = ({ status, text, headers }: Answer): object => {
    const kept = [...headers].filter(([name]) => name !== 'date' && name !== 'etag');
    return { status, text, headers: Object.fromEntries(kept) };
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
        headers: fc.constantFrom({}, { prefer: 'count=exact' }),
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
          if (one.status === 200) assert.ok(!one.text.includes(name), asked);
        }
      }),
      { numRuns: 400 },
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
            return shown({ ...answer, text: answer.text.replaceAll(name, 'COLUMN') });
          }),
        );
        assert.deepEqual(real, unreal, named);
        assert.equal((real as Answer).status, 400, named);
      }),
      { numRuns: 300 },
    );
  });
});
