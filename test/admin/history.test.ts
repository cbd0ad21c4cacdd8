// The history: which changes it records, and with which values.
import assert from 'node:assert/strict';
import { createVitrine } from '../../src/index.ts';
import { run } from '../commands/support.ts';
import { users } from '../db/helpers.ts';
import { basic, cheapHash, createDatabase, request } from '../support.ts';
import { ada, entriesOf, parsed, resources, service, useHistory } from './history-support.ts';
import { hiddenFields, logIn, readable } from './support.ts';
import { describe, test } from 'node:test';

describe('the history', () => {
  useHistory();

  test('records the values of a new record, the changed values, and the values of a deleted record', async () => {
    const made = await service.send('POST', '/api/item/', { name: 'One', price: '5.00', hidden: 'h' });
    const path = `/api/item/${made.json.id}/`;
    await service.send('PUT', path, { name: 'Two', price: '5.00' });
    await service.send('DELETE', path);
    const id = String(made.json.id);
    const who = { door: 'api', record: id, user_name: 'ada' };
    const [created, updated, deleted, ...rest] = await entriesOf('item');
    const state = { id: made.json.id, price: '5.00', at: null, extra: null, kind_id: null, unseen: null };
    assert.deepEqual({ ...created, after: null }, { action: 'create', ...who, before: null, after: null });
    assert.deepEqual(parsed(created?.after ?? null), { ...state, name: 'One' });
    assert.deepEqual(updated, {
      action: 'update',
      ...who,
      before: '{"name":"One"}',
      after: '{"name":"Two"}',
    });
    assert.deepEqual({ ...deleted, before: null }, { action: 'delete', ...who, before: null, after: null });
    assert.deepEqual(parsed(deleted?.before ?? null), { ...state, name: 'Two' });
    assert.deepEqual(rest, []);
  });

  test('records the creation of a record with defaults only, and of one with references', async () => {
    const kind = await service.send('POST', '/api/kind/', { name: 'K' });
    await service.send('POST', '/api/item/', {});
    await service.send('POST', '/api/item/', { kind_id: kind.json.id });
    const kinds = (await entriesOf('item')).map(
      ({ after }) => (parsed(after) as { kind_id: number }).kind_id,
    );
    assert.deepEqual(kinds, [null, kind.json.id]);
  });

  test('records no failed requests', async () => {
    const { json } = await service.send('POST', '/api/kind/', { name: 'K' });
    await service.sql`truncate vitrine_history`;
    const path = `/api/kind/${json.id}/`;
    const refused = [
      await service.send('POST', '/api/kind/', {}),
      await service.send('POST', '/api/item/', { kind_id: 999999 }),
      await service.send('PUT', path, { name: 'L' }, { 'if-match': '"x"' }),
      await service.send('DELETE', path, undefined, { 'if-match': '"x"' }),
      await service.send('PUT', '/api/kind/999999/', { name: 'L' }),
      await service.send('DELETE', '/api/kind/999999/'),
    ];
    assert.deepEqual(
      refused.map(({ status }) => status),
      [400, 400, 412, 412, 404, 404],
    );
    assert.deepEqual([...(await service.sql`select * from vitrine_history`)], []);
  });

  test('records no update that changes nothing', async () => {
    const sent = { name: 'S', price: '5.00', at: '2024-05-31 18:30:00', extra: { a: [1, 2] } };
    const { json } = await service.send('POST', '/api/item/', sent);
    for (const body of [
      {},
      sent,
      { name: 'S' },
      { price: '5' },
      { price: 5 },
      { at: '2024-05-31T18:30:00' },
      { extra: { a: [1, 2] } },
    ])
      assert.equal((await service.send('PUT', `/api/item/${json.id}/`, body)).status, 200);
    assert.deepEqual(
      (await entriesOf('item')).map(({ action }) => action),
      ['create'],
    );
  });

  test('records that a password changed, but neither the password nor its hash', async () => {
    const { json } = await service.send('POST', '/api/item/', { secret: 'hush hush' });
    await service.send('PUT', `/api/item/${json.id}/`, { secret: 'other', name: 'x' });
    const [row] = await service.sql`select secret from item where id = ${json.id}`;
    // Sending the stored hash back is no change.
    await service.send('PUT', `/api/item/${json.id}/`, { secret: String(row?.['secret']) });
    const all = await entriesOf('item');
    assert.equal(all.length, 2);
    assert.equal(all[1]?.before, '{"name":"none","secret":false}');
    assert.equal(all[1]?.after, '{"name":"x","secret":true}');
    assert.doesNotMatch(JSON.stringify(all), /argon2|hush|other/);
    const page = readable(await ada.get(`/admin/item/${json.id}/history/`));
    assert.match(page, /Name none x Secret changed/);
    await service.sql`delete from item where id = ${json.id}`;
  });

  test('records columns that the API excludes, but none that the admin area excludes', async () => {
    const { json } = await service.send('POST', '/api/item/', { unseen: 'u', hidden: 'h' });
    await service.send('PUT', `/api/item/${json.id}/`, { unseen: 'v', hidden: 'hh' });
    await service.send('PUT', `/api/item/${json.id}/`, { hidden: 'hhh' });
    const all = await entriesOf('item');
    assert.deepEqual(all.at(1)?.after, '{"unseen":"v"}');
    assert.doesNotMatch(JSON.stringify(all), /hidden|hh/);
    assert.match(readable(await ada.get(`/admin/item/${json.id}/history/`)), /Unseen u v/);
  });

  test('records changes of a hidden model without values', async () => {
    const { json } = await service.send('POST', '/api/covert/', { name: 'PRIVATE' });
    await service.send('PUT', `/api/covert/${json.id}/`, { name: 'PRIVATE too' });
    await service.send('DELETE', `/api/covert/${json.id}/`);
    const all = await entriesOf('covert');
    assert.deepEqual(
      all.map(({ action, record }) => [action, record]),
      ['create', 'update', 'delete'].map((action) => [action, String(json.id)]),
    );
    assert.doesNotMatch(JSON.stringify(all), /PRIVATE/);
    assert.equal((await ada.get(`/admin/covert/${json.id}/history/`)).status, 404);
  });

  test('records nothing for a resource with history: false', async () => {
    const { json } = await service.send('POST', '/api/quiet/', { name: 'a' });
    await service.send('PUT', `/api/quiet/${json.id}/`, { name: 'b' });
    assert.deepEqual(await entriesOf('quiet'), []);
    const page = await ada.get(`/admin/quiet/${json.id}/history/`);
    assert.match(readable(page), /Changes to these records are not recorded\./);
    await service.send('DELETE', `/api/quiet/${json.id}/`);
    assert.deepEqual(await entriesOf('quiet'), []);
  });

  test('works with quoted names, text and UUID keys, and JSON that jsonb cannot store', async () => {
    const id = 'a "b" \'c\' / ü,%';
    const path = `/api/odd/${encodeURIComponent(id)}/`;
    assert.equal((await service.send('POST', '/api/odd/', { id, text: 'q"\\\u0001' })).status, 201);
    assert.equal((await service.send('PUT', path, { text: 'new' })).status, 200);
    assert.equal((await service.send('DELETE', path)).status, 200);
    const odd = await entriesOf('odd');
    assert.deepEqual(
      odd.map(({ record }) => record),
      [id, id, id],
    );
    assert.deepEqual(parsed(odd[1]?.before ?? null), { text: 'q"\\\u0001' });
    const page = await ada.get(`/admin/odd/${encodeURIComponent(id)}/history/`);
    assert.match(readable(page), /This record no longer exists\. Deleted by ada through the API/);

    const stamp = await service.send('POST', '/api/stamp/', { name: 's' });
    assert.equal((await entriesOf('stamp'))[0]?.record, stamp.json.id);
    const upper = `/admin/stamp/${String(stamp.json.id).toUpperCase()}/history/`;
    assert.match(readable(await ada.get(upper)), /Added by ada/);

    await service.sql`insert into old_json (value) values ('{"a":"\\u0000",  "b": 1}')`;
    await service.send('PUT', '/api/old_json/1/', { value: [1.0] });
    await service.send('DELETE', '/api/old_json/1/');
    const [changed] = await entriesOf('old_json');
    assert.equal(changed?.before, '{"value":{"a":"\\u0000",  "b": 1}}');
    assert.match(
      readable(await ada.get('/admin/old_json/1/history/')),
      /Value {"a":"\\u0000", "b": 1} \[1\]/,
    );
  });

  test('works with partitioned tables', async () => {
    const made = [await service.send('POST', '/api/slice/', { name: 'a', region: 1 })];
    made.push(await service.send('POST', '/api/slice/', { name: 'b' }));
    for (const { json } of made) {
      await service.send('PUT', `/api/slice/${json.id}/`, { region: 2 });
      await service.send('DELETE', `/api/slice/${json.id}/`);
    }
    assert.deepEqual(
      (await entriesOf('slice')).map(({ action, before: old, after: now }) => [
        action,
        old && parsed(old),
        now && parsed(now),
      ]),
      [
        ['create', null, { id: made[0]?.json.id, name: 'a', region: 1 }],
        ['create', null, { id: made[1]?.json.id, name: 'b', region: null }],
        ['update', { region: 1 }, { region: 2 }],
        ['delete', { id: made[0]?.json.id, name: 'a', region: 2 }, null],
        ['update', { region: null }, { region: 2 }],
        ['delete', { id: made[1]?.json.id, name: 'b', region: 2 }, null],
      ],
    );
  });

  test('distinguishes changes in the admin area from those through the API', async () => {
    const { json } = await service.send('POST', '/api/kind/', { name: 'K' });
    const page = await ada.get(`/admin/kind/${json.id}/delete/`);
    await ada.post(`/admin/kind/${json.id}/delete/`, hiddenFields(page, 'confirm'));
    assert.deepEqual(
      (await entriesOf('kind')).map(({ action, door, user_name: name }) => [action, door, name]),
      [
        ['create', 'api', 'ada'],
        ['delete', 'admin', 'ada'],
      ],
    );
  });

  test('records changes from the command line', async () => {
    const env = { DATABASE_URL: service.url, LOG_LEVEL: 'warn' };
    for (const words of [
      ['add', 'eve'],
      ['password', 'eve'],
    ]) {
      const { code, stderr } = await run(['user', ...words], { env, input: 'first secret\n' });
      assert.equal(code, 0, stderr);
    }
    const all = await entriesOf('user');
    assert.deepEqual(
      all.map(({ action, door, user_name: name }) => [action, door, name]),
      [
        ['create', 'command', null],
        ['update', 'command', null],
      ],
    );
    assert.equal(all[1]?.after, '{"password":true}');
    assert.doesNotMatch(JSON.stringify(all), /argon2|secret/);
    assert.match(readable(await ada.get(`/admin/user/${all[0]?.record}/history/`)), /Changed from the command line, .*Password changed/); // prettier-ignore
  });
});

