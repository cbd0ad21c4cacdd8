import assert from 'node:assert/strict';
import { createVitrine, StartError, type Vitrine } from '../src/index.ts';
import shipped from '../src/resources/registry.ts';
import { createDatabase, type TestDatabase } from './support.ts';
import { after, before, describe, test } from 'node:test';

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
