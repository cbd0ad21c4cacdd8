// The embedded PostgreSQL: what a start with it prints and leaves, and how it ends.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cp, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { request, type Answer, basic } from '../support.ts';
import {
  EXECUTABLE,
  folderWith,
  listening,
  run,
  serve,
  start,
  temporaryFolder,
  until,
  type Program,
  type Serving,
} from './support.ts';
import { after, before, describe, test } from 'node:test';
import { isRunning } from './workers-support.ts';

const SAMPLED = ['message', 'relationship', 'note'];

/** The folders in which servers were started. */
const folders: string[] = [];
/** A process that is always there and never PostgreSQL. */
const TAKEN = 1;

async function folderOf(files: Record<string, string> = {}): Promise<string> {
  const folder = await folderWith(files);
  folders.push(folder);
  return folder;
}

/** The file in which the PostgreSQL server of a folder notes its process, or undefined when it has stopped. */
async function pidFile(folder: string): Promise<string | undefined> {
  const names = await readdir(join(folder, '.data'), { recursive: true }).catch(() => []);
  const name = names.find((candidate) => candidate.endsWith('postmaster.pid'));
  return name && join(folder, '.data', name);
}

async function serverPid(folder: string): Promise<number> {
  return Number((await readFile((await pidFile(folder)) ?? '', 'utf8')).split('\n')[0]);
}

/** The password that the service printed, if it printed one. */
const printedPassword = ({ stdout }: Serving): string | undefined =>
  /^.*\badmin\b.*\bpassword\b.* (\S+)$/m.exec(stdout())?.[1];

/** Lines on standard output other than those that say where the service is. */
const further = ({ stdout }: Serving): string[] =>
  stdout()
    .trim()
    .split('\n')
    .filter((line) => !/^(listening on| *API| *admin area) /.test(line));

/** The program once it serves; undefined when it ends instead. */
const settled = (program: Program): Promise<Serving | undefined> => listening(program).catch(() => undefined);

after(async () => {
  // What a failed test may have left running.
  for (const left of folders) {
    const pid = (await pidFile(left)) === undefined ? 0 : await serverPid(left);
    if (pid > TAKEN && isRunning(pid)) process.kill(pid, 'SIGQUIT');
  }
});

describe('the embedded database', () => {
  let folder: string;
  let service: Serving;
  let password: string;
  before(async () => {
    folder = await folderOf();
    service = await serve({ cwd: folder });
    password = printedPassword(service) ?? '';
  });

  const authorization = (): string => basic('admin', password);
  const addNote = (message: string): Promise<Answer> =>
    request(service.base, '/api/note/', {
      method: 'POST',
      headers: { authorization: authorization() },
      body: { message },
    });
  const hasNote = async (message: string): Promise<boolean> => {
    const { json } = await request(service.base, `/api/note/?message=${message}`);
    return json.objects.length === 1;
  };

  test('is made at the first start, with a user who can log in and records to look at', async () => {
    assert.deepEqual(await readdir(folder), ['.data']);
    assert.ok(password.length >= 12);
    assert.equal(further(service).length, 1);
    assert.equal((await addNote('first')).status, 201);
    const put = await request(service.base, '/api/user/1/', {
      method: 'PUT',
      headers: { authorization: authorization() },
      body: {},
    });
    assert.equal(put.status, 200, 'the user admin is an admin');
    for (const model of SAMPLED) {
      const { json } = await request(service.base, `/api/${model}/`);
      assert.ok(json.objects.length > 0, model);
    }
    assert.ok(!service.stderr().includes(password));
  });

  test('serves the command line beside the service, which goes on', async () => {
    const { code, stdout } = await run(['user', 'list'], { cwd: folder });
    assert.equal(code, 0);
    assert.match(stdout, /^admin admin$/m);
    const added = await run(['user', 'add', 'eve'], { cwd: folder, input: 'a long secret' });
    assert.equal(added.code, 0, added.stderr);
    assert.equal((await request(service.base, '/api/user/?username=eve')).json.objects.length, 1);
  });

  test('stops with the service, and the next start has its data and makes no user', async () => {
    const pid = await serverPid(folder);
    assert.equal((await service.stop()).code, 0);
    assert.equal(await pidFile(folder), undefined);
    await until('the server to be gone', () => !isRunning(pid));
    service = await serve({ cwd: folder });
    assert.deepEqual(further(service), []);
    assert.ok(await hasNote('first'));
    assert.equal((await addNote('second')).status, 201);
  });

  test('is taken over by the next start when the service was killed', async () => {
    const ended = await service.stop('SIGKILL');
    assert.equal(ended.signal, 'SIGKILL');
    service = await serve({ cwd: folder });
    assert.ok(await hasNote('second'));
    assert.equal((await addNote('third')).status, 201);
    assert.equal((await service.stop()).code, 0);
    assert.equal(await pidFile(folder), undefined);
    service = await serve({ cwd: folder });
  });

  test('recovers when service and server were both killed, even if the number of the server is taken', async () => {
    const pid = await serverPid(folder);
    const file = (await pidFile(folder)) ?? '';
    process.kill(pid, 'SIGKILL');
    await service.stop('SIGKILL');
    await until('the server to be gone', () => !isRunning(pid));
    const [, ...lines] = (await readFile(file, 'utf8')).split('\n');
    await writeFile(file, [TAKEN, ...lines].join('\n')); // as after a restart of the machine: another process has it
    service = await serve({ cwd: folder });
    assert.ok(await hasNote('third'));
  });

  test('outlives Ctrl-C, which a terminal sends to all processes, until the last request is answered', async () => {
    await service.stop();
    service = await serve({ cwd: folder, detached: true });
    const outgoing = httpRequest(`${service.base}/api/note/`, {
      method: 'POST',
      headers: {
        Authorization: authorization(),
        'Content-Type': 'application/json',
        Expect: '100-continue',
      },
    });
    outgoing.flushHeaders();
    await once(outgoing, 'continue'); // the service waits for the body now
    process.kill(-service.child.pid!, 'SIGINT');
    await until('the service to take note', () => service.stderr().includes('shutting down'));
    outgoing.end('{"message":"last"}');
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    response.resume();
    assert.equal(response.statusCode, 201);
    assert.equal((await service.ended).code, 0);
    assert.equal(await pidFile(folder), undefined);
  });

  test('is never recreated over existing data, even if the files beside it are lost', async () => {
    const data = join(folder, '.data');
    const aside = await temporaryFolder();
    for (const entry of await readdir(data, { withFileTypes: true })) {
      if (entry.isFile()) await rename(join(data, entry.name), join(aside, entry.name));
    }
    const program = await start(['serve'], { cwd: folder, env: { PORT: '0' } });
    await settled(program); // whether it serves or says that it cannot
    program.child.kill('SIGTERM');
    await program.ended;
    for (const name of await readdir(aside)) await cp(join(aside, name), join(data, name));
    service = await serve({ cwd: folder });
    assert.ok(await hasNote('last'));
    assert.equal((await service.stop()).code, 0);
  });

  test('is not spoiled by two that start at the same time in an empty folder', async () => {
    const cwd = await folderOf();
    const options = { cwd, env: { PORT: '0' } };
    const programs = [await start(['serve'], options), await start(['serve'], options)];
    const serving = (await Promise.all(programs.map(settled))).filter((one) => one !== undefined);
    assert.ok(serving.length > 0, programs.map(({ stderr }) => stderr()).join(''));
    for (const one of serving) {
      for (const other of serving.slice(serving.indexOf(one))) {
        assert.equal((await request(other.base, '/api/note/')).status, 200);
      }
      assert.equal((await one.stop()).code, 0);
    }
    assert.equal(await pidFile(cwd), undefined, 'the last one has stopped the server');
    const next = await serve({ cwd });
    assert.deepEqual(further(next), []);
    assert.equal((await next.stop()).code, 0);
  });

  test('has a user admin and no sample records for a registry of its owner', async () => {
    const registry = await readFile('src/resources/registry.ts', 'utf8');
    const own = await folderOf({ 'own.mts': registry, 'package.json': '{}' });
    const started = await serve({ cwd: own, env: { RESOURCES: 'own.mts' }, fromSource: true });
    assert.ok(printedPassword(started));
    for (const model of SAMPLED) {
      assert.deepEqual((await request(started.base, `/api/${model}/`)).json.objects, []);
    }
    const { json } = await request(started.base, '/api/user/');
    assert.deepEqual(
      json.objects.map(({ username }: { username: string }) => username),
      ['admin'],
    );
    assert.equal((await started.stop()).code, 0);
  });

  test('that cannot be started ends the start with one message', async () => {
    const cwd = await temporaryFolder();
    await writeFile(join(cwd, '.data'), 'a file where a folder should be');
    const { code, stdout, stderr } = await run(['serve'], { cwd, env: { PORT: '0' } });
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^vitrine: .*\.data/m);
    assert.doesNotMatch(stderr, /^ +at /m);
  });
});

