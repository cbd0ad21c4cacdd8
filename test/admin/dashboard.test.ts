// The start page: models and their counts, the latest changes, panels and their charts.
import assert from 'node:assert/strict';
import type { Panel, PanelSeries, Resource } from '../../src/index.ts';
import shipped, { user as shippedUser } from '../../src/resources/registry.ts';
import { eventually, lockedOut } from '../http/expect.ts';
import { startService, useService, type TestService } from '../support.ts';
import { hiddenFields, logIn, type Browser } from './support.ts';
import fc from 'fast-check';
import { chart } from '../../src/admin/dashboard/chart.ts';
import { beforeEach, describe, test } from 'node:test';

const HOSTILE = `<img src=x onerror="alert('&')">`;
const ESCAPED = '&lt;img src=x onerror=&quot;alert(&#39;&amp;&#39;)&quot;&gt;';

const user: Resource = { ...shippedUser, admin: { group: 'People' } };

const model = (name: string, admin?: Resource['admin']): Resource => ({
  model: name,
  columns: { title: { type: 'text' } },
  access: 'user',
  ...(admin ? { admin } : {}),
});

const RESOURCES: Resource[] = [
  model('zebra', { group: 'Animals', title: 'Zebras' }),
  user,
  model('note'),
  model('ant', { group: 'Animals', title: `Ants ${HOSTILE}` }),
  model('fixed', { allow: ['change'] }),
  model('secret', { hidden: true }),
  model('large'),
  model('locked'),
  model('gone'),
];

const squeeze = (text: string): string => text.replace(/\s+/g, ' ').replace(/> </g, '><');

/** The cells of the lists of models, by the heading of their group. */
function modelsOf(page: string): Map<string, string[][]> {
  const sections = page.matchAll(/<section class="group"[^>]*>\s*<h2[^>]*>([^]*?)<\/h2>([^]*?)<\/section>/g);
  return new Map(
    [...sections].map(([, heading = '', body = '']) => [
      heading,
      [...body.matchAll(/<tr>([^]*?)<\/tr>/g)].map(([, row = '']) =>
        [...row.matchAll(/<t[hd][^>]*>([^]*?)<\/t[hd]>/g)].map(([, cell = '']) => squeeze(cell).trim()),
      ),
    ]),
  );
}

/** The rows of the latest changes, without their times. */
function latestOf(page: string): string[] {
  const [, body = ''] = /<section class="latest"[^>]*>([^]*?)<\/section>/.exec(page) ?? [];
  return [...body.matchAll(/<tr>\s*<th scope="row" data-label="When">[^]*?<\/th>([^]*?)<\/tr>/g)].map(
    ([, row = '']) => squeeze(row.replace(/<\/?(td|span)[^>]*>/g, ' ')).trim(),
  );
}

