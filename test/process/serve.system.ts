// `vitrine serve`: what it prints, its tables, a database that is not there, its memory, and how it stops.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDatabase, request, serverUrl, useDatabase, type TestDatabase } from '../support.ts';
import { startProxy } from './proxy.ts';
import {
  addressesOf,
  addUser,
  folderWith,
  freePort,
  listening,
  run,
  serve,
  start,
  until,
} from './support.ts';
import { confirmImport, logIn, uploadFile } from '../admin/support.ts';
import { describe, test } from 'node:test';
import { LOGIN_TEXT } from '../login-columns.ts';

const things = `[{ model: 'thing', columns: { name: { type: 'string' } } }]`;

/** The tables of the database, a name each. */
async function tablesOf({ sql }: TestDatabase): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
    order by relname`;
  return rows.map(({ name }) => name);
}

describe('vitrine serve', { concurrency: 2 }, () => {
  const database = useDatabase();

  test('prints its addresses once it answers, and logs JSON lines on standard error', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url } });
    assert.match(service.base, /^http:\/\/127\.0\.0\.1:[1-9]\d*$/);
    assert.equal(service.stdout(), addressesOf(service.base));
    assert.equal((await request(service.base, '/readyz')).status, 200);
    assert.equal((await request(service.base, '/api/note/?message=shown%20to%20nobody')).status, 200);
    const { code, stdout, stderr } = await service.stop();
    assert.deepEqual([code, stdout], [0, addressesOf(service.base)]);
    const lines = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    for (const { time, level } of lines) {
      assert.ok(!Number.isNaN(Date.parse(time)));
      assert.match(level, /^(info|warn|error)$/);
    }
    const requests = lines.filter(({ method }) => method === 'GET');
    assert.deepEqual(
      requests.map(({ path, status }) => [path, status]),
      [
        ['/readyz', 200],
        ['/api/note/?message', 200],
      ],
    );
    assert.deepEqual(await tablesOf(database), [
      'message',
      'note',
      'relationship',
      'user',
      'vitrine_event',
      'vitrine_history',
      'vitrine_idempotency',
      'vitrine_seal',
      'vitrine_second_factor',
      'vitrine_secret',
      'vitrine_session',
      'vitrine_token',
      'vitrine_view',
    ]);
  });

  test('listens on HOST', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url, HOST: 'localhost' } });
    assert.match(service.base, /^http:\/\/localhost:[1-9]\d*$/);
    assert.equal((await request(service.base, '/readyz')).status, 200);
    assert.equal((await service.stop()).code, 0);
  });

  test('says that RESOURCES is not set before it changes the database, and names a registry of the folder', async () => {
    const notice =
      'RESOURCES is not set, so the sample models user, relationship, message and note are served';
    const cwd = await folderWith({ 'resources.mjs': `export default ${things};` });
    const env = { DATABASE_URL: database.url };
    const service = await serve({ env, cwd });
    const { stderr } = await service.stop();
    const { level, message } = JSON.parse(stderr.split('\n')[0] ?? '');
    assert.deepEqual(
      [level, message],
      ['warn', `${notice}; to serve resources.mjs, set RESOURCES=resources.mjs`],
    );
    const checked = await run(['check'], { env });
    assert.ok(checked.stderr.startsWith(`vitrine: ${notice}\n`), checked.stderr);
    const chosen = await serve({ env: { ...env, RESOURCES: 'resources.mjs' }, cwd });
    assert.doesNotMatch((await chosen.stop()).stderr, /RESOURCES is not set/);
  });

  test('reads .env of its folder, and variables that are set win', async () => {
    const cwd = await folderWith({ '.env': `DATABASE_URL=${database.url}\nPORT=x\nLOG_LEVEL=error\n` });
    const refused = await run(['user', 'list'], { cwd, env: {} });
    assert.match(refused.stderr, /- PORT must be a whole number/);
    const { code, stderr } = await run(['user', 'list'], { cwd, env: { PORT: '0' } });
    assert.deepEqual([code, stderr], [0, '']);
  });

  test('reads .env without its byte order mark, which belongs to no name', async () => {
    const cwd = await folderWith({ '.env': '\uFEFFDATABASE_URL=x\nPORT=y\n' });
    const { code, stderr } = await run(['user', 'list'], { cwd });
    assert.equal(code, 1);
    for (const name of ['DATABASE_URL', 'PORT']) assert.match(stderr, new RegExp(`- ${name} must be `));
  });

  const ways: [about: string, inFile: string, inEnvironment: string, code: number][] = [
    ['a value over the name of a file', 'DATABASE_URL_FILE=missing', 'DATABASE_URL', 0],
    ['the name of a file over a value', 'DATABASE_URL=postgres://127.0.0.1:1/x', 'DATABASE_URL_FILE', 0],
    ['neither, if the environment has both', '', 'DATABASE_URL,DATABASE_URL_FILE', 1],
    ['neither, if the file has both', 'DATABASE_URL=x\nDATABASE_URL_FILE=y', '', 1],
  ];
  for (const [about, inFile, inEnvironment, code] of ways)
    test(`prefers the settings of the environment to those of .env: ${about}`, async () => {
      const cwd = await folderWith({ '.env': `${inFile}\n`, url: database.url });
      const given = { DATABASE_URL: database.url, DATABASE_URL_FILE: 'url' };
      const env = Object.fromEntries(
        Object.entries(given).filter(([name]) => inEnvironment.split(',').includes(name)),
      );
      const ended = await run(['user', 'list'], { cwd, env: { LOG_LEVEL: 'error', ...env } });
      assert.equal(ended.code, code, ended.stderr);
      assert.equal(/DATABASE_URL and DATABASE_URL_FILE are both set/.test(ended.stderr), code === 1);
    });

  test('warns when no user may open the admin area, with the command that creates one', async (t) => {
    const empty = await createDatabase();
    const warning = /no user may open the admin area; create one with: npx vitrine user add NAME --admin/;
    t.after(() => empty.drop());
    const service = await serve({ env: { DATABASE_URL: empty.url } });
    await until('the warning', () => warning.test(service.stderr()));
    await service.stop();
    await run(['user', 'add', 'ada', '--admin'], {
      env: { DATABASE_URL: empty.url },
      input: 'a long secret',
    });
    const next = await serve({ env: { DATABASE_URL: empty.url } });
    assert.equal((await request(next.base, '/readyz')).status, 200);
    assert.doesNotMatch((await next.stop()).stderr, warning);
  });

  test('a port that is taken ends the start with a message', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url, LOG_LEVEL: 'error' } });
    const { port } = new URL(service.base);
    const { code, stdout, stderr } = await run(['serve'], {
      env: { DATABASE_URL: database.url, PORT: port },
    });
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, new RegExp(`vitrine: .*${port}.* PORT=${Number(port) + 1} npm start\\n$`));
    assert.equal((await request(service.base, '/healthz')).status, 200);
    assert.equal((await service.stop()).stderr, '');
  });

  test('keeps running when the reader of its output is gone', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url } });
    service.child.stdout?.destroy();
    service.child.stderr?.destroy();
    for (let count = 0; count < 5; count += 1) {
      assert.equal((await request(service.base, '/api/note/')).status, 200);
      await sleep(60); // so that the lines of the log are written one by one
    }
    assert.equal((await service.stop()).code, 0);
  });

  const registries: [file: string, text: string][] = [
    ['registry.mjs', `export default ${things};`],
    ['registry.js', `export default ${things};`],
    ['common.js', `module.exports = ${things};`],
    ['registry.ts', `interface Named { model: string }\nexport default ${things} satisfies Named[];`],
  ];
  for (const [file, text] of registries) {
    test(`RESOURCES=${file}: ${text.slice(0, 14)}… is served`, async () => {
      const service = await serve({
        env: { DATABASE_URL: database.url, RESOURCES: file },
        cwd: await folderWith({ [file]: text }),
        fromSource: file.endsWith('.ts'),
      });
      assert.equal((await request(service.base, '/api/thing/')).json.meta.model, 'thing');
      assert.equal((await request(service.base, '/api/note/')).status, 404);
      assert.equal((await service.stop()).code, 0);
    });
  }

  test('a registry file is the one that is named, and not another one beside it', async () => {
    const names = ['registry.js', 'registry.ts', 'registry.mjs', 'registry.mts'];
    const texts = names.map((name) => [
      name,
      `export default [{ model: '${name.replace('.', '_')}', columns: {} }];`,
    ]);
    for (const packageJson of ['{"type":"module"}', undefined]) {
      const cwd = await folderWith({
        ...(Object.fromEntries(texts) as Record<string, string>),
        ...(packageJson === undefined ? {} : { 'package.json': packageJson }),
      });
      for (const name of names) {
        const { stdout } = await run(['schema'], { cwd, env: { RESOURCES: name }, fromSource: true });
        assert.match(stdout, new RegExp(`^create table "${name.replace('.', '_')}"`));
      }
    }
  });

  const files: [file: string, text: string | undefined, said: RegExp[]][] = [
    ['missing.mjs', undefined, [/missing\.mjs/]],
    ['registry.json', '[]', [/registry\.json/, /\.mjs/]],
    ['broken.mjs', 'export default [', [/broken\.mjs/]],
    ['comma.mjs', 'export default [\n  { model: "a"\n  columns: {} }];', [/Unexpected .* \(comma\.mjs:3\)/]],
    ['parses.mjs', 'export default JSON.parse("[");', [/parses\.mjs cannot be loaded: [^()]*JSON[^()]*\n/]],
    ['broken.ts', 'export default [', [/broken\.ts/]],
    ['throws.mjs', `throw new Error('not today');`, [/throws\.mjs/, /not today/]],
    ['nothing.mjs', 'export const resources = [];', [/array/]],
    ['null.mjs', 'throw null;', [/null\.mjs cannot be loaded: null/]],
    [
      'hole.mjs',
      `export default [${things.slice(1, -1)}, , ${things.slice(1, -1).replace('thing', 'other')}];`,
      [/resource 2: must be an object/],
    ],
    [
      'faulty.mjs',
      `export default [
        { model: 'One', columns: {}, acess: 'user' },
        { model: 'two', columns: { x: { type: 'strin' }, page: { type: 'text' } }, exclude: ['y'], owner: 'z' },
      ];`,
      [/One: model/, /One: acess/, /two: columns\.x/, /two: columns\.page/],
    ],
  ];
  for (const [file, text, said] of files) {
    test(`RESOURCES=${file}, which cannot be used, ends the start with one message`, async () => {
      const cwd = await folderWith(text === undefined ? {} : { [file]: text });
      const env = { DATABASE_URL: database.url, RESOURCES: file, PORT: '0' };
      const { code, stdout, stderr } = await run(['serve'], { env, cwd });
      assert.deepEqual([code, stdout], [1, '']);
      for (const pattern of said) assert.match(stderr, pattern);
      assert.equal(stderr.match(/^vitrine: /gm)?.length, 1);
      assert.doesNotMatch(stderr, /^ +at /m);
    });
  }

  test('RESOURCES=waits.mjs, which never is done, ends the start and the check with a reason', async () => {
    const cwd = await folderWith({ 'waits.mjs': 'await new Promise(() => {}); export default [];' });
    const env = { DATABASE_URL: database.url, RESOURCES: 'waits.mjs', PORT: '0' };
    for (const command of ['serve', 'check']) {
      const { code, stdout, stderr } = await run([command], { env, cwd });
      assert.deepEqual([code, stdout], [1, ''], command);
      assert.match(stderr, /^vitrine: .* never happens\. .*registry file awaits\.\n$/);
    }
  });

  test('a signal ends the start that waits for its registry file', async () => {
    const cwd = await folderWith({
      'waits.mjs':
        'setInterval(() => {}, 1000); console.log("waiting"); await new Promise(() => {}); export default [];',
    });
    const env = { DATABASE_URL: database.url, RESOURCES: 'waits.mjs', PORT: '0' };
    const program = await start(['serve'], { env, cwd });
    await until('the file to be loaded', () => program.stdout().includes('waiting'));
    program.child.kill('SIGTERM');
    assert.equal((await program.ended).code, 0);
  });

  test('a table that somebody reads is changed once that is over, and others can read it meanwhile', async (t) => {
    const own = await createDatabase();
    t.after(() => own.drop());
    const cwd = await folderWith({
      'one.mjs': `export default ${things};`,
      'two.mjs': `export default ${things};`.replace(
        "{ name: { type: 'string' } }",
        "{ name: { type: 'string' }, more: { type: 'text', null: true } }",
      ),
    });
    const serving = (file: string) =>
      start(['serve'], { cwd, env: { DATABASE_URL: own.url, RESOURCES: file, PORT: '0' } });
    await (await listening(await serving('one.mjs'))).stop();
    const program = await own.sql.begin(async (reader) => {
      await reader`select from thing`;
      const second = await serving('two.mjs');
      await until('it to try again', () => /trying again: .*add column/is.test(second.stderr()));
      assert.equal((await own.sql`select from thing`).count, 0);
      assert.doesNotMatch(second.stdout(), /listening/);
      return second;
    });
    const service = await listening(program);
    assert.equal((await own.sql`select more from thing`).count, 0);
    assert.equal((await service.stop()).code, 0);
  });

  test('SCHEMA=check on an empty database lists what is missing, and creates nothing', async (t) => {
    const empty = await createDatabase();
    t.after(() => empty.drop());
    const env = { DATABASE_URL: empty.url, SCHEMA: 'check', PORT: '0' };
    const { code, stdout, stderr } = await run(['serve'], { env });
    assert.deepEqual([code, stdout], [1, '']);
    for (const table of ['user', 'relationship', 'message', 'note']) {
      assert.match(stderr, new RegExp(`^ +- ${table}: .*table ${table}`, 'm'));
    }
    assert.deepEqual(await tablesOf(empty), []);
  });

  const addresses: [what: string, change: (url: URL) => void, said: RegExp][] = [
    [
      'a user whom the server does not let in',
      (url) => Object.assign(url, { username: 'vitrine_nobody', password: 'hunter2' }),
      /vitrine_nobody/,
    ],
    ['a database that the server does not have', (url) => (url.pathname = '/vitrine_none'), /vitrine_none/],
  ];
  for (const [what, change, said] of addresses) {
    test(`${what} ends the start with a message without the password`, async () => {
      const url = new URL(serverUrl());
      if (url.password === '') url.password = 'hunter2';
      change(url);
      const env = { DATABASE_URL: url.href, PORT: '0', LOG_LEVEL: 'error' };
      const { code, stdout, stderr } = await run(['serve'], { env });
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, said);
      assert.match(stderr, /^vitrine: .*\n$/);
      assert.ok(!stderr.includes(url.password));
    });
  }
});

describe('a database that is not there yet', { concurrency: 8 }, () => {
  for (const WORKERS of ['1', '2'])
    test(`is waited for: healthz says yes, readyz and the API say 503, and then all is served, with WORKERS=${WORKERS}`, async (t) => {
      const database = await createDatabase();
      const proxy = await startProxy(database.url);
      await proxy.refuse();
      const base = `http://127.0.0.1:${await freePort()}`;
      t.after(async () => {
        await proxy.close();
        await database.drop();
      });
      const env = { DATABASE_URL: proxy.url, WORKERS, PORT: new URL(base).port };
      const program = await start(['serve'], { env });
      await until('healthz', async () => (await request(base, '/healthz')).status === 200);
      for (const path of ['/readyz', '/api/', '/api/note/', '/api/note/1/']) {
        const { status, headers, json } = await request(base, path);
        assert.equal(status, 503, path);
        assert.match(String(headers.get('retry-after')), /^[1-9]\d*$/);
        assert.equal(headers.get('content-type'), 'application/problem+json');
        assert.equal(json.status, 503);
      }
      assert.equal(program.stdout(), '');
      await proxy.open();
      const service = await listening(program);
      for (const path of ['/readyz', '/api/', '/api/note/'])
        assert.equal((await request(base, path)).status, 200, path);
      assert.equal(service.stdout(), addressesOf(base));
      assert.equal((await service.stop()).code, 0);
    });

  test('is waited for when a connection ends during the start, but a command ends with it', async (t) => {
    const database = await createDatabase();
    const proxy = await startProxy(database.url);
    t.after(async () => {
      await proxy.close();
      await database.drop();
    });
    const left = proxy.cutAt([
      'getdatabaseencoding',
      'pg_advisory_xact_lock',
      'create table',
      'from "vitrine_secret"',
    ]);
    const service = await serve({ env: { DATABASE_URL: proxy.url } });
    assert.deepEqual([...left], []);
    assert.match(service.stderr(), /waiting for the database/);
    assert.equal((await request(service.base, '/api/note/')).status, 200);
    assert.equal((await service.stop()).code, 0);
    proxy.cutAt(['getdatabaseencoding', 'tdatabaseencoding', 'databaseencoding']); // a read runs again, twice
    const { code, stderr } = await run(['user', 'list'], { env: { DATABASE_URL: proxy.url } });
    assert.equal(code, 1);
    assert.match(stderr, /^vitrine: The database (is unavailable|cannot be used)/m);
    assert.doesNotMatch(stderr, /waiting for the database/);
  });

  for (const WORKERS of ['1', '2'])
    test(`does not keep a signal from ending the service, with WORKERS=${WORKERS}`, async () => {
      const env = { DATABASE_URL: `postgres://127.0.0.1:${await freePort()}/none`, WORKERS, PORT: '0' };
      const program = await start(['serve'], { env });
      await until('the wait', () => program.stderr().includes('waiting for the database'));
      program.child.kill('SIGTERM');
      const { code, stdout } = await program.ended;
      assert.deepEqual([code, stdout], [0, '']);
    });
});

