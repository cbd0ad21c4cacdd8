// docs/tutorial.md, followed to the letter: in the order of the page, in one folder, with the files that it says.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { logIn, readable } from '../admin/support.ts';
import {
  EXECUTABLE,
  listening,
  REPOSITORY,
  start,
  temporaryFolder,
  type Serving,
} from '../process/support.ts';
import { commandPath, createDatabase, type TestDatabase } from '../support.ts';
import { examplesOf, readPage, sameBody, type Example } from './pages.ts';
import { after, before, describe, test } from 'node:test';

const PAGE = 'docs/tutorial.md';
const ADDRESS = 'http://127.0.0.1:8000';
/** What is typed where a password is asked for. */
const TYPED = { ada: 'her password', admin: 'his new password' };

/** The headings and blocks of the page in their order; a heading has no language. */
function stepsOf(page: string): { heading: string; language: string; code: string }[] {
  let heading = '';
  return [...readPage(page).matchAll(/^## (.*)$|^```(\w+)\n([\s\S]*?)^```$/gm)].map(
    ([, title, language = '', code = '']) => {
      heading = title ?? heading;
      return { heading, language, code };
    },
  );
}

describe(PAGE, () => {
  const role = `books_${randomBytes(4).toString('hex')}`;
  let database: TestDatabase;
  let url: string;
  let cwd: string;
  let service: Serving | undefined;
  let password = '';

  before(async () => {
    cwd = await temporaryFolder();
    database = await createDatabase();
    const name = new URL(database.url).pathname.slice(1);
    await database.sql
      .unsafe(`create role ${role} login password 'pw'; alter database ${name} owner to ${role}`)
      .simple();
    const address = new URL(database.url);
    [address.username, address.password] = [role, 'pw'];
    url = address.href;
  });
  after(async () => {
    await stop();
    await database.sql.unsafe(`reassign owned by ${role} to current_user; drop owned by ${role}`).simple();
    await database.sql.unsafe(`drop role ${role}`);
    await database.drop();
  });

  async function stop(): Promise<void> {
    if (!service) return;
    process.kill(-(service.child.pid ?? 0), 'SIGTERM'); // npm and the service, as Ctrl-C does
    await service.ended;
    service = undefined;
  }

  /** `npm start`, once the one before has ended. Gives what it prints, without the lines of npm. */
  async function npmStart(): Promise<string> {
    await stop();
    service = await listening(
      await start(['start'], { command: 'npm', cwd, env: { PORT: '0' }, detached: true }),
    );
    const printed = service.stdout().replace(/^(> .*)?\n/gm, '');
    password = /the password (\S+)/.exec(printed)?.[1] ?? password;
    return printed.trim();
  }

  /** Runs any other command as the page's reader would. */
  async function run(command: string, typed: string): Promise<string> {
    const line = command
      .replaceAll(ADDRESS, service?.base ?? ADDRESS)
      .replaceAll('HER-PASSWORD', `'${TYPED.ada}'`)
      .replaceAll('PASSWORD', `'${password}'`);
    const functions = `curl() { command curl -s "$@"; }; npx() { shift; '${process.execPath}' '${EXECUTABLE}' "$@"; }`;
    const { ended } = await start(['-c', `exec 2>&1\n${functions}\n${line}`], {
      command: 'bash',
      cwd,
      env: { PATH: commandPath(), HOME: cwd, NO_PROXY: '*' },
      input: typed,
    });
    const { stdout } = await ended;
    return stdout
      .split('\n')
      .filter((text) => text !== '' && !text.startsWith('{"time":')) // the log
      .join('\n');
  }

  async function follow({ command, shown }: Example): Promise<void> {
    if (command.startsWith('cd ')) {
      cwd = join(cwd, command.slice(3));
      await mkdir(join(cwd, 'node_modules')); // what `npm install` has done
      await symlink(REPOSITORY, join(cwd, 'node_modules', 'vitrine'));
    } else if (command === 'npm start') {
      const mask = (text: string): string =>
        text.replace(/(the password )\S{16}$/m, '$1…').replace(/(127\.0\.0\.1:)\d+/g, '$1…');
      assert.equal(mask(await npmStart()), mask(shown));
    } else {
      const [, name] = /user add (ada|admin)\b/.exec(command) ?? [];
      const typed = TYPED[name as keyof typeof TYPED] ?? '';
      if (name === 'admin') password = typed;
      sameBody(
        await run(command, typed),
        shown.replace(/^(Password|Repeat password):\n?/gm, '').replace(/\n\n/g, '\n'),
      );
    }
  }

  async function useAdminArea(): Promise<void> {
    assert.ok(service);
    const browser = await logIn(service, 'admin', password);
    assert.match((await browser.get('/admin/book/-/add/')).text, /name="title"/);
    const added = await browser.post('/admin/book/-/add/', { title: 'Faster than Thought', reader_id: '1' });
    assert.equal(added.status, 303, added.text);
    assert.match((await browser.get('/admin/book/')).text, /Faster than Thought/);
    assert.match(readable(await browser.get('/admin/book/1/history/')), /Pages 66 67/);
    assert.match(readable(await browser.get('/admin/')), /API changed Sketch of the Analytical Engine/);
  }

  for (const { heading, language, code } of stepsOf(PAGE)) {
    if (language === 'session') {
      for (const example of examplesOf(code)) test(`${heading}: ${example.command}`, () => follow(example));
    } else if (language === 'js') {
      test(`${heading}: resources.js`, () => writeFile(join(cwd, 'resources.js'), code));
    } else if (language === 'ini') {
      test(`${heading}: .env`, async () => {
        await stop();
        await writeFile(join(cwd, '.env'), code.replace(/^DATABASE_URL=.*$/m, `DATABASE_URL=${url}`));
      });
    } else if (heading === '4. The admin area') test(heading, useAdminArea);
    else assert.ok(['', 'sh'].includes(language)); // `sh`: changes to a server, and installations
  }
});
