// The OpenAPI document of a running service: what it says of addresses, bodies and paths works.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user, note } from '../../src/resources/registry.ts';
import { MAJOR_VERSION, startService } from '../support.ts';
import { resolve } from './openapi.ts';
import { describe, test } from 'node:test';

describe('the OpenAPI document of a service', () => {
  test('has addresses that are the server followed by the path', async () => {
    const service = await startService([user, note]);
    try {
      const { json } = await service.request('/api/openapi.json');
      assert.equal(json.servers.length, 1);
      for (const path of ['/api', '/api/note', '/healthz']) {
        assert.ok(path in json.paths, path);
        const { status } = await service.request(`${json.servers[0].url}${path}`);
        assert.equal(status, 200, path);
      }
    } finally {
      await service.close();
    }
  });

  test('has a login for a list that credentials change, also where it does not need them', async () => {
    const service = await startService([
      user,
      note,
      { model: 'costly', columns: { text: { type: 'string' } }, costly: 'user' },
      { model: 'costliest', columns: { text: { type: 'string' } }, costly: 'admin' },
      { model: 'counted', columns: { text: { type: 'string' } }, maxCount: 10 },
      { model: 'team', columns: { text: { type: 'string' } }, read: 'user' },
      { model: 'member', columns: { team: { type: 'foreignKey', references: 'team' } } },
      { model: 'task', columns: { member: { type: 'foreignKey', references: 'member' } } },
    ]);
    try {
      const { json } = await service.request('/api/openapi.json');
      const open = [{}, { user: [] }];
      for (const [model, security, statuses] of [
        ['note', [], []],
        ['costly', open, ['401', '429']],
        ['costliest', open, ['401', '403', '429']],
        ['counted', open, ['401', '429']],
        ['member', open, ['401', '429']],
        ['task', open, ['401', '429']],
      ] as const) {
        const { get } = json.paths[`/api/${model}`];
        assert.deepEqual(get.security, security, model);
        const refusals = ['401', '403', '429'].filter((status) => status in get.responses);
        assert.deepEqual(refusals, statuses, model);
      }
    } finally {
      await service.close();
    }
  });

  test('lists the media types of each body', async () => {
    const service = await startService([user, { ...note, access: 'user' }]);
    try {
      await service.addUser('ada');
      const { json } = await service.request('/api/openapi.json', { user: 'ada' });
      const body = { message: 'hello' };
      const made = await service.request('/api/note/', { method: 'POST', user: 'ada', body });
      const common = ['application/json', 'application/x-www-form-urlencoded', 'multipart/form-data'];
      const item = json.paths['/api/note/{id}'];
      const bodies: [method: string, content: Record<string, unknown>, types: readonly string[]][] = [
        ['POST', json.paths['/api/note'].post.requestBody.content, common],
        ['PUT', item.put.requestBody.content, common],
        ['PATCH', item.patch.requestBody.content, [...common, 'application/merge-patch+json']],
      ];
      for (const [method, content, types] of bodies)
        assert.deepEqual(Object.keys(content).toSorted(), types.toSorted(), method);
      const patched = await service.request(`/api/note/${made.json.id}/`, {
        method: 'PATCH',
        user: 'ada',
        headers: { 'content-type': 'application/merge-patch+json' },
        body: { message: 'changed' },
      });
      assert.deepEqual([patched.status, patched.json.message], [200, 'changed']);
    } finally {
      await service.close();
    }
  });

  test('has the ETag of a collection that caches may keep, and of no other', async () => {
    const service = await startService([user, { ...note, cache: 60 }]);
    try {
      const { json } = await service.request('/api/openapi.json');
      for (const [path, isCached] of [
        ['/api/note', true],
        ['/api/user', false],
      ] as const) {
        const { parameters, responses } = json.paths[path].get;
        const names = (parameters as { $ref?: string }[]).map(({ $ref }) => $ref?.split('/').at(-1));
        assert.equal(names.includes('IfNoneMatch'), isCached);
        assert.deepEqual(['304' in responses, 'ETag' in responses[200].headers], [isCached, isCached]);
        const { headers } = await service.request(path);
        assert.equal(headers.has('etag'), isCached);
        const known = await service.request(path, {
          headers: { 'if-none-match': headers.get('etag') ?? '"x"' },
        });
        assert.equal(known.status, isCached ? 304 : 200);
      }
    } finally {
      await service.close();
    }
  });

  test('has the Link of a collection as CSV, and the position that replicas need', async () => {
    const service = await startService([user, { ...note, access: 'user' }]);
    try {
      const { json } = await service.request('/api/openapi.json');
      const [collection, record] = [json.paths['/api/note'], json.paths['/api/note/{id}']];
      const parametersOf = ({ parameters }: { parameters: { $ref?: string }[] }): string[] =>
        parameters.map((parameter) => (resolve(json, parameter) as { name: string }).name);
      assert.ok('Link' in collection.get.responses[200].headers);
      await service.sql`insert into note (message) values ('one'), ('two')`;
      const page = await service.request('/api/note/?limit=1', { headers: { accept: 'text/csv' } });
      assert.equal(page.headers.get('link'), '</api/note/?limit=1&page=2>; rel="next"');
      for (const read of [collection.get, record.get])
        assert.ok(parametersOf(read).includes('Vitrine-Position'));
      for (const [write, status] of [
        [collection.post, 201],
        [record.put, 200],
        [record.patch, 200],
        [record.delete, 200],
      ])
        assert.ok('Vitrine-Position' in write.responses[status].headers);
    } finally {
      await service.close();
    }
  });

  test('says of each resource who may write it, which is no one without a method that writes', async () => {
    const owned = { user: { type: 'foreignKey', references: 'user' } } as const;
    const service = await startService([
      user,
      { model: 'shown', access: 'user', methods: ['GET'], owner: 'user', columns: owned },
      { model: 'sent', access: 'user', methods: ['POST'], columns: { text: { type: 'string' } } },
      { model: 'letter', access: 'user', owner: 'user', columns: owned },
      { model: 'open', columns: { text: { type: 'string' } } },
    ]);
    try {
      await service.addUser('ada');
      const { json } = await service.request('/api/openapi.json', { user: 'ada' });
      const texts = (json.tags as { name: string; description: string }[]).map(
        ({ name, description }) => `${name}: ${description}`,
      );
      for (const text of [
        'shown: Readable by anyone, writable by no one.',
        'sent: Readable by no one, writable by users.',
        'letter: Readable by anyone, writable by users. The user who creates a letter owns it; only the owner can change or delete it.',
        'open: Readable by anyone, writable by no one.',
      ])
        assert.ok(texts.includes(text), `${text} is not in ${texts.join('\n')}`);
    } finally {
      await service.close();
    }
  });

  const exact = { precision: 200, scale: 101 } as const;
  const decimals: [where: string, resource: Omit<Resource, 'model'>][] = [
    ['a column', { columns: { value: { type: 'decimal', ...exact } } }],
    ['an array', { columns: { value: { type: 'array', of: 'decimal', elements: exact } } }],
    [
      'a key of several columns',
      {
        columns: { number: { type: 'integer' }, value: { type: 'decimal', ...exact } },
        primaryKey: { columns: ['number', 'value'] },
      },
    ],
  ];
  for (const [where, resource] of decimals) {
    test(`has a valid example of a decimal with 101 decimal places in ${where}`, async () => {
      const service = await startService([user, { model: 'measure', ...resource, access: 'user' }]);
      try {
        await service.addUser('ada');
        const { status, text, json } = await service.request('/api/openapi.json', { user: 'ada' });
        assert.equal(status, 200, text);
        const [body] = json.components.schemas['measure.New'].examples;
        const made = await service.request('/api/measure/', { method: 'POST', user: 'ada', body });
        assert.equal(made.status, 201, made.text);
      } finally {
        await service.close();
      }
    });
  }

  test('has an example of a number that its bounds and digits allow', async () => {
    const major = MAJOR_VERSION;
    const numbers = {
      below: { type: 'integer', max: 0 },
      negative: { type: 'bigint', max: -5 },
      half: { type: 'float', max: 0.5 },
      small: { type: 'decimal', max: 0.25 },
      rate: { type: 'decimal', precision: 4, scale: 4 },
      near: { type: 'decimal', max: 0.999 },
      above: { type: 'decimal', min: 1.001 },
      between: { type: 'decimal', min: 0.0012, max: 0.0013 },
      price: { type: 'decimal', precision: 5, scale: 2, max: 0.999 },
      zero: { type: 'integer', max: 0.5 },
      fine: { type: 'decimal' },
      // PostgreSQL before 15 has no such scales.
      ...(major >= 15 && ({ tiny: { type: 'decimal' }, hundreds: { type: 'decimal', max: 50 } } as const)),
      list: { type: 'array', of: 'decimal', elements: { precision: 3, scale: 3 } },
    } as const;
    const service = await startService([user, { model: 'measure', columns: numbers, access: 'user' }], {
      prepare: (sql) =>
        sql.unsafe(`create table measure (
          id integer generated by default as identity primary key, below integer not null, negative bigint not null,
          half float8 not null, small numeric not null, rate numeric(4, 4) not null, near numeric not null,
          above numeric not null, between numeric not null, price numeric(5, 2) not null, zero integer not null, fine numeric(400, 310) not null,
          ${major >= 15 ? 'tiny numeric(2, 5) not null, hundreds numeric(4, -2) not null,' : ''} list numeric(3, 3)[] not null)`),
    });
    try {
      await service.addUser('ada');
      const { json } = await service.request('/api/openapi.json', { user: 'ada' });
      const [body] = json.components.schemas['measure.New'].examples;
      const made = await service.request('/api/measure/', { method: 'POST', user: 'ada', body });
      assert.equal(made.status, 201, `${JSON.stringify(body)}: ${made.text}`);
    } finally {
      await service.close();
    }
  });
});
