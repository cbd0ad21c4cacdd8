// The files for proxies in deploy/, with the real programs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { csrfIn } from '../admin/support.ts';
import { basic, createDatabase, type TestDatabase } from '../support.ts';
import { addUser, freePort, REPOSITORY, serve, until, type Serving } from './support.ts';
import {
  ask,
  begin,
  openConnection,
  PROXIES,
  startBackend,
  startWebProxy,
  type Answer,
  type AskOptions,
  type Backend,
  type Edit,
  type ProxyName,
  type WebProxy,
} from './web-proxies.ts';
import { after, before, describe, test } from 'node:test';

/** Messages in the database. */
const MESSAGES = 20_000;
/** Requests of a client that both files let in at once. */
const AT_ONCE = 256;

/** Timeouts of a second, so that a test need not wait. */
const SHORT: Readonly<Record<ProxyName, readonly Edit[]>> = {
  nginx: [[/(client_\w+_timeout|send_timeout) \d+s/, '$1 1s']],
  haproxy: [[/(timeout (?:http-request|client)|wait-for-body time) \d+s/, '$1 1s']],
};
/** Few requests per second. */
const SLOW: Readonly<Record<ProxyName, readonly Edit[]>> = {
  nginx: [
    ['rate=500r/s', 'rate=20r/s'],
    ['burst=5000 delay=1000', 'burst=30 delay=20'],
  ],
  haproxy: [
    ['gpc0_rate(10s)', 'gpc0_rate(1s)'],
    ['Retry-After 10', 'Retry-After 1'],
    ['ge 20000', 'ge 50'],
  ],
};
/** Three requests at once, of clients that a header names. */
const FEW: Readonly<Record<ProxyName, readonly Edit[]>> = {
  nginx: [
    [
      `limit_conn vitrine_connections ${AT_ONCE};`,
      'limit_conn vitrine_connections 3; set_real_ip_from 127.0.0.0/8; real_ip_header X-Test;',
    ],
  ],
  haproxy: [
    [`sc1_conn_cur gt ${AT_ONCE}`, 'sc1_conn_cur gt 3'],
    ['http-request track-sc1', 'http-request set-src hdr(x-test)\n http-request track-sc1'],
  ],
};

/** Requests at the same time. */
const times = <T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, at) => work(at)));

const statusesOf = (answers: readonly Answer[]): number[] => [
  ...new Set(answers.map(({ status }) => status)),
];

