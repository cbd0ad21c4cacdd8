// Rows of child tables on the form of a record: adding, changing and deleting them with it, errors, conflicts and rights.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import {
  csrfIn,
  errorsIn,
  fieldsOf,
  hiddenFields,
  logIn,
  readable,
  save,
  unescaped,
  useAdmin,
  type AdminAnswer,
  type Browser,
} from './support.ts';
import { describe, test } from 'node:test';

const string = { type: 'string' } as const;
const toOrder = { type: 'foreignKey', references: 'purchase', onDelete: 'cascade' } as const;

const resources: Resource[] = [
  { ...user, columns: { ...user.columns, role: { type: 'string', null: true } } },
  { model: 'product', columns: { name: string } },
  {
    model: 'purchase',
    columns: { number: string, note: { type: 'text', null: true } },
    access: 'user',
    admin: {
      title: 'Orders',
      inlines: [{ model: 'line', columns: ['product', 'quantity', 'note'] }],
    },
  },
  {
    model: 'line',
    columns: {
      purchase: toOrder,
      product: { type: 'foreignKey', references: 'product' },
      quantity: { type: 'integer', min: 1, default: 1 },
      note: { type: 'string', null: true },
      checked: { type: 'boolean', default: false },
    },
    unique: [['purchase', 'product']],
    access: 'user',
    admin: { title: 'Lines' },
  },
  {
    model: 'ticket',
    columns: { title: string },
    admin: {
      inlines: [
        { model: 'reply', readonly: true },
        { model: 'task', column: 'ticket', extra: 0 },
      ],
    },
  },
  {
    model: 'reply',
    columns: { ticket: { type: 'foreignKey', references: 'ticket' }, text: { type: 'text' } },
  },
  {
    model: 'remark',
    owner: 'author',
    columns: {
      region: { type: 'foreignKey', references: 'region' },
      author: { type: 'foreignKey', references: 'user' },
      text: { type: 'text' },
    },
  },
  {
    model: 'task',
    columns: {
      ticket: { type: 'foreignKey', references: 'ticket' },
      blocks: { type: 'foreignKey', references: 'ticket', null: true },
      name: string,
    },
  },
  {
    model: 'region',
    primaryKey: { type: 'string', column: 'code' },
    columns: { name: string },
    admin: { inlines: [{ model: 'town', extra: 1 }, { model: 'street' }, { model: 'remark' }] },
  },
  {
    model: 'town',
    primaryKey: { type: 'string', column: 'code' },
    columns: { region: { type: 'foreignKey', references: 'region' }, name: string },
  },
  {
    model: 'street',
    primaryKey: { columns: ['region', 'number'] },
    columns: {
      region: { type: 'foreignKey', references: 'region', onDelete: 'cascade' },
      number: { type: 'integer' },
      name: string,
      twin: { type: 'foreignKey', references: 'giant', null: true },
    },
  },
  { model: 'giant', columns: { name: string } },
];

const roles = {
  reader: { admin: true, grants: { purchase: { read: true, update: true }, line: { read: true }, product: { read: true } } },
  adder: {
    admin: true,
    grants: { purchase: { read: true, update: true, create: true }, line: { read: true, create: true }, product: { read: true } },
  },
  changer: {
    admin: true,
    grants: {
      purchase: { read: true, update: true },
      line: { read: true, update: { columns: ['quantity'], rows: 'quantity__lt=100' } },
      product: { read: true },
    },
  },
  limited: {
    admin: true,
    grants: {
      purchase: { read: true, update: true },
      line: { read: { exclude: ['note'], rows: 'quantity__lt=100' }, update: true, delete: true },
      product: { read: true },
    },
  },
  blind: { admin: true, grants: { purchase: { read: true, update: true }, line: { read: { exclude: ['purchase'] }, create: true }, product: { read: true } } },
} as const; // prettier-ignore

const { service, ada } = useAdmin(resources, { roles }, async () => {
  await service.sql`insert into product (name) values ('Apple'), ('Bread'), ('Cheese'), ('Dates')`;
});

