// How many imports run at once, and that each gives its slot back.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import { crlf, visibleText } from './import-support.ts';
import { type AdminAnswer, type Browser, logIn } from './support.ts';
import { after, before, describe, test } from 'node:test';

const book: Resource = { model: 'book', columns: { title: { type: 'string' } } };

const preview = (browser: Browser, csv = crlf('id,title', '1,Uno')): Promise<AdminAnswer> => {
  const form = new FormData();
  form.append('_file', new Blob([csv]), 'books.csv');
  return browser.upload('/admin/book/-/import/', form);
};

describe('imports at once', () => {
  let service: TestService;
  const browsers: Browser[] = [];
  before(async () => {
    service = await startService([user, book]);
    for (const name of ['ada', 'bea', 'cyn', 'dan']) {
      await service.addUser(name, { admin: true });
      browsers.push(await logIn(service, name));
    }
    await service.sql`insert into book (title) values ('One')`;
  });
  after(() => service.close());

  /** Runs something while previews of these admins wait for a record, and returns their answers. */
  async function whilePreviewing(
    admins: readonly Browser[],
    run: () => Promise<void>,
  ): Promise<AdminAnswer[]> {
    const sent = await service.sql.begin(async (transaction) => {
      await transaction`select from book for update`;
      const answers = admins.map((browser) => preview(browser));
      await eventually(async () => {
        const waiting = await service.sql`
          select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        return waiting.count === admins.length;
      }, `${admins.length} previews that wait`);
      await run();
      return { answers };
    });
    return Promise.all(sent.answers);
  }

  test('are at most two of one admin, whose next one is refused with 429', async () => {
    const [ada, bea] = browsers as [Browser, Browser];
    const answers = await whilePreviewing([ada, ada], async () => {
      const refused = await preview(ada);
      assert.equal(refused.status, 429);
      assert.equal(refused.headers.get('retry-after'), '2');
      assert.match(refused.text, /type="file"/);
      assert.match(visibleText(refused.text), /Your earlier imports are still running\. Try again when they/);
      assert.equal((await preview(bea, crlf('title', 'Two'))).status, 200);
    });
    assert.deepEqual(answers.map(({ status }) => status), [200, 200]); // prettier-ignore
  });

  test('are at most four of all admins, and the next one is refused with 503 after a short wait', async () => {
    const [ada, bea, cyn, dan] = browsers as [Browser, Browser, Browser, Browser];
    const answers = await whilePreviewing([ada, ada, bea, cyn], async () => {
      const refused = await preview(dan, crlf('title', 'Two'));
      assert.equal(refused.status, 503);
      assert.match(visibleText(refused.text), /Too many imports are running\. Try again\./);
    });
    assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200, 200]); // prettier-ignore
  });

  test('give their slots back when the file is refused', async () => {
    const [ada] = browsers as [Browser];
    for (const csv of ['', 'no such column\r\n1\r\n', '"', crlf('id,title', 'a,b')])
      for (let index = 0; index < 3; index += 1) assert.notEqual((await preview(ada, csv)).status, 429, csv);
    assert.equal((await preview(ada)).status, 200);
  });
});
