import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { wire } from '../http/wire.ts';

const word: Resource = {
  model: 'word',
  columns: { text: { type: 'string' }, long: { type: 'text', null: true } },
};
const LEVELS = ['default', 'user', 'admin'] as const;
/** A model for each pair of levels. */
const pairs = LEVELS.flatMap((access) =>
  LEVELS.map((read): Resource => ({ ...word, model: `${access}_${read}`, access, read })),
);

describe('the small print', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, word, ...pairs], { access: 'user' });
    const rows = ['', ' ', 'a', 'null'].map((text) => ({ text, long: text }));
    await service.sql`insert into word ${service.sql(rows)}`;
    await service.sql`insert into word (text) values ('b')`;
  });
  after(() => service.close());

  test('between the commas of an in nothing is the empty string, and nothing else', async () => {
    for (const [query, texts] of [
      ['text__in=,a', ['', 'a']],
      ['text__in=a,', ['', 'a']],
      ['text__in=a,,b', ['', 'a', 'b']],
      ['text__in=,', ['']],
      ['text__in=%22%22', ['']],
      ['long__in=,b', ['']],
      ['long__in=%22 %22', [' ']],
      ['-text__in=,a', [' ', 'null', 'b']],
      ['text=', ['']],
      ['text__ne=', [' ', 'a', 'null', 'b']],
      ['long__in=null', ['null']],
    ] as const) {
      const { status, json } = await service.request(`/api/word/?${query}`);
      assert.equal(status, 200, query);
      assert.deepEqual(
        json.objects.map((object: { text: string }) => object.text),
        texts,
        query,
      );
    }
  });

  test('a list may hold backslashes and quotes, in values as in patterns', async () => {
    const odd = ['\\', 'a\\b', 'c"d', '{e}', 'f\\"'];
    await service.sql`insert into word ${service.sql(odd.map((text) => ({ text, long: 'odd' })))}`;
    for (const text of odd) {
      const pattern = text.replaceAll('\\', '\\\\');
      const queries: [string, string][][] = [
        [
          ['text', text],
          ['text', 'nothing'],
        ],
        [['text__in', `"${text.replaceAll('"', '""')}",nothing`]],
        [
          ['text__like', pattern],
          ['text__like', 'nothing'],
        ],
      ];
      for (const query of queries) {
        const { json } = await service.request(`/api/word/?${new URLSearchParams(query).toString()}`);
        assert.deepEqual(
          json.objects?.map((object: { text: string }) => object.text),
          [text],
          query.join(),
        );
      }
    }
    await service.sql`delete from word where long = 'odd'`;
  });

  test('of a parameter that is repeated each counts as a filter', async () => {
    const repeated = (times: number): Promise<Answer> =>
      service.request(`/api/word/?${'text=a&'.repeat(times)}limit=5`);
    assert.equal((await repeated(50)).status, 200);
    const { status, json } = await repeated(51);
    assert.deepEqual([status, Object.keys(json.errors)], [400, ['text']]);
  });

  test('the list of resources tells the levels for reading and for writing, the service-wide one too', async () => {
    const { json } = await service.request('/api/');
    const told = json.resources.map(({ name, access, read }: Record<string, string>) => [name, access, read]);
    assert.deepEqual(told, [
      ['user', 'admin', 'default'],
      ['word', 'user', 'default'],
      ...pairs.map(({ model, access, read }) => [model, access, read]),
    ]);
  });

  test('the list of resources takes no parameters, with and without the last slash', async () => {
    for (const path of ['/api/', '/api']) {
      for (const name of ['limit', 'page', 'ordering', 'name', 'word']) {
        const { status, json } = await service.request(`${path}?${name}=1`);
        assert.deepEqual([status, Object.keys(json.errors ?? {})], [400, [name]], `${path}?${name}`);
      }
    }
  });

  for (const [what, bytes, status] of [
    ['no request', 'nonsense\r\n\r\n', 400],
    ['an address that is too long', `GET /${'x'.repeat(40_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414],
    ['headers that are too large', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`, 431],
    ['a request without a Host', 'GET /api/ HTTP/1.1\r\n\r\n', 400],
  ] as const) {
    test(`the answer to ${what} names no software and forbids sniffing, like any other`, async () => {
      const connection = wire(service);
      connection.send(bytes);
      const answer = await connection.next();
      connection.destroy();
      assert.equal(answer?.status, status);
      for (const name of ['server', 'x-powered-by', 'via']) assert.equal(answer.headers[name], undefined);
      assert.equal(answer.headers['x-content-type-options'], 'nosniff');
      assert.equal(answer.headers['content-type'], 'application/problem+json');
      assert.doesNotMatch(answer.body, /node|vitrine|postgres|\d\.\d/i);
    });
  }
});

test('a value that an enum does not have is 400 and named, in a filter as in a body', async () => {
  const felt: Resource = { model: 'felt', columns: { mood: { type: 'string' } }, access: 'user' };
  const service = await startService([user, felt], {
    prepare: (sql) =>
      sql.unsafe(`
        create type mood as enum ('sad', 'glad');
        create table felt (id integer generated by default as identity primary key, mood mood not null)`),
  });
  try {
    await service.addUser('bob');
    const post = (mood: string): Promise<Answer> =>
      service.request('/api/felt/', { method: 'POST', user: 'bob', body: { mood, nope: 1 } });
    for (const [mood, named] of [
      ['glad', ['nope']],
      ['mad', ['mood', 'nope']],
    ] as const) {
      const { status, json } = await post(mood);
      assert.deepEqual([status, Object.keys(json.errors)], [400, named]);
    }
    for (const query of ['mood=mad', 'mood__in=sad,mad', '-mood__ne=mad']) {
      const { status, json } = await service.request(`/api/felt/?${query}`);
      assert.deepEqual([status, Object.keys(json.errors ?? {})], [400, [query.split('=')[0]]], query);
    }
    assert.equal((await service.request('/api/felt/?mood__in=sad,glad')).status, 200);
  } finally {
    await service.close();
  }
});

test('a service that is ending is alive and not ready any more, to requests that were under way', async () => {
  for (const [path, status] of [
    ['/healthz', 200],
    ['/readyz', 503],
  ] as const) {
    const service = await startService([word]);
    const connection = wire(service);
    const head = `GET ${path} HTTP/1.1\r\nHost: x\r\n`;
    connection.send(`${head}\r\n${head}`); // the second lacks its last line
    assert.equal((await connection.next())?.status, 200);
    const closing = service.close();
    connection.send('\r\n');
    const answer = await connection.next();
    assert.equal(answer?.status, status);
    assert.equal(answer.headers['connection'], 'close');
    assert.equal(answer.headers['retry-after'] !== undefined, status === 503);
    await closing;
  }
});
