// docs/existing-databases.md, followed to the letter on the database of the example.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { examplesOf, readPage, type Example } from '../docs/pages.ts';
import { EXECUTABLE, run, serve, temporaryFolder, type Serving } from '../process/support.ts';
import { commandPath, createDatabase, type TestDatabase } from '../support.ts';
import { after, before, describe, test } from 'node:test';
import { chinookSql } from '../paths.ts';

const PAGE = 'docs/existing-databases.md';

describe(`${PAGE}, on the Chinook database`, () => {
  const role = `reader_${randomBytes(4).toString('hex')}`;
  const blocks = [...readPage(PAGE).matchAll(/^```(\w+)\n(.*?)^```$/gms)];
  let database: TestDatabase;
  let folder: string;
  let url: string;
  let service: Serving | undefined;

  before(async () => {
    database = await createDatabase();
    await database.sql.unsafe(chinookSql('chinook.sql')).simple();
    await database.sql
      .unsafe(
        `create role ${role} login password 'pw'; grant select on all tables in schema public to ${role}`,
      )
      .simple();
    const address = new URL(database.url);
    address.username = role;
    address.password = 'pw';
    url = address.href;
    folder = await temporaryFolder();
  });
  after(async () => {
    await service?.stop();
    await database.sql.unsafe(`drop owned by ${role}; drop role ${role}`).simple();
    await database.drop();
  });

  /** Runs a command as the page's reader would, in the folder that the ones before it have written to. */
  async function follow({ command }: Example): Promise<string> {
    if (command.startsWith('curl '))
      service ??= await serve({
        cwd: folder,
        env: { DATABASE_URL: url, RESOURCES: 'music.mjs', SCHEMA: 'check' },
      });
    const line = command.replaceAll('http://127.0.0.1:8000', service?.base ?? '');
    const lines = [
      'exec 2>&1',
      `npx() { shift; '${process.execPath}' '${EXECUTABLE}' "$@"; }`,
      ...exports,
      line,
    ];
    const { code, stdout } = await run(['-c', lines.join('\n')], {
      command: 'bash',
      cwd: folder,
      env: { PATH: commandPath(), HOME: folder, NO_PROXY: '*', DATABASE_URL: url },
      input: command.includes(' user add ') ? 'the password' : '',
    });
    assert.equal(code, 0, stdout);
    if (command.startsWith('export ')) exports.push(command);
    return stdout.trim().replaceAll(new URL(database.url).pathname.slice(1), 'chinook');
  }
  const exports: string[] = [];

  /** What the page has its reader write into the file that was printed. */
  async function addModel(code: string): Promise<void> {
    const file = join(folder, 'music.mjs');
    const start = 'export default [\n';
    await writeFile(file, (await readFile(file, 'utf8')).replace(start, `${start}${code}`));
  }

  /** What the owner of the database does with psql, which need not be installed here. */
  async function applyDifference(): Promise<void> {
    const statements = await readFile(join(folder, 'd.sql'), 'utf8');
    await database.sql.unsafe(statements).simple();
    await database.sql
      .unsafe(
        `grant all on "user", vitrine_session, vitrine_token, vitrine_idempotency, vitrine_second_factor, vitrine_view to ${role}; grant select, insert on vitrine_history, vitrine_event, vitrine_seal to ${role}`,
      )
      .simple();
  }

  const withoutPrompts = (shown: string): string => shown.replace(/^(Password|Repeat password):\n?/gm, '');

  assert.ok(blocks.length >= 12);
  for (const [, language = '', code = ''] of blocks) {
    if (language === 'session') {
      for (const example of examplesOf(code))
        test(example.command, async () => assert.equal(await follow(example), withoutPrompts(example.shown)));
    } else if (language === 'js') test('the model of the users', () => addModel(code));
    else if (code.includes('-f d.sql')) test('what the database lacks is created', applyDifference);
    else assert.equal(language, 'sh');
  }
});