const rowsOf = async (purchase: string): Promise<readonly unknown[]> =>
  (
    await service.sql`
      select product.name, quantity, note from line join product on product.id = product_id
      where purchase_id = ${purchase} order by product.name`
  ).map(({ name, quantity, note }) => [name, quantity, note]);

const productId = async (name: string): Promise<string> =>
  String((await service.sql`select id from product where name = ${name}`)[0]?.['id']);

let count = 0;

/** Stores an order with lines: the name of the product and the quantity. */
async function insert(...lines: readonly (readonly [string, number])[]): Promise<string> {
  count += 1;
  const [row] = await service.sql`insert into purchase (number) values (${`N${count}`}) returning id`;
  const id = String(row?.['id']);
  for (const [name, quantity] of lines)
    await service.sql`
      insert into line (purchase_id, product_id, quantity) values (${id}, ${await productId(name)}, ${quantity})`;
  return id;
}

const pageOf = (id: string): string => `/admin/purchase/${id}/`;
const ADD = '/admin/purchase/-/add/';

/** The fields of a row, by column. */
const line = (index: number, values: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [`line.${index}.${key}`, value]));

/** The lines of the error summary. */
const summaryOf = ({ text }: AdminAnswer): string[] =>
  [...(/id="errors">([\s\S]*?)<\/div>/.exec(text)?.[1] ?? '').matchAll(/<li>([\s\S]*?)<\/li>/g)].map(
    ([, content = '']) => unescaped(content.replace(/<[^>]+>/g, '')).trim(),
  );

const namesIn = ({ text }: AdminAnswer): string[] =>
  [...text.matchAll(/\sname="(line\.[^"]+)"/g)].map(([, name = '']) => name);

function assertSaved(answer: AdminAnswer): void {
  assert.equal(answer.status, 303, readable(answer));
}

/** Logs in a user with a role. */
async function withRole(role: string): Promise<Browser> {
  const name = `${role}-${(count += 1)}`;
  await service.addUser(name);
  await service.sql`update "user" set role = ${role} where username = ${name}`;
  return logIn(service, name);
}

describe('the form of a new record', () => {
  test('saves the record with the rows that were filled in', async () => {
    const [apple, bread] = [await productId('Apple'), await productId('Bread')];
    const answer = await save(ada, ADD, {
      number: 'A1',
      ...line(0, { product_id: apple, quantity: '3' }),
      ...line(2, { product_id: bread, note: 'sliced' }),
      _save: 'stay',
    });
    assertSaved(answer);
    const id = answer.location?.split('/')[3] ?? '';
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 3, null],
      ['Bread', 1, 'sliced'],
    ]);
    const batches = await service.sql`
      select model, batch from vitrine_history
      where model in ('purchase', 'line') and (record = ${id} and model = 'purchase' or after::jsonb ->> 'purchase_id' = ${id})`;
    assert.equal(batches.length, 3);
    assert.equal(new Set(batches.map(({ batch }) => batch as string)).size, 1);
    assert.ok(batches[0]?.['batch']);
  });

  test('saves nothing if a row is wrong, and names the line', async () => {
    const answer = await save(ada, ADD, {
      number: 'A2',
      ...line(0, { product_id: await productId('Apple'), quantity: '0' }),
      ...line(2, { quantity: '5' }),
    });
    assert.equal(answer.status, 400);
    assert.deepEqual(summaryOf(answer), [
      'Line 1, Quantity: must be at least 1',
      'Line 3, Product: is required',
    ]);
    assert.deepEqual(Object.keys(errorsIn(answer)), ['line.0.quantity', 'line.2.product_id']);
    assert.equal(fieldsOf(answer)['line.2.quantity'], '5');
    assert.equal((await service.sql`select from purchase where number = 'A2'`).count, 0);
  });

  test('names the faults of the record and of its rows at once', async () => {
    const answer = await save(ada, ADD, { number: '', ...line(1, { product_id: '', quantity: '7' }) });
    assert.deepEqual(summaryOf(answer), ['Number: is required', 'Line 2, Product: is required']);
  });

  test('saves nothing if the database refuses a row', async () => {
    const apple = await productId('Apple');
    const answer = await save(ada, ADD, {
      number: 'A3',
      ...line(0, { product_id: apple }),
      ...line(1, { product_id: apple, quantity: '2' }),
    });
    assert.equal(answer.status, 409);
    assert.match(summaryOf(answer).join(), /^Line 2/);
    assert.equal((await service.sql`select from purchase where number = 'A3'`).count, 0);
  });

  test('adds everything once when it is sent twice', async () => {
    const fields = {
      ...fieldsOf(await ada.get(ADD)),
      number: 'A4',
      ...line(0, { product_id: await productId('Apple') }),
    };
    const answers = await Promise.all([ada.post(ADD, fields), ada.post(ADD, fields)]);
    answers.forEach(assertSaved);
    assert.equal((await service.sql`select from purchase where number = 'A4'`).count, 1);
    const lines =
      await service.sql`select from line join purchase on purchase.id = purchase_id where number = 'A4'`;
    assert.equal(lines.count, 1);
  });

  test('gets more rows and keeps what was typed', async () => {
    const answer = await save(ada, ADD, { number: 'A5', ...line(1, { note: 'kept' }), _more: 'line' });
    assert.equal(answer.status, 200);
    const fields = fieldsOf(answer);
    assert.equal(fields['line._rows'], '8');
    assert.equal(fields['line.1.note'], 'kept');
    assert.equal(fields['number'], 'A5');
    assert.ok('line.7.quantity' in fields);
  });

  test('has at most 100 rows', async () => {
    let page = await ada.get(ADD);
    for (let times = 0; times < 20; times += 1)
      page = await ada.post(ADD, { ...fieldsOf(page), _more: 'line' });
    assert.equal(fieldsOf(page)['line._rows'], '100');
    assert.doesNotMatch(page.text, /more rows/);
    const forged = await save(ada, ADD, { 'line._rows': '99999', _more: 'line' });
    assert.equal(fieldsOf(forged)['line._rows'], '3');
  });
});

