// Hostile text is escaped in every place where the admin area shows it.
import assert from 'node:assert/strict';
import type { TestService } from '../support.ts';
import { HOSTILE, openHostileSite, type HostileSite } from './hostile-site.ts';
import { openBrowser, type AdminAnswer, type Browser } from './support.ts';
import { after, before, test } from 'node:test';

let site: HostileSite;
let service: TestService;
let ada: Browser;
before(async () => {
  site = await openHostileSite();
  ({ service, ada } = site);
});
after(() => service.close());

/** A tag as the pages write it: a name, and attributes in double quotes. Any other `<` would be a missed escape. */
const TAG = /^<\/?[a-z][a-z0-9]*(?:\s+[a-z-]+(?:="[^"<>]*")?)*\s*\/?>/;

/** Checks that a page has only tags and attributes that the source writes. */
function assertEscaped({ text, status }: Pick<AdminAnswer, 'text' | 'status'>, page: string): void {
  assert.ok(status < 500, `${page}: ${status}`);
  assert.match(text, /^<!doctype html>\n/, page);
  for (let at = text.indexOf('<', 2); at >= 0; at = text.indexOf('<', at + 1)) {
    const [tag] = TAG.exec(text.slice(at, at + 20_000)) ?? [];
    assert.ok(tag, `${page}: ${JSON.stringify(text.slice(at, at + 120))}`);
    assert.doesNotMatch(tag, /^<(img|iframe|object|embed|base|b )/, page);
    const bare = tag.replace(/="[^"]*"/g, '=""');
    assert.doesNotMatch(bare, /\s(on[a-z]+|style|srcdoc|formaction)[=\s>]/, page);
    if (tag.startsWith('<script'))
      assert.match(tag, /^<script src="\/admin\/-\/script-[0-9a-f]+\.js" defer>$/, page);
    const [, address] = /\s(?:href|src|action)="([^"]*)"/.exec(tag) ?? [];
    if (address !== undefined) assert.match(address, /^(\/(?!\/)|#|data:,$|\?)/, page);
  }
  assert.doesNotMatch(text, /argon2|out of sight/, page);
}

test('hostile text is escaped on every page that shows it', async () => {
  for (const address of site.addresses) {
    const answer = await ada.get(address);
    const page = answer.status === 303 ? await ada.follow(answer) : answer;
    assertEscaped(page, address);
  }
});

test('typed hostile text is escaped in forms with errors and in messages', async () => {
  for (const text of HOSTILE) {
    const typed = { name: text, note: text, amount: text, at: text, code: text, extra: text, colour: text, related_id: text, author_id: text, secret: text, _list: text }; // prettier-ignore
    for (const path of ['/admin/thing/-/add/', `/admin/thing/${site.ids[0]}/`]) {
      assertEscaped(await ada.post(path, { ...typed, [text]: text }), `${path} ${text}`);
      const lookup = await ada.post(path, { ...typed, [text]: text, _lookup: 'related_id', _find: text });
      assertEscaped(lookup, `${path} ${text}`);
    }
    for (const path of ['/admin/-/account/', '/admin/user/1/password/'])
      assertEscaped(await ada.post(path, { _password: text, _repeat: 'other', username: text }), path);
    assertEscaped(await ada.post('/admin/-/tokens/', { label: text, resources: text, methods: text }), text);
    for (const fields of [
      { _text: text },
      { _text: `name,${text}\n1,2\n` },
      { _text: `id,name\n"${text.replaceAll('"', '""')}",x\n` },
      { _text: `name,note\nnew,"${text.replaceAll('"', '""')}"\n` },
      { _text: `id,note\n${site.ids[0]},"${text.replaceAll('"', '""')}"\n` },
      { _text: `id,note\n${site.ids[0]},calm\n` },
    ])
      assertEscaped(await ada.post('/admin/thing/-/import/', fields), `import ${text}`);
    const bulk = { _action: 'delete', _state: `note=${encodeURIComponent(text)}`, _all: '1' };
    const confirmation = await ada.post('/admin/thing/-/bulk/', bulk);
    assertEscaped(
      confirmation.status === 303 ? await ada.follow(confirmation) : confirmation,
      `bulk ${text}`,
    );
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
