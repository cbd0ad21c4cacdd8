// A commit whose wait for a synchronous standby was canceled: PostgreSQL reports success, and a failover may undo it.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCluster } from '../../bench/postgres.ts';
import { createVitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, cheapHash, request, type Answer } from '../support.ts';
import { until } from './support.ts';
import { test } from 'node:test';

test('a write whose commit did not wait for its standby is no success', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'vitrine-unreplicated-'));
  const cluster = await createCluster(directory);
  const { sql, url } = cluster.primary;
  const log = (): void => undefined;
  const vitrine = await createVitrine({ databaseUrl: url, resources: [user, note], port: 0, log });
  try {
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
  } finally {
    await vitrine.close();
    await cluster.close();
    await rm(directory, { recursive: true, force: true });
  }
});
