// Errors that only the database finds, and how a form shows them.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, hiddenFields, logIn, readable, type AdminAnswer, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const paper: Resource = {
  model: 'paper',
  columns: {
    name: { type: 'string' },
    doc: { type: 'json', null: true },
    must: { type: 'json', default: 'a "text"' },
    level: { type: 'integer', default: 5 },
  },
  access: 'user',
  admin: { title: 'Papers', label: '{name}' },
};

const DDL = `
  alter table paper add constraint low check (level < 1000);
  create function refuse() returns trigger language plpgsql as $$
    begin
      if old.name = 'guarded' then raise exception 'hands off'; end if;
      if old.name = 'silent' then return null; end if;
      return coalesce(new, old);
    end $$;
  create trigger refuse before update or delete on paper for each row execute function refuse();`;

describe('a form with an error', () => {
  let service: TestService;
  let ada: Browser;
  before(async () => {
    service = await startService([...shipped, paper]);
    await service.addUser('ada', { admin: true });
    await service.sql.unsafe(DDL);
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  async function insert(name: string, doc: string | null = null): Promise<string> {
    const [row] = await service.sql`
      insert into paper (name, doc, must) values (${name}, ${doc}::text::jsonb, ${doc ?? '{}'}::text::jsonb) returning id`;
    return `/admin/paper/${row?.['id']}/`;
  }
  async function row(path: string): Promise<Record<string, unknown>> {
    const [found] = await service.sql`
      select name, doc::text, must::text, level from paper where id = ${Number(path.split('/')[3])}`;
    return { ...found };
  }
  async function save(path: string, fields: Record<string, string>): Promise<AdminAnswer> {
    return ada.post(path, { ...fieldsOf(await ada.get(path)), ...fields });
  }

  test('reports a required column when its default was cleared', async () => {
    const answer = await save('/admin/paper/-/add/', { name: 'new', level: '' });
    assert.equal(answer.status, 400);
    assert.match(answer.text, /id="field-level-error"[^>]*>\s*<span>Is required/);
  });

  test('reports a violated check constraint and keeps all typed values', async () => {
    const path = await insert('ruled');
    for (const [at, name] of [
      [path, 'ruled'],
      ['/admin/paper/-/add/', 'another'],
    ] as const) {
      const answer = await save(at, { name, level: '5000' });
      assert.equal(answer.status, 400);
      assert.match(readable(answer), /does not allow these values: new row .* check constraint "low"/);
      assert.deepEqual([fieldsOf(answer)['name'], fieldsOf(answer)['level']], [name, '5000']);
      assert.equal((await ada.post(at, { ...fieldsOf(answer), level: '7' })).status, 303);
    }
  });

  test('reports a locked row and keeps all typed values', async () => {
    const path = await insert('locked');
    const holder = await service.sql.reserve();
    await holder`begin`;
    await holder`update paper set level = 6 where name = 'locked'`;
    const answer = await save(path, { level: '8' });
    await holder`rollback`;
    holder.release();
    assert.equal(answer.status, 503);
    assert.match(readable(answer), /The database is busy\. Try again\./);
    assert.equal((await ada.post(path, fieldsOf(answer))).status, 303);
    assert.equal((await row(path))['level'], 8);
  });

  test('reports a trigger that raises an error, and one that silently skips the row', async () => {
    for (const [name, status, words] of [
      ['guarded', 400, /A rule of the database does not allow this: hands off/],
      ['silent', 409, /A rule of the database does not allow this\./],
    ] as const) {
      const path = await insert(name);
      const page = await ada.get(`${path}delete/`);
      const answer = await ada.post(`${path}delete/`, hiddenFields(page, 'confirm'));
      assert.equal(answer.status, status);
      assert.match(readable(answer), words);
      const bulk = '/admin/paper/-/bulk/';
      const choice = { _state: '', _id: path.split('/')[3] ?? '' };
      const confirmation = await ada.post(bulk, { ...choice, _action: 'delete' });
      const many = await ada.post(bulk, hiddenFields(confirmation, 'confirm'));
      assert.equal(many.status, status);
      assert.match(readable(many), words);
      const set = { ...choice, _action: 'set', _column: 'level', _value: '1', level: '9' };
      const done = await ada.post(bulk, { ...set, _expected: '1', _confirm: '1' });
      assert.equal(done.status, status);
      assert.match(readable(done), words);
      assert.deepEqual(await row(path), { name, doc: null, must: '{}', level: 5 });
    }
  });
});
