import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { sumMetrics } from '../../src/http/observability/metrics-sum.ts';
import shipped from '../../src/resources/registry.ts';
import {
  basic,
  metricsAddress,
  request,
  startService,
  useService,
  type RequestOptions,
  type TestService,
} from '../support.ts';
import { answered, growing, readExposition, valueOf, type Families } from './exposition.ts';
import { REPOSITORY, until } from './support.ts';
import { after, before, describe, test } from 'node:test';

const scrape = async (service: TestService): Promise<Families> => readExposition(await service.metrics());

describe('GET /metrics', () => {
  let service: TestService;
  before(async () => {
    // An address without a server: only its metrics matter here.
    service = await startService(shipped, { databaseReadUrl: ['postgres://web@127.0.0.1:1/web'] });
    await service.addUser('ada', { admin: true });
  });
  after(() => service.close());

  test('is a document of the text form 0.0.4 that no cache keeps', async () => {
    const address = await metricsAddress(service.lines);
    const { status, headers, text } = await request(address, '');
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
    assert.equal(headers.get('cache-control'), 'no-store');
    readExposition(text);
    const head = await request(address, '', { method: 'HEAD' });
    assert.deepEqual([head.status, head.text], [200, '']);
  });

  const requests: readonly [path: string, options: RequestOptions, route: string, status: number][] = [
    ['/api/note/', {}, '/api/{model}/', 200],
    ['/api/note', {}, '/api/{model}/', 200],
    ['/api/message/?nope=1', {}, '/api/{model}/', 400],
    ['/api/note/', { method: 'POST', user: 'ada', body: { message: 'x' } }, '/api/{model}/', 201],
    ['/api/note/', { method: 'POST' }, '/api/{model}/', 401],
    ['/api/note/1/', {}, '/api/{model}/{id}/', 200],
    ['/api/note/1/', { method: 'HEAD' }, '/api/{model}/{id}/', 200],
    ['/api/message/777/', {}, '/api/{model}/{id}/', 404],
    ['/api/message/', { method: 'PATCH' }, '/api/{model}/', 405],
    ['/api/', {}, '/api/', 200],
    ['/api/nothing/', {}, 'other', 404],
    ['/nothing', {}, 'other', 404],
    ['/admin/', {}, '/admin/', 302],
    ['/admin', {}, '/admin/', 302],
    ['/admin/-/login/', {}, '/admin/-/login/', 200],
    ['/admin/note/', {}, '/admin/{model}/', 302],
    ['/admin/note/-/add/', {}, '/admin/{model}/-/add/', 302],
    ['/admin/note/-/export.csv', {}, '/admin/{model}/-/export.csv', 302],
    ['/admin/note/1/', {}, '/admin/{model}/{id}/', 302],
    ['/admin/note/1/delete/', {}, '/admin/{model}/{id}/delete/', 302],
    ['/admin/note/1/nothing/', {}, 'other', 302],
    ['/healthz', {}, '/healthz', 200],
    ['/readyz', {}, '/readyz', 200],
    ['/metrics', {}, 'other', 404],
  ];
  for (const [path, options, route, status] of requests) {
    const { method = 'GET' } = options;
    test(`${method} ${path} counts as ${method} ${route} with ${status}`, async () => {
      const first = await scrape(service);
      const { status: actual } = await service.request(path, options);
      const second = await scrape(service);
      const key = answered(route, method, actual);
      assert.equal(valueOf(second, key), valueOf(first, key) + 1, key);
      const expected = path.startsWith('/admin') && status === 302 ? [302, 303] : [status];
      assert.ok(expected.includes(actual), `${actual}`);
      const durations = `vitrine_http_request_duration_seconds_count{route="${route}",method="${method}"}`;
      const family = 'vitrine_http_request_duration_seconds';
      const count = (families: Families): number => families.get(family)?.samples.get(durations) ?? 0;
      assert.equal(count(second), count(first) + 1, durations);
    });
  }

  test('what is counted only grows, and no client can add to what is documented apart', async () => {
    // Every route and method that there can be has been asked for above, but for these.
    for (const method of ['GET', 'PUT', 'DELETE', 'PROPFIND']) await service.request('/first', { method });
    const first = await scrape(service);
    for (let count = 0; count < 20; count += 1) {
      await service.request(`/${count}/x`);
      await service.request(`/api/model${count}/`);
      await service.request(`/api/note/${count + 1000}/`);
      await service.request(`/admin/model${count}/`);
      await service.request(`/${count}`, { method: count % 2 === 0 ? 'PROPFIND' : 'MKCOL' });
      await service.request('/metrics', { headers: { 'x-a': String(count) } });
    }
    const second = await scrape(service);
    const [before, now] = [growing(first), growing(second)];
    for (const [key, value] of before) assert.ok((now.get(key) ?? -1) >= value, key);
    const added = [...now.keys()].filter((key) => !before.has(key) && !key.includes('/api/{model}/{id}/'));
    assert.deepEqual(
      added.filter((key) => key.startsWith('vitrine_http_requests_total')),
      [],
    );
    assert.ok(valueOf(second, answered('other', 'other', 404)) >= 20);
  });

  test('requests in flight and statements under way are seen while they are', async () => {
    const running = 'vitrine_lane_running{lane="write"}';
    const durations = 'vitrine_lane_statement_duration_seconds';
    const done = (families: Families): number =>
      families.get(durations)?.samples.get(`${durations}_count{lane="write"}`) ?? 0;
    // An answer reaches its client before the service knows that it has.
    await until('earlier requests to have ended', async () => {
      return valueOf(await scrape(service), 'vitrine_http_requests_in_flight') === 0;
    });
    const first = await scrape(service);
    await service.request('/api/note/', { method: 'POST', user: 'ada', body: { message: 'x' } });
    let write: ReturnType<TestService['request']> | undefined;
    await service.sql.begin(async (transaction) => {
      await transaction`lock table note`;
      write = service.request('/api/note/', { method: 'POST', user: 'ada', body: { message: 'x' } });
      await until('the write to be seen', async () => {
        const now = await scrape(service);
        return valueOf(now, running) === 1 && valueOf(now, 'vitrine_http_requests_in_flight') === 1;
      });
    });
    assert.equal((await write)?.status, 201);
    const last = await scrape(service);
    assert.equal(valueOf(last, running), 0);
    assert.ok(done(last) >= done(first) + 2);
  });

  test('a request that is turned away with a 503 counts as shed', async () => {
    const first = await scrape(service);
    await service.sql.begin(async (transaction) => {
      await transaction`lock table note`;
      assert.equal((await service.request('/api/note/?message=x')).status, 503); // it waits for the lock too long
    });
    const shed = 'vitrine_http_requests_shed_total';
    assert.equal(valueOf(await scrape(service), shed), valueOf(first, shed) + 1);
  });

  test('failed and throttled logins count, and so does what is no request', async () => {
    const first = await scrape(service);
    const headers = { authorization: basic('ada', 'wrong') };
    for (let count = 0; count < 12; count += 1)
      await service.request('/api/note/', { method: 'POST', headers });
    const { hostname, port } = new URL(service.base);
    const socket = connect(Number(port), hostname).end('nonsense\r\n\r\n');
    socket.resume();
    await once(socket, 'close');
    const last = await scrape(service);
    for (const [key, more] of [
      ['vitrine_logins_failed_total', 10],
      ['vitrine_logins_throttled_total', 2],
      ['vitrine_http_unreadable_requests_total{status="400"}', 1],
    ] as const)
      assert.equal(valueOf(last, key), valueOf(first, key) + more, key);
  });

  test('the process reports its own metrics', async () => {
    const families = await scrape(service);
    const { version } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8')) as {
      version: string;
    };
    assert.equal(valueOf(families, `vitrine_build_info{version="${version}",node="${process.version}"}`), 1);
    const started = valueOf(families, 'process_start_time_seconds');
    assert.ok(Math.abs(Date.now() / 1000 - process.uptime() - started) < 5);
    assert.ok(valueOf(families, 'process_resident_memory_bytes') > 2 ** 20);
    assert.ok(valueOf(families, 'process_cpu_seconds_total') > 0);
    assert.ok((families.get('vitrine_event_loop_delay_seconds')?.samples.size ?? 0) > 4);
  });

  test('docs/metrics.md has every metric with its type and labels, and no other', async () => {
    const rows = readFileSync(join(REPOSITORY, 'docs/metrics.md'), 'utf8').matchAll(
      /^\| `([a-z_]+)` \| (\w+) \| (.*?) \|/gm,
    );
    const documented = [...rows].map(([, name = '', type = '', labels = '']) => [
      name,
      type,
      [...labels.matchAll(/`(\w+)`/g)]
        .map(([, label = '']) => label)
        .sort()
        .join(),
    ]);
    const known = [...(await scrape(service))].map(([name, { type, labels }]) => [
      name,
      type,
      [...labels].sort().join(),
    ]);
    assert.deepEqual(documented.sort(), known.sort());
  });
});

