// Panels of the start page that several admins ask for, and that nobody waits for anymore.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import shipped from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, type Browser } from './support.ts';
import { after, before, beforeEach, describe, test } from 'node:test';

describe('a panel that takes seconds', () => {
  let service: TestService;
  let browsers: Browser[];
  let loads = 0;
  let aborted: string[] = [];
  let isBroken = false;

  /** Opens the start page on a connection that can be closed. */
  function open(browser: Browser): { readonly text: Promise<string>; readonly close: () => void } {
    const closing = new AbortController();
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const text = fetch(`${service.base}/admin/`, { headers: { cookie }, signal: closing.signal })
      .then((answer) => answer.text())
      .catch(() => 'closed');
    return { text, close: () => closing.abort() };
  }

  const sleeping = async (): Promise<number> =>
    (
      await service.sql`select from pg_stat_activity where datname = current_database()
        and state = 'active' and query like 'select pg_sleep(%'`
    ).count;

  before(async () => {
    service = await startService(shipped, {
      panels: [
        {
          title: 'Slow',
          load: async ({ query, signal }) => {
            loads += 1;
            if (isBroken) await query('select 1 / length(pg_sleep(0.5)::text)');
            signal.addEventListener('abort', () => aborted.push(String(signal.reason)));
            await Promise.all([1.5, 1.6].map((seconds) => query('select pg_sleep($1)', [seconds])));
            return `loaded ${loads} times`;
          },
        },
      ],
    });
    for (const name of ['ada', 'bea']) await service.addUser(name, { admin: true });
    browsers = [await logIn(service, 'ada'), await logIn(service, 'bea')];
  });
  beforeEach(() => {
    loads = 0;
    aborted = [];
  });
  after(() => service.close());

  test('loads once for all admins who ask for it meanwhile, and stays for those who wait', async () => {
    const pages = [...browsers, ...browsers, ...browsers].map(open);
    await eventually(async () => (await sleeping()) === 2, 'its statements');
    pages[0]?.close();
    for (const { text } of pages.slice(1)) assert.match(await text, /loaded 1 times/);
    assert.equal(loads, 1);
  });

  test('is one line in the log if it fails for several admins', async () => {
    const lines = service.lines.length;
    isBroken = true;
    for (const { text } of [...browsers, ...browsers].map(open))
      assert.match(await text, /could not be loaded/);
    isBroken = false;
    const errors = service.lines.slice(lines).filter(({ level }) => level === 'error');
    assert.deepEqual(
      errors.map(({ panel }) => panel),
      Array(loads).fill('Slow'),
    );
    assert.ok(loads < 4, `${loads} loads`);
  });

  test('ends in PostgreSQL when the last admin who waits has left, without a line in the log', async () => {
    const lines = service.lines.length;
    const pages = browsers.map(open);
    await eventually(async () => (await sleeping()) === 2, 'its statements');
    await sleep(300); // The other request may arrive later.
    pages[0]?.close();
    await sleep(200);
    assert.equal(await sleeping(), 2, 'another one waits');
    pages[1]?.close();
    await eventually(async () => (await sleeping()) === 0, 'the end of its statements');
    assert.match(aborted.join(), /the client closed the connection/);
    assert.match(await open(browsers[0] as Browser).text, /loaded 2 times/);
    await eventually(
      () => service.lines.slice(lines).filter(({ status }) => status === 499).length >= 2,
      'the lines of the two requests',
    );
    assert.deepEqual(
      service.lines.slice(lines).filter(({ level }) => level === 'error' || level === 'warn'),
      [],
    );
  });
});
