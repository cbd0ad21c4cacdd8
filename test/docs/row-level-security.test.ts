// docs/row-level-security.md: its tables, its registry, and who gets what.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DEFAULTS } from '../../src/config.ts';
import { loadRegistryFile } from '../../src/resources/load-registry.ts';
import { requireRegistry } from '../../src/service.ts';
import { addressOf, basic, cheapHash, createDatabase, startBeside } from '../support.ts';
import { codeBlocks, readPage } from './pages.ts';

const PAGE = 'docs/row-level-security.md';

test(`${PAGE} gives each caller what its table says`, async (t) => {
  const database = await createDatabase();
  const { sql } = database;
  const folder = await mkdtemp(join(tmpdir(), 'vitrine-policies-'));
  const [registry = ''] = codeBlocks(PAGE, 'ts');
  await writeFile(join(folder, 'desk.ts'), registry);
  const { resources } = requireRegistry(await loadRegistryFile(join(folder, 'desk.ts')), DEFAULTS);

  for (const code of codeBlocks(PAGE, 'sql')) await sql.unsafe(code).simple();
  for (const [username, team] of [['carl'], ['cora'], ['alma', 'north']] as const)
    await sql`insert into "user" ${sql({ username, team: team ?? null, password: await cheapHash(`pw-${username}`) })}`;
  await sql`insert into ticket (customer, team, text) values (1, 'north', 'of carl'), (2, 'south', 'of cora')`;
  const role = `web_${randomBytes(4).toString('hex')}`;
  await sql
    .unsafe(
      `create role ${role} login password 'x'; grant all on all tables in schema public to ${role}; grant create on schema public to ${role}`,
    ) // prettier-ignore
    .simple();
  const service = await startBeside(addressOf(database, role), resources);
  t.after(async () => {
    await service.close();
    await sql.unsafe(`drop owned by ${role}; drop role ${role}`).simple();
    await database.drop();
    await rm(folder, { recursive: true });
  });

  const rows = [...readPage(PAGE).matchAll(/^\| `(GET|PUT|DELETE) (\S+)` \| (.*) \|$/gm)];
  assert.equal(rows.length, 4);
  const statusOf = async (name: string, method: string, path: string, expected: string): Promise<string> => {
    // What may be deleted stays: its version is another one.
    const isKept = method === 'DELETE' && expected === '200';
    const headers = { authorization: basic(name), ...(isKept && { 'if-match': '"other"' }) };
    const body = method === 'PUT' ? { text: `changed by ${name}` } : undefined;
    const { status, json } = await service.request(path, { method, headers, body });
    if (path.endsWith('ticket/'))
      return (json as { objects: { id: number }[] }).objects.map(({ id }) => id).join();
    return isKept && status === 412 ? '200' : String(status);
  };
  for (const [, method = '', path = '', cells = ''] of rows)
    for (const [index, expected] of cells.split(' | ').entries()) {
      const name = ['carl', 'cora', 'alma'][index] ?? '';
      const found = await statusOf(name, method, path, expected);
      assert.equal(found, expected, `${name} ${method} ${path}`);
    }
  const add = async (customer: number): Promise<number> =>
    (
      await service.request('/api/ticket/', {
        method: 'POST',
        user: 'carl',
        body: { customer, team: 'north', text: 'new' },
      })
    ).status;
  assert.deepEqual([await add(1), await add(2)], [201, 400]);
  const logged = await sql`select distinct who from ticket_log where request <> '' order by who`;
  assert.deepEqual(
    logged.map(({ who }) => who as unknown),
    ['1', '3'],
  );
});