describe('who may read the metrics', () => {
  const service = useService();

  /** The status for a request with this Host; with HTTP/1.0 if there is none. */
  async function statusFor(address: string, host?: string): Promise<number> {
    const { hostname, port } = new URL(address);
    const socket = connect(Number(port), hostname);
    const version = host === undefined ? '1.0' : `1.1\r\nHost: ${host}\r\nConnection: close`;
    socket.write(`GET /metrics HTTP/${version}\r\n\r\n`);
    const [line] = (await once(socket.setEncoding('latin1'), 'data')) as [string];
    socket.destroy();
    return Number(line.split(' ')[1]);
  }

  test('the port of the service shows them to no one, as a proxy may pass on any Host', async () => {
    for (const host of ['localhost', '127.0.0.1:8000', '[::1]', 'example.org'])
      assert.equal(await statusFor(service.base, host), 404, host);
    const [answer, nothing] = [await service.request('/metrics'), await service.request('/nothing')];
    assert.deepEqual([answer.status, answer.text], [404, nothing.text]);
  });

  test('their own port refuses host names that anyone can point at it, against DNS rebinding', async () => {
    const address = await metricsAddress(service.lines);
    for (const [host, status] of [
      [undefined, 200],
      ['localhost', 200],
      ['LocalHost:9464', 200],
      ['127.0.0.1', 200],
      ['10.0.0.5:9464', 200],
      ['[::1]:80', 200],
      ['vitrine:9464', 200],
      ['rebound.example', 421],
      ['rebound.example:9464', 421],
      ['127.0.0.1.example', 421],
      ['localhost.', 421],
      ['[::1].example', 421],
    ] as const)
      assert.equal(await statusFor(address, host), status, host);
  });

  test('their own port accepts the host name of METRICS', async () => {
    const named = await startService(shipped, { metrics: 'localhost:0' });
    assert.equal(await statusFor(await metricsAddress(named.lines), 'LOCALHOST'), 200);
    await named.close();
  });

  test('without METRICS, nothing serves them', async () => {
    const closed = await startService(shipped, { metrics: 'off' });
    assert.equal((await closed.request('/metrics')).status, 404);
    await closed.close();
    assert.ok(!closed.lines.some(({ message }) => String(message).startsWith('metrics at')));
  });
});

test('of several processes a replica is in the rotation if all use it, and its lag is the longest', () => {
  const documents = [
    ['1', '0.5', '100'],
    ['0', '12', 'NaN'],
  ].map(([isUsed, seconds, bytes]) =>
    [
      ['in_rotation', 'gauge', isUsed],
      ['lag_seconds', 'gauge', seconds],
      ['lag_bytes', 'gauge', bytes],
      ['reads_total', 'counter', '7'],
    ]
      .map(([name, type, value]) => {
        const metric = `vitrine_replica_${name}`;
        return `# HELP ${metric} x\n# TYPE ${metric} ${type}\n${metric}{replica="a"} ${value}\n`;
      })
      .join(''),
  );
  const values = sumMetrics(documents).match(/(?<=\} ).*$/gm);
  assert.deepEqual(values, ['0', '12', 'NaN', '14']);
});
