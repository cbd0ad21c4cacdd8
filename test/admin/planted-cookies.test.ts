// Cookies that another site of the same domain has set, beside those of the service.
import assert from 'node:assert/strict';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { attemptLogin, logIn, openBrowser } from './support.ts';
import { after, before, test } from 'node:test';

let service: TestService;
before(async () => {
  service = await startService([user], { trustProxy: 1 });
  for (const name of ['ada', 'eve']) await service.addUser(name, { admin: true });
});
after(() => service.close());

const PAGE = '/admin/user/';

for (const [prefix, headers] of [
  ['', {}],
  ['__Secure-', { 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.5' }],
] as const)
  test(`a request with two different cookies ${prefix}admin-session has no session`, async () => {
    const [own, other] = [await logIn(service, 'ada'), await logIn(service, 'eve')].map(
      ({ cookies }) => cookies.get('admin-session') ?? '',
    );
    const name = `${prefix}admin-session`;
    const get = async (cookie: string): Promise<number> =>
      (await openBrowser(service).get(PAGE, { ...headers, cookie })).status;
    assert.equal(await get(`${name}=${own}`), 200);
    assert.equal(await get(`a=b; ${name}=${own}; ${name}=${own}`), 200);
    for (const cookie of [
      `${name}=${other}; ${name}=${own}`,
      `${name}=${own}; x=y; ${name}=${other}`,
      `${name}=; ${name}=${own}`,
      `${name}=${own}; ${name}=${own}; ${name}=none; admin-session=${own}`,
    ])
      assert.equal(await get(cookie), 303, cookie);
  });

test('a login with two different cookies of the login form is refused', async () => {
  const browser = openBrowser(service);
  await browser.get('/admin/-/login/');
  const own = browser.cookies.get('admin-login') ?? '';
  const cookie = `admin-login=${own}; admin-login=planted`;
  const refused = await attemptLogin(service, 'ada', 'pw-ada', browser, { cookie });
  assert.equal(refused.status, 403);
  assert.equal((await attemptLogin(service, 'ada', 'pw-ada', openBrowser(service))).status, 303);
});
