// A client that disconnects while its password waits for verification leaves the queue.
import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import { eventually } from '../http/expect.ts';
import { basic, startService, type TestService } from '../support.ts';
import { logIn, type Browser } from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

describe('a client that disconnects before its password is verified', () => {
  let service: TestService;
  let ada: Browser;
  let other: number;
  before(async () => {
    service = await startService(resources);
    await service.addUser('ada', { admin: true });
    other = await service.addUser('bea', { admin: true });
    const password = await hash('slow', { memoryCost: 65_536, timeCost: 40, parallelism: 1 });
    await service.addUser('bob', { password });
    await service.addUser('eve');
    await service.request('/api/thing/', { user: 'eve', method: 'POST' }); // so that she is known
    await service.sql`update "user" set password = ${password} where username = 'eve'`;
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

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
