// A DATABASE_URL of several servers, and servers that close connections, freeze or accept no changes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cancelOnServer, openPostgres, sendStatement } from '../../src/db/connection/driver.ts';
import { createVitrine, type Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { eventually, whenAdmitted } from '../http/expect.ts';
import {
  type Answer,
  basic,
  cheapHash,
  closedAfter,
  createDatabase,
  request,
  type Sql,
  startService,
  type TestDatabase,
  type TestService,
  pluck,
} from '../support.ts';
import { startFaults, startOnce, startWith } from './helpers.ts';
import { run } from '../commands/support.ts';
import { REPOSITORY } from '../paths.ts';
import { startTlsProxy } from '../process/proxy.ts';
import { startEmbedded } from '../../src/commands/embedded.ts';
import { StartError } from '../../src/errors.ts';
import { folderWith } from '../process/support.ts';

const RESOURCES = [user, note];
const OPTIONS = { max: 1, fetch_types: false, onnotice: () => undefined };

/** How a server treats new connections. `forward` is the database, `replica` one of the same name that accepts no changes. */
type Mode = 'forward' | 'replica' | 'freeze' | 'close';

interface FakeServer {
  readonly port: number;
  mode: Mode;
  /** Connections so far. */
  connections: number;
  /** Breaks all connections. */
  readonly cut: () => void;
  /** Breaks all connections, and refuses new ones. */
  readonly close: () => void;
}

/** Servers in front of two databases: one that accepts changes, and one that does not. */
async function startServer(writable: URL, replica: URL, mode: Mode, host = '127.0.0.1'): Promise<FakeServer> {
  const sockets = new Set<Socket>();
  const accept = (client: Socket): void => {
    fake.connections += 1;
    sockets.add(client.on('error', () => undefined));
    if (fake.mode === 'freeze') return;
    if (fake.mode === 'close') return void client.once('data', () => client.end());
    const isReplica = fake.mode === 'replica';
    const upstream = connect(Number(writable.port || 5432), writable.hostname).on('error', () => undefined);
    sockets.add(upstream);
    const name = (url: URL): string => `\0${url.pathname.slice(1)}\0`;
    // The names have the same length, so the message stays valid.
    client.once('data', (start: Buffer) => {
      const text = start.toString('latin1');
      upstream.write(Buffer.from(isReplica ? text.replace(name(writable), name(replica)) : text, 'latin1'));
      client.pipe(upstream).pipe(client);
    });
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  };
  const server: Server = createServer(accept);
  await once(server.listen(0, host), 'listening');
  const cut = (): void => sockets.forEach((socket) => socket.destroy());
  const fake: FakeServer = {
    port: (server.address() as AddressInfo).port,
    mode,
    connections: 0,
    cut,
    close: () => {
      server.close();
      cut();
    },
  };
  return fake;
}

describe('several servers in DATABASE_URL', { concurrency: 4 }, () => {
  let writable: TestDatabase;
  let replica: TestDatabase;

  before(async () => {
    [writable, replica] = await Promise.all([createDatabase(), createDatabase()]);
    await startOnce(replica, RESOURCES); // makes the tables
    const name = new URL(replica.url).pathname.slice(1);
    await replica.sql.unsafe(`alter database ${name} set default_transaction_read_only = on`);
  });
  after(() => Promise.all([writable.drop(), replica.drop()]));

  const start = (mode: Mode): Promise<FakeServer> =>
    startServer(new URL(writable.url), new URL(replica.url), mode);

  function addressOf(servers: readonly { readonly port: number }[]): string {
    const { username, password, pathname } = new URL(writable.url);
    const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join();
    return `postgres://${username}:${password}@${hosts}${pathname}?target_session_attrs=read-write`;
  }

  /** Servers with these modes, closed after the work. */
  async function withServers(
    modes: readonly Mode[],
    work: (servers: readonly FakeServer[], sql: Sql, address: string) => Promise<void>,
  ): Promise<void> {
    const servers = await Promise.all(modes.map(start));
    const address = addressOf(servers);
    const sql = openPostgres(address, OPTIONS);
    try {
      await work(servers, sql, address);
    } finally {
      await sql.end({ timeout: 0 });
      for (const server of servers) server.close();
    }
  }

  for (const mode of ['replica', 'freeze', 'close'] as const)
    test(`a server is passed over whose mode is ${mode}`, () =>
      withServers([mode, mode, 'forward'], async (_, sql) => {
        await sql.unsafe('create temporary table written ()');
      }));

  test('a server that is not running is passed over', () =>
    withServers(['close', 'forward'], async ([first], sql) => {
      first?.close();
      await sql.unsafe('create temporary table written ()');
    }));

  test('without a server that accepts changes, the error names each server and not the password', () =>
    withServers(['replica', 'close', 'freeze'], async (servers, sql, address) => {
      const reasons = ['accepts no changes', 'the server closed the connection', 'no answer'];
      const expected = servers.map(({ port }, index) => `127.0.0.1:${port}: ${reasons[index]}`).join('; ');
      await assert.rejects(
        async () => sql.unsafe('select 1'),
        (error: Error & { code: string }) => {
          assert.equal(error.message, `no server accepts changes (${expected})`);
          assert.equal(error.code, 'NO_PRIMARY');
          const { password } = new URL(address.replace(/,[^/]*/, ''));
          // The test's server may ask for none.
          assert.ok(password === '' || !error.message.includes(password));
          return true;
        },
      );
    }));

  test('many connections that are opened at once ask each server once', () =>
    withServers(['replica', 'forward'], async ([first, second], _, address) => {
      const clients = Array.from({ length: 20 }, () => openPostgres(address, OPTIONS));
      try {
        await Promise.all(clients.map((one) => one.unsafe('select 1')));
        assert.deepEqual([first?.connections, second?.connections], [1, 21]);
      } finally {
        await Promise.all(clients.map((one) => one.end({ timeout: 0 })));
      }
    }));

  test('a request to cancel goes to the server of the statement', () =>
    withServers(['replica', 'forward'], async ([first, second], sql) => {
      await sql.unsafe('select 1');
      const before = [first?.connections, second?.connections];
      const query = sendStatement(sql, { text: 'select pg_sleep(60)', values: [] }, false);
      const ended = assert.rejects(Promise.resolve(query), { code: '57014' });
      const isRunning = async (): Promise<boolean> => {
        const running = await writable.sql`select from pg_stat_activity
          where datname = current_database() and query = 'select pg_sleep(60)' and state = 'active'`;
        return running.count > 0;
      };
      await eventually(isRunning, 'the statement');
      await cancelOnServer(query);
      await ended;
      assert.deepEqual([first?.connections, (second?.connections ?? 0) - 1], before);
    }));

  test('a client that is ended while servers are asked opens no connection', () =>
    withServers(['freeze', 'forward'], async ([, second], sql) => {
      const lost = assert.rejects(async () => sql.unsafe('select 1 as ended'), {
        code: 'CONNECTION_DESTROYED',
      });
      await sleep(5);
      await sql.end({ timeout: 0 });
      await lost;
      await sleep(300);
      const open = await writable.sql`select from pg_stat_activity
        where datname = current_database() and query = 'select 1 as ended'`;
      assert.equal(open.count, 0, `${second?.connections} connections`);
    }));

  test('a client may be ended at any moment of a failed search', () =>
    withServers(['close', 'close'], async (_, __, address) => {
      for (let round = 0; round < 20; round += 1) {
        const clients = Array.from({ length: 20 }, () => openPostgres(address, OPTIONS));
        const lost = clients.map((one) => assert.rejects(async () => one.unsafe('select 1')));
        const ended = clients.map(async (one, index) => {
          await sleep(index);
          await one.end({ timeout: 0 });
        });
        await Promise.all([...lost, ...ended]);
      }
    }));

  test('a service uses the server that took over, without a restart', async () => {
    await withServers(['forward', 'replica'], async ([first, second], _, databaseUrl) => {
      assert.ok(first && second);
      const vitrine = await createVitrine({
        databaseUrl,
        resources: RESOURCES,
        port: 0,
        log: () => undefined,
      });
      const { url: base } = await vitrine.start();
      try {
        await writable.sql`insert into "user" (username, password, email)
          values ('bob', ${await cheapHash('pw-bob')}, 'bob@example.org')`;
        const write = () =>
          request(base, '/api/note/', {
            method: 'POST',
            headers: { authorization: basic('bob') },
            body: { message: 'new' },
          });
        assert.equal((await write()).status, 201);
        for (const [one, other] of [
          [first, second],
          [second, first],
        ] as const) {
          one.mode = other.mode = 'replica';
          one.cut();
          for (const { status, text } of await Promise.all([write(), write(), write()]))
            assert.equal(status, 503, text);
          other.mode = 'forward';
          await eventually(async () => (await write()).status === 201, 'a write');
          assert.equal((await write()).status, 201);
          assert.equal((await request(base, '/readyz')).status, 200);
        }
      } finally {
        await vitrine.close();
      }
    });
  });
});

test('a server that closes connections at once fails a statement, and is not asked again without a pause', async (t) => {
  const database = await createDatabase();
  const server = await startServer(new URL(database.url), new URL(database.url), 'close');
  const url = new URL(database.url);
  Object.assign(url, { hostname: '127.0.0.1', port: String(server.port) });
  const sql = openPostgres(url.href, OPTIONS);
  t.after(async () => {
    await sql.end({ timeout: 0 });
    server.close();
    await database.drop();
  });
  await assert.rejects(async () => sql.unsafe('select 1'), { code: 'CONNECTION_CLOSED' });
  await sleep(200);
  assert.equal(server.connections, 1);
});

test('an IPv6 address in brackets works', async (t) => {
  const database = await createDatabase();
  const url = new URL(database.url);
  const server = await startServer(url, url, 'forward', '::1');
  const { username, password, pathname } = url;
  const sql = openPostgres(`postgres://${username}:${password}@[::1]:${server.port}${pathname}`, OPTIONS);
  t.after(async () => {
    await sql.end({ timeout: 0 });
    server.close();
    await database.drop();
  });
  assert.equal((await sql.unsafe('select 1')).length, 1);
});

const sessionsOf = async ({ sql }: TestService): Promise<number[]> =>
  (
    await sql<{ pid: number }[]>`select pid from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' order by pid`
  ).map(({ pid }) => pid);

test('after a write that a read-only server refuses, no pool keeps its connections', async (t) => {
  const service = closedAfter(t, await startService(RESOURCES));
  const database = new URL(service.url).pathname.slice(1);
  const sessions = (): Promise<number[]> => sessionsOf(service);
  await service.addUser('bob');
  await service.sql`insert into note (message) values ('one')`;
  await service.sql.unsafe(`alter database ${database} set default_transaction_read_only = on`);
  // With this, errors name the parameters of their statement, as those of functions name the function.
  await service.sql.unsafe(`alter database ${database} set log_parameter_max_length_on_error = -1`);
  await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine'`;
  await eventually(async () => (await service.request('/api/note/1/')).status === 200, 'a read');
  const before = await sessions();
  assert.ok(before.length > 0);
  const options = { method: 'POST', user: 'bob', body: { message: 'new' } };
  assert.equal((await service.request('/api/note/', options)).status, 503);
  await eventually(async () => {
    const now = await sessions();
    return before.every((pid) => !now.includes(pid));
  }, 'the end of the read-only sessions');
  const opened = async (): Promise<number> => {
    const [row] = await service.sql<{ sessions: number }[]>`select sessions::int from pg_stat_database
        where datname = current_database()`;
    return row?.sessions ?? 0;
  };
  const already = await opened();
  for (let tries = 0; tries < 60; tries += 1)
    assert.equal((await service.request('/api/note/', options)).status, 503);
  assert.ok((await opened()) - already < 60, 'not every such write replaces the connections');
});

// The address of the database, in the forms of libpq and with the parameters that hosting services print.

const ADDRESS_RESOURCES = [user, note];
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
      resources: ADDRESS_RESOURCES,
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
    test(`sslmode=${mode} with sslrootcert=${root} ${expected ? 'refuses' : 'accepts'} the certificate of a ${presented}`, async (t) => {
      const proxy = closedAfter(t, await startTlsProxy(database.url, certificate(presented)));
      const url = new URL(proxy.url);
      if (mode === undefined) url.searchParams.delete('sslmode');
      else url.searchParams.set('sslmode', mode);
      if (root !== undefined)
        url.searchParams.set('sslrootcert', root === 'system' ? root : certificate(root));
      if (expected) await assert.rejects(start(url.href), expected);
      else assert.deepEqual(await start(url.href), []);
    });
});

