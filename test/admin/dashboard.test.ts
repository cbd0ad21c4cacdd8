import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { eventually } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, type Browser } from './support.ts';
import { after, before, beforeEach, describe, test } from 'node:test';

const HOSTILE = `<img src=x onerror="alert('&')">`;
const ESCAPED = '&lt;img src=x onerror=&quot;alert(&#39;&amp;&#39;)&quot;&gt;';

const user = {
  model: 'user',
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' },
    email: { type: 'string', null: true },
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
  },
  exclude: ['password'],
  access: 'admin',
  admin: { group: 'People' },
} satisfies Resource;

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
  let service: TestService;
  let browser: Browser;
  const open = async (): Promise<string> => {
    const { status, text } = await browser.get('/admin/');
    assert.equal(status, 200);
    return text;
  };

  before(async () => {
    service = await startService(RESOURCES);
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
    await service.sql`insert into large (title) select 'x' from generate_series(1, 20000)`;
    await service.sql`insert into zebra (title) select 'x' from generate_series(1, 1234)`;
    await service.sql`analyze large`;
    browser = await logIn(service, 'ada');
  });
  after(() => service.close());
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

  test('links to the users and to the history', async () => {
    const [, actions = ''] = /<div class="actions">([^]*?)<\/div>/.exec(await open()) ?? [];
    assert.deepEqual(
      [...actions.matchAll(/href="([^"]*)"/g)].map(([, href]) => href),
      ['/admin/user/', '/admin/vitrine_history/'],
    );
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

  test('shows “unknown” for the count of a missing table, and only the log has the reason', async () => {
    await service.sql`alter table gone rename to elsewhere`;
    try {
      const page = await open();
      assert.equal(modelsOf(page).get('Records')?.[4]?.[1], 'unknown');
      assert.ok(!page.includes('does not exist'));
      // Log lines are written in batches.
      const line = await eventually(
        () => service.lines.find(({ message }) => String(message).includes('the count of gone')),
        'the line',
      );
      assert.match(String(line['message']), /does not exist/);
    } finally {
      await service.sql`alter table elsewhere rename to gone`;
    }
  });

  test('is shown without the latest changes when the history cannot be read', async () => {
    await service.sql`alter table vitrine_history rename to elsewhere`;
    try {
      const page = await open();
      assert.match(page, /The history cannot be read at the moment/);
      assert.equal(modelsOf(page).get('Animals')?.length, 2);
    } finally {
      await service.sql`alter table elsewhere rename to vitrine_history`;
    }
  });

  test('says that there are no resources when all are hidden', async () => {
    const hidden = { ...user, admin: { hidden: true } };
    const other = await startService([hidden]);
    try {
      await other.addUser('ada', { admin: true });
      const page = (await (await logIn(other, 'ada')).get('/admin/')).text;
      assert.match(page, /<p class="empty">\s*No resources to show/);
      assert.ok(!page.includes('/admin/user/'));
    } finally {
      await other.close();
    }
  });
});

test('the log names the counts for which the slow ones before leave no time', async () => {
  const slow = ['first', 'second', 'third', 'fourth'];
  const others = Array.from({ length: 20 }, (_, index) => `other${index}`);
  const service = await startService([user, ...[...slow, ...others].map((name) => model(name))]);
  const connection = await service.sql.reserve();
  try {
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
  } finally {
    await connection`rollback`;
    connection.release();
    await service.close();
  }
});
