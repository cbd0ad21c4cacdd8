// Hostile text in every place where the admin area shows what came from somebody: it is text there, and never more.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, openBrowser, type AdminAnswer, type Browser } from './support.ts';
import { resources as shipped, thing } from './things.ts';

const CHROMIUM = '/usr/bin/chromium';
const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' autofocus onfocus='alert(1)",
  '&lt;script&gt;alert(1)&lt;/script&gt; &amp;',
  '</textarea><script>alert(1)</script>',
  '</title></select></option><script>alert(1)</script>',
  'javascript:alert(1)',
  'line\u2028separators\u2029<!-- ]]> -->',
  '\u202eright to left\u202c שלום',
  `emoji ${'👩‍👩‍👧'.repeat(40)}`,
  '${alert(1)} {{alert(1)}} `alert(1)`',
] as const;
const [SCRIPT, IMAGE] = HOSTILE;

const resources: readonly Resource[] = [
  ...shipped.filter(({ model }) => model !== 'thing'),
  {
    ...thing,
    columns: {
      ...thing.columns,
      name: { type: 'text', label: `Name ${SCRIPT}`, help: `Help ${IMAGE}` },
      note: { type: 'text', null: true, label: `"><script>alert(1)</script>` },
      colour: { type: 'string', choices: ['red', SCRIPT, IMAGE], default: 'red' },
      extra: { type: 'json', null: true },
      related: { type: 'foreignKey', references: 'named', null: true, onDelete: 'cascade' },
    },
    admin: { ...thing.admin, title: `Things ${IMAGE}`, group: `Group ${SCRIPT}`, label: '<b onclick="x">{name} {related}', list: ['name', 'note', 'colour', 'extra', 'related', 'author'] },
  },
  { model: 'named', primaryKey: { type: 'string', column: 'code' }, columns: { title: { type: 'text' } }, admin: { label: 'title' } },
] as unknown as Resource[]; // prettier-ignore

let service: TestService;
let ada: Browser;
const ids: string[] = [];
before(async () => {
  service = await startService(resources);
  await service.addUser(IMAGE, { admin: true, email: SCRIPT });
  for (const text of HOSTILE) {
    const code = text.slice(0, 60);
    await service.sql`insert into named (code, title) values (${code}, ${text})`;
    const json = JSON.stringify({ [text]: text });
    const [row] =
      await service.sql`insert into thing (name, note, colour, extra, related_id, author_id, secret, hidden)
      values (${text}, ${text}, ${text.slice(0, 250)}, ${json}::text::jsonb, ${code}, 1, ${code}, 'out of sight') returning id`;
    ids.push(String(row?.['id']));
  }
  ada = await logIn(service, IMAGE, `pw-${IMAGE}`);
});
after(() => service.close());

