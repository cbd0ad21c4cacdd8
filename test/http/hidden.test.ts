import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { request, startService, type TestService } from '../support.ts';
import { createVitrine } from '../../src/index.ts';

const one: Resource = {
  model: 'one',
  columns: {
    me: { type: 'foreignKey', references: 'user', unique: true },
    code: { type: 'string', default: 'k', unique: true, null: true },
    number: { type: 'integer', null: true },
    big: { type: 'bigint', null: true },
    json: { type: 'json', null: true },
    day: { type: 'date', null: true },
    moment: { type: 'datetime', null: true },
    secret: { type: 'foreignKey', references: 'secret', null: true },
  },
  access: 'user',
  owner: 'me',
  exclude: ['me', 'code'],
};
const locked: Resource = {
  model: 'locked',
  columns: { name: { type: 'text', null: true } },
  methods: ['GET'],
};

const secret: Resource = { model: 'secret', columns: { code: { type: 'text', null: true } }, read: 'user' };

describe('kind is hidden and kind is exact', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, one, locked, secret]);
    for (const name of ['ada', 'bob', 'eve']) await service.addUser(name);
  });
  after(() => service.close());

  const post = (name: string, body: object) =>
    service.request('/api/one/', { method: 'POST', user: name, body });

  test('a duplicate in a hidden column is 409 without its name, also for a default or an owner', async () => {
    assert.equal((await post('ada', { code: 'a' })).status, 201);
    const byOwner = await post('ada', { code: 'b' });
    assert.deepEqual([byOwner.status, byOwner.json.errors], [409, undefined]);
    assert.equal((await post('bob', {})).status, 201);
    const byDefault = await post('eve', {});
    assert.deepEqual([byDefault.status, byDefault.json.errors], [409, undefined]);
    const bySent = await post('eve', { code: 'a' });
    assert.deepEqual([bySent.status, bySent.json.errors], [409, undefined]);
  });

  test('an entity tag changes when the registry shows other columns', async () => {
    const { headers } = await service.request('/api/user/1/');
    const tag = headers.get('etag') ?? '';
    const narrower: Resource = { ...user, exclude: ['password', 'email', 'join_date'] };
    const resources = [narrower, one, locked, secret];
    const other = await createVitrine({ databaseUrl: service.url, resources, port: 0, log: () => undefined });
    const { url } = await other.start();
    const again = (base: string) => request(base, '/api/user/1/', { headers: { 'if-none-match': tag } });
    assert.equal((await again(service.base)).status, 304);
    assert.equal((await again(url)).status, 200);
    await other.close();
  });

  test('wrong credentials do not show the columns of a protected resource', async () => {
    const ask = (query: string) =>
      service.request(`/api/one/?${query}`, { headers: { authorization: 'Basic eDp4' } });
    for (const query of [
      'secret__code=1',
      'secret__nothing=1',
      'ordering=secret__code',
      'ordering=secret__nothing',
    ]) {
      assert.equal((await ask(query)).status, 401, query);
    }
    assert.equal((await ask('secret__gt=1')).status, 200);
  });

  for (const [sent, status, key] of [
    ['{"number":4.9999999999999999999}', 400, 'number'],
    ['{"number":1e-99999999}', 400, 'number'],
    ['{"number":2147483647.00000001}', 400, 'number'],
    ['{"number":1.0}', 200, 1],
    ['{"number":1e2}', 200, 100],
    ['{"number":-0.5e1}', 200, -5],
    [`{"json":${'1'.repeat(140_000)}}`, 400, 'json'],
    ['{"day":"10000-01-01"}', 400, 'day'],
    ['{"moment":"0044-03-15 00:00:00 BC"}', 400, 'moment'],
    ['{"big":1.0}', 200, '1'],
    ['{"big":9.007199254740993e15}', 200, '9007199254740993'],
    ['{"big":1.5}', 400, 'big'],
  ] as const) {
    test(`${sent.slice(0, 60)} is ${status}`, async () => {
      const answer = await service.request('/api/one/1/', {
        method: 'PUT',
        user: 'ada',
        body: sent,
        headers: { 'content-type': 'application/json' },
      });
      assert.equal(answer.status, status, answer.text);
      if (status === 400) assert.deepEqual(Object.keys(answer.json.errors), [key]);
      else assert.equal(sent.includes('big') ? answer.json.big : answer.json.number, key);
    });
  }

  const piece = (headers: string, body: string): string => `--BB\r\n${headers}\r\n\r\n${body}\r\n`;
  const part = (head: string, body: string): string => piece(`Content-Disposition: form-data; ${head}`, body);
  const data = part('name="data"', '{"number":7}');
  for (const [kind, text] of [
    ['a name without quotes', `${part('name=data', '{"number":7}')}--BB--\r\n`],
    ['a parameter in capitals', `${part('NAME="data"', '{"number":7}')}--BB--\r\n`],
    [
      'headers in capitals and without spaces',
      `${piece('CONTENT-DISPOSITION:FORM-DATA;name=data', '{"number":7}')}--BB--\r\n`,
    ],
    [
      'a header over two lines',
      `${piece('Content-Disposition: form-data;\r\n\tname="data"', '{"number":7}')}--BB--\r\n`,
    ],
    [
      'other headers before and behind',
      `${piece('X-Name: form-data; name="x"\r\nContent-Disposition: form-data; name="data"\r\nContent-Type: text/plain', '{"number":7}')}--BB--\r\n`,
    ],
    ['data with its file name first', `${part('filename="x"; name="data"', '{"number":7}')}--BB--\r\n`],
    [
      'a file name that contains name=',
      `${part('filename="; name=x"; name=data', '{"number":7}')}--BB--\r\n`,
    ],
    ['a file with a name without quotes', `${part('name=file; filename=a.txt', 'x')}${data}--BB--\r\n`],
    ['a file with its file name first', `${part('filename="a.txt"; name="file"', 'x')}${data}--BB--\r\n`],
    [
      'a file with two file names',
      `${part(`name=file; filename="a.txt"; filename*=utf-8''a.txt`, 'x')}${data}--BB--\r\n`,
    ],
    [
      'a part that ends after its headers',
      `--BB\r\nContent-Disposition: form-data; name="x"\r\n\r\n${data}--BB--\r\n`,
    ],
    [
      'a file name with escaped backslashes',
      `${part('filename="C:\\\\x\\\\"; name="data"', '{"number":7}')}--BB--\r\n`,
    ],
    ['an escaped letter', `${part('name="d\\ata"', '{"number":7}')}--BB--\r\n`],
    ['a field with an empty name', `${part('name=""', 'x')}${data}--BB--\r\n`],
    ['a backslash at the end of a name', `${part('name="a\\"', 'x')}${data}--BB--\r\n`],
    ['an escaped quote in another name', `${part('name="a\\"b"', 'x')}${data}--BB--\r\n`],
    ['text before and after the parts', `before\r\n${data}--BB--\r\nbehind`],
    ['no line break at its end', `${data}--BB--`],
  ] as const) {
    test(`a multipart body with ${kind} is read`, async () => {
      await service.sql`update one set number = 0`;
      const headers = { 'content-type': 'multipart/form-data; boundary=BB' };
      const answer = await service.request('/api/one/1/', {
        method: 'PUT',
        user: 'ada',
        headers,
        body: text,
      });
      assert.deepEqual([answer.status, answer.json.number], [200, 7]);
    });
  }

  for (const username of ['', 'a:b', ':']) {
    test(`the user name "${username}", which could not log in, is 400 on POST and PUT`, async () => {
      await service.sql`update "user" set admin = true where username = 'ada'`;
      for (const [method, path] of [
        ['POST', '/api/user/'],
        ['PUT', '/api/user/2/'],
      ] as const) {
        const body = { username, password: 'x', email: 'x' };
        const { status, json } = await service.request(path, { method, user: 'ada', body });
        assert.deepEqual([status, Object.keys(json.errors)], [400, ['username']]);
      }
    });
  }

  test('a write at the default level is 401 even if the resource does not list the method', async () => {
    for (const [method, path] of [
      ['POST', '/api/locked/'],
      ['PUT', '/api/locked/1/'],
      ['DELETE', '/api/locked/1/'],
    ]) {
      assert.equal(
        (await service.request(path ?? '', { method: method ?? '', user: 'ada', body: {} })).status,
        401,
      );
    }
    // It does not matter whether the path allows the method.
    assert.equal(
      (await service.request('/api/locked/', { method: 'PUT', user: 'ada', body: {} })).status,
      401,
    );
    const { status, headers } = await service.request('/api/locked/', {
      method: 'PATCH',
      user: 'ada',
      body: {},
    });
    assert.deepEqual([status, headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
  });
});
