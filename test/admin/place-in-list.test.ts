// Going through the records of a list: their neighbors and numbers, "Save and next", and the field that has the focus.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { fieldsOf, readable, save, unescaped, useAdmin, type AdminAnswer } from './support.ts';

const team = { model: 'team', columns: { name: { type: 'string' } } } satisfies Resource;
const ticket = {
  model: 'ticket',
  columns: {
    subject: { type: 'string' },
    status: { type: 'string', choices: ['open', 'answered'], default: 'open' },
    priority: { type: 'integer', null: true },
    team: { type: 'foreignKey', references: 'team', null: true, onDelete: 'setNull' },
    answer: { type: 'text', null: true },
  },
  admin: { title: 'Tickets', focus: 'answer', search: ['subject'] },
} satisfies Resource;
const many = { model: 'many', columns: { name: { type: 'string' } } } satisfies Resource;

const { service, ada } = useAdmin([...shipped, team, ticket, many], {}, async () => {
  const { sql } = service;
  await sql`insert into team (name) values ('Blue'), ('Red')`;
  await sql`insert into ticket (subject, status, priority, team_id)
    select 'Ticket ' || n, (array['open', 'answered'])[1 + n % 2], nullif(n % 4, 0), nullif(n % 3, 0) from generate_series(1, 12) n`;
  await sql`insert into many (name) select 'x' from generate_series(1, 10001)`;
});

const addressOf = (id: number | string, list: string, model = 'ticket'): string =>
  `/admin/${model}/${id}/?_list=${encodeURIComponent(list)}`;

