import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from '../support.ts';
import {
  EXECUTABLE,
  folderWith,
  run,
  serve,
  start,
  temporaryFolder,
  until,
  type Program,
} from './support.ts';
import { after, describe, test } from 'node:test';

const PRINTED = /"admin".* password (\S+)$/m;

/** The folders of embedded servers. */
const folders: string[] = [];

/** The file with the process id of a running embedded server. */
async function pidFile(folder: string): Promise<string | undefined> {
  const names = await readdir(join(folder, '.data'), { recursive: true }).catch(() => []);
  const name = names.find((candidate) => candidate.endsWith('postmaster.pid'));
  return name && join(folder, '.data', name);
}

async function emptyFolder(): Promise<string> {
  const folder = await temporaryFolder();
  folders.push(folder);
  return folder;
}

/** Starts the service. Resolves when it has reached a state, or has ended. */
async function startUntil(
  cwd: string,
  state: string,
  reached: (program: Program) => boolean | Promise<boolean>,
  detached = false,
): Promise<Program> {
  const program = await start(['serve'], { cwd, env: { PORT: '0' }, detached });
  await until(state, async () => program.child.exitCode !== null || (await reached(program)));
  return program;
}

describe('a start with the embedded database', () => {
  after(async () => {
    // A failed test may have left a server running.
    for (const folder of folders) {
      const file = await pidFile(folder);
      const pid = file === undefined ? 0 : Number((await readFile(file, 'utf8')).split('\n')[0]);
      if (pid > 1) process.kill(pid, 'SIGQUIT');
    }
  });

  const moments: [state: string, isTerminal: boolean, sign: RegExp][] = [
    ['the cluster is being created', true, /^new-/],
    ['the cluster is being created', false, /^new-/],
    ['the server is being started', true, /^cluster\/postmaster\.pid$/],
    ['the server is being started', false, /^cluster\/postmaster\.pid$/],
  ];
  for (const [state, isTerminal, sign] of moments) {
    const sender = isTerminal ? 'a terminal, which signals all processes' : 'a supervisor';
    test(`exits with 0 after a signal from ${sender} while ${state}, and leaves no server running`, async () => {
      const cwd = await emptyFolder();
      const listData = (): Promise<string[]> => readdir(join(cwd, '.data'), { recursive: true });
      const reached = async (): Promise<boolean> => (await listData()).some((file) => sign.test(file));
      const program = await startUntil(cwd, state, reached, isTerminal);
      const { pid = 0 } = program.child;
      process.kill(isTerminal ? -pid : pid, isTerminal ? 'SIGINT' : 'SIGTERM');
      const { code, stdout, stderr } = await program.ended;
      assert.equal(code, 0, stderr);
      // On a busy machine, the start may have come this far when the signal arrives.
      assert.match(stdout, /^(created the user .+\n)?$/, stderr);
      assert.doesNotMatch(stderr, /"level":"error"|^vitrine: (?!DATABASE_URL is not set: creating)/m);
      assert.equal(await pidFile(cwd), undefined);
      const left = (await readdir(join(cwd, '.data'))).filter((name) => !/^(cluster|password)$/.test(name));
      assert.deepEqual(left, [], 'no unfinished files');
      const next = await serve({ cwd });
      assert.equal((await next.stop()).code, 0);
    });
  }

  test('prints the password of its user, and its URL, below the log of created tables', async () => {
    const cwd = await emptyFolder();
    const words = ['-c', `exec "${process.execPath}" "${EXECUTABLE}" serve 2>&1`];
    const program = await start(words, { cwd, command: '/bin/sh', env: { PORT: '0' } });
    await until('listening', () => /^listening on /m.test(program.stdout()));
    program.child.kill('SIGTERM');
    const lines = (await program.ended).stdout.split('\n');
    const first = lines.findIndex((line) => line.startsWith('created the user'));
    assert.match(lines[first + 1] ?? '', /^listening on /);
    assert.match(lines[0] ?? '', /"level":"info","message":"RESOURCES is not set/);
    assert.match(lines[1] ?? '', /^vitrine: DATABASE_URL is not set: creating an embedded PostgreSQL in /);
    const created = lines.findIndex((line) => line.includes('"message":"created tables user, '));
    assert.ok(created > 0 && created < first);
    assert.ok(!lines.some((line) => line.includes('no user may open the admin area')));
  });

  test('creates no database in a project without its .env, by any command', async () => {
    const cwd = await folderWith({ '.env.example': 'export RESOURCES=./resources.js\n' });
    for (const words of [['serve'], ['user', 'add', 'joe', '--admin'], ['user', 'list']]) {
      const { code, stderr } = await run(words, { cwd });
      assert.equal(code, 1, stderr);
      assert.match(stderr, /has \.env\.example but no \.env.*cp \.env\.example \.env/);
    }
    const { code } = await run(['user', 'list'], { cwd, env: { RESOURCES: '' } });
    assert.equal(code, 1);
    assert.deepEqual(await readdir(cwd), ['.env.example']);
  });

  test('creates none either if the .env.example begins with a byte order mark', async () => {
    const cwd = await folderWith({ '.env.example': '\uFEFFRESOURCES=./resources.js\n' });
    const { code, stderr } = await run(['user', 'list'], { cwd });
    assert.equal(code, 1);
    assert.match(stderr, /has \.env\.example but no \.env/);
  });

  test('leaves the .env.example of another program alone', async () => {
    const cwd = await folderWith({ '.env.example': 'STRIPE_KEY=\n' });
    const service = await serve({ cwd });
    assert.equal((await service.stop()).code, 0);
  });

  test('prints the password of its user before any later step can fail', async () => {
    const cwd = await emptyFolder();
    const program = await startUntil(cwd, 'the password', ({ stdout }) => PRINTED.test(stdout()));
    program.child.kill('SIGKILL');
    const password = PRINTED.exec((await program.ended).stdout)?.[1];
    const service = await serve({ cwd });
    const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`;
    const options = { method: 'POST', headers: { authorization }, body: { message: 'x' } };
    assert.equal((await request(service.base, '/api/note/', options)).status, 201);
    assert.equal((await service.stop()).code, 0);
  });
});
