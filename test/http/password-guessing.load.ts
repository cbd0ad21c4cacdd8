import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { logIn, openBrowser, type AdminAnswer } from '../admin/support.ts';
import {
  basic,
  cheapHash,
  useService,
  type Answer,
  type TestService,
  hashAt,
  CHEAP_COSTS,
  REAL_COSTS,
} from '../support.ts';
import { assertProblem, assertUnauthorized, fromNewAddress } from './expect.ts';
import { after, before, describe, test } from 'node:test';

const secret: Resource = { model: 'secret', columns: {}, access: 'user', read: 'user' };

describe('guesses of the password of an active user', () => {
  const service: TestService = useService([user, note, secret], { trustProxy: 1 });

  const from = (address: string): Record<string, string> => ({ 'x-forwarded-for': address });
  const send = (method: string, name: string, password: string, address: string): Promise<Answer> =>
    service.request('/api/secret/', {
      method,
      headers: { authorization: basic(name, password), ...from(address) },
      ...(method === 'POST' && { body: {} }),
    });
  const write = (name: string, password: string, address: string): Promise<Answer> =>
    send('POST', name, password, address);

  const wrongWord = (index: number): string => `wrong ${index}`;

  async function fail(times: number, name: string, address: (index: number) => string): Promise<void> {
    for (let index = 0; index < times; index += 1)
      assertUnauthorized(await write(name, wrongWord(index), address(index)));
  }

  /** Invalidates the remembered credentials: the password must be verified again. */
  const forget = async (name: string): Promise<unknown> =>
    service.sql`update "user" set password = ${await cheapHash(`pw-${name}`)} where username = ${name}`;

  /** The parts of an answer that a guesser can compare: all but the time. */
  const comparable = ({ status, headers, text }: Answer | AdminAnswer): unknown => ({
    status,
    text: text.replace(/value="[^"]*"/g, ''),
    headers: [...headers].filter(([name]) => !['date', 'retry-after', 'set-cookie'].includes(name)),
  });

  test('get the same answer from a throttled address, right or wrong, in the API', async () => {
    await service.addUser('ada');
    assert.equal((await write('ada', 'pw-ada', '192.0.2.1')).status, 201);
    await fail(10, 'ada', () => '192.0.2.2');
    for (const method of ['GET', 'POST']) {
      const wrong = await send(method, 'ada', 'wrong', '192.0.2.2');
      assertProblem(wrong, 429);
      assert.deepEqual(comparable(await send(method, 'ada', 'pw-ada', '192.0.2.2')), comparable(wrong));
      assert.equal((await send(method, 'ada', 'pw-ada', '192.0.2.1')).status < 300, true);
    }
  });

  test('get the same answer from a throttled address, right or wrong, at the login page', async () => {
    await service.addUser('bea', { admin: true });
    await logIn(service, 'bea');
    assert.equal((await write('bea', 'pw-bea', '192.0.2.11')).status, 201);
    await fail(10, 'bea', () => '192.0.2.12');
    const attempt = async (password: string): Promise<AdminAnswer> => {
      const browser = openBrowser(service);
      await browser.get('/admin/-/login/');
      return browser.post('/admin/-/login/', { username: 'bea', password }, from('192.0.2.12'));
    };
    const wrong = await attempt('wrong');
    assert.equal(wrong.status, 429);
    assert.deepEqual(comparable(await attempt('pw-bea')), comparable(wrong));
  });

  for (const [kind, isThere] of [
    ['an existing', true],
    ['an unknown', false],
  ] as const) {
    test(`count for ${kind} name at addresses where a user with a similar name has logged in`, async () => {
      const [own, name] = isThere ? ['Olga', 'olga'] : ['Nora', 'nora'];
      await service.addUser(own);
      if (isThere) await service.addUser(name);
      const home = isThere ? '192.0.2.41' : '192.0.2.44';
      const known = [home, fromNewAddress()['x-forwarded-for'] ?? ''];
      for (const address of known) assert.equal((await write(own, `pw-${own}`, address)).status, 201);
      await fail(50, name, (index) => (index < 5 ? home : (fromNewAddress()['x-forwarded-for'] ?? '')));
      for (const address of known) assertProblem(await write(name, wrongWord(50), address), 429);
      await forget(own);
      assert.equal((await write(own, `pw-${own}`, home)).status, 201, 'a known client gets in');
    });
  }

  test('count for a /56 where a user with a similar name has logged in from each /64', async () => {
    const answers = async (own: string | undefined, name: string, block: string): Promise<number[]> => {
      const addresses = Array.from({ length: 35 }, (_, index) => `2001:db8:${block}:${hex(index + 1)}::1`);
      if (own !== undefined)
        for (const address of addresses) assert.equal((await write(own, `pw-${own}`, address)).status, 201);
      const statuses: number[] = [];
      for (const [index, address] of addresses.entries())
        statuses.push((await write(name, wrongWord(index), address)).status);
      return statuses;
    };
    await service.addUser('Petra');
    await service.addUser('petra');
    const without = await answers(undefined, 'petra x', 'd1');
    assert.equal(without.filter((status) => status === 401).length, 30);
    assert.deepEqual(await answers('Petra', 'petra', 'd2'), without);
    await service.addUser('Quentin');
    assert.deepEqual(await answers('Quentin', 'quentin', 'd3'), without);
  });

  const hex = (index: number): string => index.toString(16);
  for (const [length, failures, addressOf, outside] of [
    [56, 30, (index: number) => `2001:db8:a:${hex(0x100 + index)}::1`, '2001:db8:a:200::1'],
    [48, 100, (index: number) => `2001:db8:b:${hex(index * 0x100)}::1`, '2001:db8:c:48::1'],
  ] as const) {
    test(`count together in the IPv6 networks of one /${length}, ${failures} in a minute`, async () => {
      const name = `v${length}`;
      await service.addUser(name);
      const home = addressOf(200);
      assert.equal((await write(name, `pw-${name}`, home)).status, 201);
      for (let index = 0; index < failures; index += 1)
        assertUnauthorized(await write(`${name} ${index}`, wrongWord(index), addressOf(index)));
      assertProblem(await write(`${name} x`, 'wrong', addressOf(failures)), 429);
      await forget(name);
      assert.equal((await write(name, `pw-${name}`, home)).status, 201, 'a known client gets in');
      assertUnauthorized(await write(`${name} x`, 'wrong', outside));
    });
  }
});

