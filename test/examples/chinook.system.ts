import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import resources from '../../examples/chinook/resources.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import { logIn, readable } from '../admin/support.ts';
import { commandPath, type TestService, useService } from '../support.ts';
import { REPOSITORY, chinookSql } from '../paths.ts';
import { before, describe, test } from 'node:test';

const ROOT = REPOSITORY;
const FOLDER = `${ROOT}/examples/chinook`;
const README = readFileSync(`${FOLDER}/README.md`, 'utf8');

/** A command of the README and the output that the README shows. */
interface Example {
  readonly command: string;
  readonly output: string;
}

/** Reads the examples under each heading. In `console` blocks a command follows `$ `, and its output is below it. */
function readExamples(markdown: string): Map<string, Example[]> {
  const sections = new Map<string, Example[]>();
  for (const section of markdown.split(/^## /m).slice(1)) {
    const heading = section.slice(0, section.indexOf('\n'));
    const examples = [...section.matchAll(/^```console\n([^]*?)^```$/gm)].flatMap(([, block = '']) =>
      block
        .split(/^\$ /m)
        .slice(1)
        .map((example) => {
          const end = example.indexOf('\n');
          return { command: example.slice(0, end), output: example.slice(end + 1) };
        }),
    );
    if (examples.length > 0) sections.set(heading, examples);
  }
  return sections;
}

/** Replaces the parts of an output that differ from run to run, and removes carriage returns. */
const masked = (output: string): string =>
  output
    .replaceAll('\r', '')
    .replace(/^Date: .+$/m, 'Date: …')
    .replace(/^ETag: "\d+-[0-9a-f]{6}"$/m, 'ETag: …')
    .trimEnd();

const SEPARATOR = '\x1e';

/** Runs the commands in one shell, on the service and the database of this test. @returns the output of each */
async function run(commands: readonly string[], { base, url }: TestService): Promise<string[]> {
  const { host } = new URL(base);
  const script = [
    'exec 2>&1',
    // `npx` would look for an installed package.
    `npx() { shift; '${process.execPath}' bin/vitrine.js "$@"; }`,
    ...commands.map((command) => `${command.replaceAll('localhost:8000', host)}\nprintf '\\036'`),
  ];
  const { stdout } = await promisify(execFile)('bash', ['-c', script.join('\n')], {
    cwd: ROOT,
    env: {
      ...process.env,
      PATH: commandPath(),
      DATABASE_URL: url,
      RESOURCES: 'examples/chinook/resources.ts',
      SCHEMA: 'check',
      no_proxy: '*',
    },
    timeout: 600_000,
  });
  return stdout.split(SEPARATOR).slice(0, -1);
}

describe('the Chinook example', () => {
  const sections = readExamples(README);
  const examples = [...sections.values()].flat();
  const outputs = new Map<Example, string>();

  const service = useService(resources, {
    schema: 'check',
    prepare: async (sql) => {
      for (const file of ['chinook.sql', 'users.sql']) await sql.unsafe(chinookSql(file)).simple();
    },
  });

  test('serves every table except playlist_track, which has a key of two columns', async () => {
    const rows = await service.sql<{ name: string }[]>`
      select tablename as name from pg_tables where schemaname = 'public' and tablename not like 'vitrine%'`;
    const served = resources.map(({ model, ...rest }) => ('table' in rest ? rest.table : model));
    assert.deepEqual(rows.map(({ name }) => name).sort(), [...served, 'playlist_track'].sort());
  });

  test('serves every column except private data of employees and password hashes', async () => {
    const rows = await service.sql<{ path: string }[]>`
      select table_name || '.' || column_name as path from information_schema.columns
      where table_schema = 'public' and table_name <> 'playlist_track' and table_name not like 'vitrine%'`;
    const served = new Set(
      (resources as readonly Resource[]).flatMap(({ model, table, primaryKey, columns, exclude = [] }) => {
        const fields = Object.entries(columns)
          .filter(([name]) => !exclude.includes(name))
          .map(([name, { type, column }]) => column ?? (type === 'foreignKey' ? `${name}_id` : name));
        const key = primaryKey && 'type' in primaryKey ? primaryKey.column : undefined;
        return [key, ...fields].map((field) => `${table ?? model}.${field}`);
      }),
    );
    assert.deepEqual(
      rows
        .map(({ path }) => path)
        .filter((path) => !served.has(path))
        .sort(),
      [
        'employee.address',
        'employee.birth_date',
        'employee.city',
        'employee.country',
        'employee.postal_code',
        'employee.state',
        'login.password',
      ],
    );
  });

  const catalogue = ['artist', 'album', 'track', 'genre', 'media_type', 'playlist'];
  for (const { model } of resources) {
    const isPublic = catalogue.includes(model);
    test(`${isPublic ? 'allows' : 'denies'} reading and denies writing ${model} without credentials`, async () => {
      assert.equal((await service.request(`/api/${model}/?limit=1`)).status, isPublic ? 200 : 401);
      assert.equal((await service.request(`/api/${model}/1/`)).status, isPublic ? 200 : 401);
      for (const [method, path] of Object.entries({ POST: '', PUT: '1/', DELETE: '1/' })) {
        const { status } = await service.request(`/api/${model}/${path}`, { method, body: {} });
        assert.equal(status, 401, method);
      }
    });
  }

  describe('the README', () => {
    before(async () => {
      const results = await run(
        examples.map(({ command }) => command),
        service,
      );
      assert.equal(results.length, examples.length, results.at(-1));
      examples.forEach((example, index) => outputs.set(example, results[index] ?? ''));
    });

    test('has only commands that this test runs', () => {
      const commands = README.match(/^\$ .+$/gm) ?? [];
      assert.ok(commands.length > 0);
      assert.deepEqual(
        commands,
        examples.map(({ command }) => `$ ${command}`),
      );
    });

    for (const [heading, inSection] of sections) {
      test(`shows the output of the commands under "${heading}"`, () => {
        const shown = (outputOf: (example: Example) => string): string[] =>
          inSection.map((example) => `$ ${example.command}\n${masked(outputOf(example))}`);
        assert.deepEqual(
          shown((example) => outputs.get(example) ?? ''),
          shown(({ output }) => output),
        );
      });
    }
  });

  test('labels albums with their artists and invoices with their numbers, and finds both', async () => {
    // The commands of the README added this admin.
    const andrew = await logIn(service, 'andrew', 'andrew-password');
    const labels = async (model: string, words: string): Promise<string[]> => {
      const { text } = await andrew.get(`/admin/${model}/-/lookup/?_search=${encodeURIComponent(words)}`);
      return (JSON.parse(text) as { records: { label: string }[] }).records.map(({ label }) => label);
    };
    assert.deepEqual(await labels('album', 'coda'), ['Coda – Led Zeppelin']);
    assert.deepEqual(await labels('album', 'Coda – Led Zeppelin'), ['Coda – Led Zeppelin']);
    assert.deepEqual(await labels('invoice', '#12 Leonie'), ['#12 Leonie Köhler']);
    assert.equal((await labels('track', 'love'))[0], 'Love');
    const filters = await andrew.get('/admin/track/?genre__in=1,2');
    assert.match(readable(filters), /Genre is one of Rock, Jazz .* Name contains/);
    // Customers are sorted by both of their names.
    const { text } = await andrew.get('/admin/invoice/?ordering=total');
    assert.ok(text.includes('?ordering=customer__first_name%2Ccustomer__last_name%2Ctotal"'));
  });
});