for (const name of PROXIES) {
  describe(`${name} in front of any service`, () => {
    let backend: Backend;
    let proxy: WebProxy;
    let quick: WebProxy;
    const more: WebProxy[] = [];
    const startAnother = async (edits: readonly Edit[]): Promise<WebProxy> => {
      const another = await startWebProxy(name, backend.port, edits);
      more.push(another);
      return another;
    };
    before(async () => {
      backend = await startBackend();
      proxy = await startAnother([]);
      quick = await startAnother(SHORT[name]);
    });
    after(async () => {
      for (const one of more) await one.stop();
      await backend.close();
    });

    /** Requests that wait in the service. */
    const hold = async (through: WebProxy, path: string, clients: readonly AskOptions[]) => {
      const answers = clients.map((options) => ask(through, `/held/${path}/`, options));
      await until('the requests to wait', () => backend.held.size === clients.length);
      return {
        release: async (): Promise<Answer[]> => {
          for (const response of backend.held) response.end('done');
          return Promise.all(answers);
        },
      };
    };

    test('accepts the file without a warning', async () => {
      const { code, stdout, stderr } = await proxy.check();
      assert.equal(code, 0, stderr);
      assert.doesNotMatch(`${stdout}${stderr}`, /warn|alert|error/i);
    });

    test('sends requests without TLS to the address with TLS', async () => {
      const socket = connect(proxy.plainPort, '127.0.0.1').setEncoding('utf8');
      socket.end('GET /api/?page=2 HTTP/1.1\r\nHost: api.example.org\r\nConnection: close\r\n\r\n');
      let text = '';
      for await (const chunk of socket) text += chunk as string;
      assert.match(text, /^HTTP\/1\.1 301 /);
      assert.match(text, /^location: https:\/\/api\.example\.org\/api\/\?page=2\r$/im);
    });

    test('passes on what the service needs, and appends the address of the client to those that it sends', async () => {
      const headers = {
        authorization: basic('ada'),
        'x-forwarded-for': '192.0.2.1',
        'x-forwarded-proto': 'http',
      };
      const { body } = await ask(proxy, '/any/', { headers, from: '127.0.0.2' });
      const { headers: received } = JSON.parse(body.toString()) as { headers: Record<string, string> };
      assert.equal(received['host'], `127.0.0.1:${proxy.port}`);
      assert.equal(received['authorization'], basic('ada'));
      assert.equal(received['x-forwarded-for'], '192.0.2.1, 127.0.0.2');
      assert.equal(received['x-forwarded-proto'], 'https');
    });

    test('passes on bodies of 8 MiB, as an import has', async () => {
      const send = (length: number): Promise<Answer> =>
        ask(proxy, '/any/', { method: 'POST', body: Buffer.alloc(length) });
      const most = 8 * 1024 * 1024;
      const { status, body } = await send(most);
      assert.deepEqual([status, (JSON.parse(body.toString()) as { length: number }).length], [200, most]);
      // HAProxy leaves larger ones to the service.
      assert.equal((await send(most + 1)).status, name === 'nginx' ? 413 : 200);
    });

    for (const [what, headers] of [
      ['the head of a request', ''],
      ['the body of a request', 'POST /slow/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nbegun'],
    ] as const)
      test(`ends a connection that never completes ${what}, and the service learns nothing of it`, async () => {
        const socket = await openConnection(quick);
        socket.write(headers || 'GET /slow/ HTTP/1.1\r\nHost: x\r\nX-More: ');
        // A byte now and then does not help.
        const drip = setInterval(() => headers === '' && socket.write('x'), 100);
        await new Promise((resolve) => socket.resume().on('close', resolve));
        clearInterval(drip);
        assert.ok(!backend.seen.some((one) => one.endsWith('/slow/')), backend.seen.join());
      });

    test('sends a stream on as it comes', async () => {
      const headers = { accept: 'application/x-ndjson' };
      const response = await begin(proxy, '/held/stream/', { headers });
      const [line] = (await once(response.setEncoding('utf8'), 'data')) as [string];
      assert.equal(line, 'first\n');
      for (const waiting of backend.held) waiting.end('last\n');
      let rest = '';
      for await (const chunk of response) rest += chunk as string;
      assert.equal(rest, 'last\n');
    });

    test('ends a stream whose client takes nothing, and the service learns it', async () => {
      const known = backend.left();
      const response = await begin(quick, '/endless/', { headers: { accept: 'application/x-ndjson' } });
      response.on('error', () => undefined);
      await until('the end of the stream', () => backend.left() > known);
      response.destroy();
    });

    test('lets the service know when a client leaves', async () => {
      const known = backend.left();
      const left = new AbortController();
      const answer = ask(proxy, '/held/left/', { signal: left.signal });
      await until('the request', () => backend.held.size === 1);
      left.abort();
      await assert.rejects(answer);
      await until('the service to know', () => backend.left() > known);
    });

    test('sends a read again if its connection breaks before the answer, and never a write', async () => {
      assert.equal((await ask(proxy, '/broken/read/')).status, 200);
      assert.equal(backend.seen.filter((one) => one === 'GET /broken/read/').length, 2);
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const { status } = await ask(proxy, '/broken/write/', { method });
        assert.equal(status, 502, method);
        assert.equal(backend.seen.filter((one) => one === `${method} /broken/write/`).length, 1);
      }
    });

    test(`lets ${AT_ONCE} requests of an address in at once, refuses more with 429, and answers others`, async () => {
      const from = '127.0.0.3';
      const { release } = await hold(
        proxy,
        'many',
        Array.from({ length: AT_ONCE }, () => ({ from })),
      );
      for (const method of ['GET', 'POST']) {
        const { status, headers, body } = await ask(proxy, '/any/', { from, method });
        assert.equal(status, 429);
        assert.equal(headers['content-type'], 'application/problem+json');
        assert.equal(headers['retry-after'], undefined); // no one knows when the others end
        assert.equal((JSON.parse(body.toString()) as { status: number }).status, 429);
      }
      assert.equal((await ask(proxy, '/any/', { from: '127.0.0.4' })).status, 200);
      assert.deepEqual(statusesOf(await release()), [200]);
      assert.equal((await ask(proxy, '/any/', { from })).status, 200);
    });

    test('refuses none of 200 people behind one address, of a crawler and of a dashboard', async () => {
      const crowds = [
        { from: '127.0.0.9', clients: 200, requests: 6 },
        { from: '127.0.0.10', clients: 16, requests: 40 },
        { from: '127.0.0.11', clients: 12, requests: 1 },
      ];
      const results = crowds.map(({ from, clients, requests }) =>
        times(clients, async () => {
          const agent = new Agent({ keepAlive: true, maxSockets: 1 });
          for (let count = 0; count < requests; count += 1)
            assert.equal((await ask(proxy, '/any/', { from, agent })).status, 200);
          agent.destroy();
        }),
      );
      await Promise.all(results);
    });

    test('counts an IPv6 /64 as one client, and each IPv4 address', async () => {
      const few = await startAnother(FEW[name]);
      const of = (address: string): AskOptions => ({ headers: { 'x-test': address } });
      const addresses = ['2001:db8:1:2::1', '2001:db8:1:2:ffff::2', '2001:db8:1:2::3', '192.0.2.1'];
      const { release } = await hold(few, 'networks', addresses.map(of));
      assert.equal((await ask(few, '/any/', of('2001:db8:1:2:a:b:c:d'))).status, 429);
      for (const address of ['2001:db8:1:3::1', '192.0.2.1', '192.0.2.2'])
        assert.equal((await ask(few, '/any/', of(address))).status, 200, address);
      assert.deepEqual(statusesOf(await release()), [200]);
    });

    test('refuses a client that sends too many requests in a short time, until the time that it says', async () => {
      const slow = await startAnother(SLOW[name]);
      const from = '127.0.0.5';
      const answers = await times(150, () => ask(slow, '/any/', { from }));
      assert.deepEqual(statusesOf(answers).sort(), [200, 429]);
      const { headers } = answers.find(({ status }) => status === 429) ?? assert.fail();
      assert.equal((await ask(slow, '/any/', { from: '127.0.0.6' })).status, 200);
      await sleep(Number(headers['retry-after']) * 1000);
      assert.equal((await ask(slow, '/any/', { from })).status, 200);
    });
  });

  describe(`${name} in front of the service`, () => {
    let database: TestDatabase;
    let service: Serving;
    let proxy: WebProxy;
    let env: Record<string, string>;
    before(async () => {
      database = await createDatabase();
      const port = await freePort();
      env = { DATABASE_URL: database.url, TRUST_PROXY: '1', PORT: String(port), LOG_LEVEL: 'warn' };
      service = await serve({ env });
      const id = await addUser(database.sql, 'ada');
      await database.sql`update "user" set admin = true`;
      await database.sql`
        insert into message (user_id, content) select ${id}, 'message ' || i from generate_series(1, ${MESSAGES}::int) i`;
      await database.sql`analyze message`;
      proxy = await startWebProxy(name, port);
    });
    after(async () => {
      await proxy.stop();
      await service.stop();
      await database.drop();
    });

    /** @throws AssertionError for any other status */
    const expect = async (status: number, path: string, options?: AskOptions): Promise<Answer> => {
      const answer = await ask(proxy, path, options);
      assert.equal(answer.status, status, `${path}: ${answer.body.subarray(0, 300).toString()}`);
      return answer;
    };

    test('an admin logs in from pages of the service only, and gets cookies that need TLS', async () => {
      const page = await expect(200, '/admin/-/login/');
      const cookie = (page.headers['set-cookie'] ?? []).map((one) => one.split(';')[0]).join('; ');
      const body = new URLSearchParams({
        _csrf: csrfIn(page.body.toString()),
        username: 'ada',
        password: 'pw-ada',
      }).toString();
      const form = { cookie, 'content-type': 'application/x-www-form-urlencoded' };
      const logIn = (status: number, origin: string): Promise<Answer> =>
        expect(status, '/admin/-/login/', { method: 'POST', headers: { ...form, origin }, body });
      await logIn(403, 'https://evil.example');
      await logIn(403, proxy.origin.replace('https', 'http'));
      const { headers } = await logIn(303, proxy.origin);
      assert.match(String(headers['set-cookie']), /; Secure/);
    });

    test('failed logins count for the address of the client, whatever it sends', async () => {
      const logIn = (status: number, from: string, at: number): Promise<Answer> =>
        expect(status, '/api/message/', {
          method: 'POST',
          from,
          headers: { authorization: basic(`nobody ${at}`), 'x-forwarded-for': `192.0.2.${at}` },
        });
      for (let at = 0; at < 10; at += 1) await logIn(401, '127.0.0.7', at);
      await logIn(429, '127.0.0.7', 11);
      await logIn(401, '127.0.0.8', 11);
    });

    test('ETags, conditions and compression stay as they are', async () => {
      const { headers } = await expect(200, '/api/message/1/');
      const etag = String(headers.etag);
      assert.match(etag, /^"/);
      await expect(304, '/api/message/1/', { headers: { 'if-none-match': etag } });
      const write = { authorization: basic('ada'), 'content-type': 'application/json' };
      const change = { method: 'PUT', body: '{"content":"changed"}' };
      await expect(412, '/api/message/1/', { ...change, headers: { ...write, 'if-match': '"other"' } });
      await expect(200, '/api/message/1/', { ...change, headers: { ...write, 'if-match': etag } });
      const page = await expect(200, '/api/message/', { headers: { 'accept-encoding': 'gzip' } });
      assert.equal(page.headers['content-encoding'], 'gzip');
      assert.equal(
        (JSON.parse(gunzipSync(page.body).toString()) as { objects: unknown[] }).objects.length,
        20,
      );
    });

    test('the longest query gets its answer, whose headers repeat it', async () => {
      const query = `content__ne=${'%C3%A9'.repeat(1300)}&limit=1`;
      const { headers } = await expect(200, `/api/message/?${query}`, { headers: { accept: 'text/csv' } });
      assert.ok(String(headers.link).length > 7_000);
    });

    test('a stream of all records is complete', async () => {
      const { body } = await expect(200, '/api/message/', { headers: { accept: 'application/x-ndjson' } });
      assert.equal(body.toString().split('\n').length - 1, MESSAGES);
    });

    test('a body above MAX_BODY is refused by the service', async () => {
      const headers = { authorization: basic('ada'), 'content-type': 'application/json' };
      const { body } = await expect(413, '/api/message/', {
        method: 'POST',
        headers,
        body: Buffer.alloc(2 ** 21),
      });
      assert.match(body.toString(), /1048576|1 MiB/);
    });

    if (name === 'haproxy')
      test('requests wait while the service restarts', async () => {
        await service.stop();
        /** Between listening and the first look at the database, the service asks its clients to come back. */
        const retried = async (status: number, path: string, options?: AskOptions): Promise<void> => {
          const answer = await ask(proxy, path, options);
          if (answer.status === 503 && answer.headers['retry-after']) return retried(status, path, options);
          assert.equal(answer.status, status, answer.body.toString());
        };
        const read = retried(200, '/api/message/1/');
        const headers = { authorization: basic('ada'), 'content-type': 'application/json' };
        const write = retried(201, '/api/message/', {
          method: 'POST',
          headers,
          body: '{"content":"waited"}',
        });
        service = await serve({ env });
        await Promise.all([read, write]);
        const [row] = await database.sql`select count(*)::int as count from message where content = 'waited'`;
        assert.equal(row?.['count'], 1);
      });
  });
}