describe('the start page of the admin area', () => {
  let browser: Browser;
  const open = async (): Promise<string> => {
    const { status, text } = await browser.get('/admin/');
    assert.equal(status, 200);
    return text;
  };

  const service = useService(RESOURCES, {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
    await service.sql`insert into large (title) select 'x' from generate_series(1, 20000)`;
    await service.sql`insert into zebra (title) select 'x' from generate_series(1, 1234)`;
    await service.sql`analyze large`;
    browser = await logIn(service, 'ada');
  });
  beforeEach(() => service.sql`truncate vitrine_history`);

  test('lists the models by group in the order of the registry, without hidden ones and the history', async () => {
    const models = modelsOf(await open());
    assert.deepEqual([...models.keys()], ['Animals', 'People', 'Records']);
    const linked = [...models.values()].map((rows) =>
      rows.map(([title]) => /href="([^"]*)"/.exec(title ?? '')?.[1]),
    );
    assert.deepEqual(linked, [
      ['/admin/zebra/', '/admin/ant/'],
      ['/admin/user/'],
      ['/admin/note/', '/admin/fixed/', '/admin/large/', '/admin/locked/', '/admin/gone/'],
    ]); // prettier-ignore
    assert.equal(models.get('Animals')?.[1]?.[0], `<a href="/admin/ant/">Ants ${ESCAPED}</a>`);
  });

  test('shows the number of records, an estimate for many', async () => {
    const models = modelsOf(await open());
    const counts = [...models.values()].flat().map(([title, count]) => [/\/admin\/(\w+)\//.exec(title ?? '')?.[1], count]); // prettier-ignore
    const { large = '', ...others } = Object.fromEntries(counts) as Record<string, string>;
    assert.match(large, /^about (20|19|21),\d{3} records$/);
    assert.deepEqual(others, {
      zebra: '1,234 records',
      ant: '0 records',
      user: '2 records',
      note: '0 records',
      fixed: '0 records',
      locked: '0 records',
      gone: '0 records',
    });
  });

  test('links to the forms for new records where adding is allowed', async () => {
    const models = modelsOf(await open());
    const links = [...models.values()].flat().map(([, , add]) => /href="([^"]*)"/.exec(add ?? '')?.[1]);
    assert.deepEqual(links, [
      '/admin/zebra/-/add/', '/admin/ant/-/add/', '/admin/user/-/add/', '/admin/note/-/add/', undefined,
      '/admin/large/-/add/', '/admin/locked/-/add/', '/admin/gone/-/add/',
    ]); // prettier-ignore
  });

  test('links to the users, to the history and to the events, by their titles', async () => {
    const [, actions = ''] = /<div class="actions">([^]*?)<\/div>/.exec(await open()) ?? [];
    assert.deepEqual(
      [...actions.matchAll(/href="([^"]*)"/g)].map(([, href]) => href),
      ['/admin/user/', '/admin/vitrine_history/', '/admin/vitrine_event/'],
    );
    assert.deepEqual([...actions.matchAll(/>([^<]+)<\/a>/g)].map(([, text]) => text), ['User', 'History', 'Events']); // prettier-ignore
  });

  test('says that there are no changes yet', async () => {
    const page = await open();
    assert.match(page, /<p class="empty">\s*No changes yet/);
    assert.deepEqual(latestOf(page), []);
  });

  test('shows the latest changes with links to records that still exist', async () => {
    const add = async (path: string, title: string, name: string): Promise<string> => {
      const answer = await service.request(path, { method: 'POST', user: name, body: { title } });
      return String(answer.json.id);
    };
    const kept = await add('/api/note/', HOSTILE, 'bob');
    const deleted = await add('/api/zebra/', 'Short-lived', 'ada');
    const hidden = await add('/api/secret/', 'Nobody sees me', 'ada');
    await service.request(`/api/note/${kept}/`, { method: 'PUT', user: 'ada', body: { title: HOSTILE.repeat(9) } }); // prettier-ignore
    await service.request(`/api/zebra/${deleted}/`, { method: 'DELETE', user: 'bob' });
    const page = await open();
    const link = `<a href="/admin/note/${kept}/">${/<a href="\/admin\/note\/\d+\/">([^]*?)<\/a>/.exec(page)?.[1]}</a>`;
    assert.deepEqual(latestOf(page), [
      `bob API deleted Short-lived in Zebras`,
      `ada API changed ${link} in Note`,
      `ada API added #${hidden} in secret`,
      `ada API added Short-lived in Zebras`,
      `bob API added ${link} in Note`,
    ]);
    assert.ok(link.includes(ESCAPED) && link.includes('…'), link);
    assert.ok(!page.includes('<img'));
    const entries = await service.sql<{ id: string }[]>`select id from vitrine_history order by id desc`;
    for (const { id } of entries) assert.ok(page.includes(`href="/admin/vitrine_history/${id}/"`));
  });

  test('shows the ten newest changes, and a link to all', async () => {
    for (let number = 1; number <= 12; number += 1)
      await service.request('/api/note/', {
        method: 'POST',
        user: 'bob',
        body: { title: `Note ${number}.` },
      });
    const page = await open();
    const titles = latestOf(page).map((row) => /Note \d+\./.exec(row)?.[0]);
    assert.deepEqual(
      titles,
      Array.from({ length: 10 }, (_, index) => `Note ${12 - index}.`),
    );
    assert.match(page, /<a href="\/admin\/vitrine_history\/">All changes<\/a>/);
  });

  test('shows one line for an operation on several records', async () => {
    const add = async (titles: readonly string[]): Promise<void> => {
      const body = titles.map((title) => ({ title }));
      assert.equal((await service.request('/api/note/', { method: 'POST', user: 'ada', body })).status, 201);
    };
    await service.request('/api/note/', { method: 'POST', user: 'bob', body: { title: 'Before' } });
    await add(Array.from({ length: 25 }, (_, index) => `Many ${index}`));
    await add(['One alone']);
    await add(['First', 'Second']);
    const page = await open();
    const lines = latestOf(page).map((row) => row.replace(/<[^>]*>/g, ''));
    assert.deepEqual(
      lines.map((line) => line.replace(/\d+(?= in Note and 24)/, 'n')),
      [
        'ada API added First in Note and 1 more change',
        'ada API added One alone in Note',
        'ada API added Many n in Note and 24 more changes',
        'bob API added Before in Note',
      ],
    );
    const [, href = ''] = / and <a href="([^"]*)">24 more changes<\/a>/.exec(page) ?? [];
    assert.match((await browser.get(href.replaceAll('&amp;', '&'))).text, /1–20 of 25 records/);
  });

  test('shows “unknown” for the count of a locked table', async () => {
    const connection = await service.sql.reserve();
    try {
      await connection`begin`;
      await connection`lock table locked in access exclusive mode`;
      const models = modelsOf(await open());
      const counts = models.get('Records')?.map(([, count]) => count);
      assert.equal(counts?.[3], 'unknown');
      assert.equal(counts?.[1], '0 records');
      assert.equal(models.get('Animals')?.[0]?.[1], '1,234 records');
    } finally {
      await connection`rollback`;
      connection.release();
    }
    assert.equal(modelsOf(await open()).get('Records')?.[3]?.[1], '0 records');
  });

  test('shows “unknown” for the count of a missing table, and only the log has the reason', async (t) => {
    await service.sql`alter table gone rename to elsewhere`;
    t.after(async () => service.sql`alter table elsewhere rename to gone`);
    const page = await open();
    assert.equal(modelsOf(page).get('Records')?.[4]?.[1], 'unknown');
    assert.ok(!page.includes('does not exist'));
    // Log lines are written in batches.
    const line = await eventually(
      () => service.lines.find(({ message }) => String(message).includes('the count of gone')),
      'the line',
    );
    assert.match(String(line['message']), /does not exist/);
  });

  test('is shown without the latest changes when the history cannot be read', async (t) => {
    await service.sql`alter table vitrine_history rename to elsewhere`;
    t.after(async () => service.sql`alter table elsewhere rename to vitrine_history`);
    const page = await open();
    assert.match(page, /The history cannot be read at the moment/);
    assert.equal(modelsOf(page).get('Animals')?.length, 2);
  });

  test('says that there are no resources when all are hidden', async (t) => {
    const hidden = { ...user, admin: { hidden: true } };
    const other = await startService([hidden]);
    t.after(() => other.close());
    await other.addUser('ada', { admin: true });
    const page = (await (await logIn(other, 'ada')).get('/admin/')).text;
    assert.match(page, /<p class="empty">\s*No resources to show/);
    assert.ok(!page.includes('/admin/user/'));
  });
});

