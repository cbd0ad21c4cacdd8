import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULTS } from '../../src/config.ts';
import type { Resource } from '../../src/index.ts';
import { loadRegistryFile } from '../../src/resources/load-registry.ts';
import { requireRegistry } from '../../src/service.ts';
import { cheapHash, createDatabase, startService } from '../support.ts';
import { allPages, codeBlocks, ROOT } from './pages.ts';
import { typeErrors } from './types.ts';
import { after, before, describe, test } from 'node:test';

const pages = allPages().filter((page) => page === 'README.md' || page.startsWith('docs/'));
const examples = pages.flatMap((page) => codeBlocks(page, 'ts').map((code) => ({ page, code })));

test('every TypeScript example of the pages passes the compiler, and would not with a fault in it', () => {
  const sources = {
    vitrine: './src/index.ts',
    'vitrine/client': './src/client.ts',
    './resources.ts': './src/resources/registry.ts',
  };
  const texts = examples.map(({ code }) =>
    Object.entries(sources).reduce(
      (text, [name, path]) => text.replaceAll(`from '${name}'`, `from '${path}'`),
      code,
    ),
  );
  const faulty = texts.map((text) => text.replace("{ type: 'string'", "{ typ: 'string'"));
  const errors = typeErrors([...texts, ...faulty.filter((text) => !texts.includes(text))]);
  assert.deepEqual(errors.slice(0, texts.length).flat(), []);
  assert.ok(texts.length >= 4 && errors.length > texts.length);
  for (const found of errors.slice(texts.length)) assert.notDeepEqual(found, []);
});

