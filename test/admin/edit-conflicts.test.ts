// Two users change one record: the second one gets a page to choose between the values.
import assert from 'node:assert/strict';
import { eventually } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, logIn, readable, type AdminAnswer, type Browser, type Fields } from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

const row = async (name: string): Promise<Record<string, unknown>> => {
  const [found] = await service.sql`select * from thing where name = ${name}`;
  return { ...found };
};

async function add(fields: Fields): Promise<AdminAnswer> {
  const page = await ada.get('/admin/thing/-/add/');
  return ada.post('/admin/thing/-/add/', { ...fieldsOf(page), _save: 'stay', ...fields });
}

/** Adds a record of `thing`. @returns the address of its page */
async function added(fields: Fields): Promise<string> {
  const answer = await add(fields);
  assert.equal(answer.status, 303, readable(answer));
  return answer.location ?? '';
}

describe('an edit conflict', () => {
  test('shows both sets of values and lets the second user choose', async () => {
    const address = await added({ name: 'Contended', note: 'first', amount: '1', colour: 'red' });
    const typed = fieldsOf(await ada.get(address));
    await service.sql`update thing set note = 'theirs', amount = 2 where name = 'Contended'`;
    const conflict = await ada.post(address, { ...typed, note: 'mine', colour: 'blue' });
    assert.equal(conflict.status, 409);
    const proposed = fieldsOf(conflict);
    // A column that one side changed defaults to that side. A column that both changed has no default.
    assert.equal(proposed['_take.colour'], 'mine');
    assert.equal(proposed['_take.amount'], 'theirs');
    assert.equal(proposed['_take.note'], undefined);
    assert.equal((await row('Contended'))['note'], 'theirs');
    const done = await ada.post(address, { ...proposed, '_take.note': 'mine' });
    assert.equal(done.status, 303);
    const { note, amount, colour } = await row('Contended');
    assert.deepEqual({ note, amount, colour }, { note: 'mine', amount: 2, colour: 'blue' });
  });

  test('detects another change before the choice is saved', async () => {
    const address = await added({ name: 'Thrice', note: 'first' });
    const typed = fieldsOf(await ada.get(address));
    await service.sql`update thing set note = 'second' where name = 'Thrice'`;
    const conflict = await ada.post(address, { ...typed, note: 'mine' });
    await service.sql`update thing set note = 'third' where name = 'Thrice'`;
    const again = await ada.post(address, { ...fieldsOf(conflict), '_take.note': 'mine' });
    assert.equal(again.status, 409);
    assert.match(again.text, /third/);
    assert.equal((await row('Thrice'))['note'], 'third');
  });

  test('keeps the choice of the stored value when the record changes during the save', async () => {
    const address = await added({ name: 'Racing', note: 'first', amount: '1' });
    const typed = fieldsOf(await ada.get(address));
    await service.sql`update thing set note = 'theirs' where name = 'Racing'`;
    const conflict = await ada.post(address, { ...typed, note: 'mine', colour: 'blue' });
    // The record changes after the save has read it, while the save waits for the lock.
    const { saved } = await service.sql.begin(async (transaction) => {
      await transaction`update thing set amount = 7 where name = 'Racing'`;
      const answer = ada.post(address, { ...fieldsOf(conflict), '_take.note': 'theirs' });
      await eventually(async () => {
        const [{ waiting } = {}] = await service.sql<{ waiting: boolean }[]>`
          select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') as waiting`;
        return waiting === true;
      }, 'the save to wait');
      return { saved: answer };
    });
    const again = await saved;
    assert.equal(again.status, 409);
    const proposed = fieldsOf(again);
    assert.equal(proposed['_take.note'], 'theirs');
    assert.equal((await ada.post(address, proposed)).status, 303);
    const { note, amount, colour } = await row('Racing');
    assert.deepEqual({ note, amount, colour }, { note: 'theirs', amount: 7, colour: 'blue' });
  });

  test('asks again about a value that changed once more', async () => {
    const address = await added({ name: 'Chosen again', note: 'before' });
    const [one, other] = [await logIn(service, 'ada'), await logIn(service, 'ada')];
    const mine = { ...fieldsOf(await one.get(address)), note: 'mine' };
    await other.post(address, { ...fieldsOf(await other.get(address)), price: '7.00' });
    const conflict = await one.post(address, mine);
    assert.equal(fieldsOf(conflict)['_take.note'], 'mine');
    await other.post(address, { ...fieldsOf(await other.get(address)), note: 'theirs' });
    const again = await one.post(address, fieldsOf(conflict));
    assert.equal(again.status, 409);
    const { '_take.note': note, '_take.price': price } = fieldsOf(again);
    assert.deepEqual([note, price], [undefined, 'theirs']);
    const [row] = await service.sql`select note, price from thing where name = 'Chosen again'`;
    assert.deepEqual({ ...row }, { note: 'theirs', price: '7.00' });
  });
});
