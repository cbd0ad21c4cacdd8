// The pages of the API for browsers: contents, links and commands.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { user } from '../../src/resources/registry.ts';
import { commandPath, startService, type Answer, type TestService } from '../support.ts';
import { openShelf } from './shelf.ts';
import { after, before, describe, test } from 'node:test';

const HTML = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

const unescaped = (text: string): string =>
  text.replace(
    /&(lt|gt|quot|amp|#39);/g,
    (_, name: string) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" })[name] ?? '',
  );
const textOf = (markup: string): string => unescaped(markup.replace(/<[^>]*>/g, ''));
/** The visible text, on one line. */
const readable = ({ text }: Answer): string =>
  textOf((/<main[\s\S]*<\/main>/.exec(text)?.[0] ?? '').replace(/<(?!\/?(?:code|a|b)\b)[^>]*>/g, ' '))
    .replace(/\s+/g, ' ')
    .trim();
const jsonOf = ({ text }: Answer): string =>
  textOf(/<pre class="json">([\s\S]*?)<\/pre>/.exec(text)?.[1] ?? '');
const linksOf = ({ text }: Answer): string[] =>
  [...text.matchAll(/<a\b[^>]*?href="([^"]*)"/g)].map(([, href = '']) => unescaped(href));
const commandsOf = ({ text }: Answer): string[] =>
  [...text.matchAll(/<pre><code>(curl [\s\S]*?)<\/code><\/pre>/g)].map(([, code = '']) => unescaped(code));

describe('the API in a browser', () => {
  let service: TestService;
  before(async () => {
    service = await openShelf();
  });
  after(() => service.close());

  const get = (path: string, user?: string, headers: Record<string, string> = {}): Promise<Answer> =>
    service.request(path, { ...(user === undefined ? {} : { user }), headers: { ...HTML, ...headers } });
  const run = async (command: string): Promise<string> => {
    const env = { PATH: commandPath(), NO_PROXY: '*' };
    const line = command.replace(/-u '(\w+)'/, "-u '$1:pw-$1'").replace('curl ', 'curl -s ');
    return (await promisify(execFile)('sh', ['-c', line], { env })).stdout;
  };

  test('lists the resources as JSON, with links to those that have pages', async () => {
    const page = await get('/api/');
    assert.equal(page.status, 200);
    assert.deepEqual(JSON.parse(jsonOf(page)), (await service.request('/api/')).json);
    const listed = linksOf(page).filter((link) => /^\/api\/\w+\/$/.test(link));
    assert.deepEqual(
      listed,
      ['user', 'secret', 'book', 'letter', 'diary'].map((name) => `/api/${name}/`),
    );
  });

  test('names the columns and operators of filters, and the resources that foreign keys refer to', async () => {
    const text = readable(await get('/api/book/'));
    for (const shown of [
      'reader eq, ne, in, is, lt, lte, gt, gte user',
      'data eq, ne, in, is, contains',
      'title eq, ne, in, is, lt, lte, gt, gte, like, ilike',
    ])
      assert.ok(text.includes(shown), `${shown} is not in ${text}`);
    assert.doesNotMatch(text, /hidden/);
  });

  test('names no software, and neither do the admin area and its files', async () => {
    const paths = new Set([
      '/',
      '/api/',
      '/api/book/',
      '/api/nothing/',
      '/nothing/',
      '/admin/',
      '/admin/-/login/',
    ]);
    for (const path of paths) {
      const { text, headers } = await get(path);
      assert.doesNotMatch(`${text} ${JSON.stringify([...headers])}`, /vitrine/i, path);
      for (const [, file = ''] of text.matchAll(/(?:href|src)="([^"]*\.(?:css|js))"/g)) paths.add(file);
    }
    assert.ok([...paths].some((path) => path.endsWith('.js')));
  });

  test('shows excluded columns to no caller', async () => {
    for (const path of ['/api/', '/api/book/', '/api/book/1/', '/api/user/', '/api/user/1/', '/api/diary/'])
      assert.doesNotMatch((await get(path, 'ada')).text, /hidden<|hushed|password|email|argon2|writer/);
  });

  test('treats wrong credentials as none where none are needed', async () => {
    const authorization = `Basic ${btoa('ada:wrong')}`;
    for (const path of ['/api/', '/api/book/', '/api/book/1/'])
      assert.equal((await get(path, undefined, { authorization })).status, 200);
    assert.equal((await get('/api/letter/', undefined, { authorization })).status, 401);
    assert.equal((await get('/api/book/?secret__word=open', undefined, { authorization })).status, 401);
  });

  test('shows the JSON of a collection on several lines', async () => {
    for (const path of [
      '/api/book/',
      '/api/book/?limit=1&page=2&ordering=id',
      '/api/book/?id=99',
      '/api/user/',
    ]) {
      const { json } = await service.request(path);
      const shown = jsonOf(await get(path));
      assert.deepEqual(JSON.parse(shown), json);
      assert.equal(shown.split('\n')[1], '  "meta": {');
    }
  });

  test('shows a record with every digit, in the order of its keys, and escaped', async () => {
    assert.equal(
      jsonOf(await get('/api/book/1/')),
      `{
  "id": 1,
  "title": "Emma",
  "reader_id": 1,
  "secret_id": 1,
  "isbn": "9007199254740993",
  "price": "12.5000000000",
  "data": {
    "b": 1,
    "a": [
      1.50,
      12345678901234567890
    ],
    "a": "x\\ny"
  },
  "lent": false
}`,
    );
    const marked = await get('/api/book/3/');
    assert.deepEqual(JSON.parse(jsonOf(marked)), (await service.request('/api/book/3/')).json);
    assert.doesNotMatch(marked.text, /<b>you/);
  });

  test('links keys, foreign keys and pages, and only pages that exist', async () => {
    const seen = new Set<string>(['']);
    const walk = async (path: string): Promise<void> => {
      if (seen.has(path) || path.startsWith('/admin/')) return;
      seen.add(path);
      const page = await get(path, 'ada');
      assert.equal(page.status, 200, path);
      if (seen.size < 80) for (const link of linksOf(page)) await walk(link.replace(/#.*/, ''));
    };
    await walk('/api/book/?limit=1');
    for (const path of [
      '/api/',
      '/api/book/1/',
      '/api/user/1/',
      '/api/secret/1/',
      '/api/book/?limit=1&page=2',
    ])
      assert.ok(seen.has(path), path);
    // A caller who may not read the secret is asked for credentials.
    assert.ok(linksOf(await get('/api/book/1/')).includes('/api/secret/1/'));
    assert.equal((await get('/api/secret/1/')).status, 401);
  });

  test('accepts every query that the API accepts, also long ones', async () => {
    const ids = `id__in=${Array.from({ length: 999 }, (_, index) => index + 1000).join()}`;
    for (const query of [ids, `title__ne=${'x'.repeat(8000)}`, `title__ne=${'<>'.repeat(1300)}`]) {
      assert.equal((await service.request(`/api/book/?${query}`)).status, 200);
      const page = await get(`/api/book/?${query}&limit=1`);
      assert.equal(page.status, 200);
      for (const link of linksOf(page).filter((one) => one.includes('page=')))
        assert.equal((await get(link)).status, 200);
    }
  });

  test('shows a command that returns the same answer in a shell, with any query', async () => {
    for (const query of [
      '?limit=1',
      `?title__ne=it's+$(echo+x)+%60id%60+"%5C&lent=false`,
      '?data=[]',
      '?id__in=1,2&limit=1&page=2',
    ]) {
      const [command = ''] = commandsOf(await get(`/api/book/${query}`));
      const expected = await service.request(`/api/book/${query}`);
      assert.deepEqual(JSON.parse(await run(command)), expected.json);
    }
    const [record = ''] = commandsOf(await get('/api/letter/1/', 'bob'));
    assert.match(record, /^curl -u 'bob' 'http:/);
    assert.deepEqual(JSON.parse(await run(record)), { id: 1, text: 'to Ada', sender_id: null });
    // A query that needs credentials has a command with them.
    const [joined = ''] = commandsOf(await get('/api/book/?secret__word=open', 'ada'));
    assert.match(joined, /^curl -u 'ada' /);
    const [index = ''] = commandsOf(await get('/api/'));
    assert.deepEqual(JSON.parse(await run(index)), (await service.request('/api/')).json);
  });

  test('shows errors with their status, and each parameter with its message', async () => {
    const invalid = await get('/api/book/?nope=%3Cb%3E&limit=a&lent=false&hidden=1&_odd=1');
    assert.equal(invalid.status, 400);
    const text = readable(invalid);
    for (const shown of [
      'The query has parameters that cannot be used.',
      'nope: There is no such column.',
      'limit: Must be a positive whole number',
      'hidden: There is no such column.',
      '_odd: There is no such column.',
    ])
      assert.ok(text.includes(shown), `${shown} is not in ${text}`);
    assert.doesNotMatch(invalid.text, /<b>/);
    for (const [path, status, user] of [
      ['/api/book/?a=%ff', 400],
      [`/api/book/?a=${'x'.repeat(9000)}`, 414],
      ['/api/book/1/?x=1', 400],
      ['/api/?x=1', 400],
      ['/api/book/99/', 404],
      ['/api/nope/', 404],
      ['/api/-/nope.css', 404],
      ['/api/mailbox/', 405],
      ['/api/secret/', 403, 'bob'],
    ] as const) {
      const page = await get(path, user);
      assert.equal(page.status, status, path);
      assert.match(page.text, new RegExp(`<h1>${status} `));
    }
    await service.sql`alter table letter rename to moved`;
    try {
      const broken = await get('/api/letter/', 'bob');
      assert.equal(broken.status, 500);
      assert.doesNotMatch(broken.text, /relation|moved|letter"/);
      const [, id = ''] = /request <code>([^<]+)</.exec(broken.text) ?? [];
      assert.ok(service.lines.some((line) => line['id'] === id && line['stack']));
    } finally {
      await service.sql`alter table moved rename to letter`;
    }
  });

  test('has no parameters beside those of the API', async () => {
    for (const path of ['/api/book/?_filter=id', '/api/book/?_count=exact', '/api/book/1/?_format=json'])
      for (const accept of [HTML.accept, '*/*'])
        assert.equal((await get(path, undefined, { accept })).status, 400, `${path} ${accept}`);
  });

  test('has the security headers of the admin area, and no inline script or style', async () => {
    const { headers: admin } = await get('/admin/-/login/');
    for (const path of ['/api/', '/api/book/', '/api/book/1/', '/api/nope/', '/api/book/?nope=1']) {
      const { headers, text } = await get(path);
      for (const name of [
        'content-security-policy',
        'referrer-policy',
        'x-content-type-options',
        'x-frame-options',
        'cross-origin-opener-policy',
        'cross-origin-resource-policy',
        'cache-control',
      ])
        // prettier-ignore
        assert.equal(headers.get(name), admin.get(name), name);
      assert.ok(headers.get('content-security-policy'));
      assert.doesNotMatch(text, /<script|<style|\sstyle=|\son\w+=/);
    }
  });
});

test('a page of the API links to what the caller may read', async () => {
  const service = await startService([
    user,
    { model: 'vault', columns: { name: { type: 'string' } }, read: 'admin', access: 'admin' },
    {
      model: 'box',
      columns: { vault: { type: 'foreignKey', references: 'vault' } },
      read: 'user',
      access: 'user',
    },
  ]);
  try {
    await service.addUser('bob');
    await service.addUser('ada', { admin: true });
    await service.sql`insert into vault (name) values ('x')`;
    await service.sql`insert into box (vault_id) values (1)`;
    for (const [name, links] of [
      ['bob', []],
      ['ada', ['/api/vault/1/', '/api/vault/']],
    ] as const) {
      const page = await service.request('/api/box/', { user: name, headers: HTML });
      assert.deepEqual(JSON.parse(jsonOf(page)).objects, [{ id: 1, vault_id: 1 }]);
      assert.deepEqual(
        linksOf(page).filter((link) => link.includes('vault')),
        links,
      );
    }
  } finally {
    await service.close();
  }
});

test('the pages of a service without users have a style sheet, and no link to the admin area', async () => {
  const service = await startService([{ model: 'note', columns: { text: { type: 'text' } } }]);
  try {
    for (const path of ['/api/', '/api/note/', '/api/nope/']) {
      const page = await service.request(path, { headers: HTML });
      const [, style = ''] = /<link rel="stylesheet" href="([^"]*)"/.exec(page.text) ?? [];
      const file = await service.request(style);
      assert.deepEqual([file.status, file.headers.get('content-type')], [200, 'text/css; charset=utf-8']);
      assert.match(file.headers.get('cache-control') ?? '', /immutable/);
      assert.doesNotMatch(page.text, /\/admin\//);
    }
    assert.equal((await service.request('/admin/')).status, 404);
  } finally {
    await service.close();
  }
});