test('the log names the counts for which the slow ones before leave no time', async (t) => {
  const slow = ['first', 'second', 'third', 'fourth'];
  const others = Array.from({ length: 20 }, (_, index) => `other${index}`);
  const service = await startService([user, ...[...slow, ...others].map((name) => model(name))]);
  const connection = await service.sql.reserve();
  t.after(async () => {
    await connection`rollback`;
    connection.release();
    await service.close();
  });
  await service.addUser('ada', { admin: true });
  const browser = await logIn(service, 'ada');
  await connection`begin`;
  await connection.unsafe(`lock table ${slow.join(', ')} in access exclusive mode`);
  const { text } = await browser.get('/admin/');
  const counts = modelsOf(text).get('Records') ?? [];
  const unknown = counts.flatMap(([title = '', count]) =>
    count === 'unknown' ? [/\/admin\/(\w+)\//.exec(title)?.[1]] : [],
  );
  assert.deepEqual(unknown.slice(0, 4), slow);
  const isLogged = (name = ''): boolean =>
    service.lines.some(({ message }) =>
      new RegExp(`^a page omits the counts? of (.*, )?${name}[,:]`).test(String(message)),
    );
  for (const name of unknown) await eventually(() => isLogged(name), `the line that names ${name}`);
});

const SECRET = 'relation "secret_table" is not for you';

/** The panels of a page: the markup below the heading, by title. */
function panelsOf(page: string): Map<string, string> {
  const sections = page.matchAll(/<section class="panel"[^>]*>\s*<h2[^>]*>([^]*?)<\/h2>([^]*?)<\/section>/g);
  const squeezed = (text: string): string => text.replace(/\s+/g, ' ').replace(/ >/g, '>').trim();
  return new Map([...sections].map(([, title = '', body = '']) => [title, squeezed(body)]));
}

const panel = (title: string, load: Panel['load']): Panel => ({ title, load });

describe('a panel of the start page', () => {
  let browser: Browser;
  let content: unknown;
  let statement: Parameters<Parameters<Panel['load']>[0]['query']> = ['select 1'];
  let rows: unknown;

  const service = useService(
    shipped,
    {
      panels: [
        { title: 'Any', text: `Whatever ${HOSTILE}`, load: () => Promise.resolve(content as number) },
        panel(HOSTILE, () => Promise.resolve(1)),
        panel('Querying', async ({ query }) => {
          rows = undefined;
          rows = await query(...statement);
          return 'queried';
        }),
      ],
    },
    async () => {
      await service.addUser('ada', { admin: true });
      browser = await logIn(service, 'ada');
    },
  );

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
      assert.ok(!body.includes('<img'), body);
    });
  }

  test('has an escaped title and text', async () => {
    const { text } = await browser.get('/admin/');
    assert.ok(panelsOf(text).has(ESCAPED));
    assert.ok(text.includes(`<p class="hint">Whatever ${ESCAPED}</p>`));
    assert.ok(!text.includes('<img'));
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
  test('that returns something else shows a notice, and the log has the error', async () => {
    for (const [content, value, error] of wrong) {
      const body = await show(value);
      assert.equal(body.replace(/<p class="hint">[^]*?<\/p>/, '').trim(), '<p class="nothing">This panel returned something that cannot be shown. See the log for details.</p>', content); // prettier-ignore
      assert.deepEqual([lastLine()?.['panel'], lastLine()?.['level']], ['Any', 'error'], content);
      assert.match(String(lastLine()?.['error']), error, content);
    }
  });

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
  let page: string;

  const service: TestService = useService(shipped, {
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
    }, async () => {
    await service.addUser('ada', { admin: true });
    const browser = await logIn(service, 'ada');
    const answer = await browser.get('/admin/');
    assert.equal(answer.status, 200);
    page = answer.text;
  }); // prettier-ignore

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
  test('leave the others as they are, and only the log has their errors', () => {
    for (const [title, text, error] of cases) {
      assert.match(panelsOf(page).get(title) ?? '', text);
      const line = service.lines.find(({ panel: one }) => one === title);
      if (error) assert.match(String(line?.['error']), error);
      else assert.equal(line, undefined, title);
    }
    assert.ok(!page.includes('secret_table'));
    assert.ok(!page.includes('timeout'));
  });
});

