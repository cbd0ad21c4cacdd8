// The command line: what it says of itself, settings that cannot be used, output that cannot be written, and passwords on a terminal.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createDatabase, request, useDatabase } from '../support.ts';
import { run } from '../commands/support.ts';
import {
  EXECUTABLE,
  freePort,
  REPOSITORY,
  run as runProcess,
  serve,
  start,
  temporaryFolder,
  until,
  type Program,
  type RunOptions,
} from './support.ts';
import { cp } from 'node:fs/promises';
import { verify } from '@node-rs/argon2';
import { spawn, spawnSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { startTlsRefusal } from './proxy.ts';

const SETTINGS: Record<string, string> = {
  DATABASE_URL: '.data',
  RESOURCES: 'shipped registry',
  HOST: '127.0.0.1',
  PORT: '8000',
  ACCESS: 'default',
  USER_MODEL: 'user',
  SCHEMA: 'apply',
  MAX_BODY: '1048576',
  MAX_PAGE: '33554432',
  LOG_LEVEL: 'info',
  LOG_FORMAT: 'json',
  CORS_ORIGINS: 'none',
  TRUST_PROXY: '0',
  METRICS: 'off',
};

const SAMPLES =
  'vitrine: RESOURCES is not set, so the sample models user, relationship, message and note are served\n';

describe('what the command line says of itself', { concurrency: 2 }, () => {
  for (const words of [['--help'], ['serve', '--help']]) {
    test(`${words.join(' ')} lists every command, and every setting with its default`, async () => {
      const { code, stdout, stderr } = await run(words);
      assert.deepEqual([code, stderr], [0, '']);
      for (const command of [
        'serve',
        'init',
        'introspect',
        'check',
        'schema',
        'user add',
        'user password',
        'user link',
        'user sessions',
        'user mfa',
        'user list',
      ]) {
        assert.match(stdout, new RegExp(`^ +${command}\\b`, 'm'));
      }
      for (const option of ['--admin', '--set', '--reset', '--help', '--version'])
        assert.ok(stdout.includes(option));
      for (const [name, fallback] of Object.entries(SETTINGS)) {
        const line = stdout.split('\n').find((candidate) => candidate.trimStart().startsWith(`${name} `));
        assert.ok(line?.includes(fallback), `${name} with ${fallback}`);
      }
    });
  }

  test('--version prints the version of the package and nothing else', async () => {
    const { version } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'));
    const { code, stdout, stderr } = await run(['--version']);
    assert.deepEqual([code, stdout, stderr], [0, `${version}\n`, '']);
  });

  const mistakes: [words: string, named: RegExp][] = [
    ['', /command/],
    ['serv', /serv/],
    ['--bogus', /--bogus/],
    ['serve now', /serve/],
    ['serve --admin', /serve/],
    ['user remove ada', /add, password, link, sessions, mfa or list/],
    ['user add', /NAME/],
    ['user add ada bob', /NAME/],
    ['user add ada --set email', /--set email/],
    ['user add ada --set email=a --set email=b', /--set email is given twice/],
    ['user password ada --admin', /--admin/],
    ['user list ada', /list/],
    ['check now', /now/],
    ['check --json=yes', /--json/],
    ['introspect extra', /extra/],
    ['introspect --schema', /--schema/],
    ['introspect --table', /--table/],
  ];
  for (const [words, named] of mistakes) {
    test(`"vitrine ${words}" is a mistake: exit 2, and one message on standard error`, async () => {
      const { code, stdout, stderr } = await run(words === '' ? [] : words.split(' '));
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, /^vitrine( \w+)?: /);
      assert.match(stderr, named);
      assert.match(stderr, /--help/);
      assert.doesNotMatch(stderr, /^ +at /m);
    });
  }
});

describe('output that cannot be written', () => {
  const FULL = '/dev/full';
  const onLinux = { skip: existsSync(FULL) ? false : `no ${FULL} here` };

  /** Starts `vitrine …` as a shell does: with a redirection, or after a limit. */
  const startIn = (shell: string, words: readonly string[], options: RunOptions = {}): Promise<Program> =>
    start(['-c', shell, process.execPath, EXECUTABLE, ...words], { ...options, command: 'sh' });

  for (const words of [['--help'], ['--version'], ['schema'], ['schema', '--help']])
    test(`on a full disk is exit code 1 with the reason: vitrine ${words.join(' ')}`, onLinux, async () => {
      const { code, stderr } = await (await startIn(`exec "$0" "$@" > ${FULL}`, words)).ended;
      const lines = stderr.split('\n').filter((line) => !line.includes('RESOURCES is not set'));
      assert.deepEqual(
        [code, lines],
        [1, ['vitrine: The output cannot be written: ENOSPC: no space left on device, write', '']],
      );
    });

  test('because only a part fits into the file is exit code 1 with the reason', async () => {
    const program = await startIn('ulimit -f 1; exec "$0" "$@" > part.txt', ['--help']);
    const { code, stderr } = await program.ended;
    assert.equal(code, 1);
    assert.match(stderr, /^vitrine: The output cannot be written: EFBIG: .*\n$/);
  });

  test('to a file leaves what the file has, where the shell appends', async () => {
    const { stdout } = await (
      await startIn('echo before > all.txt; "$0" "$@" >> all.txt && cat all.txt', ['--version'])
    ).ended;
    const { version } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'));
    assert.equal(stdout, `before\n${version}\n`);
  });

  test('because its reader has closed the pipe is no error', async () => {
    const program = await start(['--help']);
    program.child.stdout?.destroy();
    const { code, stderr } = await program.ended;
    assert.deepEqual([code, stderr], [0, '']);
  });

  test('does not end a service, whose log cannot be written either', onLinux, async () => {
    const database = await createDatabase();
    const port = await freePort();
    const env = { DATABASE_URL: database.url, PORT: String(port) };
    const program = await startIn(`exec "$0" "$@" > ${FULL} 2>&1`, ['serve'], { env });
    const isReady = async (): Promise<boolean> =>
      (await request(`http://127.0.0.1:${port}`, '/readyz')).status === 200;
    await until('the service to be ready', isReady);
    assert.ok(await isReady(), 'a request that is logged');
    program.child.kill('SIGTERM');
    assert.equal((await program.ended).code, 0);
    await database.drop();
  });
});

