// docs/reacting-to-changes.md: its recipes run as the page has them.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { HISTORY } from '../../src/resources/definition/system-tables.ts';
import { user as sampleUser, message } from '../../src/resources/registry.ts';
import { temporaryFolder } from '../process/support.ts';
import { errorsIn, fieldsOf, logIn, readable } from '../admin/support.ts';
import { eventually, type TestService, useService } from '../support.ts';
import { codeBlocks, readPage, ROOT } from './pages.ts';

const PAGE = 'docs/reacting-to-changes.md';
const [words = '', announce = '', outbox = '', refuse = ''] = codeBlocks(PAGE, 'sql');
const [worker = ''] = codeBlocks(PAGE, 'js');
const [, constraint = '', text = ''] = /constraints: { (\w+): '([^']+)' }/.exec(readPage(PAGE)) ?? [];

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
} as const;

describe(PAGE, () => {
  const roles = { moderator: { grants: { message: { delete: true } } } } as const;
  const service: TestService = useService(
    [user, { ...message, constraints: { [constraint]: text } }],
    { roles },
    async () => {
      await service.addUser('ada', { admin: true });
      await service.addUser('mo', { role: 'moderator' });
      await service.addUser('bob');
      for (const recipe of [words, announce, outbox, refuse]) await service.sql.unsafe(recipe).simple();
    },
  );
  beforeEach(() => service.sql`truncate outbox, message restart identity cascade`);

  const send = async (name: string, method: string, path: string, body?: unknown) =>
    service.request(path, { user: name, method, body });
  const add = async (name: string): Promise<string> =>
    `/api/message/${String((await send(name, 'POST', '/api/message/', { content: 'Hi' })).json.id)}/`;

  test('describes every column of the history, and no other', () => {
    const named = [...readPage(PAGE).matchAll(/^\| ((?:`\w+`(?:, )?)+) \|/gm)].flatMap(([, cell = '']) =>
      [...cell.matchAll(/`(\w+)`/g)].map(([, column]) => column),
    );
    assert.deepEqual(named.toSorted(), ['id', ...Object.keys(HISTORY.columns)].toSorted());
  });

  test('refuses values in words of the registry, which a form shows', async () => {
    const refused = await send('bob', 'POST', '/api/message/', { content: 'see https://example.org' });
    assert.deepEqual([refused.status, refused.json.detail], [400, text]);
    const ada = await logIn(service, 'ada');
    const form = fieldsOf(await ada.get('/admin/message/-/add/'));
    const page = await ada.post('/admin/message/-/add/', { ...form, user_id: '1', content: 'ftp://x' });
    assert.deepEqual([page.status, Object.keys(errorsIn(page))], [400, ['content']]);
    assert.ok(readable(page).includes(text));
    assert.deepEqual([...(await service.sql`select from message`)], []);
  });

  test('announces each change once it is committed', async (t) => {
    const heard: unknown[] = [];
    const listening = await service.sql.listen('changes', (payload) => heard.push(JSON.parse(payload)));
    t.after(() => listening.unlisten());
    await add('bob');
    await eventually(() => heard.length > 0, 'a notification');
    const [{ id, ...first }] = heard as [Record<string, unknown>];
    assert.equal(typeof id, 'number');
    assert.deepEqual(first, { action: 'create', model: 'message', record: '1' });
  });

  test('delivers each change to the webhook, again after a failure, and in order', async (t) => {
    const received: { record: string; action: string; after: { content: string } | null }[] = [];
    const keys = new Set<unknown>();
    let failures = 1;
    const receiver = createServer((request, response) => {
      let text = '';
      request.on('data', (chunk: Buffer) => (text += chunk.toString()));
      request.on('end', () => {
        keys.add(request.headers['idempotency-key']);
        response.statusCode = failures > 0 ? 503 : 200;
        failures -= 1;
        if (response.statusCode === 200) received.push(JSON.parse(text) as (typeof received)[number]);
        response.end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'worker.mjs'), worker);
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const { port } = receiver.address() as AddressInfo;
    t.after(() => receiver.close());
    await add('ada');
    assert.equal((await send('ada', 'DELETE', await add('ada'))).status, 200);
    const child = execFile(process.execPath, [join(folder, 'worker.mjs')], {
      env: { ...process.env, DATABASE_URL: service.url, WEBHOOK_URL: `http://127.0.0.1:${port}/` },
    });
    t.after(() => child.kill());
    await eventually(() => received.length >= 3, 'three deliveries');
    assert.deepEqual(
      received.map(({ record, action }) => [record, action]),
      [
        ['1', 'create'],
        ['2', 'create'],
        ['2', 'delete'],
      ],
    );
    assert.equal(received[0]?.after?.content, 'Hi');
    assert.equal(keys.size, 3);
    await eventually(async () => (await service.sql`select from outbox`).length === 0, 'an empty outbox');
  });

  test('keeps no outbox of a change that is not made', async () => {
    const path = await add('bob');
    await service.sql`truncate outbox`;
    assert.equal((await send('bob', 'DELETE', path)).status, 400);
    assert.deepEqual([...(await service.sql`select from outbox`)], []);
  });

  test('refuses deletions by others than moderators and admins', async () => {
    for (const [name, status] of Object.entries({ bob: 400, mo: 200, ada: 200 })) {
      const path = await add(name);
      const answer = await send(name, 'DELETE', path);
      assert.equal(answer.status, status, `${name}: ${answer.text}`);
      assert.equal((await service.request(path)).status, status === 200 ? 404 : 200);
    }
  });
});
