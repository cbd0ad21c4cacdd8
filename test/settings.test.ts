import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { readSettings, SETTINGS } from '../src/config.ts';
import { createVitrine, StartError, type Vitrine } from '../src/index.ts';
import { run } from './commands/support.ts';
import { REPOSITORY } from './paths.ts';
import { run as runProcess } from './process/support.ts';
import shipped from '../src/resources/registry.ts';
import { createDatabase, type TestDatabase } from './support.ts';

/** Valid values of each setting, up to its bounds, and invalid values. */
const BOUNDS: readonly [variable: string, valid: string[], invalid: string[]][] = [
  [
    'DATABASE_URL',
    [
      'postgres://h/d',
      'postgresql://u:p@h:5432/d',
      'postgres://u:a,b@h/d?target_session_attrs=primary',
      'postgres://u:p@h1:5432,[::1]:6432,h3/d?target_session_attrs=read-write',
      'postgres://h/d?application_name=web&search_path=books&options=-c%20work_mem%3D4MB',
      'postgres://h/d?prepare=false&jit=off',
      'postgres://h/a%20b%2Fc%40d',
      'postgres://h/d?target_session_attrs=any',
      'postgres://u:p@/d?host=/cloudsql/project:region:name',
      'postgres:///d?host=/run/postgresql&port=5433',
      'postgres://%2Frun%2Fpostgresql:5433/d',
      'postgres:///?host=h1,h2&port=1,2&dbname=d&user=u&password=p&target_session_attrs=primary',
      'postgres://h/d?sslmode=require&channel_binding=require&supa=base-pooler.x&gssencmode=disable',
      'postgres://h/d?keepalives=0&passfile=/nowhere&pgbouncer=true&connect_timeout=15',
      'postgres://h/d?sslmode=no-verify&ssl_min_protocol_version=TLSv1.2',
      'postgres://h/d?ssl=true',
    ],
    [
      'mysql://h/d',
      'h/d',
      'postgres',
      'postgres://h/a%00b',
      'postgres://u:12#cd@h/d',
      'postgres://u:12?cd@h/d',
      'postgres://u:12?a=cd&e@h/d',
      'postgres://h1,h2/d',
      'postgres://h1:5432,h2:port/d?target_session_attrs=read-write',
      'postgres://h1,/d?target_session_attrs=read-write',
      'postgres://h1,h2/d?target_session_attrs=standby',
      'postgres://h/d?target_session_attrs=',
      'postgres://h1,h2/d?target_session_attrs=any',
      'postgres://h/d?target_session_attrs=prefer-standby',
      'postgres://u:pa/ss@h/d',
      'postgres://h:0/d',
      'postgres://h:65536/d',
      'postgres://h/d?port=x',
      'postgres:///d?host=/a,/b&port=1,2,3&target_session_attrs=primary',
      'postgres://h/d?sslrootcert=/nowhere/root.crt',
      'postgres://h/d?sslmode=verify',
      'postgres://h/d?ssl=maybe',
      'postgres://h/d?ssl_min_protocol_version=TLSv2',
      'postgres://h/d?timezone=Europe/Berlin',
      'postgres://h/d?application_name=web&STATEMENT_TIMEOUT=0',
      'postgres://h/d?lock%5Ftimeout=0',
      'postgres://h/d?jit=on',
      'postgres://h/d?prepare=false&DateStyle=German',
      'postgres://h1,h2/d?target_session_attrs=read-write&client_encoding=LATIN1',
    ],
  ],
  [
    'DATABASE_READ_URL',
    ['postgres://h/d', 'postgres://h/d%2Ce', 'postgres://u:p,q@h/d, postgresql://i/d'],
    [
      'h/d',
      'postgres://h/d,',
      'postgres://h/d,mysql://i/d',
      'postgres://h/d,i',
      'postgres://h/d,,postgres://i/d',
      'postgres://h/d?prepare=false',
      'postgres://h/d?target_session_attrs=read-write',
      'postgres://h,i/d',
      'postgres://h,i/d?target_session_attrs=read-write',
      'postgres://h/d,postgres://i/d?TimeZone=UTC',
    ],
  ],
  ['MAX_LAG', ['1', '3600'], ['0', '3601', '1s']],
  ['PORT', ['0', '65535'], ['65536', '-1', '8e3', ' 80', '0x50']],
  ['ACCESS', ['default', 'user', 'admin'], ['none', 'User']],
  ['USER_MODEL', ['user', 'person_2'], ['User', '2nd', 'a-b']],
  ['SCHEMA', ['apply', 'check'], ['none', 'APPLY']],
  ['MAX_BODY', ['1', '134217728'], ['0', '134217729', '1.5', '1MB']],
  ['MAX_PAGE', ['1', '268435456'], ['0', '268435457', '1.5', '1MB']],
  ['LOG_LEVEL', ['debug', 'info', 'warn', 'error'], ['trace', 'Info']],
  ['LOG_FORMAT', ['json', 'text'], ['xml']],
  [
    'CORS_ORIGINS',
    [
      'https://a.example',
      'http://a.example:81,https://b.example',
      'https://*.a.example:81',
      'http://*.localhost:3000',
    ],
    [
      '*',
      'null',
      'a.example',
      'https://a.example/',
      'https://a.example/x',
      'https://a.example,',
      'ftp://a.example',
      'https://*',
      'https://*.org',
      'https://a*.example.org',
      'https://*a.example.org',
      'https://a.*.example.org',
      'https://*.*.example.org',
      'https://**.example.org',
      '*.example.org',
      'https://%2A.example.org',
    ],
  ],
  [
    'PUBLIC_URL',
    ['https://a.example', 'http://a.example:81, https://b.example'],
    [
      '*',
      'a.example',
      'https://a.example/',
      'https://a.example/x',
      'https://*.example.org',
      'ftp://a.example',
    ],
  ],
  ['DATETIME_FORMAT', ['plain', 'iso'], ['ISO', 'rfc']],
  ['TIME_ZONE', ['UTC', 'Europe/Zurich', 'America/Argentina/Ushuaia'], ['Mars/Olympus', '+02:00', 'CEST2']],
  ['BASE_PATH', ['/a', '/a/b-1_2.c~/', '/'], ['a', '//', '/a//b', '/..', '/a?b', '/ä']],
  ['TRUST_PROXY', ['0', '100'], ['101', '-1', 'yes']],
  ['WORKERS', ['1', '2', '64', 'auto'], ['0', '65', '-1', '1.5', 'all', 'Auto', '2 ']],
  [
    'RATE_LIMIT',
    ['off', '1', '50', '50,200', '50, 1', '1000000,4000000'],
    ['50 200', '5 0', '0', '50,0', '-1', '1.5', '50,', ',50', '50,2,3', '1000001', '1,4000001', 'on', '5/s'],
  ],
];

