// What a record is called where some of what its label names has no value.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, type Browser } from './support.ts';
import { resources } from './things.ts';

type Values = Readonly<Record<'a' | 'b' | 'c', string | null>>;

const all: Values = { a: 'One', b: 'Two', c: 'Three' };

const CASES: readonly (readonly [label: string, values: Values, called: string])[] = [
  ['{a} – {b}', all, 'One – Two'],
  ['{a} – {b}', { ...all, b: null }, 'One'],
  ['{a} – {b}', { ...all, a: null }, 'Two'],
  ['{a} – {b}', { a: null, b: null, c: null }, '#1'],
  ['{a} ({b})', { ...all, b: null }, 'One'],
  ['No. {a}, {b} ({c}).', all, 'No. One, Two (Three).'],
  ['No. {a}, {b} ({c}).', { ...all, a: null }, 'Two (Three).'],
  ['{a} {b} {c}', { ...all, b: null }, 'One Three'],
  ['{a}', { ...all, a: '\t\n' }, '#1'],
  ['{a}', { ...all, a: '\u00a0' }, '#1'],
  ['{a}{b}', { ...all, a: '\u200b', b: '\u202e\ufeff' }, '#1'],
  ['{a}/{b}/{c}', { a: null, b: null, c: 'Three' }, 'Three'],
  ['{fixed} ({a})', { ...all, a: null }, 'Set'],
  ['{a}, {fixed}', { ...all, a: null }, 'Set'],
  ['{fixed}!', all, 'Set!'],
  ['{next__a} in {a}', { ...all, a: null }, '#1'],
];

const text = { type: 'string', null: true } as const;
const models = CASES.map(([label], index): Resource => ({
  model: `called${index}`,
  columns: {
    a: text,
    b: text,
    c: text,
    fixed: { type: 'string' },
    next: { type: 'foreignKey', references: `called${index}`, null: true },
  },
  admin: { label },
}));

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService([...resources, ...models]);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

describe('a label', () => {
  for (const [index, [label, values, called]] of CASES.entries())
    test(`${label} of ${JSON.stringify(values)} is ${called}`, async () => {
      const name = `called${index}`;
      await service.sql`insert into ${service.sql(name)} ${service.sql({ ...values, fixed: 'Set' })}`;
      const { status, text: page } = await ada.get(`/admin/${name}/1/`);
      assert.equal(status, 200);
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(page)?.[1]?.trim(), called);
    });
});