/** A tag as HTML's tokenizer takes it: a name, and attributes in quotes; whatever else a page has would be a hole. */
const TAG = /^<\/?[a-z][a-z0-9]*(?:\s+[a-z-]+(?:="[^"<>]*")?)*\s*\/?>/;

/** Fails where a page holds anything but the tags and attributes that its source writes. */
function assertEscaped({ text, status }: Pick<AdminAnswer, 'text' | 'status'>, what: string): void {
  assert.ok(status < 500, `${what}: ${status}`);
  assert.match(text, /^<!doctype html>\n/, what);
  for (let at = text.indexOf('<', 2); at >= 0; at = text.indexOf('<', at + 1)) {
    const [tag] = TAG.exec(text.slice(at, at + 20_000)) ?? [];
    assert.ok(tag, `${what}: ${JSON.stringify(text.slice(at, at + 120))}`);
    assert.doesNotMatch(tag, /^<(img|iframe|object|embed|base|b )/, what);
    const bare = tag.replace(/="[^"]*"/g, '=""');
    assert.doesNotMatch(bare, /\s(on[a-z]+|style|srcdoc|formaction)[=\s>]/, what);
    if (tag.startsWith('<script'))
      assert.match(tag, /^<script src="\/admin\/-\/script-[0-9a-f]+\.js" defer>$/, what);
    const [, address] = /\s(?:href|src|action)="([^"]*)"/.exec(tag) ?? [];
    if (address !== undefined) assert.match(address, /^(\/(?!\/)|#|data:,$|\?)/, what);
  }
  assert.doesNotMatch(text, /argon2|out of sight/, what);
}

const addresses = (): string[] => {
  const records = ids.flatMap((id) =>
    ['', 'delete/', 'history/'].map((part) => `/admin/thing/${id}/${part}`),
  );
  const keys = HOSTILE.map((text) => `/admin/named/${encodeURIComponent(text.slice(0, 60))}/`);
  const queries = HOSTILE.flatMap((text) => {
    const value = encodeURIComponent(text);
    return [
      `/admin/thing/?_search=${value}`, `/admin/thing/?note=${value}`, `/admin/thing/?${value}=${value}`, `/admin/thing/?amount=${value}`,
      `/admin/thing/?related=${encodeURIComponent(text.slice(0, 60))}`, `/admin/thing/?ordering=${value}&page=${value}&limit=${value}`,
      `/admin/thing/?_filter=${value}`, `/admin/thing/?_${value}=${value}`, `/admin/thing/-/add/?note=${value}&related=${value}&amount=${value}`,
      `/admin/thing/-/filter/?_path=author&_how=eq&_value=${value}&_state=${encodeURIComponent(`note=${value}`)}`,
      `/admin/vitrine_history/?_search=${value}`, `/admin/${encodeURIComponent(text)}/`, `/admin/thing/${encodeURIComponent(text)}/`,
    ]; // prettier-ignore
  });
  const pages = ['/admin/', '/admin/thing/', '/admin/named/', '/admin/user/', '/admin/user/1/', '/admin/user/1/password/', '/admin/-/account/', '/admin/vitrine_history/', '/admin/thing/-/import/', '/admin/thing/?_filter=colour', '/admin/thing/?_filter=related']; // prettier-ignore
  return [...pages, ...records, ...keys, ...queries];
};

test('every page that shows it', async () => {
  for (const address of addresses()) {
    const answer = await ada.get(address);
    const page = answer.status === 303 ? await ada.follow(answer) : answer;
    assertEscaped(page, address);
  }
});

test('what was typed and comes back with its faults, and the messages about what was done', async () => {
  for (const text of HOSTILE) {
    const typed = { name: text, note: text, amount: text, at: text, code: text, extra: text, colour: text, related_id: text, author_id: text, secret: text, _list: text }; // prettier-ignore
    for (const path of ['/admin/thing/-/add/', `/admin/thing/${ids[0]}/`]) {
      assertEscaped(await ada.post(path, { ...typed, [text]: text }), `${path} ${text}`);
      const lookup = await ada.post(path, { ...typed, [text]: text, _lookup: 'related_id', _find: text });
      assertEscaped(lookup, `${path} ${text}`);
    }
    for (const path of ['/admin/-/account/', '/admin/user/1/password/'])
      assertEscaped(await ada.post(path, { _password: text, _repeat: 'other', username: text }), path);
    for (const fields of [
      { _text: text },
      { _text: `name,${text}\n1,2\n` },
      { _text: `id,name\n"${text.replaceAll('"', '""')}",x\n` },
    ])
      assertEscaped(await ada.post('/admin/thing/-/import/', fields), `import ${text}`);
    const bulk = { _action: 'delete', _state: `note=${encodeURIComponent(text)}`, _all: '1' };
    const asked = await ada.post('/admin/thing/-/bulk/', bulk);
    assertEscaped(asked.status === 303 ? await ada.follow(asked) : asked, `bulk ${text}`);
    assertEscaped(
      await ada.post('/admin/thing/-/bulk/', { ...bulk, _action: text, _state: text }),
      `bulk ${text}`,
    );
    const form = new FormData();
    form.append('_file', new Blob([`${text}\n1\n`]), text);
    assertEscaped(await ada.upload('/admin/thing/-/import/', form), `file ${text}`);
    const saved = await ada.post('/admin/named/-/add/', {
      id: `new ${text.slice(0, 50)}`,
      title: text,
      _save: 'stay',
    });
    assert.equal(saved.status, 303);
    assertEscaped(await ada.follow(saved), `flash ${text}`);
    const out = openBrowser(service);
    await out.get('/admin/-/login/');
    assertEscaped(
      await out.post('/admin/-/login/', { username: text, password: 'x', next: text }, {}),
      `login ${text}`,
    );
  }
});

test(
  'a browser runs none of it, and has nothing to complain about',
  { skip: !existsSync(CHROMIUM) },
  async () => {
    const chrome = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
    try {
      const context = await chrome.newContext();
      await context.addCookies(
        [...ada.cookies].map(([name, value]) => ({ name, value, url: `${service.base}/admin/` })),
      );
      const page = await context.newPage();
      const seen: string[] = [];
      page.on('dialog', (dialog) => {
        seen.push(`dialog ${dialog.message()}`);
        void dialog.dismiss();
      });
      page.on('pageerror', (error) => seen.push(String(error)));
      page.on('console', (message) => {
        // Of pages that say no, and advice on forms, browsers tell here as well.
        if (!/status of 4|^\[DOM\]/.test(message.text())) seen.push(message.text());
      });
      page.on('request', (request) => {
        const url = new URL(request.url());
        if (url.protocol !== 'data:' && url.origin !== service.base) seen.push(request.url());
      });
      for (const address of addresses().filter((_, index) => index % 4 === 0 || index < 20)) {
        await page.goto(service.base + address, { waitUntil: 'load' });
        assert.deepEqual(seen, [], address);
      }
    } finally {
      await chrome.close();
    }
  },
);
