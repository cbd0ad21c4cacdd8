// How many imports run at once, and that each gives its slot back.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import { crlf, visibleText } from './import-support.ts';
import { fieldsOf, hiddenFields, logIn, type AdminAnswer, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const book: Resource = { model: 'book', columns: { title: { type: 'string' } } };

describe('imports at once', () => {
  let service: TestService;
  const browsers: Browser[] = [];
  before(async () => {
    service = await startService([user, book]);
    for (const name of ['ada', 'bea', 'cyn']) {
      await service.addUser(name, { admin: true });
      browsers.push(await logIn(service, name));
    }
    await service.sql`insert into book (title) values ('One')`;
  });
  after(() => service.close());

  describe('that take long', () => {
    before(() =>
      service.sql.unsafe(`
        create table gate (is_closed boolean);
        create function wait_for_gate() returns trigger language plpgsql as $$
        begin
          while new.title like 'Slow%' and exists (select from gate) loop
            perform pg_sleep(0.05);
          end loop;
          return new;
        end $$;
        create trigger wait_for_gate before insert on book for each row execute function wait_for_gate()`),
    );

    /** Previews an import of one book. @returns a function that imports it */
    async function prepare(browser: Browser, title: string): Promise<() => Promise<AdminAnswer>> {
      const path = '/admin/book/-/import/';
      const upload = new FormData();
      upload.append('_text', crlf('title', title));
      const fields = hiddenFields(await browser.upload(path, upload), 'record');
      return () => {
        const form = new FormData();
        for (const [name, values] of Object.entries(fields))
          for (const value of values) form.append(name, value);
        return browser.upload(path, form);
      };
    }

    /** Runs something while an import waits in the database. @returns the answer to the import */
    async function whileImporting(
      send: () => Promise<AdminAnswer>,
      run: () => Promise<void>,
    ): Promise<AdminAnswer> {
      await service.sql`insert into gate values (true)`;
      const importing = send();
      try {
        await eventually(async () => {
          const waiting = await service.sql`select from pg_stat_activity
            where datname = current_database() and application_name = 'vitrine' and wait_event = 'PgSleep'`;
          return waiting.count > 0;
        }, 'the import to wait');
        await run();
      } finally {
        await service.sql`delete from gate`;
      }
      return importing;
    }

    const countOf = async (title: string): Promise<number> =>
      (await service.sql`select from book where title = ${title}`).count;

    test('do not delay other forms of the same session', async () => {
      const ada = await logIn(service, 'ada');
      const [slow, other] = [await prepare(ada, 'Slow'), await prepare(ada, 'Other')];
      const add = '/admin/book/-/add/';
      const fields = { ...fieldsOf(await ada.get(add)), title: 'Added' };
      const { status } = await whileImporting(slow, async () => {
        assert.equal((await ada.post(add, fields)).status, 303);
        assert.equal((await other()).status, 303);
        assert.deepEqual([await countOf('Added'), await countOf('Other'), await countOf('Slow')], [1, 1, 0]);
      });
      assert.equal(status, 303);
      // All three are remembered.
      for (const again of [await slow(), await other(), await ada.post(add, fields)])
        assert.equal(again.status, 303);
      for (const title of ['Added', 'Other', 'Slow']) assert.equal(await countOf(title), 1, title);
    });

    test('say so when they are sent again meanwhile, and are processed once', async () => {
      const ada = await logIn(service, 'ada');
      const send = await prepare(ada, 'Slow twice');
      const { status } = await whileImporting(send, async () => {
        const again = await send();
        assert.equal(again.status, 503);
        assert.match(visibleText(again.text), /This form is already being processed\./);
      });
      assert.equal(status, 303);
      const { text } = await ada.follow(await send());
      assert.match(text, /The file was submitted twice and imported once\./);
      assert.equal(await countOf('Slow twice'), 1);
    });

    test('change nothing after a logout', async () => {
      const ada = await logIn(service, 'ada');
      const { status, text } = await whileImporting(await prepare(ada, 'Slow and late'), async () => {
        assert.equal((await ada.post('/admin/-/logout/')).status, 303);
      });
      assert.equal(status, 403);
      assert.match(visibleText(text), /Your session ended before this was finished/);
      assert.equal(await countOf('Slow and late'), 0);
    });
  });
});