// Panels of the start page while bulk changes run.
test('panels are shown while as many bulk changes run as can at once', async (t) => {
  const note: Resource = { model: 'note', columns: { text: { type: 'text' } }, access: 'user' };
  const service = await startService([shippedUser, note], {
    panels: [
      { title: 'Querying', load: async ({ query }) => `${(await query('select 1')).length} row found` },
    ],
  });
  t.after(() => service.close());
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
    await lockedOut(service, 4); // others wait behind them
    const { text } = await ada.get('/admin/');
    assert.match(text, /1 row found/);
    return { sent };
  });
  for (const { status } of await Promise.all(deletions.sent)) assert.equal(status, 303);
});

describe('a chart', () => {
  const seriesOf = (values: readonly number[], label = 'x'): PanelSeries['series'] =>
    values.map((value, index) => ({ label: `${label}${index}`, value }));
  const render = (content: PanelSeries): string => chart(content, 'Title', 'c').toString();
  /** The labels of the axis, from the bottom. */
  const ticksOf = (svg: string): string[] =>
    [...svg.matchAll(/text-anchor="end"[^>]*>([^<]*)</g)].map(([, text = '']) => text.trim());

  test('of any numbers stays within its bounds and has one bar or point for each', () => {
    const value = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer({ min: -1000, max: 1000 }),
      fc.constantFrom(0, -0, 5e-324, Number.MAX_VALUE, -Number.MAX_VALUE, 1, 1 + Number.EPSILON, 1e15, 0.1 + 0.2),
    ); // prettier-ignore
    const values = fc.array(value, { minLength: 1, maxLength: 100 });
    fc.assert(
      fc.property(values, fc.constantFrom('bar' as const, 'line' as const), (numbers, kind) => {
        const svg = render({ series: seriesOf(numbers), kind });
        assert.doesNotMatch(svg, /="[^"]*(NaN|Infinity|undefined|null)| style=|<style| on\w+=/);
        const heights = [...svg.matchAll(/<rect [^>]* height="([^"]*)"/g)].map(([, one]) => Number(one));
        for (const [index, one] of heights.entries()) assert.equal(one === 0, numbers[index] === 0);
        const [, width, height] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? [];
        for (const [, name = '', text = ''] of svg.matchAll(/ (x|x1|x2|cx|y|y1|y2|cy)="([^"]*)"/g)) {
          const position = Number(text);
          const limit = Number(name.includes('x') ? width : height);
          assert.ok(position >= 0 && position <= limit, `${name}=${text}`);
        }
        const marks = svg.match(kind === 'bar' ? /<rect class="bar"/g : /<circle class="point"/g);
        assert.equal(marks?.length, numbers.length);
        const ticks = ticksOf(svg);
        assert.ok(ticks.length >= 2 && ticks.length <= 12, ticks.join(' '));
        assert.equal(new Set(ticks).size, ticks.length, ticks.join(' '));
        assert.ok(ticks.every((tick) => tick.length <= 20), ticks.join(' ')); // prettier-ignore
      }),
    );
  });

  const axes: [readonly number[], 'bar' | 'line', string[]][] = [
    [[1, 2, 3, 4], 'bar', ['0', '1', '2', '3', '4']],
    [[449.46, 481.45, 469.58, 477.53, 450.58], 'bar', ['0', '100', '200', '300', '400', '500']],
    [[-20, 10], 'bar', ['-20', '-10', '0', '10']],
    [[0, 0], 'bar', ['0', '0.2', '0.4', '0.6', '0.8', '1']],
    [[7, 7], 'line', ['0', '2', '4', '6', '8']],
    [[-7], 'line', ['-8', '-6', '-4', '-2', '0']],
    [[1_000_000, 3_500_000], 'bar', ['0', '1M', '2M', '3M', '4M']],
    [[100_020, 100_080], 'line', ['100.02K', '100.04K', '100.06K', '100.08K']],
  ];
  for (const [values, kind, expected] of axes) {
    test(`of ${values.join(', ')} as a ${kind} has an axis with ${expected.join(', ')}`, () => {
      assert.deepEqual(ticksOf(render({ series: seriesOf(values), kind })), expected);
    });
  }

  test('shortens long labels, has the full label as a title, and omits labels that do not fit', () => {
    const label = 'A very long label 🦉 of a point ';
    const svg = render({ series: seriesOf(Array<number>(30).fill(1), label) });
    assert.ok(svg.includes(`A very long…<title>${label}0</title>`), svg);
    assert.ok((svg.match(/A very long…/g)?.length ?? 0) < 6);
    assert.equal(svg.match(/<th scope="row" data-label="Label">/g)?.length, 30);
  });
});