describe('a flood of wrong passwords', () => {
  before(() => hashAt(REAL_COSTS));
  after(() => hashAt(CHEAP_COSTS));
  const service: TestService = useService([user, note], { trustProxy: 1 });

  const write = (name: string, password: string, headers: Record<string, string>): Promise<Answer> =>
    service.request('/api/note/', {
      method: 'POST',
      headers: { authorization: basic(name, password), ...headers },
      body: { message: 'x' },
    });

  for (const [kind, addressOf] of [
    ['one address', () => ({ 'x-forwarded-for': '198.51.100.1' })],
    ['many addresses', fromNewAddress],
  ] as const) {
    test(`from ${kind} does not delay logins from known addresses`, async () => {
      const names = Array.from({ length: 5 }, (_, index) => `u${index} of ${kind}`);
      const homes = names.map(() => fromNewAddress());
      for (const [index, name] of names.entries()) {
        await service.addUser(name);
        assert.equal((await write(name, `pw-${name}`, homes[index] ?? {})).status, 201);
        await service.sql`update "user" set password = ${await cheapHash(`pw-${name}`)} where username = ${name}`;
      }
      const flood = Array.from({ length: 200 }, (_, index) => write(`nobody ${index}`, 'wrong', addressOf()));
      const statuses = await Promise.all(
        names.map(async (name, index) => (await write(name, `pw-${name}`, homes[index] ?? {})).status),
      );
      assert.deepEqual(new Set(statuses), new Set([201]));
      for (const { status } of await Promise.all(flood))
        assert.ok([401, 429, 503].includes(status), `${status}`);
    });
  }
});
