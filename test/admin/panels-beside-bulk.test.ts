// Panels of the start page while bulk changes run.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import { startService } from '../support.ts';
import { hiddenFields, logIn } from './support.ts';
import { test } from 'node:test';

test('panels are shown while as many bulk changes run as can at once', async () => {
  const note: Resource = { model: 'note', columns: { text: { type: 'text' } }, access: 'user' };
  const service = await startService([user, note], {
    panels: [
      { title: 'Querying', load: async ({ query }) => `${(await query('select 1')).length} row found` },
    ],
  });
  try {
    for (const name of ['ada', 'bea']) await service.addUser(name, { admin: true });
    await service.sql`insert into note (text) select 'x' from generate_series(1, 8)`;
    const [ada, bea] = [await logIn(service, 'ada'), await logIn(service, 'bea')];
    const path = '/admin/note/-/bulk/';
    const confirmations = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const browser = index % 2 === 0 ? ada : bea;
        const page = await browser.post(path, { _state: '', _action: 'delete', _id: String(index + 1) });
        return { browser, fields: hiddenFields(page, 'confirm') };
      }),
    );
    const deletions = await service.sql.begin(async (transaction) => {
      await transaction`select from note for update`;
      const sent = confirmations.map(({ browser, fields }) => browser.post(path, fields));
      await eventually(async () => {
        const waiting = await service.sql`
          select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        return waiting.count === 8;
      }, 'eight deletions that wait');
      const { text } = await ada.get('/admin/');
      assert.match(text, /1 row found/);
      return { sent };
    });
    for (const { status } of await Promise.all(deletions.sent)) assert.equal(status, 303);
  } finally {
    await service.close();
  }
});
