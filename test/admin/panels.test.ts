import assert from 'node:assert/strict';
import type { Panel, Resource } from '../../src/index.ts';
import shipped, { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { type Browser, hiddenFields, logIn } from './support.ts';
import { eventually } from '../http/expect.ts';
import { after, before, describe, test } from 'node:test';

const HOSTILE = `<script>alert('"&')</script>`;
const ESCAPED = '&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;';
const SECRET = 'relation "secret_table" is not for you';

/** The panels of a page: the markup below the heading, by title. */
function panelsOf(page: string): Map<string, string> {
  const sections = page.matchAll(/<section class="panel"[^>]*>\s*<h2[^>]*>([^]*?)<\/h2>([^]*?)<\/section>/g);
  const squeeze = (text: string): string => text.replace(/\s+/g, ' ').replace(/ >/g, '>').trim();
  return new Map([...sections].map(([, title = '', body = '']) => [title, squeeze(body)]));
}

const panel = (title: string, load: Panel['load']): Panel => ({ title, load });

describe('a panel of the start page', () => {
  let service: TestService;
  let browser: Browser;
  let content: unknown;
  let statement: Parameters<Parameters<Panel['load']>[0]['query']> = ['select 1'];
  let rows: unknown;

  before(async () => {
    service = await startService(shipped, {
      panels: [
        { title: 'Any', text: `Whatever ${HOSTILE}`, load: () => Promise.resolve(content as number) },
        panel(HOSTILE, () => Promise.resolve(1)),
        panel('Querying', async ({ query }) => {
          rows = undefined;
          rows = await query(...statement);
          return 'queried';
        }),
      ],
    });
    await service.addUser('ada', { admin: true });
    browser = await logIn(service, 'ada');
  });
  after(() => service.close());

  async function show(value: unknown): Promise<string> {
    content = value;
    const { status, text } = await browser.get('/admin/');
    assert.equal(status, 200);
    return panelsOf(text).get('Any') ?? '';
  }

  /** Runs a statement in a panel. @returns the markup of the panel */
  async function runStatement(...parameters: typeof statement): Promise<string> {
    statement = parameters;
    const { status, text } = await browser.get('/admin/');
    assert.equal(status, 200);
    return panelsOf(text).get('Querying') ?? '';
  }

  /** The last log line about a panel. */
  const lastLine = (): Record<string, unknown> | undefined =>
    service.lines.findLast(({ panel: title }) => title !== undefined);

  const shown: [string, unknown, string[]][] = [
    ['a number', 1234567.5, ['<p class="figure">1,234,567.5</p>']],
    ['negative zero as 0', -0, ['<p class="figure">0</p>']],
    ['a short text as a figure', '98 %', ['<p class="figure">98 %</p>']],
    ['a long text as a paragraph', 'All is well with every one of them.', ['<p>All is well with every one of them.</p>']],
    ['a hostile text', HOSTILE, [`<p>${ESCAPED}</p>`]],
    [
      'a table',
      { columns: ['Name', 'Sum'], rows: [['Ada', 1200], ['Bob', null]] }, // prettier-ignore
      [
        '<th scope="col" class="number">Sum</th>',
        '<th scope="row" data-label="Name">Ada</th>',
        '<td class="number" data-label="Sum">1,200</td>',
        'title="no value"',
      ],
    ],
    ['numbers as text in a table', { columns: ['Sum'], rows: [['12.50'], [null]] }, ['class="number" data-label="Sum">12.50']],
    ['true and false in a table', { columns: ['A', 'B'], rows: [[true, false]] }, ['>Yes<', '>No<']],
    [
      'a hostile table',
      { columns: [HOSTILE], rows: [[HOSTILE]] },
      [`<th scope="col">${ESCAPED}</th>`, `data-label="${ESCAPED}">${ESCAPED}</th>`],
    ],
    ['a table without rows', { columns: ['Name'], rows: [] }, ['<p class="empty">']],
    ['a series without points', { series: [] }, ['<p class="empty">']],
    [
      'a series as bars',
      { series: [{ label: '2025', value: 10 }, { label: '2026', value: 20.5 }], unit: 'EUR' }, // prettier-ignore
      [
        '<title id="panel-1-name">Any</title>',
        'Bar chart of 2 values. Lowest: 2025, 10 EUR. Highest: 2026, 20.5 EUR.',
        '<title>2026: 20.5 EUR</title>',
        '<td class="number" data-label="Value (EUR)">20.5</td>',
        'Value (EUR)',
      ],
    ],
    [
      'a series as a line',
      { series: [{ label: 'a', value: 3 }, { label: 'b', value: 3 }], kind: 'line' }, // prettier-ignore
      ['<polyline class="line"', 'Line chart of 2 values, all 3.'],
    ],
    [
      'a hostile series',
      { series: [{ label: HOSTILE, value: 1 }], unit: HOSTILE },
      [`<title>${ESCAPED}: 1 ${ESCAPED}</title>`, `Value (${ESCAPED})`],
    ],
  ]; // prettier-ignore
  for (const [content, value, parts] of shown) {
    test(`shows ${content}`, async () => {
      const body = await show(value);
      for (const part of parts) assert.ok(body.includes(part), `${part} in ${body}`);
      assert.ok(!body.includes('<script'), body);
    });
  }

  test('has an escaped title and text', async () => {
    const { text } = await browser.get('/admin/');
    assert.ok(panelsOf(text).has(ESCAPED));
    assert.ok(text.includes(`<p class="hint">Whatever ${ESCAPED}</p>`));
    assert.ok(!text.includes('<script>'));
  });

  const point = { label: 'a', value: 1 };
  const wrong: [string, unknown, RegExp][] = [
    ['nothing', undefined, /a panel must return/],
    ['null', null, /a panel must return/],
    ['true', true, /a panel must return/],
    ['an array', [1], /a panel must return/],
    ['an empty object', {}, /a panel must return/],
    ['both a table and a series', { columns: ['a'], rows: [], series: [] }, /a panel must return/],
    ['NaN', Number.NaN, /NaN is not a finite number/],
    ['an infinite number', -Infinity, /-Infinity is not/],
    ['a table without columns', { columns: [], rows: [] }, /^columns/],
    ['a table with a column that is not a string', { columns: ['a', 1], rows: [] }, /^columns/],
    ['a table with rows that are not an array', { columns: ['a'], rows: 'x' }, /^rows must/],
    ['a row that is too short', { columns: ['a', 'b'], rows: [['x']] }, /^rows\[0\] must be an array/],
    ['a row with an object in it', { columns: ['a'], rows: [['x'], [{}]] }, /^rows\[1\] must have only/],
    ['a row with a hole in it', { columns: ['a'], rows: [new Array(1)] }, /^rows\[0\] must have only/],
    ['a row with an infinite number', { columns: ['a'], rows: [[Infinity]] }, /^rows\[0\] must have only/],
    ['too many rows', { columns: ['a'], rows: Array(101).fill(['x']) }, /^101 rows: at most 100/],
    ['an unknown key of a table', { columns: ['a'], rows: [], order: 'a' }, /^order: there is no such key/],
    ['a series that is not an array', { series: {} }, /^series must/],
    ['too many points', { series: Array(101).fill(point) }, /^101 points: at most 100/],
    ['a point without a label', { series: [{ value: 1 }] }, /^series\[0\] must have/],
    ['a value that is a string', { series: [point, { label: 'b', value: '1' }] }, /^series\[1\] must have/],
    ['a hole in a series', { series: new Array(1) }, /^series\[0\] must have/],
    ['an unknown key of a point', { series: [{ ...point, colour: 'red' }] }, /^colour: there is no such key/],
    ['an unknown kind', { series: [point], kind: 'pie' }, /^kind must be/],
    ['a unit that is not a string', { series: [point], unit: 5 }, /^unit must be/],
    ['an unknown key of a series', { series: [point], title: 'x' }, /^title: there is no such key/],
  ];
  for (const [content, value, error] of wrong) {
    test(`that returns ${content} shows a notice, and the log has the error`, async () => {
      const body = await show(value);
      assert.equal(body.replace(/<p class="hint">[^]*?<\/p>/, '').trim(), '<p class="nothing">This panel returned something that cannot be shown. See the log for details.</p>'); // prettier-ignore
      assert.equal(lastLine()?.['panel'], 'Any');
      assert.equal(lastLine()?.['level'], 'error');
      assert.match(String(lastLine()?.['error']), error);
    });
  }

  test('gets rows as objects with the texts of PostgreSQL', async () => {
    await runStatement(
      `select 1.50 as price, true as "Is it", date '2026-11-20' as day, null as nothing, array[1, 2] as list,
         timestamp '2026-11-20 12:00:00.123456' as moment, 'x' as "__proto__"
       union all select 2, null, null, null, null, null, null`,
    );
    const names = ['price', 'Is it', 'day', 'nothing', 'list', 'moment', '__proto__'];
    const row = (...cells: (string | null)[]): unknown =>
      Object.fromEntries(cells.map((cell, at) => [names[at], cell]));
    assert.deepEqual(rows, [
      row('1.50', 't', '2026-11-20', null, '{1,2}', '2026-11-20 12:00:00.123456', 'x'),
      row('2', null, null, null, null, null, null),
    ]);
    assert.match(await runStatement('select 1 as one where false;  -- none'), /queried/);
    assert.deepEqual(rows, []);
  });

  const values: [string, string | number | boolean | null, string | null][] = [
    ['$1::integer + 1', 41, '42'],
    ['$1::integer + 1', '41', '42'],
    ['$1::bigint', '9007199254740993', '9007199254740993'],
    ['$1::numeric', '0.10', '0.10'],
    ['not $1::boolean', true, 'f'],
    ['not $1::boolean', 'true', 'f'],
    ['$1::timestamp', '2026-11-20 12:00:00.123456', '2026-11-20 12:00:00.123456'],
    ['$1::timestamptz', '2026-11-20 12:00:00+02', '2026-11-20 10:00:00+00'],
    ['$1::date', '2026-11-20', '2026-11-20'],
    ['$1::jsonb', '{"a": 1}', '{"a": 1}'],
    ['$1::text', "'; drop table note; --", "'; drop table note; --"],
    ['$1::text', null, null],
    ['$1::integer[]', '{1,2}', '{1,2}'],
  ];
  for (const [expression, value, expected] of values) {
    test(`can pass ${JSON.stringify(value)} to ${expression} in a statement`, async () => {
      await runStatement(`select ${expression} as value`, [value]);
      assert.deepEqual(rows, [{ value: expected }]);
    });
  }

  const refused: [string, typeof statement, RegExp][] = [
    ['writes', ["insert into note (message, created) values ('x', now())"], /read-only transaction/],
    ['creates a table', ['create table intruder (id integer)'], /read-only transaction/],
    ['is two statements', ["select 1; commit; insert into note (message, created) values ('x', now())"], /multiple commands/],
    ['is not SQL', ['selekt 1'], /syntax error/],
    ['names a column twice', ['select 1 as one, 2 as one'], /two columns of the statement are named "one"/],
    ['has an undefined value', ['select $1::text', [undefined as unknown as null]], /the value of \$1/],
    ['has an object as a value', ['select $1::text', [{} as unknown as null]], /the value of \$1/],
  ]; // prettier-ignore
  for (const [description, parameters, error] of refused) {
    test(`cannot run a statement that ${description}`, async () => {
      const before = await service.sql`select count(*) from note`;
      assert.equal(await runStatement(...parameters), '<p class="nothing">This panel could not be loaded. See the log for details.</p>'); // prettier-ignore
      assert.equal(rows, undefined);
      assert.match(String(lastLine()?.['error']), error);
      assert.deepEqual(await service.sql`select count(*) from note`, before);
      assert.match(await runStatement('select 1'), /queried/);
    });
  }
});

describe('panels that fail or are slow', () => {
  let service: TestService;
  let page: string;

  before(async () => {
    service = await startService(shipped, {
      panels: [
        panel('Failing', () => Promise.reject(new Error(SECRET))),
        panel('Throwing synchronously', () => {
          throw new Error(SECRET);
        }),
        panel('Throwing a string', () => Promise.reject(SECRET)), // eslint-disable-line @typescript-eslint/prefer-promise-reject-errors
        panel('Silent', () => new Promise(() => undefined)),
        panel('Slow', async ({ query }) => (await query('select pg_sleep(60)')).length),
        panel('Careless', async ({ query }) => {
          const [first, second] = [query('selekt 1'), query('selekt 2')];
          return [await first, await second].length;
        }),
        // More statements than can run at once, each of them short.
        panel('Many', async ({ query }) => {
          const found = await Promise.all(Array.from({ length: 20 }, (_, n) => query('select $1::int as n', [n])));
          return found.reduce((sum, [row]) => sum + Number(row?.['n']), 0);
        }),
        panel('Good', () => Promise.resolve(5)),
      ],
    }); // prettier-ignore
    await service.addUser('ada', { admin: true });
    const browser = await logIn(service, 'ada');
    const answer = await browser.get('/admin/');
    assert.equal(answer.status, 200);
    page = answer.text;
  });
  after(() => service.close());

  const cases: [string, RegExp, RegExp | undefined][] = [
    ['Failing', /could not be loaded/, /secret_table/],
    ['Throwing synchronously', /could not be loaded/, /secret_table/],
    ['Throwing a string', /could not be loaded/, /secret_table/],
    ['Silent', /took too long/, /5000 ms/],
    ['Slow', /could not be loaded/, /statement timeout/],
    ['Careless', /could not be loaded/, /syntax error/],
    ['Many', /class="figure">190</, undefined],
    ['Good', /class="figure">5</, undefined],
  ];
  for (const [title, text, error] of cases) {
    test(`${title}: the page has ${text.source}, the log ${error?.source ?? 'nothing'}`, () => {
      assert.match(panelsOf(page).get(title) ?? '', text);
      const line = service.lines.find(({ panel: one }) => one === title);
      if (error) assert.match(String(line?.['error']), error);
      else assert.equal(line, undefined);
    });
  }

  test('the page does not show the errors', () => {
    assert.ok(!page.includes('secret_table'));
    assert.ok(!page.includes('timeout'));
  });
});

// Panels of the start page while bulk changes run.
test('panels are shown while as many bulk changes run as can at once', async () => {
  const note: Resource = { model: 'note', columns: { text: { type: 'text' } }, access: 'user' };
  const service = await startService([user, note], {
    panels: [
      { title: 'Querying', load: async ({ query }) => `${(await query('select 1')).length} row found` },
    ],
  });
  try {
    for (const name of ['ada', 'bea']) await service.addUser(name, { admin: true });
    await service.sql`insert into note (text) select 'x' from generate_series(1, 8)`;
    const [ada, bea] = [await logIn(service, 'ada'), await logIn(service, 'bea')];
    const path = '/admin/note/-/bulk/';
    const confirmations = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const browser = index % 2 === 0 ? ada : bea;
        const page = await browser.post(path, { _state: '', _action: 'delete', _id: String(index + 1) });
        return { browser, fields: hiddenFields(page, 'confirm') };
      }),
    );
    const deletions = await service.sql.begin(async (transaction) => {
      await transaction`select from note for update`;
      const sent = confirmations.map(({ browser, fields }) => browser.post(path, fields));
      await eventually(async () => {
        const waiting = await service.sql`
          select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        return waiting.count >= 4;
      }, 'deletions that wait for records, and others behind them');
      const { text } = await ada.get('/admin/');
      assert.match(text, /1 row found/);
      return { sent };
    });
    for (const { status } of await Promise.all(deletions.sent)) assert.equal(status, 303);
  } finally {
    await service.close();
  }
});
