// Streams of records with long values, after small ones.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { logIn } from '../admin/support.ts';
import { openDatabase } from '../../src/db/connection/database.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import { parseListQuery } from '../../src/query/parse/grammar.ts';
import { planList, ROOT } from '../../src/query/plan.ts';
import { streamStatement } from '../../src/query/read.ts';
import { recordJson } from '../../src/query/statements/record-json.ts';
import { openExport } from '../../src/resources/records/record-export.ts';
import { ADMIN } from '../../src/resources/access/access.ts';
import { createViews } from '../../src/resources/access/resource-view.ts';
import { useService, type TestService } from '../support.ts';
import { jsonLinesOf } from './expect.ts';
import { describe, test } from 'node:test';

const PAPER = { model: 'paper', columns: { body: { type: 'text' } } } as const satisfies Resource;
const SMALL = 120;
/** Bytes of a long value: not a multiple of the size of a part, and no character begins where a part ends. */
const TEXT = `x${'Ö🦉'.repeat(50_000)}"`;
/** Prefixes that move the characters by one byte each, so that parts end at each of the four bytes of a character. */
const PREFIXES = ['', 'a', 'ab', 'abc'];

describe('a stream with long records behind small ones', () => {
  const service: TestService = useService([user, PAPER], {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.sql`insert into paper (body) select 'small' from generate_series(1, ${SMALL}::int)`;
    await service.sql`insert into paper (body) select ${TEXT} from generate_series(1, 40)`;
    for (const prefix of PREFIXES)
      for (const character of ['🦉', '한', 'ж'])
        await service.sql`insert into paper (body) values (${prefix + character.repeat(20_000)})`;
    for (const bytes of [16_383, 16_384, 16_385, 32_768])
      await service.sql`insert into paper (body) values (${'y'.repeat(bytes - `{"id":173,"body":""}\n`.length)})`;
  });

  test('has each of them whole, in NDJSON, CSV and exports of the admin area', async () => {
    const expected = (await service.request('/api/paper/?limit=1000')).json.objects;
    const lines = await service.request('/api/paper/', { headers: { accept: 'application/x-ndjson' } });
    assert.deepEqual(jsonLinesOf(lines.text), expected);
    const csv = await service.request('/api/paper/', {
      headers: { accept: 'text/csv', prefer: 'paging=none' },
    });
    const page = await service.request('/api/paper/?limit=1000', { headers: { accept: 'text/csv' } });
    assert.equal(csv.text, page.text);
    const ada = await logIn(service, 'ada');
    assert.deepEqual(JSON.parse((await ada.get('/admin/paper/-/export.json?ordering=id')).text), expected);
  });

  test('has each of them whole, whatever `bytea_output` is in the database', async () => {
    const expected = (await service.request('/api/paper/?limit=1000')).json.objects;
    const { pathname } = new URL(service.url);
    for (const form of ['escape', 'hex']) {
      await service.sql.unsafe(`alter database ${pathname.slice(1)} set bytea_output = '${form}'`);
      const lines = await service.request('/api/paper/', { headers: { accept: 'application/x-ndjson' } });
      assert.deepEqual(jsonLinesOf(lines.text), expected, form);
    }
  });

  test('is read from PostgreSQL in batches of at most 2 MB, however many small records came before', async () => {
    const served = createViews([PAPER], buildModels([PAPER]), { access: 'default', userModel: 'user' })(
      ADMIN,
    );
    const paper = served.get('paper');
    assert.ok(paper);
    const plan = planList(parseListQuery('', paper, {}), paper.model, paper.visibility, [], {});
    const statement = streamStatement(plan, recordJson(ROOT, paper.formatted));
    const database = openDatabase(service.url);
    const batches: number[] = [];
    let sent = 0;
    const measured: typeof statement = {
      ...statement,
      decode: (rows) => {
        batches.push(rows.flat().reduce((sum, cell) => sum + (cell?.length ?? 0), 0));
        return statement.decode(rows);
      },
    };
    try {
      const frame = { start: '', between: '', end: '' };
      for await (const { length } of await openExport(database, measured, frame)) sent += length;
    } finally {
      await database.close();
    }
    assert.ok(batches.length > 10);
    assert.ok(Math.max(...batches) < 2 * 1024 * 1024, batches.join());
    // The minimum rate of clients counts what PostgreSQL sends.
    const received = batches.reduce((sum, bytes) => sum + bytes, 0);
    assert.ok(received < 1.01 * sent, `${received} bytes for ${sent}`);
  });
});
