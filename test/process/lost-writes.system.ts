// Writes while a process is killed, and commits that did not wait for a standby.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { basic, cheapHash, createDatabase, request, type Answer } from '../support.ts';
import { addUser, connections, folderWith, serve, until } from './support.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCluster } from '../../bench/postgres.ts';
import { createVitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { describe, test } from 'node:test';
import { LOGIN_TEXT } from '../login-columns.ts';

const WRITERS = 8;
/** Both columns of a record always get the same number: a record where they differ was half written. */
const REGISTRY = `export default [
  { model: 'user', columns: { ...${LOGIN_TEXT}, email: { type: 'string' } } },
  { model: 'pair', columns: { one: { type: 'integer' }, other: { type: 'integer' } }, access: 'user' },
];`;

describe('kill -9 in the middle of many writes', () => {
  test('loses none that was answered, and leaves none half done', async () => {
    const database = await createDatabase();
    const { sql } = database;
    const env = { DATABASE_URL: database.url, RESOURCES: 'registry.mjs', LOG_LEVEL: 'error' };
    const cwd = await folderWith({ 'registry.mjs': REGISTRY });
    const service = await serve({ env, cwd });
    await addUser(sql, 'ada');

    let sent = 0;
    let lost = 0;
    /** What the service said last of each record. */
    const answered = new Map<number, number>();
    /** Records whose PUT got no answer: they may have the old or the new value. */
    const unsure = new Map<number, number>();
    const write = async (path: string, method: string, number: number): Promise<number> => {
      const answer = await request(service.base, path, {
        method,
        user: 'ada',
        body: { one: number, other: number },
      });
      assert.equal(answer.status, method === 'POST' ? 201 : 200, answer.text);
      answered.set(answer.json.id, number);
      return answer.json.id;
    };
    const writer = async (first: number): Promise<void> => {
      for (let number = first; ; number += WRITERS) {
        let id: number | undefined;
        try {
          sent += 1;
          id = await write('/api/pair/', 'POST', number);
          await write(`/api/pair/${id}/`, 'PUT', -number);
        } catch (error) {
          if (!(error instanceof TypeError)) throw error; // fetch failed: the process is gone
          lost += 1;
          if (id !== undefined) unsure.set(id, -number);
          return;
        }
      }
    };
    const writers = Array.from({ length: WRITERS }, (_, index) => writer(index + 1));
    await until('many writes', () => answered.size > 100);
    await sleep(50);
    service.child.kill('SIGKILL');
    await Promise.all(writers);
    assert.equal((await service.ended).signal, 'SIGKILL');
    assert.equal(lost, WRITERS);
    await until('the last statements to end', async () => (await connections(sql)) === 0);

    const rows = await sql<{ id: number; one: number; other: number }[]>`select * from pair`;
    assert.deepEqual(
      rows.filter(({ one, other }) => one !== other),
      [],
    );
    assert.ok(rows.length <= sent);
    const found = new Map(rows.map(({ id, one }) => [id, one]));
    for (const [id, number] of answered) {
      assert.ok([number, unsure.get(id)].includes(found.get(id)), `record ${id} is ${found.get(id)}`);
    }

    const next = await serve({ env, cwd });
    const newest = await request(next.base, '/api/pair/?ordering=-id&limit=1');
    assert.equal(newest.json.objects[0].id, Math.max(...found.keys()));
    assert.equal((await next.stop()).code, 0);
    await database.drop();
  });
});

test('a write whose commit did not wait for its standby is no success', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'vitrine-unreplicated-'));
  const cluster = await createCluster(directory);
  const { sql, url } = cluster.primary;
  const log = (): void => undefined;
  const vitrine = await createVitrine({ databaseUrl: url, resources: [user, note], port: 0, log });
  t.after(async () => {
    await vitrine.close();
    await cluster.close();
    await rm(directory, { recursive: true, force: true });
  });
  const { url: base } = await vitrine.start();
  await sql`insert into "user" (username, password, email)
    values ('bob', ${await cheapHash('pw-bob')}, 'bob@example.org')`;
  const headers = { authorization: basic('bob') };
  const write = (message: string) =>
    request(base, '/api/note/', { method: 'POST', headers, body: { message } });
  assert.equal((await write('first')).status, 201);
  await sql`alter system set synchronous_standby_names = 'missing'`;
  await sql`select pg_reload_conf()`;
  // The first writes may come before the new setting.
  const writeUntilRefused = async (): Promise<Answer> => {
    for (;;) {
      const answer = await write('second');
      if (answer.status !== 201) return answer;
    }
  };
  const writing = writeUntilRefused();
  await until('the wait for the standby', async () => {
    const { count } = await sql`
      select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`;
    return count > 0;
  });
  const { status, text } = await writing;
  assert.equal(status, 503);
  assert.match(text, /not known whether the change was made/);
  await sql`alter system reset synchronous_standby_names`;
  await sql`select pg_reload_conf()`;
  assert.equal((await write('third')).status, 201);
});