describe('the form of a stored record', () => {
  test('adds, changes and deletes rows in one transaction', async () => {
    const id = await insert(['Apple', 1], ['Bread', 2], ['Cheese', 3]);
    const answer = await save(ada, pageOf(id), {
      note: 'changed',
      ...line(0, { quantity: '10' }),
      'line.1._delete': '1',
      ...line(3, { product_id: await productId('Dates'), quantity: '4' }),
    });
    assertSaved(answer);
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 10, null],
      ['Cheese', 3, null],
      ['Dates', 4, null],
    ]);
    const entries = await service.sql`
      select action, batch from vitrine_history
      where batch = (select batch from vitrine_history where model = 'purchase' and record = ${id})`;
    assert.deepEqual(entries.map(({ action }) => action as string).sort(), [
      'create',
      'delete',
      'update',
      'update',
    ]);
  });

  test('is undone with its rows, as one operation', async () => {
    const id = await insert(['Apple', 1], ['Bread', 2]);
    assertSaved(
      await save(ada, pageOf(id), {
        note: 'changed',
        ...line(0, { quantity: '10' }),
        'line.1._delete': '1',
        ...line(2, { product_id: await productId('Dates') }),
      }),
    );
    const [entry] = await service.sql`select id from vitrine_history order by id desc limit 1`;
    const path = `/admin/vitrine_history/${String(entry?.['id'])}/undo/`;
    assertSaved(await ada.post(path, hiddenFields(await ada.get(path), 'confirm')));
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 1, null],
      ['Bread', 2, null],
    ]);
    assert.equal((await service.sql`select note from purchase where id = ${id}`)[0]?.['note'], null);
  });

  test('changes nothing where nothing was touched', async () => {
    const id = await insert(['Apple', 1]);
    const answer = await save(ada, pageOf(id), {});
    assertSaved(answer);
    assert.match((await ada.follow(answer)).text, /no changes to save/);
    assert.equal((await service.sql`select from vitrine_history where model = 'line'
      and after::jsonb ->> 'purchase_id' = ${id}`).count, 0); // prettier-ignore
  });

  test('saves rows alone', async () => {
    const id = await insert(['Apple', 1]);
    const answer = await save(ada, pageOf(id), line(0, { quantity: '2' }));
    assertSaved(answer);
    assert.match((await ada.follow(answer)).text, /was changed/);
    assert.deepEqual(await rowsOf(id), [['Apple', 2, null]]);
  });

  test('changes nothing if one row is wrong', async () => {
    const id = await insert(['Apple', 1], ['Bread', 2]);
    const answer = await save(ada, pageOf(id), {
      note: 'not saved',
      ...line(0, { quantity: '9' }),
      ...line(1, { quantity: '-1' }),
    });
    assert.equal(answer.status, 400);
    assert.deepEqual(errorsIn(answer), { 'line.1.quantity': 'Must be at least 1.' });
    assert.equal(fieldsOf(answer)['line.0.quantity'], '9');
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 1, null],
      ['Bread', 2, null],
    ]);
    assert.equal((await service.sql`select note from purchase where id = ${id}`)[0]?.['note'], null);
  });

  test('changes everything once when it is sent twice', async () => {
    const id = await insert(['Apple', 1]);
    const fields = {
      ...fieldsOf(await ada.get(pageOf(id))),
      note: 'twice',
      ...line(0, { quantity: '5' }),
      ...line(1, { product_id: await productId('Bread') }),
    };
    const answers = await Promise.all([ada.post(pageOf(id), fields), ada.post(pageOf(id), fields)]);
    answers.push(await ada.post(pageOf(id), fields));
    answers.forEach(assertSaved);
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 5, null],
      ['Bread', 1, null],
    ]);
  });

  test('finds the record that typed words mean', async () => {
    const id = await insert();
    assertSaved(await save(ada, pageOf(id), line(0, { product_id: 'apple' })));
    assert.deepEqual(await rowsOf(id), [['Apple', 1, null]]);
  });

  test('chooses a related record on the search page', async () => {
    const id = await insert();
    const page = await save(ada, pageOf(id), { ...line(0, { note: 'kept' }), _lookup: 'line.0.product_id' });
    assert.equal(page.status, 200);
    const answer = await ada.post(pageOf(id), {
      ...hiddenFields(page, 'lookup'),
      _choose: `=${await productId('Bread')}`,
    });
    const fields = fieldsOf(answer);
    assert.equal(fields['line.0.product_id'], await productId('Bread'));
    assert.equal(fields['line.0.note'], 'kept');
  });

  test('does not change or delete rows of another record', async () => {
    const [id, other] = [await insert(['Apple', 1]), await insert(['Apple', 1], ['Bread', 1])];
    const foreign = fieldsOf(await ada.get(pageOf(other)));
    const own = fieldsOf(await ada.get(pageOf(id)));
    const stolen = Object.fromEntries(Object.entries(foreign).filter(([name]) => name.startsWith('line.')));
    const answer = await ada.post(pageOf(id), {
      ...own,
      ...stolen,
      ...line(0, { quantity: '50' }),
      'line.1._delete': '1',
    });
    assert.equal(answer.status, 409);
    assert.deepEqual(await rowsOf(other), [
      ['Apple', 1, null],
      ['Bread', 1, null],
    ]);
  });

  test('copies the rows of the form with "Save as new", but not those marked for deletion', async () => {
    const id = await insert(['Apple', 1], ['Bread', 2]);
    const answer = await save(ada, pageOf(id), {
      number: 'copied',
      'line.1._delete': '1',
      ...line(0, { quantity: '7' }),
      _save: 'new',
    });
    assertSaved(answer);
    const copy = answer.location?.split('/')[3] ?? '';
    assert.notEqual(copy, id);
    assert.deepEqual(await rowsOf(copy), [['Apple', 7, null]]);
    assert.equal((await rowsOf(id)).length, 2);
    const bare = { ...fieldsOf(await ada.get(pageOf(id))), number: 'bare', _save: 'new' };
    const withoutRows = Object.entries(bare).filter(([name]) => !name.startsWith('line.'));
    const second = await ada.post(pageOf(id), Object.fromEntries(withoutRows));
    assertSaved(second);
    assert.deepEqual(await rowsOf(second.location?.split('/')[3] ?? ''), []);
  });

  test('saves the record and copies it from one form, in either order', async () => {
    for (const buttons of [
      ['new', 'stay'],
      ['stay', 'new'],
    ]) {
      const id = await insert();
      const number = `both-${buttons.join('-')}`;
      const fields = { ...fieldsOf(await ada.get(pageOf(id))), number };
      const row = line(0, { product_id: await productId('Bread') });
      for (const _save of buttons) assertSaved(await ada.post(pageOf(id), { ...fields, ...row, _save }));
      const [found] = await service.sql`
        select count(distinct purchase.id)::int as purchases, count(*)::int as lines
        from purchase join line on purchase_id = purchase.id where number = ${number}`;
      assert.deepEqual(found, { purchases: 2, lines: 2 });
    }
  });

  test('shows at most 50 rows, then a link', async () => {
    const id = await insert();
    await service.sql`insert into product (name) select 'Many ' || n from generate_series(1, 60) n`;
    await service.sql`insert into line (purchase_id, product_id)
      select ${id}, id from product where name like 'Many %' order by id`;
    const page = await ada.get(pageOf(id));
    const fields = fieldsOf(page);
    assert.equal(fields['line._rows'], '53');
    assert.equal(page.text.match(/name="line\.\d+\._id"/g)?.length, 50);
    assert.match(page.text, new RegExp(`href="/admin/line/\\?purchase=${id}">All Lines<`));
    assertSaved(await save(ada, pageOf(id), line(49, { quantity: '2' })));
    await service.sql`delete from line where purchase_id = ${id}`;
    await service.sql`delete from product where name like 'Many %'`;
  });

  test('takes as many statements with many rows as with few', async () => {
    const statements = async (): Promise<number> =>
      [...(await service.metrics()).matchAll(/^vitrine_lane_statement_duration_seconds_count\{.*\} (\d+)$/gm)]
        .map(([, number]) => Number(number))
        .reduce((sum, one) => sum + one, 0);
    const statementsOf = async (id: string): Promise<number> => {
      await ada.get(pageOf(id));
      const before = await statements();
      assert.equal((await ada.get(pageOf(id))).status, 200);
      return (await statements()) - before;
    };
    const few = await statementsOf(await insert(['Apple', 1]));
    assert.ok(few > 0 && few < 20, `${few} statements`);
    const many = await insert(['Apple', 1], ['Bread', 1], ['Cheese', 1], ['Dates', 1]);
    assert.equal(await statementsOf(many), few);
  });

  test('has keys that the user enters', async () => {
    await service.sql`insert into region (code, name) values ('r/1', 'North')`;
    const path = '/admin/region/r%2F1/';
    assertSaved(
      await save(ada, path, {
        ...{ 'town.0.id': 't/1', 'town.0.name': 'First' },
        ...{ 'street.1.number': '7', 'street.1.name': 'Long street' },
      }),
    );
    assertSaved(await save(ada, path, { 'town.0.name': 'Renamed', 'street.0.name': 'Short street' }));
    const [row] = await service.sql`
      select town.code, town.name, street.number, street.name as street
      from region join town on town.region_id = region.code join street on street.region_id = region.code`;
    assert.deepEqual({ ...row }, { code: 't/1', name: 'Renamed', number: 7, street: 'Short street' });
    const faulty = await save(ada, path, { 'town.1.name': 'Second', 'street.0.name': '' });
    assert.deepEqual(summaryOf(faulty), [
      'Town, line 2, Id: is required',
      'Street, line 1, Name: is required',
    ]);
    assertSaved(await save(ada, path, { 'town.0._delete': '1', 'street.0._delete': '1' }));
    assert.equal((await service.sql`select from town, street`).count, 0);
  });

  test('has the caller as the owner of a new row', async () => {
    const page = '/admin/region/-/add/';
    assertSaved(await save(ada, page, { id: 'own', name: 'Own', 'remark.1.text': 'Mine' }));
    const remarks = await service.sql`select text, username from remark join "user" on "user".id = author_id`;
    assert.deepEqual(
      remarks.map((row) => ({ ...row })),
      [{ text: 'Mine', username: 'ada' }],
    );
  });

  test('labels the record whose key was typed into a search field, but none for what may be a name', async () => {
    await service.sql`insert into giant (name) select 'Giant ' || n from generate_series(1, 120) n`;
    const page = await save(ada, '/admin/region/-/add/', {
      ...{ 'street.0.twin_id': '7', 'street.1.twin_id': '007', 'street.2.twin_id': '999' },
      _more: 'street',
    });
    const labels = [...page.text.matchAll(/class="reference-label"\s*>([\s\S]*?)<\/span/g)].map(
      ([, content = '']) => content.replace(/<[^>]+>/g, ''),
    );
    assert.deepEqual(labels.slice(0, 4), ['Giant 7', '', '', '']);
  });
});

