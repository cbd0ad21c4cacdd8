// Forms with fields of megabytes: only text columns accept them, and error pages do not repeat them.
import assert from 'node:assert/strict';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, logIn, readable, type AdminAnswer, type Browser, type Fields } from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

const LONG = '"'.repeat(900_000);

let service: TestService;
let ada: Browser;
let path: string;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
  const [row] = await service.sql`insert into thing (name) values ('One') returning id`;
  path = `/admin/thing/${row?.['id']}/`;
});
after(() => service.close());

/** Sends a multipart form. A URL-encoded one would be three times as long. */
async function send(to: string, fields: Fields): Promise<AdminAnswer> {
  const form = new FormData();
  for (const [name, values] of Object.entries(fields))
    for (const value of [values].flat()) form.append(name, value);
  return ada.upload(to, form);
}

const assertShort = ({ text }: AdminAnswer): void =>
  assert.ok(text.length < 200_000, `${text.length} characters`);

describe('a form with a field of 900,000 characters', () => {
  for (const [column, most] of [
    ['amount', '1,000'],
    ['big', '1,000'],
    ['ratio', '1,000'],
    ['day', '1,000'],
    ['at', '1,000'],
    ['code', '1,000'],
    ['colour', '1,000'],
    ['author_id', '8,192'],
  ] as const) {
    test(`returns 400 for the column ${column}, and the page repeats at most its beginning`, async () => {
      const answer = await send(path, { ...fieldsOf(await ada.get(path)), [column]: LONG });
      assert.equal(answer.status, 400);
      assert.match(readable(answer), new RegExp(`[Mm]ust be at most ${most} characters here`));
      assertShort(answer);
    });

    test(`returns 400 for the column ${column} of selected records`, async () => {
      const fields = { _action: 'set', _state: '', _id: '1', _column: column, _value: '1', [column]: LONG };
      const answer = await send('/admin/thing/-/bulk/', fields);
      assert.equal(answer.status, 400);
      assert.match(readable(answer), new RegExp(`[Mm]ust be at most ${most} characters here`));
      assertShort(answer);
    });
  }

  test('returns 400 for a field that controls the form', async () => {
    const fields = fieldsOf(await ada.get(path));
    for (const [to, name] of [
      [path, '_list'],
      [path, '_choose'],
      [`${path}delete/`, '_list'],
      ['/admin/thing/-/add/', '_list'],
      ['/admin/thing/-/bulk/', '_id'],
      ['/admin/thing/-/bulk/', '_state'],
    ] as const) {
      const answer = await send(to, { ...fields, _action: 'delete', [name]: LONG });
      assert.equal(answer.status, 400, `${to} ${name}`);
      assert.match(readable(answer), new RegExp(`The field ${name} must be at most 16,384 characters`));
      assertShort(answer);
    }
  });

  test('does not carry an unknown field to the lookup and conflict pages', async () => {
    const fields = { ...fieldsOf(await ada.get(path)), other: LONG, _lookup: 'author_id', author_id: 'a' };
    const answer = await send(path, fields);
    assert.equal(answer.status, 200);
    assertShort(answer);
    const conflict = await send(path, {
      ...fieldsOf(await ada.get(path)),
      _version: '1',
      note: 'n',
      other: LONG,
    });
    assert.equal(conflict.status, 409);
    assertShort(conflict);
  });

  test('saves the field in a text column, with its line breaks', async () => {
    const note = `${'\r\r\n\n\u010d\u0d0a'.repeat(100_000)}\r`;
    const answer = await send(path, { ...fieldsOf(await ada.get(path)), note });
    assert.equal(answer.status, 303);
    const [row] = await service.sql<{ note: string }[]>`select note from thing where name = 'One'`;
    // FormData itself writes CR LF for each line break.
    assert.equal(row?.note, `${'\n\n\n\u010d\u0d0a'.repeat(100_000)}\n`);
  });

  test('returns 400 for JSON above 1,048,576 characters', async () => {
    const extra = '['.repeat(1_048_577);
    const answer = await send(path, { ...fieldsOf(await ada.get(path)), extra });
    assert.equal(answer.status, 400);
    assert.match(readable(answer), /[Mm]ust be at most 1,048,576 characters here/);
    assert.ok(answer.text.includes(extra), 'the page keeps the typed value');
  });
});

test('a form with thousands of control fields that no page has is 400, because the lookup page would repeat them', async () => {
  const fields = { ...fieldsOf(await ada.get(path)), _lookup: 'author_id', author_id: 'a' };
  const unknown = Object.fromEntries(Array.from({ length: 19_000 }, (_, index) => [`_x${index}`, '&']));
  const { status, text } = await ada.post(path, { ...fields, ...unknown });
  assert.equal(status, 400);
  assert.ok(text.length < 20_000, `${text.length} characters`);
});

test('a form with 19,000 fields selects 19,000 records', async () => {
  const answer = await send('/admin/thing/-/bulk/', {
    _action: 'delete',
    _state: '',
    _id: Array.from({ length: 19_000 }, (_, index) => String(index + 1)),
  });
  assert.equal(answer.status, 200);
  assert.equal([...answer.text.matchAll(/name="_id"/g)].length, 19_000);
  assert.match(readable(answer), /1 record selected 18,999 of the selected records no longer exist/);
});
