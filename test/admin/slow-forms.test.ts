// Forms that arrive slowly, while their sender or the sender's session changes.
import assert from 'node:assert/strict';
import { wire } from '../http/wire.ts';
import { cheapHash, startService, untilRun, type TestService } from '../support.ts';
import { csrfIn, logIn, type Browser } from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

const ACCOUNT = '/admin/-/account/';
const NEW = 'an entirely new password';

describe('a form that arrives slowly', () => {
  let service: TestService;
  before(async () => {
    service = await startService(resources);
  });
  after(() => service.close());

  /** Sends half of a form, runs `change`, and sends the rest. @returns the status and the headers of the response */
  async function sendDuring(
    browser: Browser,
    path: string,
    fields: Record<string, string>,
    change: () => Promise<unknown>,
  ) {
    const _csrf = csrfIn((await browser.get(ACCOUNT)).text);
    const body = new URLSearchParams({ _csrf, ...fields }).toString();
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const connection = wire(service);
    const head = [
      `POST ${path} HTTP/1.1`,
      'Host: x',
      'Sec-Fetch-Site: same-origin',
      `Cookie: ${cookie}`,
      'Content-Type: application/x-www-form-urlencoded',
      `Content-Length: ${body.length}`,
    ];
    await untilRun(service, 'vitrine_session', () =>
      connection.send(`${head.join('\r\n')}\r\n\r\n${body.slice(0, 10)}`),
    );
    await change();
    connection.send(body.slice(10));
    const answer = await connection.next();
    connection.destroy();
    assert.ok(answer);
    return answer;
  }

  const passwordOf = async (id: number): Promise<unknown> =>
    (await service.sql`select password from "user" where id = ${id}`)[0]?.['password'];

  test('cannot change the password of an admin with that of a user who has taken the name', async () => {
    const alice = await service.addUser('alice', { admin: true });
    const mallory = await service.addUser('mallory');
    const browser = await logIn(service, 'alice');
    const stored = await passwordOf(alice);
    const sent = { _current: 'pw-mallory', _password: NEW, _repeat: NEW };
    const answer = await sendDuring(browser, ACCOUNT, sent, async () => {
      await service.sql`update "user" set username = 'was alice' where id = ${alice}`;
      await service.sql`update "user" set username = 'alice' where id = ${mallory}`;
    });
    assert.equal(answer.status, 400);
    assert.match(answer.body, /is not your password/);
    assert.equal(await passwordOf(alice), stored);
  });

  test('changes nothing when its session has ended meanwhile', async () => {
    const id = await service.addUser('eve', { admin: true });
    const other = await service.addUser('other');
    const browser = await logIn(service, 'eve');
    const hash = await cheapHash(NEW);
    const answer = await sendDuring(
      browser,
      `/admin/user/${other}/delete/`,
      {},
      () => service.sql`update "user" set password = ${hash} where id = ${id}`,
    );
    assert.equal(answer.status, 303);
    assert.match(answer.headers['location'] ?? '', /^\/admin\/-\/login\//);
    assert.equal((await service.sql`select from "user" where id = ${other}`).length, 1);
  });

  for (const [fields, status, outcome] of [
    [1_500, 401, 'comes back after the login'],
    [15_000, 413, 'is too large to come back'],
  ] as const)
    test(`with ${fields} fields whose session expires meanwhile ${outcome}`, async () => {
      await service.addUser(`slow${fields}`, { admin: true });
      const browser = await logIn(service, `slow${fields}`);
      const empty = Object.fromEntries(
        Array.from({ length: fields }, (_, index) => [index.toString(36), '']),
      );
      const answer = await sendDuring(
        browser,
        '/admin/thing/-/add/',
        empty,
        () => service.sql`update vitrine_session set seen = seen - interval '13 hours'`,
      );
      assert.equal(answer.status, status);
    });
});
