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

  /** The one registry of a page, loaded from a file as the service does it. */
  async function registryOf(page: string): Promise<readonly Resource[]> {
    const [example, ...others] = examples.filter(
      ({ page: on, code }) => on === page && code.includes('export default'),
    );
    assert.ok(example && others.length === 0, `${page} has one registry`);
    const file = join(directory, `${page.replace('/', '-')}.ts`);
    await writeFile(file, example.code);
    return requireRegistry(await loadRegistryFile(file), DEFAULTS).resources;
  }

  test('that of README.md is read by the command, wherever the file lies', async () => {
    await registryOf('README.md');
    const database = await createDatabase();
    try {
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
    } finally {
      await database.drop();
    }
  });

  test('that of README.md is served as the page tells', async () => {
    const service = await startService(await registryOf('README.md'));
    try {
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
    } finally {
      await service.close();
    }
  });

  test('that of docs/resources.md is served from tables that are there already', async () => {
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
    try {
      const { json } = await service.request('/api/invoice/?customer__since=2024-05-31+16:30:00&state=open');
      assert.deepEqual(json.objects, [{ id: 1, customer_id: 1, state: 'open', lines: [1, 2] }]);
      const customer = await service.request('/api/customer/1/');
      assert.deepEqual(customer.json, { id: 1, name: 'Ada', credit: '12.50', since: '2024-05-31 16:30:00' });
    } finally {
      await service.close();
    }
  });
});
