// Requirements of a pooler that assigns connections by transaction, such as PgBouncer in transaction mode.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { createVitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { whenAdmitted } from '../http/expect.ts';
import { basic, createDatabase, request, startService, type Answer, type TestDatabase } from '../support.ts';
import { after, before, describe, test } from 'node:test';

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

test('with prepare=false nothing is sent on a connection before the last answer is complete, and otherwise it is', async () => {
  const service = await startService([user, note]);
  await service.addUser('bob');
  await service.sql`insert into note (message) select n::text from generate_series(1, 50) n`;
  const headers = { authorization: basic('bob') };
  const paths = Array.from({ length: 40 }, (_, at) => [`/api/note/${at + 1}/`, '/api/note/']).flat();
  const filters = Array.from({ length: 80 }, (_, at) => `/api/note/?message=${at}`);
  try {
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
        assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
        await request(base, '/api/note/', { headers: { accept: 'application/x-ndjson' } });
      } finally {
        await vitrine.close();
        watch.close();
      }
      assert.equal(watch.early() === 0, prepare === 'false', `${watch.early()} messages`);
    }
  } finally {
    await service.close();
  }
});
