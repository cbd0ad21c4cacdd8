import { fromNewAddress } from '../http/expect.ts';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDatabase, request, useDatabase, type Answer } from '../support.ts';
import { startProxy, startTlsProxy, type Proxy } from './proxy.ts';
import { addUser, REPOSITORY, run, serve, until, type Serving } from './support.ts';
import { describe, test } from 'node:test';

const PATHS = ['/readyz', '/api/note/', '/api/note/1/', '/api/message/?user__username=ada&page=9'];

function assertUnavailable({ status, headers, json, text }: Answer): void {
  assert.equal(status, 503, text);
  assert.match(String(headers.get('retry-after')), /^[1-9]\d*$/);
  assert.equal(headers.get('content-type'), 'application/problem+json');
  assert.equal(json.status, 503);
  assert.doesNotMatch(text, /postgres|ECONN|127\.0\.0\.1/i);
}

/** Requests of each kind, which the test's own timeout keeps from hanging. */
const requests = (base: string): Promise<Answer[]> =>
  Promise.all([
    ...PATHS.map((path) => request(base, path)),
    request(base, '/api/note/1/', { method: 'PUT', user: 'ada', body: { message: 'again' } }),
    request(base, '/api/note/', { method: 'POST', user: 'ada', body: { message: 'new' } }),
  ]);

const allServed = async (base: string): Promise<boolean> =>
  (await requests(base)).every(({ status }) => status < 300);

/** Keeps asking while the work is done; only 200 and 503 may be answered, and 200 at least once. */
async function underLoad(base: string, work: () => Promise<void>): Promise<void> {
  const statuses = new Set<number>();
  let isOver = false;
  const client = async (index: number): Promise<void> => {
    const write = { method: 'PUT', user: 'ada', body: { message: `${index}` } };
    while (!isOver) {
      const answer = await (index % 2 === 0
        ? request(base, '/api/note/')
        : request(base, '/api/note/1/', write));
      statuses.add(answer.status);
      await sleep(50); // a load, but not all that the machine can do
    }
  };
  const clients = Promise.all(Array.from({ length: 6 }, (_, index) => client(index)));
  try {
    await Promise.race([work(), clients]); // the clients end first only when a request of theirs fails
  } finally {
    isOver = true;
    await clients;
  }
  statuses.delete(503);
  statuses.delete(429);
  assert.deepEqual([...statuses], [200]);
}

