// Finding one's way: Go to, the caller's recent records, the menus of lists, and the titles of tabs.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Resource, Roles } from '../../src/index.ts';
import shipped, { user as shippedUser } from '../../src/resources/registry.ts';
import { logIn, readable, save, unescaped, useAdmin, type AdminAnswer, type Browser } from './support.ts';

const name = { type: 'string' } as const;
const user = {
  ...shippedUser,
  columns: { ...shippedUser.columns, role: { type: 'string', null: true } },
  admin: { group: 'People', title: 'Staff' },
} satisfies Resource;
const registry: Resource[] = [
  user,
  ...shipped.filter(({ model }) => model === 'note'),
  { model: 'artist', columns: { name, motto: { type: 'text', null: true } }, admin: { title: 'Artists', group: 'Music' } },
  {
    model: 'album',
    columns: { title: name, artist: { type: 'foreignKey', references: 'artist' } },
    admin: { title: 'Albums & more', group: 'Music', label: '{title} by {artist__name}', search: ['title', 'artist__name'] },
  },
  { model: 'number', columns: { value: { type: 'integer' } }, admin: { title: 'Numbers' } },
  { model: 'concealed', columns: { name }, admin: { hidden: true } },
  { model: 'secret', columns: { name }, read: 'admin', admin: { title: 'Secrets' } },
]; // prettier-ignore
const roles = {
  clerk: { admin: true, grants: { artist: { read: { rows: 'motto__is=null' }, update: true } } },
} satisfies Roles;

let carl: Browser;
const { service, ada } = useAdmin(registry, { roles }, async () => {
  const { sql } = service;
  await sql`insert into artist (name, motto) values
    ('Nina', 'Not unknown'), ('Nina Simone', null), ('Anina', null), ('Zoë', 'Sister of Nina')`;
  await sql`insert into album (title, artist_id) values ('Little Girl Blue', 2), ('Nina', 3)`;
  await sql`insert into number (value) values (7)`;
  await sql`insert into concealed (name) values ('Nina')`;
  await sql`insert into secret (name) values ('Nina')`;
  await service.addUser('carl', { role: 'clerk' });
  carl = await logIn(service, 'carl');
});

const goTo = (words: string): string => `/admin/-/go/?q=${encodeURIComponent(words)}`;

interface Result {
  readonly text: string;
  readonly href: string;
  readonly of: string;
}
/** What the script gets. */
async function resultsOf(words: string, browser = ada): Promise<readonly Result[]> {
  const { headers, text } = await browser.get(goTo(words), { accept: 'application/json' });
  assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
  return (JSON.parse(text) as { results: Result[] }).results;
}

/** The links of a page's lists of records. */
const listed = ({ text }: AdminAnswer): Result[] =>
  [...text.matchAll(/<li><a href="([^"]*)">([^<]*)<\/a> <span class="key">([^<]*)<\/span>/g)].map(
    ([, href = '', label = '', of = '']) => ({ text: unescaped(label), href, of: unescaped(of) }),
  );

const textsOf = (results: readonly Result[]): string[] => results.map(({ text, of }) => `${of}: ${text}`);

describe('Go to', () => {
  test('finds lists by their titles, then records: exact names, then beginnings, then the rest', async () => {
    const expected = [
      'Artists: Nina',
      'Secrets: Nina',
      'Artists: Nina Simone',
      'Albums & more: Nina by Anina',
      'Artists: Anina',
      'Artists: Zoë',
      'Albums & more: Little Girl Blue by Nina Simone',
    ];
    const results = await resultsOf('nina');
    assert.deepEqual(textsOf(results), expected);
    const page = await ada.get(goTo(' nina '));
    assert.equal(page.status, 200);
    assert.deepEqual(listed(page), results);
    assert.deepEqual(textsOf(await resultsOf('A')).slice(0, 3), [
      'List: Artists',
      'List: Albums & more',
      'List: Staff',
    ]);
    for (const { href } of results) assert.equal((await ada.get(href)).status, 200);
  });

  test('says that there are more matches than it shows, also if one of them is the record with this key', async () => {
    await service.sql`insert into artist (name) select '3 ' || n from generate_series(1, 5) n`;
    const page = await ada.get(goTo('3'));
    assert.deepEqual(textsOf(listed(page)), ['Artists: Anina', 'Artists: 3 1', 'Artists: 3 2', 'Artists: 3 3', 'Artists: 3 4']); // prettier-ignore
    assert.match(readable(page), /Enter more words/);
    await service.sql`delete from artist where name like '3 %'`;
  });

  test('opens the only match at once if its name or key is exactly what was typed', async () => {
    for (const [words, to] of [
      ['Nina Simone', undefined], // also a part of an album's label
      ['zoë', '/admin/artist/4/'],
      ['Zo', undefined],
      ['albums & more', '/admin/album/'],
    ] as const) {
      const { status, location } = await ada.get(goTo(words));
      assert.deepEqual([status, location], to === undefined ? [200, undefined] : [303, to], words);
    }
    assert.equal((await resultsOf('zoë')).length, 1);
  });

  test('finds only what the caller may read', async () => {
    assert.deepEqual(textsOf(await resultsOf('nina', carl)), ['Artists: Nina Simone', 'Artists: Anina']);
    assert.deepEqual(await resultsOf('secret', carl), []);
    assert.deepEqual(textsOf(await resultsOf('concealed')), []);
  });

  test('says that nothing was found, and takes any text', async () => {
    assert.match(
      readable(await ada.get(goTo('<b>nothing</b>'))),
      /No matching lists or records for “<b>nothing<\/b>”/,
    );
    for (const words of [
      '%',
      '_',
      '\\',
      "'",
      '"',
      '#1',
      '😀',
      'x'.repeat(3000),
      '-',
      '-1',
      '\ud800',
      '0',
      '9'.repeat(40),
    ])
      assert.ok([200, 303].includes((await ada.get(goTo(words.toWellFormed()))).status), words.slice(0, 50));
    assert.equal((await ada.get('/admin/-/go/?q=%00')).status, 400);
    assert.equal((await ada.post('/admin/-/go/', { q: 'x' })).status, 405);
  });

  test('shows what it could search, with links to the lists that took too long', async () => {
    const connection = await service.sql.reserve();
    try {
      await connection`begin`;
      await connection`lock table secret in access exclusive mode`;
      const page = await ada.get(goTo('Nina'));
      assert.ok(textsOf(listed(page)).includes('Artists: Nina'));
      assert.match(
        page.text,
        /Not searched in time:\s*<a href="\/admin\/secret\/\?_search=Nina">Secrets<\/a>/,
      );
    } finally {
      await connection`rollback`;
      connection.release();
    }
  });
});

