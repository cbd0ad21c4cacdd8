// The address of the database, in the forms of libpq and with the parameters that hosting services print.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createVitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { run } from '../commands/support.ts';
import { REPOSITORY } from '../paths.ts';
import { startTlsProxy } from '../process/proxy.ts';
import { createDatabase, type TestDatabase } from '../support.ts';

const RESOURCES = [user, note];
const certificate = (name: string): string => join(REPOSITORY, `test/process/tls/${name}.pem`);

describe('the address of the database', () => {
  let database: TestDatabase;
  let folder: string;
  let server: Server;
  let sockets = 0;

  before(async () => {
    database = await createDatabase();
    folder = await mkdtemp(join(tmpdir(), 'vitrine-socket-'));
    const { hostname, port } = new URL(database.url);
    server = createServer((client) => {
      sockets += 1;
      const upstream = connect(Number(port || 5432), hostname);
      for (const socket of [client, upstream])
        socket
          .on('error', () => undefined)
          .on('close', () => [client, upstream].forEach((one) => one.destroy()));
      client.pipe(upstream).pipe(client);
    });
    await once(server.listen(join(folder, '.s.PGSQL.5433')), 'listening');
  });
  after(async () => {
    server.close();
    await database.drop();
    await rm(folder, { recursive: true });
  });

  /** Starts the service and closes it. @returns the warnings about addresses */
  async function start(databaseUrl: string, databaseReadUrl: string[] = []): Promise<string[]> {
    let log = '';
    const vitrine = await createVitrine({
      databaseUrl,
      databaseReadUrl,
      resources: RESOURCES,
      log: (text) => (log += text),
    });
    await vitrine.close();
    const lines = log.trim().split('\n').filter(Boolean);
    const messages = lines.map((line) => String((JSON.parse(line) as { message: unknown }).message));
    return messages.filter((message) => message.startsWith('DATABASE_'));
  }

  /** The address with these parameters. */
  const withQuery = (query: string): string => `${database.url}?${query}`;

  test('a socket is found in each form of libpq', async () => {
    const { username, password, pathname } = new URL(database.url);
    const login = password === '' ? username : `${username}:${password}`;
    const name = pathname.slice(1);
    const encoded = encodeURIComponent(folder);
    for (const address of [
      `postgres://${login}@/${name}?host=${folder}&port=5433`,
      `postgres://${login}@/${name}?host=${encoded}&port=5433`,
      `postgres://${login}@${encoded}:5433/${name}`,
      `postgresql://${login}@${encoded}/${name}?port=5433&sslmode=require`,
      `postgres:///${name}?host=${folder}&port=5433&user=${username}&password=${password}`,
      `postgres://?host=${folder}&port=5433&dbname=${name}&user=${username}&password=${password}`,
      `postgres://${login}@ignored.invalid/${name}?host=${folder}&port=5433`,
      `postgres://${login}@/${name}?host=/nowhere,${folder}&port=5433&target_session_attrs=read-write`,
    ]) {
      const before = sockets;
      await start(address);
      assert.ok(sockets > before, address);
    }
  });

  test('a socket that is not there is named with its path', async () => {
    const { code, stderr } = await run(['check'], {
      env: { DATABASE_URL: withQuery('host=/nowhere&port=5433') },
    });
    assert.equal(code, 1);
    assert.match(stderr, /ENOENT \/nowhere\/\.s\.PGSQL\.5433\. Check DATABASE_URL/);
  });

  for (const [name, query, ignored] of [
    ['Neon', 'sslmode=prefer&channel_binding=require', 'channel_binding'],
    ['Vercel', 'sslmode=prefer&supa=base-pooler.x', 'supa'],
    [
      'Prisma',
      'connection_limit=1&pool_timeout=10&connect_timeout=15',
      'connection_limit, pool_timeout, connect_timeout',
    ],
    ['Symfony', 'serverVersion=18&charset=utf8', 'serverVersion, charset'],
    [
      'libpq',
      'gssencmode=prefer&keepalives=1&keepalives_idle=30&keepalives_count=3&passfile=/x&hostaddr=192.0.2.1',
      'gssencmode, keepalives_count, passfile, hostaddr',
    ],
    ['Supabase', 'pgbouncer=true', undefined],
    ['a server of its own', 'target_session_attrs=any&fallback_application_name=web&ssl=false', undefined],
    ['PostgreSQL', 'search_path=public&options=-c%20work_mem%3D4MB', undefined],
  ] as const)
    test(`the parameters of ${name} are applied, or ignored with a warning that names them`, async () => {
      assert.deepEqual(
        await start(withQuery(query)),
        ignored === undefined ? [] : [`DATABASE_URL: the service ignores the parameters ${ignored}`],
      );
    });

  test('requiressl=1 requires TLS', async () => {
    await assert.rejects(start(withQuery('requiressl=1')), /does not support TLS/);
  });

  test('schema is the search path', async () => {
    await database.sql.unsafe('create schema "my shop"');
    await start(withQuery('schema=my%20shop'));
    const [row] = await database.sql`select to_regclass('"my shop".note') is not null as found`;
    assert.deepEqual(row, { found: true });
  });

  test('a failing check names the ignored parameters, too', async () => {
    const url = new URL(withQuery('passfile=/nowhere'));
    url.port = '1';
    const { code, stderr } = await run(['check'], { env: { DATABASE_URL: url.href } });
    assert.equal(code, 1);
    assert.match(stderr, /warning: DATABASE_URL: the service ignores the parameters passfile/);
  });

  test('certificates and keys that cannot be used are an error of DATABASE_URL', async () => {
    const name = certificate('name');
    const query = `sslmode=require&sslcert=${name}&sslkey=${certificate('number')}`;
    for (const text of [
      query,
      `sslmode=require&sslcert=${join(REPOSITORY, 'package.json')}`,
      `sslcrl=${name}`,
    ])
      await assert.rejects(
        start(withQuery(text)),
        /databaseUrl has certificates or keys that cannot be used \(/,
      );
  });

  test('a parameter that neither the service nor PostgreSQL knows ends the start, which names it', async () => {
    await assert.rejects(
      start(withQuery('serach_path=books')),
      /"serach_path".*Check the parameters of DATABASE_URL/,
    );
  });

  for (const [mode, root, presented, expected] of [
    ['verify-full', 'number', 'number', undefined],
    ['verify-full', 'name', 'name', /altnames/],
    ['verify-ca', 'name', 'name', undefined],
    ['verify-ca', 'number', 'name', /certificate.*sslrootcert/],
    ['require', 'name', 'name', undefined],
    ['require', 'number', 'name', /certificate.*sslrootcert/],
    [undefined, 'number', 'name', /certificate.*sslrootcert/],
    ['require', 'system', 'number', /certificate.*sslrootcert/],
    ['require', undefined, 'name', undefined],
  ] as const)
    test(`sslmode=${mode} with sslrootcert=${root} ${expected ? 'refuses' : 'accepts'} the certificate of a ${presented}`, async () => {
      const proxy = await startTlsProxy(database.url, certificate(presented));
      try {
        const url = new URL(proxy.url);
        if (mode === undefined) url.searchParams.delete('sslmode');
        else url.searchParams.set('sslmode', mode);
        if (root !== undefined)
          url.searchParams.set('sslrootcert', root === 'system' ? root : certificate(root));
        if (expected) await assert.rejects(start(url.href), expected);
        else assert.deepEqual(await start(url.href), []);
      } finally {
        await proxy.close();
      }
    });
});
