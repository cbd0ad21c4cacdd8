// A DATABASE_URL of several servers, and servers that close connections, freeze or accept no changes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { cancelOnServer, openPostgres, sendStatement } from '../../src/db/connection/driver.ts';
import { createVitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import {
  basic,
  cheapHash,
  createDatabase,
  request,
  startService,
  type Sql,
  type TestDatabase,
  type TestService,
} from '../support.ts';
import { startOnce } from './helpers.ts';
import { after, before, describe, test } from 'node:test';

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

test('a server that closes connections at once fails a statement, and is not asked again without a pause', async () => {
  const database = await createDatabase();
  const server = await startServer(new URL(database.url), new URL(database.url), 'close');
  const url = new URL(database.url);
  Object.assign(url, { hostname: '127.0.0.1', port: String(server.port) });
  const sql = openPostgres(url.href, OPTIONS);
  try {
    await assert.rejects(async () => sql.unsafe('select 1'), { code: 'CONNECTION_CLOSED' });
    await sleep(200);
    assert.equal(server.connections, 1);
  } finally {
    await sql.end({ timeout: 0 });
    server.close();
    await database.drop();
  }
});

test('an IPv6 address in brackets works', async () => {
  const database = await createDatabase();
  const url = new URL(database.url);
  const server = await startServer(url, url, 'forward', '::1');
  const { username, password, pathname } = url;
  const sql = openPostgres(`postgres://${username}:${password}@[::1]:${server.port}${pathname}`, OPTIONS);
  try {
    assert.equal((await sql.unsafe('select 1')).length, 1);
  } finally {
    await sql.end({ timeout: 0 });
    server.close();
    await database.drop();
  }
});

const sessionsOf = async ({ sql }: TestService): Promise<number[]> =>
  (
    await sql<{ pid: number }[]>`select pid from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' order by pid`
  ).map(({ pid }) => pid);

test('after a write that a read-only server refuses, no pool keeps its connections', async () => {
  const service = await startService(RESOURCES);
  const database = new URL(service.url).pathname.slice(1);
  const sessions = (): Promise<number[]> => sessionsOf(service);
  try {
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
  } finally {
    await service.close();
  }
});