describe('settings that cannot be used', { concurrency: 2 }, () => {
  test('each of them is named in one message, and no password is shown', async () => {
    const env = {
      DATABASE_URL: 'mysql://ada:hunter2@localhost/db',
      PORT: '70000',
      ACCESS: 'nobody',
      USER_MODEL: 'User',
      SCHEMA: 'drop',
      MAX_BODY: '-1',
      LOG_LEVEL: 'loud',
      CORS_ORIGINS: 'example.org',
      TRUST_PROXY: 'yes',
    };
    const { code, stdout, stderr } = await run(['serve'], { env });
    assert.deepEqual([code, stdout], [1, '']);
    for (const name of Object.keys(env)) assert.match(stderr, new RegExp(`\\b${name}\\b`));
    assert.doesNotMatch(stderr, /hunter2/);
    assert.doesNotMatch(stderr, /^ +at /m);
  });

  const addresses = [
    'postgres://ada:hunter2@localhost:port/db',
    'postgres://ada:hunter2%@localhost/db',
    'postgres://ada%zz:hunter2@localhost/db',
    'ada:hunter2@localhost/db',
    'postgres://ada:hunter2@localhost/db?sslmode=bogus',
    'postgres://ada:hunter2@localhost/db?sslmode=',
    'postgres://ada:abc@hunter2/x@localhost/db',
    'postgres://ada:a/hunter2@localhost/db',
    'postgres://ada:hunter2@one,two/db',
    'postgres://ada:hunter2@one:5432,two:port/db?target_session_attrs=read-write',
  ];
  for (const address of addresses) {
    test(`DATABASE_URL=${address} is named and not shown`, async () => {
      const { code, stdout, stderr } = await run(['check'], { env: { DATABASE_URL: address } });
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, /DATABASE_URL/);
      assert.doesNotMatch(stderr, /hunter2/);
      assert.doesNotMatch(stderr, /^ +at /m);
    });
  }

  test('an empty variable counts as absent', async () => {
    const { code, stderr } = await run(['check'], { env: { PORT: '', ACCESS: '', DATABASE_URL: 'x' } });
    assert.equal(code, 1);
    assert.doesNotMatch(stderr, /PORT|ACCESS/);
  });
});

describe('a server that offers no TLS', { concurrency: 3 }, () => {
  /** What PostgreSQL does: it says no, and takes whatever else than a login comes then for garbage. */
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write('N');
      socket.once('data', () => socket.destroy());
    });
  });
  before(() => once(server.listen(0, '127.0.0.1'), 'listening'));
  after(() => server.close());

  for (const words of [['serve'], ['check'], ['user', 'list']]) {
    test(`is not waited for where the address asks for TLS: vitrine ${words.join(' ')}`, async () => {
      const { port } = server.address() as AddressInfo;
      for (const mode of ['require', 'verify-full']) {
        const DATABASE_URL = `postgres://ada:hunter2@127.0.0.1:${port}/db?sslmode=${mode}`;
        const { code, stderr } = await runProcess(words, { env: { DATABASE_URL, PORT: '0' } });
        const reason = 'the server does not support TLS. Check sslmode in DATABASE_URL';
        const lines = stderr.split('\n').filter((line) => !line.includes('RESOURCES is not set'));
        assert.deepEqual([code, lines], [1, [`vitrine: The database cannot be used: ${reason}`, '']]);
      }
    });
  }
});