describe('the registries of the pages', () => {
  let directory: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'vitrine-registry-'));
  });
  after(() => rm(directory, { recursive: true }));

  /** The one registry file of a page, loaded as the service does it. */
  async function definitionsOf(page: string): Promise<ReturnType<typeof requireRegistry>> {
    const [example, ...others] = examples.filter(
      ({ page: on, code }) => on === page && code.includes('export default'),
    );
    assert.ok(example && others.length === 0, `${page} has one registry`);
    const file = join(directory, `${page.replace('/', '-')}.ts`);
    await writeFile(file, example.code);
    return requireRegistry(await loadRegistryFile(file), DEFAULTS);
  }
  const registryOf = async (page: string): Promise<readonly Resource[]> =>
    (await definitionsOf(page)).resources;

  test('that of README.md is read by the command, wherever the file lies', async (t) => {
    await registryOf('README.md');
    const database = await createDatabase();
    t.after(() => database.drop());
    const env = { ...process.env, DATABASE_URL: database.url, RESOURCES: join(directory, 'README.md.ts') };
    const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/vitrine.js'), 'check'], {
      env,
    });
    const expected = ['user', 'book'].map((model) => `  - ${model}: there is no table ${model}\n`);
    // The role of the test's server may do everything, and anyone may read books, which is printed behind it.
    const printed = String(stderr).replace(
      /^vitrine: warning: (?:the database role is a superuser|anyone can read book:).*\n/gm,
      '',
    );
    const hint = /^A start of the service with SCHEMA=apply, the default, creates missing tables\. .*\n/m;
    assert.match(printed, hint);
    assert.equal(
      printed.replace(hint, ''),
      `vitrine: The database does not fit the registry:\n${expected.join('')}`,
    );
    assert.equal(status, 1);
  });

  test('that of README.md is served as the page tells', async (t) => {
    const service = await startService(await registryOf('README.md'));
    t.after(() => service.close());
    for (const username of ['ada', 'bob']) {
      const password = await cheapHash(`pw-${username}`);
      await service.sql`insert into "user" (username, password) values (${username}, ${password})`;
    }
    const created = await service.request('/api/book/', {
      method: 'POST',
      user: 'ada',
      body: { title: 'Notes' },
    });
    assert.equal(created.status, 201);
    assert.deepEqual((await service.request('/api/book/')).json.objects, [
      { id: 1, title: 'Notes', reader_id: 1 },
    ]);
    const remove = (user: string) => service.request('/api/book/1/', { method: 'DELETE', user });
    assert.deepEqual([(await remove('bob')).status, (await remove('ada')).status], [403, 200]);
  });

  test('the clinic of docs/access.md lets each role do what the page says', async (t) => {
    const { resources, roles = {} } = await definitionsOf('docs/access.md');
    const service = await startService(resources, { roles });
    t.after(() => service.close());
    for (const [username, role] of [
      ['rosa', 'reception'],
      ['dora', 'doctor'],
      ['dirk', 'doctor'],
      ['aud', 'auditor'],
      ['boss', null],
    ] as const) {
      const password = await cheapHash(`pw-${username}`);
      await service.sql`insert into "user" (username, password, role, admin) values (${username}, ${password}, ${role}, ${username === 'boss'})`;
    }
    const call = async (user: string, method: string, path: string, body?: unknown) => {
      const { status, json } = await service.request(`/api/${path}`, { user, method, body });
      return status < 300 ? (json as Record<string, unknown>) : status;
    };
    const seen = async (user: string, model: string): Promise<unknown> => {
      const found = await call(user, 'GET', `${model}/?ordering=id`);
      return typeof found === 'number'
        ? found
        : (found['objects'] as Record<string, unknown>[]).map((record) => Object.values(record));
    };
    const added = (name: string, doctor: number) =>
      call('rosa', 'POST', 'patient/', { name, doctor_id: doctor });
    assert.deepEqual(await added('Pia', 2), { id: 1, name: 'Pia', doctor_id: 2 });
    assert.deepEqual(await added('Pol', 3), { id: 2, name: 'Pol', doctor_id: 3 });
    assert.equal(await added('Per', 1), 400, 'the reception is no doctor');
    for (const patient of [1, 2])
      await call('rosa', 'POST', 'visit/', { patient_id: patient, start: '2026-01-15 09:30' });
    const diagnosed = await call('dora', 'PUT', 'patient/1/', { diagnosis: 'flu' });
    assert.deepEqual(diagnosed, { id: 1, name: 'Pia', doctor_id: 2, diagnosis: 'flu' });
    for (const [user, method, path, body, status] of [
      ['dora', 'PUT', 'patient/2/', { diagnosis: 'flu' }, 404],
      ['dora', 'PUT', 'patient/1/', { name: 'Pim' }, 400],
      ['rosa', 'PUT', 'patient/1/', { diagnosis: 'none' }, 400],
      ['rosa', 'DELETE', 'patient/1/', undefined, 403],
      ['dora', 'POST', 'visit/', {}, 403],
      ['dora', 'PUT', 'visit/2/', { note: 'late' }, 404],
      ['aud', 'PUT', 'visit/1/', { note: 'late' }, 403],
      ['boss', 'PUT', 'patient/1/', { name: 'Pim' }, 403],
    ] as const)
      assert.equal(await call(user, method, path, body), status, `${user} ${method} ${path}`);
    const changed = [
      await call('dora', 'PUT', 'visit/1/', { note: 'seen' }),
      await call('rosa', 'PUT', 'patient/1/', { name: 'Pia B.' }),
      await call('boss', 'PUT', 'visit/2/', { note: 'moved' }),
    ];
    assert.ok(changed.every((one) => typeof one === 'object'));
    const whole = [1, 'Pia B.', 2, 'flu'];
    assert.deepEqual(await seen('dora', 'patient'), [whole]);
    assert.deepEqual(await seen('boss', 'patient'), [whole, [2, 'Pol', 3, null]]);
    for (const user of ['rosa', 'aud'])
      assert.deepEqual(await seen(user, 'patient'), [
        [1, 'Pia B.', 2],
        [2, 'Pol', 3],
      ]);
    const visits = await Promise.all(['rosa', 'dora', 'dirk', 'aud'].map((user) => seen(user, 'visit')));
    assert.deepEqual(
      visits.map((some) => (some as unknown[]).length),
      [2, 1, 1, 2],
    );
    assert.deepEqual(await seen('rosa', 'user'), [
      [2, 'dora', 'doctor'],
      [3, 'dirk', 'doctor'],
    ]);
    assert.deepEqual(await seen('dora', 'user'), 403);
    assert.equal(((await seen('aud', 'user')) as unknown[]).length, 5);
  });

  test('that of docs/resources.md is served from tables that are there already', async (t) => {
    const service = await startService(await registryOf('docs/resources.md'), {
      schema: 'check',
      prepare: (sql) =>
        sql.unsafe(`
          create schema sales;
          create type sales.state as enum ('open', 'paid');
          create table sales.customers (
            customer_no bigint primary key generated always as identity,
            full_name text not null,
            credit numeric(10,2),
            created_at timestamptz not null default now(),
            internal text not null default ''
          );
          create table sales.invoices (
            id serial primary key,
            customer_no bigint not null references sales.customers on delete restrict,
            state sales.state not null default 'open',
            lines json
          );
          insert into sales.customers (full_name, credit, created_at) values ('Ada', 12.5, '2024-05-31 18:30:00.25+02');
          insert into sales.invoices (customer_no, lines) values (1, '[1, 2]')`),
    });
    t.after(() => service.close());
    const { json } = await service.request('/api/invoice/?customer__since=2024-05-31+16:30:00&state=open');
    assert.deepEqual(json.objects, [{ id: 1, customer_id: 1, state: 'open', lines: [1, 2] }]);
    const customer = await service.request('/api/customer/1/');
    assert.deepEqual(customer.json, { id: 1, name: 'Ada', credit: '12.50', since: '2024-05-31 16:30:00' });
  });
});