describe('a database that goes away', { concurrency: 4 }, () => {
  const database = useDatabase('', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url } }); // makes the tables
    await service.stop();
    await addUser(database.sql, 'ada');
    await database.sql`insert into note (message) values ('first')`;
  });

  /** A service behind a proxy of its own; it is stopped by a signal at the end, whatever state it is in. */
  async function behindProxy(work: (service: Serving, proxy: Proxy) => Promise<void>): Promise<void> {
    const proxy = await startProxy(database.url);
    const service = await serve({ env: { DATABASE_URL: proxy.url } });
    try {
      const refused = (await requests(service.base)).filter(({ status }) => status >= 300);
      assert.deepEqual(
        refused.map(({ text }) => text),
        [],
      );
      await work(service, proxy);
      assert.equal((await service.stop()).code, 0);
    } finally {
      await proxy.close();
    }
  }

  test('because it ends all connections under load: only 200 and 503 are answered', () =>
    behindProxy(async ({ base }, proxy) => {
      await underLoad(base, async () => {
        for (let count = 0; count < 10; count += 1) {
          await sleep(100);
          proxy.cut();
        }
      });
      await until('everything to be served', () => allServed(base));
    }));

  test('because an administrator terminates its sessions under load: only 200 and 503', async () => {
    const own = await createDatabase();
    const service = await serve({ env: { DATABASE_URL: own.url } });
    await addUser(own.sql, 'ada');
    await own.sql`insert into note (message) values ('first')`;
    let terminated = 0;
    await underLoad(service.base, async () => {
      for (let count = 0; count < 10; count += 1) {
        await sleep(100);
        const ended = await own.sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name = 'vitrine'`;
        terminated += ended.length;
      }
    });
    assert.ok(terminated > 0);
    await until('everything to be served', () => allServed(service.base));
    assert.equal((await service.stop()).code, 0);
    await own.drop();
  });

  test('and refuses connections: 503 until it is back, and healthz says that the process lives', () =>
    behindProxy(async ({ base }, proxy) => {
      for (let round = 0; round < 2; round += 1) {
        await proxy.refuse();
        for (const answer of await requests(base)) assertUnavailable(answer);
        assert.equal((await request(base, '/healthz')).status, 200);
        await proxy.open();
        await until('everything to be served', () => allServed(base));
      }
    }));

  test('behind a certificate that is no longer valid: 503 until it is, and a start ends with the reason', async (t) => {
    const pem = (name: string): string => join(REPOSITORY, `test/process/tls/${name}.pem`);
    const proxy = await startTlsProxy(database.url, pem('number'));
    const env = { DATABASE_URL: proxy.url, NODE_EXTRA_CA_CERTS: pem('number') };
    const service = await serve({ env });
    t.after(() => proxy.close());
    await until('everything to be served', () => allServed(service.base));
    proxy.present(pem('name'));
    for (const answer of await requests(service.base)) assertUnavailable(answer);
    assert.doesNotMatch(service.stderr(), /"level":"error"/);
    const { code, stderr } = await run(['serve'], { env: { ...env, PORT: '0' } });
    assert.equal(code, 1);
    assert.match(stderr, /^vitrine: The database cannot be used: .*certificate/m);
    proxy.present(pem('number'));
    await until('everything to be served', () => allServed(service.base));
    assert.equal((await service.stop()).code, 0);
  });

  test('into a black hole: every request is answered with 503, and all comes back with the network', () =>
    behindProxy(async ({ base }, proxy) => {
      proxy.swallow();
      for (const answer of await requests(base)) assertUnavailable(answer);
      await proxy.open();
      await until('everything to be served', () => allServed(base));
    }));

  test('into a black hole before the first request: 503, and the signal still ends the service', async () => {
    const proxy = await startProxy(database.url);
    const service = await serve({ env: { DATABASE_URL: proxy.url } });
    proxy.cut();
    proxy.swallow();
    for (const answer of await requests(service.base)) assertUnavailable(answer);
    assert.equal((await service.stop()).code, 0);
    await proxy.close();
  });

  test('silently, in the middle of a stream: the stream ends, and the next ones run', async (t) => {
    const own = await createDatabase();
    const proxy = await startProxy(own.url);
    const service = await serve({ env: { DATABASE_URL: proxy.url, TRUST_PROXY: '1' } });
    await own.sql`insert into note (message) select repeat('x', 200) from generate_series(1, 200000)`;
    const stream = (signal?: AbortSignal): Promise<Response> =>
      fetch(`${service.base}/api/note/`, {
        // On a slow machine a client has to wait after a long stream.
        headers: { accept: 'application/x-ndjson', ...fromNewAddress() },
        ...(signal ? { signal } : {}),
      });
    t.after(async () => {
      await proxy.close();
      await own.drop();
    });
    for (const isLeft of [false, true]) {
      const leaving = new AbortController();
      // A slow machine may refuse the first tries.
      const { body } = await until('a stream', async () => {
        const answer = await stream(leaving.signal);
        if (answer.status === 200) return answer;
        throw new Error(await answer.text());
      });
      const reader = (body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      proxy.swallow();
      /** The bytes until the end of the body; undefined if the body breaks off. */
      const reading = async (): Promise<number | undefined> => {
        try {
          let bytes = 0;
          for (;;) {
            const { done, value } = await reader.read();
            if (done) return bytes;
            bytes += value.length;
          }
        } catch {
          return undefined;
        }
      };
      if (isLeft) setTimeout(() => leaving.abort(), 500);
      assert.equal(await reading(), undefined, 'the answer must not look complete');
      assert.equal((await request(service.base, '/healthz')).status, 200);
      await proxy.open();
      await until('a whole stream', async () => {
        const answer = await stream();
        return answer.status === 200 && (await answer.text()).split('\n').length > 200_000;
      });
    }
    assert.equal((await service.stop()).code, 0);
  });

  test('on all its connections, which stay open: new ones are made', () =>
    behindProxy(async ({ base }, proxy) => {
      assert.ok(proxy.silence() > 0);
      const answers = await requests(base);
      assert.ok(answers.every(({ status }) => status < 300 || status === 503));
      await until('everything to be served', () => allServed(base));
    }));

  test('on every other of its connections: once statements were lost, idle dead connections are replaced too', () =>
    behindProxy(async ({ base }, proxy) => {
      const rounds = (count: number): Promise<Answer[][]> =>
        Promise.all(Array.from({ length: count }, () => requests(base)));
      await rounds(20); // all connections are made
      assert.ok(proxy.silence((index) => index % 2 === 0) > 1);
      const isLost = ({ text }: Answer): boolean => /took too long|did not answer/.test(text);
      assert.ok((await rounds(4)).flat().some(isLost));
      assert.deepEqual((await rounds(10)).flat().filter(isLost), []);
    }));

  test('on every other of its connections, which stay open: in the end every request is served', () =>
    behindProxy(async ({ base }, proxy) => {
      const rounds = (count: number): Promise<boolean[]> =>
        Promise.all(Array.from({ length: count }, () => allServed(base)));
      await rounds(20); // all connections are made
      assert.ok(proxy.silence((index) => index % 2 === 0) > 1);
      await underLoad(base, () =>
        until(
          'every request to be served',
          async () => (await rounds(10)).every(Boolean) || undefined,
          60,
        ).then(() => undefined),
      );
    }));
});
