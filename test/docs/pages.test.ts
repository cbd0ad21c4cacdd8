import assert from 'node:assert/strict';
import { DEFAULTS } from '../../src/config.ts';
import { createLogger } from '../../src/http/observability/logger.ts';
import { createHttpServer, listen, type RunningServer } from '../../src/http/server/http-server.ts';
import shipped from '../../src/resources/registry.ts';
import { loadSamples } from '../../src/commands/samples.ts';
import { createService, type Service } from '../../src/service.ts';
import { createDatabase, type TestDatabase } from '../support.ts';
import { allPages, curlExamples, readPage, testExamples, type Site } from './pages.ts';
import { after, before, describe, test } from 'node:test';

const PASSWORD = 'the password that was printed';

/** The service as `npm start` leaves it at the first start, for each page anew. */
for (const page of allPages().filter((name) => name.startsWith('docs/') && curlExamples(name).length > 0)) {
  describe(`${page}, on the sample records`, () => {
    let database: TestDatabase;
    let service: Service;
    let server: RunningServer;
    let site: Site;

    before(async () => {
      database = await createDatabase();
      const logger = createLogger('error');
      const settings = { ...DEFAULTS, databaseUrl: database.url };
      service = createService(settings, { resources: shipped }, database.url, logger);
      const { resources, operations, users } = await service.prepare();
      assert.ok(users);
      await users.add('admin', PASSWORD, true);
      await loadSamples(resources, operations, users);
      server = await listen(createHttpServer(service.handler), settings.host, 0);
      site = { base: server.url, password: `'${PASSWORD}'` };
    });
    after(async () => {
      await server.close();
      await service.close();
      await database.drop();
    });

    testExamples(page, () => site);
  });
}

test('the sample records are there also where READ lets only admins read', async (t) => {
  const database = await createDatabase();
  const settings = { ...DEFAULTS, databaseUrl: database.url, read: 'admin' } as const;
  const service = createService(settings, { resources: shipped }, database.url, createLogger('error'));
  t.after(async () => {
    await service.close();
    await database.drop();
  });
  const { resources, operations, users } = await service.prepare();
  assert.ok(users);
  await loadSamples(resources, operations, users);
  const [count] = await database.sql`select count(*)::int as relationships from relationship`;
  assert.equal(count?.['relationships'], 3);
});

test('the pages show what they tell: each has its examples', () => {
  for (const page of ['README.md', 'docs/reading.md', 'docs/writing.md', 'docs/access.md']) {
    assert.ok(curlExamples(page).length >= 3, page);
  }
});

test('no page has conflict markers of a merge', () => {
  for (const page of allPages()) assert.doesNotMatch(readPage(page), /^(<{7}|={7}|>{7})( |$)/m, page);
});