const PRINTED = /"admin".* password (\S+)$/m;

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
  const moments: [state: string, isTerminal: boolean, sign: RegExp][] = [
    ['the cluster is being created', true, /^new-/],
    ['the cluster is being created', false, /^new-/],
    ['the server is being started', true, /^cluster\/postmaster\.pid$/],
    ['the server is being started', false, /^cluster\/postmaster\.pid$/],
  ];
  for (const [state, isTerminal, sign] of moments) {
    const sender = isTerminal ? 'a terminal, which signals all processes' : 'a supervisor';
    test(`exits with 0 after a signal from ${sender} while ${state}, and leaves no server running`, async () => {
      const cwd = await folderOf();
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
    const cwd = await folderOf();
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
    const marked = await folderWith({ '.env.example': '\uFEFFRESOURCES=./resources.js\n' });
    for (const [folder, ...words] of [
      [cwd, 'serve'],
      [cwd, 'user', 'add', 'joe', '--admin'],
      [cwd, 'user', 'list'],
      [marked, 'user', 'list'],
    ] as const) {
      const { code, stderr } = await run(words, { cwd: folder });
      assert.equal(code, 1, stderr);
      assert.match(stderr, /has \.env\.example but no \.env.*cp \.env\.example \.env/);
    }
    const { code } = await run(['user', 'list'], { cwd, env: { RESOURCES: '' } });
    assert.equal(code, 1);
    assert.deepEqual(await readdir(cwd), ['.env.example']);
  });

  test('leaves the .env.example of another program alone', async () => {
    const cwd = await folderWith({ '.env.example': 'STRIPE_KEY=\n' });
    const service = await serve({ cwd });
    assert.equal((await service.stop()).code, 0);
  });

  test('prints the password of its user before any later step can fail', async () => {
    const cwd = await folderOf();
    const program = await startUntil(cwd, 'the password', ({ stdout }) => PRINTED.test(stdout()));
    program.child.kill('SIGKILL');
    const password = PRINTED.exec((await program.ended).stdout)?.[1];
    const service = await serve({ cwd });
    const authorization = basic('admin', password);
    const options = { method: 'POST', headers: { authorization }, body: { message: 'x' } };
    assert.equal((await request(service.base, '/api/note/', options)).status, 201);
    assert.equal((await service.stop()).code, 0);
  });
});
