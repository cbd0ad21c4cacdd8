// Lists whose date links or whose count take too long: the records are shown without them.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, readable, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const view = (model: string): Resource => ({
  model,
  primaryKey: { type: 'integer' },
  columns: { day: { type: 'date', null: true } },
});

let service: TestService;
let root: Browser;
before(async () => {
  service = await startService([user, view('slow_day'), view('slow_count'), view('quick')], {
    // Each call takes some milliseconds: those of a page are quick, and those of all rows take longer than a statement may.
    prepare: (sql) =>
      sql.unsafe(`
        create table base as select n as id, date '2024-01-01' + n as day from generate_series(1, 5000) n;
        alter table base add primary key (id);
        analyze base;
        create function slow_date(day date) returns date language plpgsql stable cost 100000 as
          $$ begin perform pg_sleep(0.005); return day; end $$;
        create view quick as select id, day from base;
        create view slow_day as select id, slow_date(day) as day from base;
        create view slow_count as select id, day from base where slow_date(day) is not null;`),
  });
  await service.addUser('root', { admin: true });
  root = await logIn(service, 'root');
});
after(() => service.close());

const rowsIn = (text: string): number => [...text.matchAll(/name="_id"/g)].length;

describe('a list', () => {
  test('shows links to dates and its count if both are quick', async () => {
    const page = await root.get('/admin/quick/');
    assert.match(page.text, /<nav class="dates"/);
    assert.match(readable(page), /1–20 of 5,000 records/);
  });

  test('is shown without links to dates if these take too long', async () => {
    const page = await root.get('/admin/slow_day/');
    assert.equal(page.status, 200, readable(page));
    assert.equal(rowsIn(page.text), 20);
    assert.match(readable(page), /1–20 of 5,000 records Page 1 of 250 Next Last/);
    assert.doesNotMatch(page.text, /<nav class="dates"/);
    const line = await eventually(
      () => service.lines.find(({ message }) => String(message).includes('the date links of slow_day')),
      'the line',
    );
    assert.match(String(line['message']), /no result after/);
  });

  test('is shown without its count if this takes too long', async () => {
    const page = await root.get('/admin/slow_count/?page=2');
    assert.equal(page.status, 200, readable(page));
    assert.equal(rowsIn(page.text), 20);
    assert.match(readable(page), /21–40 of an unknown number of records Previous Page 2 Next 20 50 100/);
    assert.match(readable(page), /With selected: .* all records in this list Continue/);
    assert.match(page.text, /href="\/admin\/slow_count\/\?page=3" rel="next"/);
    await eventually(
      () => service.lines.find(({ message }) => String(message).includes('the count of slow_count')),
      'the line',
    );
  });

  test('with an invalid filter logs no missing count', async () => {
    const page = await root.get('/admin/quick/?day=never');
    assert.equal(page.status, 400);
    await eventually(() => service.lines.find(({ status }) => status === 400), 'the line of the request');
    const omitted = service.lines.filter(({ message }) => /omits .* quick/.test(String(message)));
    assert.deepEqual(omitted, []);
  });
});
