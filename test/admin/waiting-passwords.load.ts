// Passwords that wait to be verified: clients that leave meanwhile, and login forms that keep no other request from starting.
import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import { eventually, fromNewAddress } from '../http/expect.ts';
import { basic, startService, useService } from '../support.ts';
import { csrfIn, logIn, openBrowser, type Browser } from './support.ts';
import { resources } from './sample-resources.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { requestText, wire } from '../http/wire.ts';
import { describe, test } from 'node:test';

describe('a client that disconnects before its password is verified', () => {
  let ada: Browser;
  let other: number;
  const service = useService(resources, {}, async () => {
    await service.addUser('ada', { admin: true });
    other = await service.addUser('bea', { admin: true });
    const password = await hash('slow', { memoryCost: 65_536, timeCost: 40, parallelism: 1 });
    await service.addUser('bob', { password });
    await service.addUser('eve');
    await service.request('/api/thing/', { user: 'eve', method: 'POST' }); // so that she is known
    await service.sql`update "user" set password = ${password} where username = 'eve'`;
    ada = await logIn(service, 'ada');
  });

  const statusesOf = (path: string): unknown[] =>
    service.lines
      .filter((line) => line['path'] === path && line['method'] === 'POST')
      .map(({ status }) => status);

  async function assertLeavesQueue(path: string): Promise<void> {
    const { text } = await ada.get(path);
    const csrf = /name="_csrf" value="([^"]*)"/.exec(text)?.[1] ?? '';
    const before = statusesOf(path).length;
    // Two verifications of clients that have logged in run at once; the form waits behind them.
    let isSlowDone = false;
    const slow = ['bob', 'eve'].map(async (name) => {
      await service.request('/api/thing/', {
        headers: { authorization: basic(name, 'wrong') },
        method: 'POST',
      });
      isSlowDone = true;
    });
    await eventually(
      async () => Number(/^vitrine_http_requests_in_flight (\d+)/m.exec(await service.metrics())?.[1]) >= 2,
      'the verifications',
    );
    const body = new URLSearchParams({
      _csrf: csrf,
      _current: 'wrong',
      _password: 'a new password',
      _repeat: 'a new password',
    });
    const cookie = [...ada.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    // On a slow machine, the slow verifications may begin later than the first of some requests.
    for (let tries = 1; tries <= 5 && statusesOf(path).at(-1) !== 499; tries += 1) {
      const leaving = new AbortController();
      const sent = fetch(`${service.base}${path}`, {
        method: 'POST',
        headers: { cookie, origin: service.base },
        body,
        signal: leaving.signal,
      });
      setTimeout(() => leaving.abort(), 100);
      await sent.catch((error: unknown) => assert.match(String(error), /abort/));
      await eventually(() => statusesOf(path).length === before + tries, 'the end of the request');
    }
    assert.equal(statusesOf(path).at(-1), 499);
    assert.equal(isSlowDone, false, 'the request ends while the slow verifications are still running');
    await Promise.all(slow);
  }

  test('leaves the queue when it changes its own password', () => assertLeavesQueue('/admin/-/account/'));

  test('leaves the queue when it confirms a change', () =>
    assertLeavesQueue(`/admin/user/${other}/password/`));
});

/** Takes half a second or more. */
const COSTLY = { memoryCost: 19_456, timeCost: 50 };
/** As many as may be active, 16 of each address. */
const FORMS = 64;

test('a read is answered while 64 login forms, whose last bytes came late, wait for their passwords', async (t) => {
  const service = await startService(resources, { trustProxy: 1 });
  const wires = Array.from({ length: FORMS }, () => wire(service));
  t.after(async () => {
    for (const connection of wires) connection.destroy();
    await service.close();
  });
  await service.addUser('slow', { password: await hash('pw-slow', COSTLY) });
  const browser = openBrowser(service);
  const token = csrfIn((await browser.get('/admin/-/login/')).text);
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const form = `_csrf=${encodeURIComponent(token)}&username=slow&password=wrong`;
  const statuses: (number | undefined)[] = [];
  for (const [index, connection] of wires.entries()) {
    const head = {
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': String(form.length),
      'x-forwarded-for': `10.0.${index % 4}.1`,
      origin: 'http://localhost',
      cookie,
    };
    connection.send(requestText('POST', '/admin/-/login/', head, form.slice(0, -1)));
    void connection.next().then((answer) => statuses.push(answer?.status));
  }
  await eventually(async () => {
    const text = await service.metrics();
    return Number(/^vitrine_http_requests_in_flight (\d+)$/m.exec(text)?.[1]) >= FORMS;
  }, 'all forms');
  await sleep(300); // Until each of them waits for its last byte.
  for (const connection of wires) connection.send(form.slice(-1));
  await sleep(100); // The costly hashes have begun.
  const { status } = await service.request('/api/note/', { headers: { 'x-forwarded-for': '10.0.9.1' } });
  assert.equal(status, 200);
  assert.equal(statuses.length, 0);
  await eventually(() => statuses.length === FORMS, 'the answers');
  assert.ok(statuses.includes(401));
});

test('a login gets a 503 page when too many passwords wait for verification', async (t) => {
  const service = await startService(resources, { trustProxy: 1 });
  t.after(service.close);
  const stored = await hash('pw-slow', COSTLY);
  const browsers = await Promise.all(
    // Enough that the last ones would wait too long also on a fast machine.
    Array.from({ length: 120 }, async (_, index) => {
      await service.addUser(`slow${index}`, { password: stored });
      const browser = openBrowser(service);
      await browser.get('/admin/-/login/', fromNewAddress());
      return browser;
    }),
  );
  const answers = await Promise.all(
    browsers.map((browser, index) =>
      browser.post('/admin/-/login/', { username: `slow${index}`, password: 'x' }, fromNewAddress()),
    ),
  );
  const busy = answers.filter(({ status }) => status === 503);
  assert.ok(busy.length > 0);
  assert.deepEqual(
    answers.filter(({ status }) => status !== 401 && status !== 503).map(({ status }) => status),
    [],
  );
  assert.match(busy[0]?.headers.get('content-security-policy') ?? '', /default-src 'none'/);
});
