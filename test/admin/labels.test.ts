// Labels of records when some columns of the label have no value.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { hiddenFields, logIn, type Browser } from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

type Values = Readonly<Record<'a' | 'b' | 'c', string | null>>;

const all: Values = { a: 'One', b: 'Two', c: 'Three' };

const CASES: readonly (readonly [template: string, values: Values, label: string])[] = [
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
  ['{a} {b} ({c})', { ...all, a: null, b: null }, 'Three'],
  ['{a} ({b})', { ...all, a: null }, 'Two'],
  ['{a} ({b})', { ...all, a: '' }, 'Two'],
  ['{a} ({b})', { ...all, b: '' }, 'One'],
  ['{a} ({b}, {c})', { ...all, b: null }, 'One (Three)'],
  ['{a} ({b}, {c})', { ...all, a: ' ', b: '' }, 'Three'],
  ['{a} ({b}) [{c}]', { ...all, a: null }, 'Two [Three]'],
  ['({a}) {b}', { ...all, b: null }, '(One)'],
  ['({a}) {b}', { ...all, a: null }, 'Two'],
  ['{a} „{b}“ «{c}»', { ...all, a: null }, 'Two «Three»'],
  ['{a} (of {next__a}) (c) {b}', all, 'One (c) Two'],
  ['{a}) ({b}', { ...all, a: null }, 'Two'],
  ['{a}', { ...all, a: '\u2800' }, '#1'],
  ['{a} ({next__a})', all, 'One'],
  ['{a}/{b}/{c}', { a: null, b: null, c: 'Three' }, 'Three'],
  ['{fixed} ({a})', { ...all, a: null }, 'Set'],
  ['{a}, {fixed}', { ...all, a: null }, 'Set'],
  ['{fixed}!', all, 'Set!'],
  ['{next__a} in {a}', { ...all, a: null }, '#1'],
];

const text = { type: 'string', null: true } as const;
const models = CASES.map(([template], index): Resource => ({
  model: `labeled${index}`,
  columns: {
    a: text,
    b: text,
    c: text,
    fixed: { type: 'string' },
    next: { type: 'foreignKey', references: `labeled${index}`, null: true },
  },
  admin: { list: ['a', 'b'], label: template },
}));

const host: Resource = {
  model: 'host',
  columns: { note: { type: 'text', null: true }, alias: text, display_name: text },
};
/** Its records show the labels of hosts. */
const disk: Resource = {
  model: 'disk',
  columns: { host: { type: 'foreignKey', references: 'host' } },
};

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService([...resources, ...models, host, disk]);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

describe('a label', () => {
  for (const [index, [template, values, label]] of CASES.entries())
    test(`${template} of ${JSON.stringify(values)} is ${label}`, async () => {
      const name = `labeled${index}`;
      await service.sql`insert into ${service.sql(name)} ${service.sql({ ...values, fixed: 'Set' })}`;
      const { status, text: page } = await ada.get(`/admin/${name}/1/`);
      assert.equal(status, 200);
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(page)?.[1]?.trim(), label);
      // The first column of the list is a link. It shows the label if its own value is empty.
      const list = (await ada.get(`/admin/${name}/`)).text;
      const link = /<th scope="row"[^>]*>\s*<a href="[^"]*">(.*?)<\/a>/s.exec(list)?.[1]?.trim();
      assert.equal(link, /\w/.test(values.a ?? '') ? values.a : label);
      const fields = hiddenFields(await ada.get(`/admin/${name}/1/delete/`), 'confirm');
      assert.equal((await ada.post(`/admin/${name}/1/delete/`, fields)).status, 303);
      const history = (await ada.get(`/admin/${name}/1/history/`)).text;
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(history)?.[1]?.trim(), `History of ${label}`);
    });

  for (const [values, label] of [
    [{ display_name: 'mail server', alias: 'mx', note: 'old' }, 'mail server'],
    [{ display_name: null, alias: 'mx', note: 'old' }, 'mx'],
    [{ display_name: '', alias: ' ', note: 'old' }, 'old'],
    [{ display_name: null, alias: null, note: null }, undefined],
  ] as const)
    test(`of ${JSON.stringify(values)} is ${label ?? 'the key'} if the registry names no label`, async () => {
      const [row] = await service.sql`insert into host ${service.sql(values)} returning id`;
      const id = String(row?.['id']);
      await service.sql`insert into disk (host_id) values (${id})`;
      const { text: page } = await ada.get(`/admin/host/${id}/`);
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(page)?.[1]?.trim(), label ?? `#${id}`);
      assert.match(
        (await ada.get('/admin/disk/')).text,
        new RegExp(`/admin/host/${id}/">${label ?? `#${id}`}</a>`),
      );
    });
});