describe('recent records', () => {
  const recent = async (path: string, browser = ada): Promise<string[]> =>
    textsOf(listed(await browser.get(path)));

  test('are those that the caller has changed last, each once, without deleted and other ones', async () => {
    await service.sql`truncate vitrine_history`;
    for (const path of ['/admin/', '/admin/-/go/']) assert.deepEqual(await recent(path), []);
    for (const [id, motto] of [
      [1, 'a'],
      [2, 'b'],
      [1, 'c'],
    ] as const)
      assert.equal((await save(ada, `/admin/artist/${id}/`, { motto, motto__null: [] })).status, 303);
    await save(ada, '/admin/album/1/', { title: 'Blue' });
    const added = await save(ada, '/admin/artist/-/add/', { name: 'Short-lived', _save: 'stay' });
    await service.sql`delete from artist where name = 'Short-lived'`;
    assert.equal(added.status, 303);
    await save(carl, '/admin/artist/3/', { motto: '', motto__null: '1', name: 'Carla' });
    // An operation on several records counts once.
    await service.request('/api/note/', {
      method: 'POST',
      user: 'ada',
      body: ['x', 'y', 'z'].map((message) => ({ message })),
    });
    const expected = [
      'Notes: x',
      'Albums & more: Blue by Nina Simone',
      'Artists: Nina',
      'Artists: Nina Simone',
    ];
    for (const path of ['/admin/', '/admin/-/go/']) assert.deepEqual(await recent(path), expected, path);
    assert.deepEqual(await recent('/admin/', carl), []);
  });
});

test('the lists are beside each page by group, except on the start page', async () => {
  const groupsIn = ({ text }: AdminAnswer): Record<string, string[]> => {
    const [, nav = ''] = /<nav class="side"[^>]*>([^]*?)<\/nav>/.exec(text) ?? [];
    return Object.fromEntries(
      [...nav.matchAll(/<h2>([^<]*)<\/h2>\s*<ul>([^]*?)<\/ul>/g)].map(([, title = '', list = '']) => [
        title,
        [...list.matchAll(/<a [^>]*>([^<]*)<\/a>/g)].map(([, text = '']) => unescaped(text)),
      ]),
    );
  };
  const page = await ada.get('/admin/artist/');
  assert.deepEqual(groupsIn(page), {
    People: ['Staff'],
    Texts: ['Notes'],
    Records: ['Numbers', 'Secrets'],
    Music: ['Artists', 'Albums & more'],
    System: ['History', 'Events'],
  });
  assert.match(page.text, /<a href="\/admin\/artist\/"\s+aria-current="true">Artists<\/a>/);
  assert.deepEqual(groupsIn(await carl.get('/admin/-/account/')), { Music: ['Artists'] });
  assert.deepEqual(groupsIn(await ada.get('/admin/')), {});
});

test('the title of a tab names the record and its list', async () => {
  const titles: Record<string, string> = {
    '/admin/artist/': 'Artists · Admin',
    '/admin/artist/2/': 'Nina Simone · Artists · Admin',
    '/admin/artist/2/delete/': 'Delete Nina Simone? · Artists · Admin',
    '/admin/artist/2/history/': 'History of Nina Simone · Artists · Admin',
    '/admin/artist/-/add/': 'Add to Artists · Admin',
    '/admin/user/1/password/': 'Password of ada · Staff · Admin',
    '/admin/-/account/': 'Your account, ada · Admin',
  };
  for (const [path, expected] of Object.entries(titles)) {
    const [, title = ''] = /<title>([^<]*)<\/title>/.exec((await ada.get(path)).text) ?? [];
    assert.equal(unescaped(title), expected);
  }
});
