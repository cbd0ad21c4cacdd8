// `vitrine token` on the command line.
import assert from 'node:assert/strict';
import { createVitrine } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { createDatabase, request, useDatabase } from '../support.ts';
import type { Ended } from '../process/support.ts';
import { run } from './support.ts';
import { describe, test } from 'node:test';

describe('vitrine token', () => {
  const database = useDatabase('', async () => {
    for (const name of ['ada', 'eve']) {
      const { code, stderr } = await run(['user', 'add', name], { env: env(), input: 'a long password' });
      assert.equal(code, 0, stderr);
    }
  });
  const env = (): Record<string, string> => ({ DATABASE_URL: database.url });
  const token = (...words: string[]): Promise<Ended> => run(['token', ...words], { env: env() });

  test('add prints only the token on standard output, and the service takes it within its scope', async (t) => {
    const scope = ['--resources', 'note, message', '--methods', 'get,POST', '--expires', '30d'];
    const { code, stdout, stderr } = await token('add', 'ada', ...scope, '--label', 'nightly import');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^vt_1_[0-9a-f]{72}\n$/);
    assert.match(
      stderr,
      /^vitrine: made the token 1 of ada, which expires \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\./m,
    );
    const vitrine = await createVitrine({
      ...{ databaseUrl: database.url, resources: shipped, access: 'user', port: 0, log: () => undefined },
    });
    t.after(() => vitrine.close());
    const { url } = await vitrine.start();
    const headers = { authorization: `Bearer ${stdout.trim()}` };
    const post = (model: string, body: unknown): ReturnType<typeof request> =>
      request(url, `/api/${model}/`, { method: 'POST', headers, body });
    assert.equal((await post('note', { message: 'x' })).status, 201);
    assert.equal((await post('relationship', { from_user: 1, to_user: 2 })).status, 403);
  });

  test('list shows the tokens of all users or of one, without their secrets, and revoke ends one', async () => {
    const made = await token('add', 'eve', '--expires', 'never');
    const [, id = ''] = /^vt_(\d+)_/.exec(made.stdout) ?? [];
    // Revoked ones, which count for the user, and not for the command.
    await database.sql`insert into vitrine_token (user_key, secret_hash)
      select user_key, 'revoked ' || n from vitrine_token, generate_series(-60, -1) n where id = ${id}`;
    assert.equal((await token('add', 'eve')).code, 0);
    await database.sql`delete from vitrine_token where id > ${id}`;
    await database.sql`update vitrine_token set expires = '2020-01-01', used = '2019-12-31' where id <> ${id}`;
    const all = await token('list');
    assert.deepEqual(all.stdout.trimEnd().split('\n'), [
      `${id} eve resources=* methods=* never expires never used`,
      '1 ada resources=message,note methods=GET,POST expires 2020-01-01 00:00:00 used 2019-12-31 not valid label "nightly import"',
    ]);
    assert.equal((await token('list', 'eve')).stdout.split('\n').length, 2);
    const { code, stdout } = await token('revoke', id);
    assert.deepEqual([code, stdout], [0, `revoked the token ${id}\n`]);
    assert.equal((await token('list', 'eve')).stdout, '');
    assert.equal((await token('revoke', id)).code, 1);
  });

  test('commands that change something are events, without options and passwords', async () => {
    const rows = await database.sql`select event, detail from vitrine_event order by id`;
    const { stdout } = await token('add', 'ada', '--label', 'confidential');
    const [, id = ''] = /^vt_(\d+)_/.exec(stdout) ?? [];
    await token('list');
    await run(['user', 'password', 'eve'], { env: env(), input: 'another long password' });
    const all = await database.sql`select event, detail from vitrine_event order by id`;
    assert.deepEqual(
      all.slice(rows.length).map(({ event, detail }) => [event, JSON.parse(String(detail))]),
      [
        ['token.made', { token: id, of: 'ada' }],
        ['command', { command: 'token add ada' }],
        ['command', { command: 'user password eve' }],
      ],
    );
  });

  const refused: [what: string, words: string[], code: number, said: RegExp][] = [
    ['no action', [], 2, /Expected add, list or revoke/],
    ['no user', ['add'], 2, /"token add" takes one USER/],
    ['no id', ['revoke'], 2, /"token revoke" takes one ID/],
    ['two users', ['list', 'ada', 'eve'], 2, /at most one USER/],
    ['an option of add', ['list', '--label', 'x'], 2, /--label is only for "token add"/],
    ['an unknown user', ['add', 'nobody'], 1, /There is no user nobody/],
    ['an unknown resource', ['add', 'ada', '--resources', 'note,nothing'], 2, /--resources: there is no resource nothing/],
    ['an unknown method', ['add', 'ada', '--methods', 'PATCH'], 2, /--methods: must be one of GET, POST, PUT, DELETE/],
    ['no days', ['add', 'ada', '--expires', '0d'], 2, /--expires 0d: expected/],
    ['another unit', ['add', 'ada', '--expires', '3 weeks'], 2, /--expires 3 weeks: expected/],
    ['a long label', ['add', 'ada', '--label', 'x'.repeat(256)], 2, /--label must have at most 255/],
    ['an id that is none', ['revoke', 'x'], 1, /There is no token x/],
  ]; // prettier-ignore
  for (const [what, words, code, said] of refused)
    test(`is refused with ${what}`, async () => {
      const answer = await token(...words);
      assert.deepEqual([answer.code, answer.stdout], [code, '']);
      assert.match(answer.stderr, said);
    });

  test('add makes none for a user who is not active', async () => {
    await database.sql`update "user" set active = false where username = 'eve'`;
    const { code, stderr } = await token('add', 'eve');
    assert.equal(code, 1);
    assert.match(stderr, /The user eve is not active/);
  });

  test('a start names the resources of tokens that are not there', async () => {
    await database.sql`update vitrine_token set models = 'note,ghost', expires = null where id = 1`;
    const lines: string[] = [];
    const log = (line: string): void => void lines.push(line);
    await (await createVitrine({ databaseUrl: database.url, resources: shipped, log })).close();
    assert.match(lines.join(''), /tokens allow resources that are not there: ghost"/);
  });

  test('says so where the table is missing', async (t) => {
    const other = await createDatabase();
    t.after(() => other.drop());
    const setUp = { env: { DATABASE_URL: other.url }, input: 'a long password' };
    assert.equal((await run(['user', 'add', 'ada'], setUp)).code, 0);
    await other.sql`drop table vitrine_token`;
    const { code, stderr } = await run(['token', 'list'], setUp);
    assert.equal(code, 1);
    assert.match(stderr, /The table vitrine_token is missing/);
  });
});