describe('a row that another user has changed', () => {
  const change = (id: string, set: string): Promise<unknown> =>
    service.sql.unsafe(`update line set ${set} where purchase_id = ${id}`);

  test('does not matter if it was not touched', async () => {
    const id = await insert(['Apple', 1], ['Bread', 2]);
    const fields = fieldsOf(await ada.get(pageOf(id)));
    await service.sql`update line set quantity = 20 where purchase_id = ${id} and quantity = 2`;
    assertSaved(await ada.post(pageOf(id), { ...fields, ...line(0, { quantity: '10' }) }));
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 10, null],
      ['Bread', 20, null],
    ]);
  });

  test('is saved if what changed is not on the form', async () => {
    const id = await insert(['Apple', 1]);
    const fields = fieldsOf(await ada.get(pageOf(id)));
    await change(id, 'checked = true');
    assertSaved(await ada.post(pageOf(id), { ...fields, ...line(0, { quantity: '10' }) }));
    assert.deepEqual(await rowsOf(id), [['Apple', 10, null]]);
  });

  test('is a conflict, and saved when the form is sent again', async () => {
    const id = await insert(['Apple', 1], ['Bread', 2]);
    const fields = fieldsOf(await ada.get(pageOf(id)));
    await change(id, "quantity = quantity + 100, note = 'theirs'");
    const answer = await ada.post(pageOf(id), { ...fields, note: 'mine', ...line(0, { quantity: '10' }) });
    assert.equal(answer.status, 409);
    const errors = errorsIn(answer);
    assert.match(errors['line.0._row'] ?? '', /has changed since you opened this form/i);
    assert.match(errors['line.0.quantity'] ?? '', /is now “101”/i);
    assert.deepEqual(Object.keys(errors), ['line.0._row', 'line.0.quantity']);
    const again = fieldsOf(answer);
    assert.equal(again['line.0.quantity'], '10');
    assert.equal(again['line.0.note'], 'theirs');
    assert.equal(again['note'], 'mine');
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 101, 'theirs'],
      ['Bread', 102, 'theirs'],
    ]);
    assertSaved(await ada.post(pageOf(id), again));
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 10, 'theirs'],
      ['Bread', 102, 'theirs'],
    ]);
  });

  test('is not deleted', async () => {
    const id = await insert(['Apple', 1]);
    const fields = fieldsOf(await ada.get(pageOf(id)));
    await change(id, 'quantity = 5');
    const answer = await ada.post(pageOf(id), { ...fields, 'line.0._delete': '1' });
    assert.equal(answer.status, 409);
    assert.deepEqual(await rowsOf(id), [['Apple', 5, null]]);
    assertSaved(await ada.post(pageOf(id), { ...fieldsOf(answer), 'line.0._delete': '1' }));
    assert.deepEqual(await rowsOf(id), []);
  });

  test('comes back as a new row if it was deleted', async () => {
    const id = await insert(['Apple', 1], ['Bread', 2]);
    const fields = fieldsOf(await ada.get(pageOf(id)));
    await service.sql`delete from line where purchase_id = ${id}`;
    const answer = await ada.post(pageOf(id), { ...fields, ...line(0, { quantity: '10' }) });
    assert.equal(answer.status, 409);
    assert.match(errorsIn(answer)['line.0._row'] ?? '', /has been deleted/i);
    assert.deepEqual(await rowsOf(id), []);
    assertSaved(await ada.post(pageOf(id), fieldsOf(answer)));
    assert.deepEqual(await rowsOf(id), [['Apple', 10, null]]);
  });

  test('is shown to copy if it was deleted and cannot be added', async () => {
    const id = await insert(['Apple', 1]);
    const changer = await withRole('changer');
    const fields = fieldsOf(await changer.get(pageOf(id)));
    await service.sql`delete from line where purchase_id = ${id}`;
    const answer = await changer.post(pageOf(id), { ...fields, ...line(0, { quantity: '77' }) });
    assert.equal(answer.status, 409);
    assert.match(errorsIn(answer)['line.0._row'] ?? '', /copy the values that you need/);
    assert.match(readable(answer), /need\. 77/);
    assertSaved(await changer.post(pageOf(id), fieldsOf(answer)));
  });

  test('is kept if the record itself was deleted', async () => {
    const id = await insert(['Apple', 1]);
    const fields = { ...fieldsOf(await ada.get(pageOf(id))), ...line(0, { quantity: '7' }) };
    const changer = await withRole('changer');
    const seen = { ...fieldsOf(await changer.get(pageOf(id))), ...line(0, { quantity: '77' }) };
    await service.sql`delete from purchase where id = ${id}`;
    const choice = { _for: 'line.0.product_id', _choose: `=${await productId('Bread')}` };
    for (const button of [{}, { _more: 'line' }, choice]) {
      const copied = await changer.post(pageOf(id), { ...seen, ...button });
      assert.equal(copied.status, 409);
      assert.match(copied.text, /Line 1, Quantity[\s\S]*>\n77</);
      const shown = await ada.post(pageOf(id), { ...fields, ...button });
      assert.equal(shown.status, 409);
      assert.match(readable(shown), /has been deleted/);
    }
    const answer = await ada.post(pageOf(id), fields);
    const again = await ada.post(ADD, fieldsOf(answer));
    assertSaved(again);
    const [row] = await service.sql`select max(id) as id from purchase`;
    assert.deepEqual(await rowsOf(String(row?.['id'])), [['Apple', 7, null]]);
  });

  test('keeps the rows of a form whose record has changed, through the conflict page', async () => {
    const id = await insert(['Apple', 1]);
    const fields = fieldsOf(await ada.get(pageOf(id)));
    await service.sql`update purchase set note = 'theirs' where id = ${id}`;
    const page = await ada.post(pageOf(id), { ...fields, note: 'mine', ...line(0, { quantity: '10' }) });
    assert.equal(page.status, 409);
    assertSaved(await ada.post(pageOf(id), { ...hiddenFields(page, 'conflict'), '_take.note': 'mine' }));
    assert.deepEqual(await rowsOf(id), [['Apple', 10, null]]);
  });
});