test('HAProxy closes what a client opens beyond its connections', async (t) => {
  const backend = await startBackend();
  const proxy = await startWebProxy('haproxy', backend.port, [['sc0_conn_cur gt 2000', 'sc0_conn_cur gt 5']]);
  t.after(async () => {
    await proxy.stop();
    await backend.close();
  });
  const opened = await times(5, () => openConnection(proxy, '127.0.0.12'));
  await assert.rejects(openConnection(proxy, '127.0.0.12'));
  assert.equal((await ask(proxy, '/any/', { from: '127.0.0.13' })).status, 200);
  for (const socket of opened) socket.destroy();
});

/** Two services, as docs/scaling.md says. */
const toBoth = (one: number, other: number): Readonly<Record<ProxyName, readonly Edit[]>> => ({
  nginx: [
    [
      `    server 127.0.0.1:${one} max_fails=0;\n`.repeat(2),
      `hash $vitrine_client consistent; server 127.0.0.1:${one}; server 127.0.0.1:${other};`,
    ],
  ],
  haproxy: [
    [
      `server vitrine 127.0.0.1:${one}`,
      `balance source\n server one 127.0.0.1:${one}\n server other 127.0.0.1:${other}`,
    ],
  ],
});
for (const name of PROXIES)
  test(`${name} leads each client to the same of several services, and uses all`, async (t) => {
    const backends = [await startBackend(), await startBackend()] as const;
    const [one, other] = backends;
    const proxy = await startWebProxy(name, one.port, toBoth(one.port, other.port)[name]);
    t.after(async () => {
      await proxy.stop();
      for (const backend of backends) await backend.close();
    });
    await times(60, (at) => ask(proxy, `/${at % 20}/`, { from: `127.0.1.${at % 20}` }));
    for (const { seen } of backends) {
      assert.ok(seen.length > 0);
      for (const path of seen) assert.equal(seen.filter((same) => same === path).length, 3, path);
    }
  });

test('Caddy passes on what the service needs by itself', () => {
  const file = readFileSync(join(REPOSITORY, 'deploy/Caddyfile'), 'utf8');
  assert.match(file, /^\treverse_proxy 127\.0\.0\.1:8000 \{$/m);
  assert.doesNotMatch(file, /^\s*(?:encode|header_up|request_body)\b/m);
});