describe('settings from the environment', () => {
  for (const [variable, valid, invalid] of BOUNDS) {
    test(`${variable} is accepted up to its bounds, and an error names it for invalid values`, () => {
      for (const value of valid) readSettings({ [variable]: value });
      for (const value of invalid)
        assert.throws(
          () => readSettings({ [variable]: value }),
          (error) => error instanceof StartError && error.message.includes(`- ${variable} `),
          value,
        );
    });
  }

  const BOOKS = 'postgres://ada@localhost/books';
  const ORIGINS = ['https://a.example', 'http://b.example:81'];
  /** Each setting: its name in the program, its default, a value in the environment, and what is read. */
  const READ: Record<string, [name: string, fallback: unknown, value: string, read: unknown]> = {
    DATABASE_URL: ['databaseUrl', undefined, BOOKS, BOOKS],
    DATABASE_READ_URL: ['databaseReadUrl', [], `${BOOKS}, ${BOOKS}`, [BOOKS, BOOKS]],
    MAX_LAG: ['maxLag', 10, '20', 20],
    RESOURCES: ['resources', undefined, 'books.ts', 'books.ts'],
    HOST: ['host', '127.0.0.1', '::1', '::1'],
    PORT: ['port', 8000, '0', 0],
    ACCESS: ['access', 'default', 'admin', 'admin'],
    USER_MODEL: ['userModel', 'user', 'person', 'person'],
    SCHEMA: ['schema', 'apply', 'check', 'check'],
    MAX_BODY: ['maxBody', 1024 * 1024, '5', 5],
    SLOW_TIMEOUT: ['slowTimeout', 3, '4', 4],
    MAX_PAGE: ['maxPage', 32 * 1024 * 1024, '6', 6],
    DATETIME_FORMAT: ['datetimeFormat', 'plain', 'iso', 'iso'],
    TIME_ZONE: ['timeZone', 'UTC', 'Europe/Zurich', 'Europe/Zurich'],
    LOG_LEVEL: ['logLevel', 'info', 'warn', 'warn'],
    LOG_FORMAT: ['logFormat', undefined, 'text', 'text'],
    CORS_ORIGINS: ['corsOrigins', [], ORIGINS.join(', '), ORIGINS],
    PUBLIC_URL: ['publicUrl', [], ORIGINS.join(', '), ORIGINS],
    BASE_PATH: ['basePath', '', '/books', '/books'],
    TRUST_PROXY: ['trustProxy', 0, '2', 2],
    METRICS: ['metrics', 'off', '[::1]:9464', '[::1]:9464'],
    MIN_PASSWORD: ['minPassword', 12, '8', 8],
    HISTORY_KEY: ['historyKey', undefined, 'history.pem', 'history.pem'],
    HISTORY_WITNESS: ['historyWitness', undefined, '/mnt/witness', '/mnt/witness'],
    MFA: ['mfa', 'optional', 'required', 'required'],
    RATE_LIMIT: ['rateLimit', 'off', '50, 200', '50,200'],
    READ: ['read', 'default', 'user', 'user'],
    WORKERS: ['workers', 1, '3', 3],
  };

  test('each setting has its documented default, and is read from the environment', () => {
    const rows = Object.entries(READ);
    const defaults = rows.map(([, [name, fallback]]) => [name, fallback]);
    assert.deepEqual(readSettings({}), Object.fromEntries(defaults));
    const environment = rows.map(([variable, [, , value]]) => [variable, value]);
    const read = rows.map(([, [name, , , value]]) => [name, value]);
    assert.deepEqual(readSettings(Object.fromEntries(environment)), Object.fromEntries(read));
  });

  test('parameters of an address that the service sets are named together, and nothing else of the address', () => {
    const url = 'postgres://ada:hunter2@h/d?timezone=hunter2&Jit=on&application_name=web';
    const reason = 'must not set TimeZone, jit, because the service does';
    for (const [environment, prefix] of [
      [{ DATABASE_URL: url }, 'DATABASE_URL'],
      [{ DATABASE_READ_URL: url }, 'DATABASE_READ_URL'],
      [{ DATABASE_READ_URL: `postgres://h/d,${url}` }, 'DATABASE_READ_URL address 2:'],
    ] as const)
      assert.throws(
        () => readSettings(environment),
        (error) => error instanceof StartError && error.message.endsWith(`- ${prefix} ${reason}`),
      );
  });

  test('a replica whose address has any target_session_attrs is refused for that', () => {
    for (const target of ['any', 'read-write'])
      assert.throws(
        () => readSettings({ DATABASE_READ_URL: `postgres://h/d?target_session_attrs=${target}` }),
        /must not have target_session_attrs/,
      );
  });

  const { confinement } = createRequire(join(REPOSITORY, 'bin/'))('./confinement.cjs') as {
    confinement: (options?: { readonly cwd?: string }) => string[];
  };

  test('the confined service may read the registry that files with a byte order mark name', async (t) => {
    const cwd = await mkdtemp(join(tmpdir(), 'vitrine-settings-'));
    t.after(() => rm(cwd, { recursive: true }));
    await writeFile(join(cwd, 'name'), '\uFEFFregistry.mjs\n');
    for (const line of ['RESOURCES=registry.mjs', 'RESOURCES_FILE=name']) {
      await writeFile(join(cwd, '.env'), `\uFEFF${line}\n`);
      assert.ok(confinement({ cwd }).includes(`--allow-fs-read=${join(cwd, 'registry.mjs')}`), line);
    }
  });

  test('the confined service may read the key of the history, and write its witness', async (t) => {
    const cwd = await mkdtemp(join(tmpdir(), 'vitrine-settings-'));
    t.after(() => rm(cwd, { recursive: true }));
    await writeFile(join(cwd, '.env'), 'HISTORY_KEY=key.pem\nHISTORY_WITNESS=/mnt/witness\n');
    const flags = confinement({ cwd });
    for (const flag of [`read=${join(cwd, 'key.pem')}`, 'read=/mnt/witness', 'write=/mnt/witness'])
      assert.ok(flags.includes(`--allow-fs-${flag}`), flag);
  });

  test('the confined service may read the file of every setting', () => {
    for (const name of Object.keys(SETTINGS)) {
      const [variable, file] = [`${name}_FILE`, `/credentials/${name}`];
      process.env[variable] = file;
      try {
        assert.ok(confinement().includes(`--allow-fs-read=${file}`), name);
      } finally {
        delete process.env[variable];
      }
    }
  });

  test('a setting is read from the file that its variable with _FILE names, without a byte order mark and the last line break', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'vitrine-settings-'));
    t.after(() => rm(folder, { recursive: true }));
    const file = join(folder, 'port');
    for (const [text, port] of [
      ['81', 81],
      ['82\n', 82],
      ['83\r\n', 83],
      ['\uFEFF85\r\n', 85],
    ] as const) {
      await writeFile(file, text);
      assert.equal(readSettings({ PORT_FILE: file }).port, port);
    }
    assert.equal(readSettings({ PORT_FILE: '', PORT: '84' }).port, 84);
    await writeFile(file, 'x');
    for (const [environment, message] of [
      [{ PORT_FILE: file }, /- PORT_FILE must be a whole number/],
      [{ PORT_FILE: file, PORT: '80' }, /- PORT and PORT_FILE are both set/],
      [{ PORT_FILE: join(folder, 'none') }, /- PORT cannot be read from PORT_FILE: ENOENT/],
    ] as const)
      assert.throws(() => readSettings(environment), message);
    for (const text of ['', '\n', '\uFEFF']) {
      await writeFile(file, text);
      assert.throws(
        () => readSettings({ PORT_FILE: file }),
        /- PORT cannot be read from PORT_FILE: .* is empty/,
      );
    }
  });

  test('no error repeats a value from the file of a setting', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'vitrine-settings-'));
    const values = ['hunter2', 'hunter2.ts', 'hunter2:80', 'https://hunter2/', 'postgres://u:/hunter2@h/d'];
    const options = { cwd: folder, fromSource: true };
    t.after(() => rm(folder, { recursive: true }));
    const file = join(folder, 'secret');
    const env = { DATABASE_URL: 'postgres://127.0.0.1:1/x' };
    for (const value of values) {
      await writeFile(file, value);
      for (const name of Object.keys(SETTINGS).map((setting) => `${setting}_FILE`)) {
        const given = name === 'DATABASE_URL_FILE' ? { [name]: file } : { ...env, [name]: file };
        const words = value === 'hunter2' ? ['check', '--json'] : ['check'];
        const { code, stdout, stderr } = await run(words, { env: given });
        assert.equal(code, 1, `${name} ${value}`);
        assert.doesNotMatch(stdout + stderr, /hunter2/, `${name} ${value}`);
      }
    }
    for (const [name, value] of [
      ['HOST_FILE', 'hunter2.invalid'],
      ['METRICS_FILE', 'hunter2.invalid:80'],
    ] as const) {
      await writeFile(file, value);
      const { code, stderr } = await runProcess(['serve'], {
        ...options,
        env: { ...env, PORT: '0', [name]: file },
      });
      assert.equal(code, 1, stderr);
      assert.match(stderr, new RegExp(`Cannot listen on .*\\[${name}\\]`));
      assert.doesNotMatch(stderr, /hunter2/);
    }
  });

  test('a secret that is given in the place of a file, or is no valid value, is in no error, which names the setting', async () => {
    const pem = '-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n';
    const url = 'postgres://ada:hunter2@127.0.0.1:1/x';
    for (const [name, value, said] of [
      ['HISTORY_KEY', 'hunter2', /HISTORY_KEY must be a file with an Ed25519 key in PEM: ENOENT/],
      ['HISTORY_KEY', pem, /HISTORY_KEY must be a file with an Ed25519 key in PEM/],
      ['HISTORY_KEY', `${'hunter2'.repeat(1000)}`, /HISTORY_KEY must be .*: ENAMETOOLONG/],
      ['HISTORY_KEY_FILE', pem, /HISTORY_KEY cannot be read from HISTORY_KEY_FILE: ENOENT/],
      ['DATABASE_URL_FILE', url, /DATABASE_URL cannot be read from DATABASE_URL_FILE: ENOENT/],
      ['DATABASE_READ_URL_FILE', url, /DATABASE_READ_URL cannot be read from DATABASE_READ_URL_FILE: /],
      ['DATABASE_URL', 'postgres://ada:hun/ter2@h/d', /DATABASE_URL must be a URL/],
      ['DATABASE_URL', 'postgres://ada:hun?ter2@h/d', /DATABASE_URL must be a URL/],
      ['DATABASE_URL', 'mysql://ada:hunter2@h/d', /DATABASE_URL must be a URL/],
      ['DATABASE_URL', `${url}?sslmode=hunter2`, /DATABASE_URL has an unknown sslmode/],
      ['DATABASE_URL', `${url}?sslkey=/hunter2`, /DATABASE_URL has an sslkey that cannot be read/],
      ['DATABASE_URL', url, /127\.0\.0\.1/],
      ['DATABASE_READ_URL', 'postgres://ada:hunter2@h,i/d', /DATABASE_READ_URL must name one server/],
    ] as const)
      for (const words of [['check'], ['check', '--json']]) {
        const env = { DATABASE_URL: 'postgres://127.0.0.1:1/x', [name]: value };
        const given = name === 'DATABASE_URL_FILE' ? { [name]: value } : env;
        const { code, stdout, stderr } = await run(words, { env: given });
        assert.equal(code, 1, `${name}=${value}`);
        assert.match(stdout + stderr, said);
        assert.doesNotMatch(stdout + stderr, /hunter2|ter2/, `${name}=${value}`);
      }
  });

  test('names in .env that are nearly settings are warnings with the setting that is meant', async (t) => {
    const cwd = await mkdtemp(join(tmpdir(), 'vitrine-settings-'));
    const meant = {
      DATABSE_URL: 'DATABASE_URL',
      DATABASE_ULR: 'DATABASE_URL',
      DATABASE_URL_FIEL: 'DATABASE_URL_FILE',
      CORS_ORIGIN: 'CORS_ORIGINS',
      LOGLEVEL: 'LOG_LEVEL',
      PROT: 'PORT',
      POT_FILE: 'PORT_FILE',
      Worker: 'WORKERS',
    };
    const others = [
      'PGHOST',
      'PGPORT',
      'NODE_ENV',
      'DATABASE_HOST',
      'LOG_FILE',
      'CERT_FILE',
      'API_URL',
      'CONFINE_READ',
      'HOME',
    ];
    t.after(() => rm(cwd, { recursive: true }));
    const names = [...Object.keys(meant), ...others];
    await writeFile(
      join(cwd, '.env'),
      `${names.map((name) => `${name}=`).join('\n')}\nMAX_LAG=5\nMAX_LAG_FILE=\n`,
    );
    const { stderr } = await runProcess(['--version'], { cwd, fromSource: true });
    assert.deepEqual(
      stderr.trim().split('\n').toSorted(),
      Object.entries(meant)
        .map(
          ([name, setting]) =>
            `vitrine: .env: ${name} is not a setting and is ignored; did you mean ${setting}?`,
        )
        .toSorted(),
    );
  });
});