describe('the history with a database role that is no superuser', () => {
  test('cannot be changed by the role of the service, and logins work', async () => {
    const database = await createDatabase();
    const role = `r_${database.url.split('/').at(-1)}`;
    await database.sql.unsafe(`create role ${role} login password 'role'`);
    await database.sql.unsafe(`grant all on schema public to ${role}`);
    const url = new URL(database.url);
    [url.username, url.password] = [role, 'role'];
    const options = { databaseUrl: url.href, port: 0, log: (): void => undefined };
    try {
      // In the second round the tables exist already.
      for (const round of [1, 2]) {
        const vitrine = await createVitrine({ ...options, resources: [users, ...resources.slice(0, 2)] });
        const { url: base } = await vitrine.start();
        if (round === 1) {
          await database.sql`insert into "user" (username, password, email, admin)
            select 'ada', ${await cheapHash('pw-ada')}, '', true`;
        }
        const ada = await logIn({ base }, 'ada');
        const headers = { authorization: basic('ada') };
        const made = await request(base, '/api/kind/', { method: 'POST', headers, body: { name: 'K' } });
        assert.equal(made.status, 201);
        assert.match(readable(await ada.get(`/admin/kind/${made.json.id}/history/`)), /Added by ada/);
        await ada.post('/admin/-/logout/');
        assert.equal((await ada.get('/admin/')).status, 303);
        await vitrine.close();
      }
      for (const statement of [
        'update vitrine_history set record = record',
        'delete from vitrine_history',
        'truncate vitrine_history',
      ])
        // prettier-ignore
        await assert.rejects(
          database.sql.begin(async (sql) => {
            await sql.unsafe(`set local role ${role}`);
            await sql.unsafe(statement);
          }),
          /permission denied for table vitrine_history/,
        );
    } finally {
      await database.sql.unsafe(`drop owned by ${role} cascade`);
      await database.sql.unsafe(`drop role ${role}`);
      await database.drop();
    }
  });
});