/** The addresses of the neighbors of a record, and its number. */
function placeIn({ text }: AdminAnswer): { next?: string; previous?: string; number?: string } {
  const [, nav = ''] = /<nav class="pager" aria-label="Records of the list">([^]*?)<\/nav>/.exec(text) ?? [];
  const to = (rel: string) => {
    const [, href] = new RegExp(`<a href="([^"]*)"\\s+rel="${rel}"`).exec(nav) ?? [];
    return href === undefined ? undefined : unescaped(href);
  };
  const found = { next: to('next'), previous: to('prev'), number: /<p>([^]*?)<\/p>/.exec(nav)?.[1] };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

const idOf = (address = ''): string => /\/admin\/\w+\/(\d+)\//.exec(address)?.[1] ?? '';

describe('a record that was opened from a list', () => {
  test('leads through the records in the order of the list, with their numbers', async () => {
    const ordering = fc.uniqueArray(
      fc.constantFrom('priority', '-priority', 'team', '-team__name', 'status', '-subject', '-id'),
      { maxLength: 3, selector: (name) => name.replace('-', '') },
    );
    const filter = fc.constantFrom(
      '',
      'status=open',
      '-priority__is=null',
      'team__name=Red',
      '_search=Ticket+1',
    );
    await fc.assert(
      fc.asyncProperty(ordering, filter, async (columns, narrowed) => {
        const parts = [narrowed, columns.length > 0 ? `ordering=${columns.join()}` : ''];
        const list = parts.filter((part) => part !== '').join('&');
        const page = await ada.get(`/admin/ticket/?${list}&limit=100`);
        const ids = [...page.text.matchAll(/name="_id"\s+value="(\d+)"/g)].map(([, id = '']) => id);
        for (const [index, id] of ids.entries()) {
          const { next, previous, number } = placeIn(await ada.get(addressOf(id, list)));
          assert.equal(number, `${index + 1} of ${ids.length}`, list);
          assert.deepEqual([idOf(previous), idOf(next)], [ids[index - 1] ?? '', ids[index + 1] ?? '']);
        }
      }),
      { numRuns: 12 },
    );
  });

  test('has the list of the Referer header, also one without a query', async () => {
    const referer = `${service.base}/admin/ticket/`;
    const place = placeIn(await ada.get('/admin/ticket/2/', { referer }));
    assert.deepEqual(place, { next: addressOf(3, ''), previous: addressOf(1, ''), number: '2 of 12' });
    assert.deepEqual(placeIn(await ada.get('/admin/ticket/2/')), {});
  });

  test('has no number in a list of more than 10,000 records, and where the list no longer has it', async () => {
    const all = placeIn(await ada.get(addressOf(5, '', 'many')));
    assert.deepEqual(all, { next: addressOf(6, '', 'many'), previous: addressOf(4, '', 'many') });
    // Ticket 1 is answered.
    assert.deepEqual(placeIn(await ada.get(addressOf(1, 'status=open'))), {
      next: addressOf(2, 'status=open'),
    });
  });

  test('has no neighbors where the list of the address is not valid', async () => {
    for (const list of ['nothing=1', 'ordering=%00', 'priority=x']) {
      const page = await ada.get(addressOf(2, list));
      assert.equal(page.status, 200);
      assert.deepEqual(placeIn(page), {});
      assert.doesNotMatch(page.text, /Save and next/);
    }
  });

  test('gives the focus to the field of admin.focus, but not in a new or faulty form', async () => {
    const focused = ({ text }: AdminAnswer): (string | undefined)[] =>
      [...text.matchAll(/<\w+ id="field-(\w+)"[^>]*\sautofocus\b/g)].map(([, name]) => name);
    assert.deepEqual(focused(await ada.get('/admin/ticket/2/')), ['answer']);
    assert.deepEqual(focused(await ada.get('/admin/ticket/-/add/')), []);
    assert.deepEqual(focused(await save(ada, '/admin/ticket/2/', { priority: 'x' })), []);
  });
});

describe('Save and next', () => {
  const list = 'status=open&ordering=id';
  const answer = async (id: number, typed = {}): Promise<AdminAnswer> =>
    save(ada, addressOf(id, list), { status: 'answered', answer: 'Done.', _save: 'next', ...typed });

  test('opens the next record that is in the list by then, and the list after the last one', async () => {
    const { sql } = service;
    const open = (await sql`select id from ticket where status = 'open' order by id`).map(({ id }) =>
      Number(id),
    );
    const [first = 0, second = 0, third = 0, fourth = 0] = open;
    assert.equal(idOf((await answer(first)).location), String(second));
    // Another user answers a ticket, and deletes one, while the form is open.
    const form = fieldsOf(await ada.get(addressOf(second, list)));
    await sql`update ticket set status = 'answered' where id = ${third}`;
    const sent = await ada.post(`/admin/ticket/${second}/`, { ...form, status: 'answered', _save: 'next' });
    assert.equal(sent.location, addressOf(fourth, list));
    // A form that is sent twice leads to the same record.
    const again = await ada.post(`/admin/ticket/${second}/`, { ...form, status: 'answered', _save: 'next' });
    assert.equal(again.location, addressOf(fourth, list));
    for (const id of open.slice(3)) {
      const { location, text } = await answer(id);
      assert.equal(text, '');
      const after = open[open.indexOf(id) + 1];
      assert.equal(location, after === undefined ? `/admin/ticket/?${list}` : addressOf(after, list));
    }
    assert.match((await ada.get('/admin/ticket/')).text, /was changed\. There is no next record\./);
  });

  test('opens the next record after a conflict and after an error', async () => {
    const { sql } = service;
    await sql`update ticket set status = 'open' where id in (2, 4)`;
    const form = fieldsOf(await ada.get(addressOf(2, list)));
    await sql`update ticket set answer = 'Somebody else answered.' where id = 2`;
    const conflict = await ada.post('/admin/ticket/2/', { ...form, answer: 'Mine.', _save: 'next' });
    assert.equal(conflict.status, 409);
    assert.ok(conflict.text.includes(`href="${addressOf(2, list)}" data-discard`));
    const resolved = { ...fieldsOf(conflict), '_take.answer': 'mine' };
    assert.equal((await ada.post('/admin/ticket/2/', resolved)).location, addressOf(4, list));
    const faulty = await save(ada, addressOf(2, list), { priority: 'x', _save: 'next' });
    assert.equal(faulty.status, 400);
    const corrected = { ...fieldsOf(faulty), priority: '3', _save: 'next' };
    assert.equal((await ada.post('/admin/ticket/2/', corrected)).location, addressOf(4, list));
  });

  test('is offered only with a next record; other ways to save are in a menu', async () => {
    const buttons = async (address: string): Promise<string[]> =>
      [...(await ada.get(address)).text.matchAll(/<button[^>]* name="_save" value="(\w+)">/g)].map(
        ([, value = '']) => value,
      );
    await service.sql`update ticket set status = 'open' where id in (2, 4)`;
    await service.sql`update ticket set status = 'answered' where id not in (2, 4)`;
    assert.deepEqual(await buttons(addressOf(2, list)), ['list', 'next', 'stay', 'another', 'new']);
    for (const address of [addressOf(4, list), '/admin/ticket/2/'])
      assert.deepEqual(await buttons(address), ['list', 'stay', 'another', 'new']);
  });
});

test('the form of a new record has a link back to the list', async () => {
  const page = await ada.get('/admin/ticket/-/add/?_list=status%3Dopen');
  assert.match(page.text, /<a class="button" href="\/admin\/ticket\/\?status=open">Cancel<\/a>/);
  assert.ok(!readable(await ada.get('/admin/ticket/2/')).includes('Cancel'));
});