// Requirements of a pooler that assigns connections by transaction, such as PgBouncer in transaction mode.

/** Calls back with the type of each message of PostgreSQL's protocol. The start of a connection has no type. */
function readMessages(hasStart: boolean, found: (type: string) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  let head = hasStart ? 0 : 1;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= head + 4) {
      const size = head + rest.readUInt32BE(head);
      if (rest.length < size) return;
      found(rest.toString('latin1', 0, head));
      rest = rest.subarray(size);
      head = 1;
    }
  };
}

/** Forwards connections, and counts messages before the answer is complete: the pooler may have reassigned the connection. */
async function startWatch(target: string) {
  const { hostname, port } = new URL(target);
  let early = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(port || 5432), hostname);
    let due = 1; // the start is answered, too
    let isStarted = false;
    client.on(
      'data',
      readMessages(true, (type) => {
        // A connection whose first statement is canceled while it starts ends (X). p: the password
        if (due > 0 && !(isStarted ? [] : ['', 'p', 'X']).includes(type)) early += 1;
        if (type === 'S' || type === 'Q') due += 1;
      }),
    );
    upstream.on(
      'data',
      readMessages(false, (type) => {
        if (type !== 'Z') return;
        due -= 1;
        isStarted = true;
      }),
    );
    for (const socket of [client, upstream])
      socket.on('error', () => undefined).on('close', () => [client, upstream].map((one) => one.destroy()));
    client.pipe(upstream).pipe(client);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(target);
  Object.assign(url, { hostname: '127.0.0.1', port: String((server.address() as AddressInfo).port) });
  return { url, early: () => early, close: () => server.close() };
}

