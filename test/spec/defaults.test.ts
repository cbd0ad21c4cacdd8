import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readSettings } from '../../src/config.ts';
import { StartError, type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type Answer } from '../support.ts';
import { assertProblem } from '../http/expect.ts';

/** Values of each setting up to its bounds, and past them. */
const BOUNDS: readonly [variable: string, taken: string[], refused: string[]][] = [
  ['DATABASE_URL', ['postgres://h/d', 'postgresql://u:p@h:5432/d'], ['mysql://h/d', 'h/d', 'postgres']],
  ['PORT', ['0', '65535'], ['65536', '-1', '8e3', ' 80', '0x50']],
  ['ACCESS', ['default', 'user', 'admin'], ['none', 'User']],
  ['USER_MODEL', ['user', 'person_2'], ['User', '2nd', 'a-b']],
  ['SCHEMA', ['apply', 'check'], ['none', 'APPLY']],
  ['MAX_BODY', ['1', '134217728'], ['0', '134217729', '1.5', '1MB']],
  ['MAX_PAGE', ['1', '268435456'], ['0', '268435457', '1.5', '1MB']],
  ['LOG_LEVEL', ['info', 'warn', 'error'], ['debug', 'Info']],
  ['LOG_FORMAT', ['json', 'text'], ['xml']],
  [
    'CORS_ORIGINS',
    ['https://a.example', 'http://a.example:81,https://b.example'],
    ['*', 'null', 'a.example', 'https://a.example/', 'https://a.example/x', 'https://a.example,'],
  ],
  ['TRUST_PROXY', ['0', '100'], ['101', '-1', 'yes']],
];

describe('the settings of the environment', () => {
  for (const [variable, taken, refused] of BOUNDS) {
    test(`${variable} is taken up to its bounds, and past them named in the message`, () => {
      for (const value of taken) readSettings({ [variable]: value });
      for (const value of refused)
        assert.throws(
          () => readSettings({ [variable]: value }),
          (error) => error instanceof StartError && error.message.includes(`- ${variable} `),
          value,
        );
    });
  }
});

describe('what holds when nothing else is said', () => {
  test('an empty environment gives every setting the default of its page', () => {
    assert.deepEqual(readSettings({}), {
      databaseUrl: undefined,
      resources: undefined,
      host: '127.0.0.1',
      port: 8000,
      access: 'default',
      userModel: 'user',
      schema: 'apply',
      maxBody: 1024 * 1024,
      slowTimeout: 3,
      maxPage: 32 * 1024 * 1024,
      logLevel: 'info',
      logFormat: undefined,
      corsOrigins: [],
      trustProxy: 0,
      metrics: 'loopback',
      minPassword: 12,
    });
  });

  test('each setting of the environment is read, the origins from a list with commas', () => {
    const databaseUrl = 'postgres://ada@localhost/books';
    assert.deepEqual(
      readSettings({
        DATABASE_URL: databaseUrl,
        RESOURCES: 'books.ts',
        HOST: '::1',
        PORT: '0',
        ACCESS: 'admin',
        USER_MODEL: 'person',
        SCHEMA: 'check',
        MAX_BODY: '5',
        MAX_PAGE: '6',
        LOG_LEVEL: 'warn',
        LOG_FORMAT: 'text',
        CORS_ORIGINS: 'https://a.example, http://b.example:81',
        TRUST_PROXY: '2',
        METRICS: '[::1]:9464',
        MIN_PASSWORD: '8',
      }),
      {
        databaseUrl,
        resources: 'books.ts',
        host: '::1',
        port: 0,
        access: 'admin',
        userModel: 'person',
        schema: 'check',
        maxBody: 5,
        slowTimeout: 3,
        maxPage: 6,
        logLevel: 'warn',
        logFormat: 'text',
        corsOrigins: ['https://a.example', 'http://b.example:81'],
        trustProxy: 2,
        metrics: '[::1]:9464',
        minPassword: 8,
      },
    );
  });

  test('a body of 1 MiB is taken, one byte more is 413', async () => {
    const service = await startService();
    try {
      await service.addUser('bob');
      const send = (bytes: number): Promise<Answer> => {
        const frame = JSON.stringify({ message: '' }).length;
        const body = { message: 'x'.repeat(bytes - frame) };
        return service.request('/api/note/', { method: 'POST', user: 'bob', body });
      };
      assert.equal((await send(1_048_576)).status, 201);
      assertProblem(await send(1_048_577), 413);
    } finally {
      await service.close();
    }
  });

  test('a maxLimit below 20 is the page size too', async () => {
    const few: Resource = { model: 'few', columns: {}, maxLimit: 5 };
    const service = await startService([few]);
    try {
      await service.sql`insert into few select from generate_series(1, 30)`;
      const { json } = await service.request('/api/few/');
      assert.equal(json.objects.length, 5);
      assert.equal(json.meta.next, '/api/few/?limit=5&page=2');
    } finally {
      await service.close();
    }
  });

  test('one column of password hashes that is shown is worth a warning, none is not', async () => {
    const account: Resource = { model: 'account', columns: { pin: { type: 'password' } } };
    const hidden: Resource = { ...account, model: 'hidden', exclude: ['pin'] };
    const service = await startService([user, account, hidden]);
    await service.close(); // the lines are written now
    const warnings = service.lines.filter(({ level }) => level === 'warn').map(({ message }) => message);
    assert.equal(warnings.length, 1);
    assert.match(String(warnings[0]), /\baccount\b.*\bpin\b/);
  });

  test('at the level warn only warnings and errors are written', async () => {
    const account: Resource = { model: 'account', columns: { pin: { type: 'password' } } };
    const service = await startService([account], { logLevel: 'warn' });
    await service.request('/api/account/');
    await service.sql`drop table account`;
    assert.equal((await service.request('/api/account/')).status, 500);
    await service.close(); // the lines are written now
    assert.deepEqual(
      service.lines.map(({ level }) => level),
      ['warn', 'error'],
    );
  });
});
