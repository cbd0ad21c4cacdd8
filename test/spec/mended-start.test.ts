import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { request } from '../support.ts';
import { EXECUTABLE, serve, start, temporaryFolder, until, type Program } from '../process/support.ts';

const PRINTED = /"admin".* password (\S+)$/m;

/** The folders in which embedded servers were started. */
const folders: string[] = [];

/** The file in which a running embedded server notes its process. */
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

/** Starts the service, and resolves when it has come to a moment, or has ended. */
async function startUntil(
  cwd: string,
  what: string,
  reached: (program: Program) => boolean | Promise<boolean>,
  detached = false,
): Promise<Program> {
  const program = await start(['serve'], { cwd, env: { PORT: '0' }, detached });
  await until(what, async () => program.child.exitCode !== null || (await reached(program)));
  return program;
}

describe('a start with the embedded database', { timeout: 110_000 }, () => {
  after(async () => {
    // What a failed test may have left running.
    for (const folder of folders) {
      const file = await pidFile(folder);
      const pid = file === undefined ? 0 : Number((await readFile(file, 'utf8')).split('\n')[0]);
      if (pid > 1) process.kill(pid, 'SIGQUIT');
    }
  });

  const moments: [what: string, isTerminal: boolean, sign: RegExp][] = [
    ['the cluster is being made', true, /^new-/],
    ['the cluster is being made', false, /^new-/],
    ['the server is being started', true, /^cluster\/postmaster\.pid$/],
    ['the server is being started', false, /^cluster\/postmaster\.pid$/],
  ];
  for (const [what, isTerminal, sign] of moments) {
    const sender = isTerminal ? 'a terminal, which tells all processes' : 'a supervisor';
    test(`ends with 0 at a signal of ${sender}, when ${what}, and leaves no server behind`, async () => {
      const cwd = await emptyFolder();
      const look = (): Promise<string[]> => readdir(join(cwd, '.data'), { recursive: true });
      const reached = async (): Promise<boolean> => (await look()).some((file) => sign.test(file));
      const program = await startUntil(cwd, what, reached, isTerminal);
      const { pid = 0 } = program.child;
      process.kill(isTerminal ? -pid : pid, isTerminal ? 'SIGINT' : 'SIGTERM');
      const { code, stdout, stderr } = await program.ended;
      assert.equal(code, 0, stderr);
      // On a busy machine the start may have come this far until the signal arrives.
      assert.match(stdout, /^(created the user .+\n)?$/, stderr);
      assert.doesNotMatch(stderr, /"level":"error"|^vitrine:/m);
      assert.equal(await pidFile(cwd), undefined);
      const left = (await readdir(join(cwd, '.data'))).filter((name) => !/^(cluster|password)$/.test(name));
      assert.deepEqual(left, [], 'and nothing that is half-made');
      const next = await serve({ cwd });
      assert.equal((await next.stop()).code, 0);
    });
  }

  test('tells the password of its user, and where it listens, below the tables that it has made', async () => {
    const cwd = await emptyFolder();
    const words = ['-c', `exec "${process.execPath}" "${EXECUTABLE}" serve 2>&1`];
    const program = await start(words, { cwd, command: '/bin/sh', env: { PORT: '0' } });
    await until('listening', () => /^listening on /m.test(program.stdout()));
    program.child.kill('SIGTERM');
    const lines = (await program.ended).stdout.split('\n');
    const first = lines.findIndex((line) => line.startsWith('created the user'));
    assert.match(lines[first + 1] ?? '', /^listening on /);
    const made = (from: number, to?: number): number =>
      lines.slice(from, to).filter((line) => line.includes('"statement"')).length;
    assert.ok(made(0, first) > 5);
    assert.equal(made(first), 0);
  });

  test('tells the password of its user before anything can fail that comes after it', async () => {
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
