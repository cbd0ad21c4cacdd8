// Starts the compiled service with the commands of the shipped units, and tries from inside what they forbid.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { logIn } from '../admin/support.ts';
import { createDatabase, request, type TestDatabase } from '../support.ts';
import {
  folderWith,
  INSTALLATION,
  listening,
  REPOSITORY,
  run,
  start,
  temporaryFolder,
  until,
  type RunOptions,
  type Serving,
} from './support.ts';
import { after, before, describe, test } from 'node:test';
import { LOGIN_TEXT } from '../login-columns.ts';
import { startTlsRefusal } from './proxy.ts';

/** The words that a unit starts, and its environment, with the application in another folder than /opt/vitrine. */
function commandOf(unit: string, application: string): { words: string[]; env: Record<string, string> } {
  const local = (text: string): string =>
    text.replaceAll('/opt/vitrine', application).replace('/usr/bin/node', process.execPath);
  const [, command = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? [];
  const variables = [...unit.matchAll(/^Environment=(\w+)=(.*)$/gm)];
  return {
    words: command.split(' ').map(local),
    env: Object.fromEntries(variables.map(([, name = '', value = '']) => [name, local(value)])),
  };
}

/** One line for each attempt: "done", or the code of the error. */
const ATTEMPTS = `
import { createRequire } from 'node:module';
import { thing } from './thing.js';
const require = createRequire(import.meta.url);
const attempts = {
  'read a file of the system': () => require('fs').readFileSync('/etc/passwd'),
  'list a folder of the system': () => require('fs').readdirSync('/etc'),
  'read a file through a promise': () => require('fs/promises').readFile('/etc/passwd'),
  'read a file beside the registry folder': () => require('fs').readFileSync(process.env.BESIDE),
  'write a file': () => require('fs').writeFileSync('written', ''),
  'write a file of the application': () => require('fs').appendFileSync(process.argv[1], ''),
  'start a child process': () => require('child_process').execFileSync('true'),
  'start a worker thread': () => new (require('worker_threads').Worker)('0', { eval: true }).terminate(),
  'open the debugger': () => new (require('inspector').Session)().connect(),
  'eval': () => (0, eval)('1'),
  'make a function of a string': () => new Function('return 1'),
  'set __proto__': () => { ({}).__proto__ = {}; },
  'change Object.prototype.__proto__': () => { Object.prototype.__proto__ = null; },
  'add to Object.prototype': () => { Object.prototype.added = 1; },
  'replace a method of Array': () => { Array.prototype.at = Array.prototype.at; },
};
const outcomes = {};
for (const [name, attempt] of Object.entries(attempts)) {
  try {
    await attempt();
    outcomes[name] = 'done';
  } catch (error) {
    outcomes[name] = error.code ?? error.name;
  }
}
outcomes['find SQLite'] = require('module').isBuiltin('node:sqlite') ? 'done' : 'absent';
process.stdout.write('outcomes ' + JSON.stringify(outcomes) + '\\n');
export default [
  { model: 'user', columns: ${LOGIN_TEXT}, exclude: ['password'], access: 'admin' },
  thing,
];
`;

const THING = `export const thing = { model: 'thing', columns: { name: { type: 'string' } }, access: 'user' };`;

const DENIED = 'ERR_ACCESS_DENIED';
const OUTCOMES: Readonly<Record<string, string>> = {
  'read a file of the system': DENIED,
  'list a folder of the system': DENIED,
  'read a file through a promise': DENIED,
  'read a file beside the registry folder': DENIED,
  'write a file': DENIED,
  'write a file of the application': DENIED,
  'start a child process': DENIED,
  'start a worker thread': DENIED,
  'open the debugger': DENIED,
  eval: 'EvalError',
  'make a function of a string': 'EvalError',
  'set __proto__': 'ERR_PROTO_ACCESS',
  'change Object.prototype.__proto__': 'ERR_PROTO_ACCESS',
  'add to Object.prototype': 'TypeError',
  'replace a method of Array': 'TypeError',
  'find SQLite': 'absent',
};

/** The package as npm installs it in a project. */
async function project(): Promise<string> {
  const folder = await temporaryFolder();
  const modules = join(folder, 'node_modules');
  await mkdir(modules);
  for (const name of ['bin', 'dist', 'package.json'])
    await cp(join(INSTALLATION, name), join(modules, 'vitrine', name), { recursive: true });
  for (const name of ['postgres', '@node-rs'])
    await symlink(join(REPOSITORY, 'node_modules', name), join(modules, name));
  return folder;
}

const deployed = readFileSync(join(REPOSITORY, 'deploy/vitrine.service'), 'utf8');
const ofProject = readFileSync(join(REPOSITORY, 'template/vitrine.service'), 'utf8');
const UNITS: readonly [whose: string, unit: string, application: () => Promise<string>][] = [
  ['of a checkout', deployed, () => Promise.resolve(INSTALLATION)],
  ['of a project', ofProject, project],
];

for (const [whose, unit, application] of UNITS) {
  describe(`the confined service ${whose}`, () => {
    let database: TestDatabase;
    let command: (...words: string[]) => { words: string[]; options: RunOptions };
    let service: Serving;

    before(async () => {
      database = await createDatabase();
      const folder = await folderWith({
        'resources.mjs': ATTEMPTS,
        'thing.js': THING,
        'package.json': '{"type":"module"}',
      });
      const beside = join(await folderWith({ secret: 'x' }), 'secret');
      const { words, env } = commandOf(unit, await application());
      const [shell = '', script = '', ...rest] = words;
      assert.deepEqual(rest, ['serve']);
      command = (...others) => ({
        words: [script, ...others],
        options: {
          command: shell,
          cwd: folder,
          env: {
            ...env,
            CONFINE_READ: folder,
            BESIDE: beside,
            DATABASE_URL: database.url,
            RESOURCES: 'resources.mjs',
            PORT: '0',
          },
        },
      });
      const { words: given, options } = command('serve');
      service = await listening(await start(given, options));
    });
    after(async () => {
      await service.stop();
      await database.drop();
    });

    test('cannot do what the flags forbid', () => {
      const [, text = '{}'] = /^outcomes (.*)$/m.exec(service.stdout()) ?? [];
      assert.deepEqual(JSON.parse(text), OUTCOMES);
      assert.ok(!existsSync(join(command().options.cwd ?? '', 'written')));
    });

    test('serves the API and the admin area, hashes passwords, and logs nothing but its lines', async () => {
      const { words, options } = command('user', 'add', 'ada', '--admin');
      const env = { ...options.env, MIN_PASSWORD: '1' };
      const added = await run(words, { ...options, env, input: 'pw-ada\n' });
      assert.equal(added.code, 0, added.stderr);
      const body = { username: 'bob', password: 'pw-bob' };
      assert.equal(
        (await request(service.base, '/api/user/', { method: 'POST', user: 'ada', body })).status,
        201,
      );
      const thing = { method: 'POST', user: 'bob', body: { name: 'kept' } };
      assert.equal((await request(service.base, '/api/thing/', thing)).status, 201);
      assert.equal(
        (await request(service.base, '/api/thing/', { ...thing, headers: { authorization: 'Basic eDp5' } }))
          .status,
        401,
      );
      const browser = await logIn(service, 'ada');
      assert.match((await browser.get('/admin/thing/')).text, /kept/);
      const sheet = /href="(\/admin\/[^"]*\.css[^"]*)"/.exec((await browser.get('/admin/')).text)?.[1] ?? '';
      assert.equal((await request(service.base, sheet)).status, 200);
      const lines = service.stderr().trim().split('\n');
      for (const line of lines) assert.ok(JSON.parse(line), line);
    });

    test('takes a certificate authority of NODE_EXTRA_CA_CERTS', async () => {
      const file = join(REPOSITORY, 'test/process/tls/number.pem');
      const { port, close } = await startTlsRefusal(readFileSync(file));
      const { words, options } = command('check');
      const DATABASE_URL = `postgres://ada:pw@127.0.0.1:${port}/db?sslmode=verify-full`;
      const env = { ...options.env, DATABASE_URL, NODE_EXTRA_CA_CERTS: file };
      assert.match((await run(words, { ...options, env })).stderr, /: got through/);
      close();
    });

    test('says that RESOURCES is not set in a folder that it may not read', async () => {
      const { words, options } = command('check');
      const env = { ...options.env, RESOURCES: '', DATABASE_URL: 'postgres://127.0.0.1:1/none' };
      const { stderr } = await run(words, { ...options, env, cwd: await temporaryFolder() });
      assert.match(stderr, /RESOURCES is not set/);
      assert.match(stderr, /^vitrine: The database cannot be used: /m);
    });

    test('reads the registry that .env names, also through RESOURCES_FILE', async () => {
      const folder = await folderWith({ 'own.mjs': `${THING}\nexport default [thing];`, name: 'own.mjs\n' });
      const { words, options } = command('check');
      const { RESOURCES, CONFINE_READ, ...env } = options.env ?? {};
      assert.ok(RESOURCES && CONFINE_READ);
      for (const [file, more] of [
        ['RESOURCES=own.mjs', {}],
        ['RESOURCES_FILE=name', {}],
        ['', { RESOURCES_FILE: 'name' }],
        ['RESOURCES_FILE=none', { RESOURCES: 'own.mjs' }],
      ] as const) {
        await writeFile(join(folder, '.env'), `${file}\n`);
        const { code, stderr } = await run(words, { ...options, cwd: folder, env: { ...env, ...more } });
        // The registry was read: its table is missing.
        assert.match(stderr, /thing/, file);
        assert.doesNotMatch(stderr, /RESOURCES/, file);
        assert.equal(code, 1, file);
      }
    });

    test('takes the socket that systemd passes', async () => {
      const socket = createServer().listen(0, '127.0.0.1');
      await once(socket, 'listening');
      const { port } = socket.address() as AddressInfo;
      const { words, options } = command('serve');
      const script = 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"';
      const { fd } = (socket as unknown as { _handle: { fd: number } })._handle;
      const program = await start(['-c', script, '/bin/sh', ...words], { ...options, passed: fd });
      socket.close();
      await until('the service to listen', () => program.stdout().includes('(passed socket;'));
      assert.equal((await request(`http://127.0.0.1:${port}`, '/readyz')).status, 200);
      program.child.kill('SIGTERM');
      assert.equal((await program.ended).code, 0);
    });

    test('does not start with a registry that imports what it may not read, and names the file', async () => {
      const { words, options } = command('serve');
      const other = await folderWith({ 'other.js': THING });
      const text = `import '${join(other, 'other.js')}';\nexport default [];`;
      await writeFile(join(options.cwd ?? '', 'open.mjs'), text);
      const { code, stderr } = await run(words, {
        ...options,
        env: { ...options.env, RESOURCES: 'open.mjs' },
      });
      assert.equal(code, 1);
      assert.ok(stderr.includes(join(other, 'other.js')) && stderr.includes('CONFINE_READ'), stderr);
    });
  });
}

test('without the flags the registry file does all of it', async () => {
  const folder = await folderWith({
    'resources.mjs': ATTEMPTS,
    'thing.js': THING,
    'package.json': '{"type":"module"}',
  });
  const beside = join(await folderWith({ secret: 'x' }), 'secret');
  const { stdout } = await run(['resources.mjs'], {
    command: process.execPath,
    cwd: folder,
    env: { BESIDE: beside },
  });
  const outcomes = JSON.parse(/^outcomes (.*)$/m.exec(stdout)?.[1] ?? '{}') as Record<string, string>;
  delete outcomes['find SQLite']; // Node.js 20 has none
  assert.deepEqual(new Set(Object.values(outcomes)), new Set(['done']));
});

test('a registry file that the flags do not allow to read is named, with the remedy', async () => {
  const folder = await folderWith({ 'other.mjs': 'export default [];' });
  const options = { command: process.execPath, cwd: folder };
  const flags = await run([join(INSTALLATION, 'bin/confinement.cjs')], options);
  const words = flags.stdout.trim().split('\n');
  const env = { NODE_ENV: 'production', DATABASE_URL: 'postgres://127.0.0.1:1/none', RESOURCES: 'other.mjs' };
  const { code, stderr } = await run([...words, 'check'], { ...options, env });
  assert.equal(code, 1);
  const file = join(folder, 'other.mjs');
  assert.match(stderr, /^vitrine: RESOURCES=other\.mjs cannot be loaded: /m);
  assert.ok(stderr.includes(`may not access ${file}`) && stderr.includes('CONFINE_READ'), stderr);
  assert.doesNotMatch(stderr, /^ +at /m);
});

test('without the flags of this Node.js nothing starts', async () => {
  const folder = await folderWith({ node: '#!/bin/sh\nexit 9\n' });
  const { code, stdout } = await run([join(INSTALLATION, 'bin/confined'), 'serve'], {
    command: '/bin/sh',
    env: { NODE: join(folder, 'node') },
  });
  assert.notEqual(code, 0);
  assert.equal(stdout, '');
});
