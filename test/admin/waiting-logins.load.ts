// Login forms whose passwords wait to be verified keep no other request from starting.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { hash } from '@node-rs/argon2';
import { startService } from '../support.ts';
import { eventually, fromNewAddress } from '../http/expect.ts';
import { requestText, wire } from '../http/wire.ts';
import { csrfIn, openBrowser } from './support.ts';
import { resources } from './sample-resources.ts';
import { test } from 'node:test';

/** Takes half a second or more. */
const COSTLY = { memoryCost: 19_456, timeCost: 50 };
/** As many as may be active, 16 of each address. */
const FORMS = 64;

test('a read is answered while 64 login forms, whose last bytes came late, wait for their passwords', async () => {
  const service = await startService(resources, { trustProxy: 1 });
  const wires = Array.from({ length: FORMS }, () => wire(service));
  try {
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
  } finally {
    for (const connection of wires) connection.destroy();
    await service.close();
  }
});

test('a login gets a 503 page when too many passwords wait for verification', async () => {
  const service = await startService(resources, { trustProxy: 1 });
  const stored = await hash('pw-slow', COSTLY);
  const browsers = await Promise.all(
    Array.from({ length: 40 }, async (_, index) => {
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
  await service.close();
});