describe('the rights of the child table', () => {
  test('show the rows without fields to a role that may only read them', async () => {
    const id = await insert(['Apple', 77]);
    const reader = await withRole('reader');
    const page = await reader.get(pageOf(id));
    assert.match(readable(page), /Apple 77/);
    assert.deepEqual(namesIn(page), []);
    const forged = {
      ...fieldsOf(await ada.get(pageOf(id))),
      _csrf: csrfIn(page.text),
      ...line(0, { quantity: '1' }),
      ...line(1, { product_id: await productId('Bread') }),
    };
    await reader.post(pageOf(id), forged);
    assert.deepEqual(await rowsOf(id), [['Apple', 77, null]]);
  });

  test('give empty rows alone to a role that may only add', async () => {
    const id = await insert(['Apple', 77]);
    const adder = await withRole('adder');
    const page = await adder.get(pageOf(id));
    assert.ok(namesIn(page).includes('line.1.quantity'));
    assert.ok(!namesIn(page).includes('line.0.quantity'));
    assert.ok(!page.text.includes('_delete'));
    const bread = await productId('Bread');
    assertSaved(
      await save(adder, pageOf(id), {
        ...line(0, { quantity: '1' }),
        'line.0._delete': '1',
        ...line(1, { product_id: bread }),
      }),
    );
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 77, null],
      ['Bread', 1, null],
    ]);
  });

  test('hide rows and columns', async () => {
    const id = await insert(['Apple', 1], ['Bread', 500]);
    const limited = await withRole('limited');
    const page = await limited.get(pageOf(id));
    assert.deepEqual(namesIn(page), [
      ...['_rows', '0._id', '0._version', '0._origin'].map((name) => `line.${name}`),
      ...['0.product_id', '0.product_id__key', '0.quantity', '0._delete'].map((name) => `line.${name}`),
    ]);
    const whole = fieldsOf(await ada.get(pageOf(id)));
    const forged = { ...whole, ...line(1, { quantity: '5' }), ...line(0, { note: 'hidden' }) };
    const answer = await limited.post(pageOf(id), { ...forged, _csrf: csrfIn(page.text) });
    assert.equal(answer.status, 409);
    const deletion = { 'line.1._delete': '1', _csrf: csrfIn(page.text) };
    assertSaved(await limited.post(pageOf(id), { ...whole, ...line(0, { note: 'hidden' }), ...deletion }));
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 1, null],
      ['Bread', 500, null],
    ]);
    const blind = await withRole('blind');
    assert.doesNotMatch((await blind.get(pageOf(id))).text, /inline-line/);
  });

  test('leave the decision about each row to the operation', async () => {
    const id = await insert(['Apple', 1], ['Bread', 500]);
    const changer = await withRole('changer');
    const page = await changer.get(pageOf(id));
    assert.deepEqual(
      namesIn(page).filter((name) => !name.includes('._')),
      ['line.0.quantity', 'line.1.quantity'],
    );
    const refused = await save(changer, pageOf(id), {
      ...line(0, { quantity: '2' }),
      ...line(1, { quantity: '3' }),
    });
    assert.equal(refused.status, 403);
    assert.deepEqual(Object.keys(errorsIn(refused)), ['line.1._row']);
    assert.deepEqual(await rowsOf(id), [
      ['Apple', 1, null],
      ['Bread', 500, null],
    ]);
    assertSaved(await save(changer, pageOf(id), line(0, { quantity: '2' })));
  });
});