const WITH_DOCUMENTS = `export default [
  { model: 'user', columns: { ...${LOGIN_TEXT}, email: { type: 'string' } }, access: 'admin', exclude: ['password'] },
  { model: 'document', columns: { body: { type: 'text' } } },
]`;
const LARGE_RECORDS = 200;

test('an import of 200 records of 1 MB works with a heap of 96 MB', async () => {
  const database = await createDatabase();
  const cwd = await folderWith({ 'resources.mjs': WITH_DOCUMENTS });
  const env = {
    DATABASE_URL: database.url,
    RESOURCES: 'resources.mjs',
    NODE_OPTIONS: '--max-old-space-size=96',
  };
  const service = await serve({ cwd, env });
  const { sql } = database;
  await addUser(sql, 'ada');
  await sql`update "user" set admin = true`;
  await sql`insert into document (body) select repeat('0123456789', 100000) from generate_series(1, ${LARGE_RECORDS})`;
  const browser = await logIn(service, 'ada');
  const path = '/admin/document/-/import/';
  const rows = Array.from({ length: LARGE_RECORDS }, (_, index) => `${index + 1},x`);
  const preview = await uploadFile(browser, path, ['id,body', ...rows].join('\n'));
  assert.equal(preview.status, 200);
  assert.match(preview.text, /0 new, 200 changed, 0 unchanged, 0 with errors/);
  assert.equal((await confirmImport(browser, path, preview)).status, 303);
  assert.equal((await sql`select from document where body = 'x'`).count, LARGE_RECORDS);
  assert.equal((await service.stop()).code, 0);
  await database.drop();
});