/** An error of PgBouncer: it always has the same SQLSTATE, and no untranslated severity. */
function refusal(message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${message}\0\0`);
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

/** Refuses the first connections, and forwards later ones. */
async function startRefusing(target: string, message: string, times: number) {
  const { hostname, port } = new URL(target);
  let count = 0;
  const server = createServer((client) => {
    client.on('error', () => undefined);
    count += 1;
    if (count <= times) {
      client.once('data', () => client.end(refusal(message)));
      return;
    }
    const upstream = connect(Number(port || 5432), hostname);
    upstream.on('error', () => undefined).on('close', () => client.destroy());
    client.on('close', () => upstream.destroy());
    client.pipe(upstream).pipe(client);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(target);
  Object.assign(url, { hostname: '127.0.0.1', port: String((server.address() as AddressInfo).port) });
  return { url: url.href, close: () => server.close() };
}

describe('a refusal of a pooler at the start', { concurrency: 8 }, () => {
  let database: TestDatabase;
  before(async () => (database = await createDatabase()));
  after(() => database.drop());

  const startOn = async (message: string, times: number): Promise<string> => {
    const server = await startRefusing(database.url, message, times);
    let lines = '';
    const log = (text: string): void => void (lines += text);
    try {
      const options = { databaseUrl: server.url, resources: [user, note], port: 0, log };
      const vitrine = await createVitrine(options);
      await vitrine.close();
      return lines;
    } finally {
      server.close();
    }
  };

  for (const message of [
    'the database system is not accepting connections',
    'too many connections for role "web"',
    'no more connections allowed (max_client_conn)',
    'server login has been failing, try again later (server_login_retry)',
  ])
    test(`is retried: ${message}`, async () => {
      assert.ok((await startOn(message, 2)).includes(JSON.stringify(message).slice(1, -1)));
    });

  for (const message of [
    'unsupported startup parameter: statement_timeout',
    'no such database: shop',
    'no such user: web',
    'password authentication failed',
    'SASL authentication failed',
    'auth failed',
  ])
    test(`ends the start: ${message}`, async () => {
      await assert.rejects(startOn(message, Infinity), (error: Error) => error.message.includes(message));
    });
});

test('with prepare=false nothing is sent on a connection before the last answer is complete, and otherwise it is', async (t) => {
  const service = closedAfter(t, await startService([user, note]));
  await service.addUser('bob');
  await service.sql`insert into note (message) select n::text from generate_series(1, 50) n`;
  const headers = { authorization: basic('bob') };
  const paths = Array.from({ length: 40 }, (_, at) => [`/api/note/${at + 1}/`, '/api/note/']).flat();
  const filters = Array.from({ length: 80 }, (_, at) => `/api/note/?message=${at}`);
  for (const prepare of ['false', 'true']) {
    const watch = await startWatch(service.url);
    watch.url.searchParams.set('prepare', prepare);
    const { href: databaseUrl } = watch.url;
    const log = (): void => undefined;
    const vitrine = await createVitrine({ databaseUrl, resources: [user, note], port: 0, log });
    try {
      const { url: base } = await vitrine.start();
      const writes = Array.from({ length: 20 }, (_, at) =>
        whenAdmitted(() =>
          request(base, `/api/note/${at + 1}/`, { method: 'PUT', headers, body: { message: 'new' } }),
        ),
      );
      const read = (all: readonly string[]): Promise<Answer>[] =>
        all.map((path) => whenAdmitted(() => request(base, path)));
      const answers = await Promise.all([...read(paths), ...writes]);
      answers.push(...(await Promise.all(read(filters))));
      assert.deepEqual([...new Set(pluck(answers, 'status'))], [200]);
      await request(base, '/api/note/', { headers: { accept: 'application/x-ndjson' } });
    } finally {
      await vitrine.close();
      watch.close();
    }
    assert.equal(watch.early() === 0, prepare === 'false', `${watch.early()} messages`);
  }
});

// What the embedded PostgreSQL says when it cannot start.

// Only root runs the server as another user.
if (process.getuid?.() === 0)
  test('as root, a folder that the user postgres may not enter is named', async (t) => {
    const closed = await mkdtemp(join(tmpdir(), 'vitrine embedded-')); // with mode 0700, like /root
    t.after(() => rm(closed, { recursive: true }));
    await assert.rejects(startEmbedded(join(closed, 'project', '.data')), (error) => {
      assert.ok(error instanceof StartError);
      assert.ok(error.message.includes(`may not enter ${closed}. Move the project`), error.message);
      return true;
    });
  });

// Databases that only resemble PostgreSQL. PostgreSQL itself plays them: a function that is found before its own says another
// version, a table has the name of one of Citus, and an access method has another name.

const word: Resource = { model: 'word', columns: { text: { type: 'text' } }, access: 'user' };

/** Without users. */
const readable: Resource = { ...word, access: 'default', methods: ['GET'] };

/** Connections that are opened later get this result from `version()`. */
const sayVersion = (version: string) => (sql: Sql) =>
  sql.unsafe(`create schema played;
    create function played.version() returns text language sql immutable as $$ select '${version}' $$;
    do $$ begin execute format('alter database %I set search_path = public, played, pg_catalog', current_database()); end $$;`);

const YUGABYTE = 'PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu';

for (const version of ['CockroachDB CCL v25.1.2 (x86_64-pc-linux-gnu)', 'v0.130.0 (1a2b3c)'])
  test(`on ${version}, the start ends with a reason and creates nothing`, async (t) => {
    const database = closedAfter(t, await createDatabase());
    await sayVersion(version)(database.sql);
    const start = startOnce(database, [readable]);
    await assert.rejects(start, (error: Error) => error.message.startsWith(`The database is ${version}.`));
    assert.deepEqual(await startFaults(database, [readable]), []);
    const [found] = await database.sql`select to_regclass('public.word') as word`;
    assert.equal(found?.['word'], null);
  });

const TABLE =
  'create table word (id integer generated by default as identity primary key, text text not null)';

for (const [name, prepare, warned] of [
  ['YugabyteDB', sayVersion(YUGABYTE), 'the service was never tested on YugabyteDB'],
  [
    'Citus',
    'create table pg_dist_partition (logicalrelid regclass)',
    'the service was never tested on Citus',
  ],
  [
    'a storage other than heap',
    `create access method other type table handler heap_tableam_handler; ${TABLE} using other`,
  ],
  [
    'a partition with a storage other than heap',
    `create access method other type table handler heap_tableam_handler; ${TABLE} partition by range (id);
     create table word_1 partition of word for values from (0) to (1000) using other`,
  ],
  ['PostgreSQL', TABLE],
] as const)
  describe(`records on ${name}`, () => {
    test('have ETags, are changed only if they match, and have a history', async (t) => {
      const service = closedAfter(
        t,
        await startWith([word], typeof prepare === 'string' ? prepare : prepare),
      );
      const { id } = (await service.send('POST', '/api/word/', { text: 'one' })).json;
      const path = `/api/word/${id}/`;
      const { headers } = await service.request(path);
      const etag = headers.get('etag') ?? '';
      assert.equal(/^"\d+-/.test(etag), name === 'PostgreSQL', etag);
      const put = (match: string, text: string) => service.send('PUT', path, { text }, { 'if-match': match });
      const changed = await put(etag, 'two');
      assert.equal(changed.status, 200);
      assert.equal((await put(etag, 'three')).status, 412);
      assert.equal((await service.request(path)).headers.get('etag'), changed.headers.get('etag'));
      assert.equal((await service.send('DELETE', path)).status, 200);
      const history = await service.sql`select action from vitrine_history where model = 'word' order by id`;
      assert.deepEqual(pluck(history, 'action'), ['create', 'update', 'delete']);
    });

    test(warned ? 'are warned of' : 'give no warning of the engine', async (t) => {
      const database = closedAfter(t, await createDatabase());
      if (warned) await database.sql.unsafe(TABLE);
      await (typeof prepare === 'string' ? database.sql.unsafe(prepare) : prepare(database.sql));
      const folder = await folderWith({ 'r.mjs': `export default ${JSON.stringify([readable])};` });
      const env = { DATABASE_URL: database.url, RESOURCES: `${folder}/r.mjs` };
      const { errors, warnings } = JSON.parse((await run(['check', '--json'], { env })).stdout);
      assert.deepEqual(errors, []);
      const found = (warnings as { kind: string; text: string }[]).filter(({ kind }) => kind === 'engine');
      assert.deepEqual(
        found.map(({ text }) => text.split(':')[0]),
        warned ? [warned] : [],
      );
    });
  });