describe('the options of createVitrine', () => {
  let database: TestDatabase;
  before(async () => (database = await createDatabase()));
  after(() => database.drop());

  const start = (options: object): Promise<unknown> =>
    createVitrine({ databaseUrl: database.url, resources: shipped, ...options });

  for (const options of [
    { corsOrigins: ['null'] },
    { corsOrigins: ['*'] },
    { schema: 'nothing' },
    { maxBody: -1 },
    { logLevel: 'loud' },
    { port: 70_000 },
    { trustProxy: 1.5 },
    { databaseUrl: 'nonsense' },
    { databaseUrl: undefined },
    { databaseURL: 'postgres://localhost/x' },
    { settings: {} },
    { workers: 2 },
    { log: 'x' },
    { host: {} },
    { host: 5 },
    { host: null },
    { port: true },
    { port: [8000] },
    { maxBody: Object.create(null) as object },
    { metrics: { toString: () => assert.fail('called') } },
    { corsOrigins: [5] },
  ]) {
    test(`an error names ${JSON.stringify(options)}`, async () => {
      const [key = ''] = Object.keys(options);
      await assert.rejects(
        start(options),
        (error) => error instanceof StartError && error.message.includes(key),
      );
    });
  }

  test('all invalid options are reported at once', async () => {
    const wrong = {
      schema: 'x',
      access: 'y',
      log: 5,
      host: true,
      databaseUrl: undefined,
      resources: 'x',
      colour: 'red',
    };
    await assert.rejects(start(wrong), (error) => {
      const named = (error as Error).message.split('\n').slice(1);
      assert.deepEqual(named.map((line) => line.trim().split(' ')[1]).sort(), Object.keys(wrong).sort());
      return error instanceof StartError;
    });
  });

  test('missing options are a StartError', async () => {
    for (const options of [undefined, null, 'x', {}])
      await assert.rejects(createVitrine(options as never), (error) => error instanceof StartError);
  });

  test('a closed service does not start again', async () => {
    const vitrine = (await start({ port: 0, log: () => undefined })) as Vitrine;
    await vitrine.close();
    await assert.rejects(vitrine.start(), StartError);
  });

  test('when the log cannot be written, lines go to standard error and requests are answered', async (context) => {
    const lines: string[] = [];
    context.mock.method(process.stderr, 'write', (text: string) => lines.push(text) > 0);
    const fails = (): never => {
      throw new Error('disk full');
    };
    for (const log of [fails, async () => Promise.reject(new Error('net down'))]) {
      lines.length = 0;
      const vitrine = (await start({ port: 0, log })) as Vitrine;
      const { url } = await vitrine.start();
      for (const path of ['/api/note/', '/api/nothing/'])
        assert.ok((await fetch(`${url}${path}`)).status < 500, path);
      await vitrine.close();
      await new Promise((resolve) => setImmediate(resolve));
      assert.match(lines.join(''), /"path":"\/api\/note\/"/);
    }
  });

  test('an undefined option has its default', async () => {
    const options = {
      host: undefined,
      corsOrigins: undefined,
      access: undefined,
      maxBody: undefined,
      port: 0,
    };
    const vitrine = (await start(options)) as Vitrine;
    const { url } = await vitrine.start();
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
    const response = await fetch(`${url}/api/note/`, { headers: { origin: 'https://example.org' } });
    assert.equal(response.status, 200);
    await vitrine.close();
  });
});