describe('a server that is named by a number', { concurrency: 2 }, () => {
  for (const [whose, expected] of Object.entries({ number: /: got through/, name: /altnames/ })) {
    test(`has to have the certificate of that number: it has one of its ${whose}`, async () => {
      const file = join(REPOSITORY, `test/process/tls/${whose}.pem`);
      const { port, close } = await startTlsRefusal(readFileSync(file));
      for (const mode of ['verify-full', 'verify-ca']) {
        const DATABASE_URL = `postgres://ada:hunter2@127.0.0.1:${port}/db?sslmode=${mode}`;
        const { code, stderr } = await runProcess(['check'], {
          env: { DATABASE_URL, NODE_EXTRA_CA_CERTS: file },
        });
        assert.equal(code, 1);
        assert.match(stderr, expected);
        const unknown = await runProcess(['check'], { env: { DATABASE_URL } });
        assert.match(unknown.stderr, /Set \?sslrootcert= in DATABASE_URL/);
      }
      close();
    });
  }
});

test('an address that would rather have no TLS, or does not mind, gets what there is', async () => {
  const database = await createDatabase();
  for (const mode of ['disable', 'allow', 'prefer']) {
    const env = { DATABASE_URL: `${database.url}?sslmode=${mode}` };
    const { code, stderr } = await run(['schema', '--diff'], { env });
    assert.deepEqual([code, stderr], [0, SAMPLES], mode);
  }
  await database.drop();
});

test('vitrine check does not wait for a database that is not there, unlike the service', async () => {
  const { code, stdout, stderr } = await run(['check'], {
    env: { DATABASE_URL: 'postgres://127.0.0.1:1/none' },
  });
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^vitrine: The database cannot be used: .*ECONNREFUSED.*\. Check DATABASE_URL$/m);
});

describe('a checkout', { concurrency: 2 }, () => {
  test('npx vitrine runs in a checkout', async () => {
    const env = { HOME: await temporaryFolder(), npm_config_update_notifier: 'false' }; // npx keeps notes at home
    const { code, stdout } = await runProcess(['vitrine', '--help'], {
      command: 'npx',
      cwd: REPOSITORY,
      env,
    });
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: vitrine/);
  });

  test('npm start passes words on to the service', async () => {
    const words = ['start', '--silent', '--', '--help'];
    const { code, stdout } = await runProcess(words, { command: 'npm', cwd: REPOSITORY });
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: vitrine/m);
  });
});

test('a checkout where nothing is installed says what to do', async () => {
  const folder = await temporaryFolder();
  for (const name of ['bin', 'src', 'package.json'])
    await cp(join(REPOSITORY, name), join(folder, name), { recursive: true });
  const options = { command: process.execPath, cwd: folder };
  for (const words of [['--version'], ['check'], ['serve']]) {
    const { code, stdout, stderr } = await runProcess(['bin/vitrine.js', ...words], options);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^vitrine: The installation is incomplete: run npm ci first\. \(.+\)\n$/);
  }
  const env = { NODE_ENV: 'production' };
  const { code, stderr } = await runProcess(['bin/vitrine.js', 'check'], { ...options, env });
  assert.equal(code, 1);
  assert.match(stderr, /run npm ci and npm run build first/);
});

/** `script` of util-linux, which runs a command on a terminal. */
const hasScript = /util-linux/.test(String(spawnSync('script', ['--version']).stdout ?? ''));

describe('user add on a terminal', { concurrency: 8 }, () => {
  const database = useDatabase('', async () => {
    await (await serve({ env: { DATABASE_URL: database.url } })).stop(); // creates the tables
  });

  /** Runs a command on a terminal, and types answers to its questions. Gives the exit code and the visible text. */
  async function runOnTerminal(
    words: readonly string[],
    answers: readonly [question: RegExp, answer: string][],
  ) {
    const command = [process.execPath, EXECUTABLE, ...words].map((word) => `'${word}'`).join(' ');
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      cwd: await temporaryFolder(),
      env: {
        PATH: process.env['PATH'],
        HOME: process.env['HOME'],
        DATABASE_URL: database.url,
        LOG_LEVEL: 'error',
      },
    });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text));
    const ended = once(child, 'close');
    for (const [question, answer] of answers) {
      await until(`the question ${question.source}`, () => question.test(shown));
      child.stdin.write(`${answer}\r`);
    }
    const [code] = (await ended) as [number];
    child.stdin.destroy();
    return { code, shown };
  }

  const stored = async (username: string): Promise<string | undefined> => {
    const [row] = await database.sql`select password from "user" where username = ${username}`;
    return row && String(row['password']);
  };

  test('asks twice for the password, and does not show it', { skip: !hasScript }, async () => {
    const { code, shown } = await runOnTerminal(
      ['user', 'add', 'eve'],
      [
        [/Password: /, 'open, sesame'],
        [/Repeat password: /, 'open, sesame'],
      ],
    );
    assert.equal(code, 0, shown);
    assert.doesNotMatch(shown, /sesame/);
    assert.ok(await verify((await stored('eve')) ?? '', 'open, sesame'));
  });

  test('adds no user if the two passwords differ', { skip: !hasScript }, async () => {
    const { code, shown } = await runOnTerminal(
      ['user', 'add', 'zoe'],
      [
        [/Password: /, 'one password'],
        [/Repeat password: /, 'another'],
      ],
    );
    assert.equal(code, 1, shown);
    assert.match(shown, /do not match/);
    assert.equal(await stored('zoe'), undefined);
  });
});