describe('rows that are only shown', () => {
  test('have no fields, and are not on the form of a new record', async () => {
    const [ticket] = await service.sql`insert into ticket (title) values ('Broken') returning id`;
    const id = String(ticket?.['id']);
    await service.sql`insert into reply (ticket_id, text) values (${id}, 'Have you tried it?')`;
    await service.sql`insert into task (ticket_id, name) values (${id}, 'Repair')`;
    const page = await ada.get(`/admin/ticket/${id}/`);
    assert.match(readable(page), /Have you tried it\?/);
    assert.doesNotMatch(page.text, /name="reply\./);
    assert.equal(fieldsOf(page)['task.0.name'], 'Repair');
    assert.equal(fieldsOf(page)['task._rows'], '1');
    assert.doesNotMatch((await ada.get('/admin/ticket/-/add/')).text, /inline-reply/);
    const answer = await save(ada, `/admin/ticket/${id}/`, { title: '', 'task.0.name': '' });
    assert.deepEqual(summaryOf(answer), ['Title: is required', 'Line 1, Name: is required']);
    assert.match(readable(answer), /Have you tried it\?/);
  });
});

test('a form of an ended session comes back with its rows', async () => {
  const id = await insert(['Apple', 1]);
  const browser = await logIn(service, 'ada');
  const fields = {
    ...fieldsOf(await browser.get(pageOf(id))),
    ...line(0, { quantity: '9' }),
    ...line(1, { note: 'typed' }),
  };
  await service.sql`
    update vitrine_session set seen = seen - interval '13 hours' where password_mark <> ''`;
  const page = await browser.post(pageOf(id), fields);
  assert.equal(page.status, 401);
  const back = await browser.post('/admin/-/login/', {
    ...fieldsOf(page),
    username: 'ada',
    password: 'pw-ada',
  });
  assert.equal(fieldsOf(back)['line.0.quantity'], '9');
  assert.equal(fieldsOf(back)['line.1.note'], 'typed');
  assertSaved(
    await browser.post(pageOf(id), {
      ...fieldsOf(back),
      ...line(1, { product_id: await productId('Bread') }),
    }),
  );
  assert.deepEqual(await rowsOf(id), [
    ['Apple', 9, null],
    ['Bread', 1, 'typed'],
  ]);
  Object.assign(ada, await logIn(service, 'ada'));
});
