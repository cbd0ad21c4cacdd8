import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { CURRENT_COSTS } from '../../src/resources/users/password-hashing.ts';
import { note, user } from '../../src/resources/registry.ts';
import { closedAfter, basic, startService, type Answer, hashAt, REAL_COSTS } from '../support.ts';
import { assertProblem, eventually, fromNewAddress } from './expect.ts';
import { describe, test } from 'node:test';

hashAt(REAL_COSTS);

describe('many password verifications at once', () => {
  test('get 503 with Retry-After, and the service works afterwards', async (t) => {
    const service = closedAfter(t, await startService([user, note]));
    // So slow that 200 of them take longer than a login waits.
    const stored = await hash('right', { memoryCost: 16_384, timeCost: 30, parallelism: 1 });
    await service.sql`insert into "user" (username, password, email) select 'u' || i, ${stored}, '' from generate_series(0, 1999) i`;
    const write = (index: number): Promise<Answer> =>
      service.request('/api/note/', {
        method: 'POST',
        headers: { authorization: basic(`u${index}`, 'right') },
        body: { message: 'x' },
      });
    /** Sends logins of 200 users while the user table is locked, so that they are verified together. */
    const flood = async (from: number): Promise<Answer[]> => {
      const { answers } = await service.sql.begin(async (transaction) => {
        await transaction`lock table "user" in access exclusive mode`;
        const all = Promise.all(Array.from({ length: 200 }, (_, index) => write(from + index)));
        await new Promise((resolve) => setTimeout(resolve, 300));
        return { answers: all };
      });
      return answers;
    };
    let busy: Answer[] = [];
    let isMixed = false;
    // On a machine that pauses, the service refuses all of a flood, before it verifies any.
    for (let from = 0; from < 1800 && !isMixed; from += 200) {
      const answers = await flood(from);
      busy = answers.filter(({ status }) => status === 503);
      isMixed = busy.length > 0 && answers.some(({ status }) => status === 201);
      assert.ok(answers.every(({ status }) => [201, 429, 503].includes(status)));
    }
    assert.ok(isMixed);
    for (const answer of busy) {
      assertProblem(answer, 503);
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    }
    assert.equal((await write(1999)).status, 201);
  });

  test('do not wait for new passwords of clients that have left', async (t) => {
    const STAYING = 12;
    const LEAVING = 6;
    // So slow that all requests arrive, and some leave, before these passwords are hashed.
    CURRENT_COSTS.timeCost *= 8;
    const service = closedAfter(t, await startService([user]));
    await service.addUser('ada', { admin: true });
    const create = (name: string, signal?: AbortSignal): Promise<Response> =>
      fetch(`${service.base}/api/user/`, {
        method: 'POST',
        headers: { authorization: basic('ada'), 'content-type': 'application/json' },
        body: JSON.stringify({ username: name, password: `a password of ${name}`, email: 'x@example.org' }),
        ...(signal && { signal }),
      });
    assert.equal((await create('first')).status, 201);
    const answered = (status: number): number =>
      service.lines.filter((line) => line['status'] === status).length - (status === 201 ? 1 : 0);
    const staying = Promise.all(Array.from({ length: STAYING }, (_, index) => create(`stays${index}`)));
    const leave = new AbortController();
    const leaving = Array.from({ length: LEAVING }, (_, index) => create(`goes${index}`, leave.signal));
    await eventually(async () => {
      const text = await service.metrics();
      const inFlight = Number(/^vitrine_http_requests_in_flight (\d+)$/m.exec(text)?.[1]);
      const done = service.lines.filter(({ path }) => path === '/api/user/').length - 1;
      return inFlight + done >= STAYING + LEAVING;
    }, 'all requests');
    leave.abort();
    const left = (await Promise.allSettled(leaving)).filter(({ status }) => status === 'rejected').length;
    // Some may have started at that moment, and a busy machine may have refused some.
    const ended = (): boolean => answered(499) + answered(503) >= left / 2;
    await eventually(ended, 'the end of the requests of clients that have left');
    assert.ok(answered(201) < STAYING, 'they leave the queue');
    assert.ok((await staying).every(({ status }) => status === 201 || status === 503));
  });

  test('end with the client that has sent an array of new passwords', async (t) => {
    // So slow that the array takes longer than `eventually` waits.
    CURRENT_COSTS.timeCost *= 8;
    const service = closedAfter(t, await startService([user]));
    await service.addUser('ada', { admin: true });
    const bodies = Array.from({ length: 1_000 }, (_, index) => ({
      username: `many${index}`,
      password: `a password of ${index}`,
      email: 'x@example.org',
    }));
    const leave = new AbortController();
    const headers = { authorization: basic('ada'), 'content-type': 'application/json' };
    const sent = fetch(`${service.base}/api/user/`, {
      method: 'POST',
      headers,
      body: JSON.stringify(bodies),
      signal: leave.signal,
    });
    setTimeout(() => leave.abort(), 1_000);
    await assert.rejects(sent);
    await eventually(() => service.lines.some(({ status }) => status === 499), 'the end of the request');
    assert.equal((await service.sql`select from "user"`).count, 1);
  });

  test('with new passwords of one user do not delay logins and new passwords of others', async (t) => {
    const account: Resource = {
      model: 'account',
      access: 'user',
      exclude: ['password'],
      columns: { name: { type: 'string' }, password: { type: 'password' } },
    };
    const service = closedAfter(t, await startService([user, note, account], { trustProxy: 1 }));
    const names = ['mallory', 'ada', ...Array.from({ length: 10 }, (_, index) => `known${index}`)];
    for (const name of names) await service.addUser(name);
    const post = (name: string, address: Record<string, string>, path = 'account'): Promise<Answer> =>
      service.request(`/api/${path}/`, {
        method: 'POST',
        headers: { ...address, authorization: basic(name) },
        body: path === 'note' ? { message: 'x' } : { name, password: `a new password of ${name}` },
      });
    for (const name of names) assert.equal((await post(name, fromNewAddress(), 'note')).status, 201);
    let isOver = false;
    let made = 0;
    const home = fromNewAddress();
    assert.equal((await post('mallory', home, 'note')).status, 201);
    const flood = Promise.all(
      Array.from({ length: 60 }, async () => {
        while (!isOver) {
          const { status } = await post('mallory', home);
          if (status === 201) made += 1;
          else await new Promise((resolve) => setTimeout(resolve, 10));
        }
      }),
    );
    await eventually(() => made > 10, 'new passwords');
    const others: number[] = [];
    const office = fromNewAddress();
    for (const name of names.slice(2)) {
      others.push((await post(name, fromNewAddress(), 'note')).status);
      others.push((await post('ada', office)).status);
    }
    isOver = true;
    await flood;
    // On a slow machine, a hash may take longer than a client waits; behind the flood, none would be made in time.
    const done = others.filter((status) => status === 201).length;
    assert.ok(done >= 15, `${done} of ${others.length}: ${others.join(', ')}`);
  });
});
