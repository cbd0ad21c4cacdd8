// How values look: tones of choices, and the widgets of text columns in lists, records and forms.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { fieldsOf, openBrowser, runBulk, save, useAdmin, type AdminAnswer } from './support.ts';
import { describe, test } from 'node:test';
import fc from 'fast-check';

const ticket: Resource = {
  model: 'ticket',
  columns: {
    subject: { type: 'string' },
    status: {
      type: 'string',
      choices: { open: 'Open <now>', waiting: 'Waiting', done: 'Done', '': 'None' },
      tones: { open: 'warning', done: 'success', '': 'neutral' },
      null: true,
    },
    level: { type: 'integer', choices: { 1: 'Low', 2: 'High' }, tones: { 2: 'danger' }, default: 1 },
    paid: {
      type: 'boolean',
      choices: [true, false],
      tones: { true: 'accent', false: 'info' },
      default: false,
    },
    fixed: { type: 'string', choices: ['a', 'b-1'], tones: { a: 'info' }, default: 'a' },
  },
  admin: { readonly: ['fixed'], list: ['status', 'level', 'paid', 'subject'] },
};

const text = { type: 'text', null: true } as const;
const columns = {
  email: { ...text, widget: 'email' },
  url: { ...text, widget: 'url' },
  phone: { ...text, widget: 'phone' },
  color: { ...text, widget: 'color' },
  image: { ...text, widget: 'image' },
  markdown: { ...text, widget: 'markdown' },
  code: { ...text, widget: 'code' },
} satisfies Resource['columns'];
const contact: Resource = {
  model: 'contact',
  columns: { name: { type: 'string' }, ...columns },
  admin: { list: ['name', ...Object.keys(columns)] },
};
/** The same columns, read-only, and with a link as the first one of the list. */
const seen: Resource = {
  ...contact,
  model: 'seen',
  admin: { list: ['url', 'email', 'image'], readonly: Object.keys(columns) },
};

/** The same columns, as rows on the form of another record. */
const folder: Resource = {
  model: 'folder',
  columns: { name: { type: 'string' } },
  admin: { inlines: [{ model: 'sheet', readonly: true }] },
};
const sheet: Resource = {
  model: 'sheet',
  columns: { folder: { type: 'foreignKey', references: 'folder' }, ...columns },
};

const { ada, service } = useAdmin([user, ticket, contact, seen, folder, sheet], {
  admin: { images: ['cdn.example.com', 'localhost:9000'] },
});

/** The badges of a text, as `tone: label`. */
const badgesIn = (text: string): string[] =>
  [...text.matchAll(/<span class="badge tone-(\w+)">([^<]*)<\/span>/g)].map(
    ([, tone = '', label = '']) => `${tone}: ${label}`,
  );

test('a choice with a tone is a badge in the list, the title, read-only values and the history', async () => {
  await service.sql`insert into ticket (subject, status, level, paid, fixed) values
    ('one', 'open', 2, true, 'a'), ('two', 'waiting', 1, false, 'b-1'), ('three', '', 1, false, 'a'), ('four', null, 1, false, 'a')`;
  const { text } = await ada.get('/admin/ticket/?ordering=id');
  assert.deepEqual(badgesIn(text), [
    ...['warning: Open &lt;now&gt;', 'danger: High', 'accent: Yes'],
    'info: No',
    ...['neutral: None', 'info: No'],
    'info: No',
  ]);
  const record = (await ada.get('/admin/ticket/1/')).text;
  const heading = /<div class="heading">[^]*?<div class="(columns|single)/.exec(record)?.[0] ?? '';
  const all = ['warning: Open &lt;now&gt;', 'danger: High', 'accent: Yes', 'info: a'];
  assert.deepEqual(badgesIn(heading), all);
  assert.match(heading, /<h1>one<\/h1>/);
  assert.deepEqual(badgesIn(record), [...all, 'info: a']);
  assert.doesNotMatch((await ada.get('/admin/ticket/-/add/')).text, /class="badge/);
  assert.equal((await save(ada, '/admin/ticket/1/', { status: 'done', level: '1' })).status, 303);
  const history = (await ada.get('/admin/ticket/1/history/')).text;
  assert.deepEqual(badgesIn(history), ['warning: Open &lt;now&gt;', 'success: Done', 'danger: High']);
});

/** Markup without the line breaks of its source. */
const inLine = (markup: string): string =>
  markup
    .replace(/\s+/g, ' ')
    .replace(/>\s+</g, '><')
    .replace(/\s*\/>/g, ' />')
    .trim();
/** The cell of a column in the row of a list. */
const cellOf = ({ text: page }: AdminAnswer, column: string): string =>
  new RegExp(`<t[dh][^>]*data-label="${column}"[^>]*>([^]*?)</t[dh]>`).exec(page)?.[1] ?? '';
const outer = (href: string, content: string): string => `<a href="${href}" rel="noreferrer">${content}</a>`;
const swatch = (color: string): string =>
  `<svg class="swatch" viewBox="0 0 1 1" aria-hidden="true"><rect width="1" height="1" fill="${color}" /></svg>`;

/** Values of columns, and their cells in a list; undefined for the escaped text. */
const CELLS: readonly (readonly [column: keyof typeof columns, value: string, cell?: string])[] = [
  ['email', 'ada@example.com', outer('mailto:ada@example.com', 'ada@example.com')],
  ['email', 'a?bcc=x%0a&b@example.com', outer('mailto:a%3Fbcc%3Dx%250a%26b@example.com', 'a?bcc=x%0a&amp;b@example.com')],
  ...['nobody', 'a@b@c', 'javascript:a@b(1)', 'a b@c.d'].map((one) => ['email', one] as const),
  ['url', 'https://example.com/a?b=1&c=<2>', outer('https://example.com/a?b=1&amp;c=%3C2%3E', 'https://example.com/a?b=1&amp;c=&lt;2&gt;')],
  ['url', 'HTTP://EXAMPLE.com', outer('http://example.com/', 'HTTP://EXAMPLE.com')],
  ...['javascript:alert(1)', 'java\tscript:alert(1)', ' https://a.b', 'data:text/html,x', '//a.b', 'https://', 'ftp://a.b', `https://a.b/${'c'.repeat(2100)}`].map((one) => ['url', one, one.length > 100 ? `${one.slice(0, 100)}…` : one.trim().replace('\t', ' ')] as const),
  ['phone', '+41 (44) 123-45/67', outer('tel:+41441234567', '+41 (44) 123-45/67')],
  ...['call me', '12', '---', '+1 (.)', 'tel:123', '+1;phone=x'].map((one) => ['phone', one] as const),
  ...['#fff', '#A1B2C3', '#a1b2c3d4', 'rebeccapurple', 'rgb(1 2 3 / 50%)', 'hsl(120deg, 1%, 2%)'].map((one) => ['color', one, `${swatch(one)} ${one}`] as const),
  ...['url(https://evil.example)', '#12345g', 'red;', 'url(#a) red'].map((one) => ['color', one] as const),
  ...['https://cdn.example.com/a.png', 'http://localhost:9000/b?c'].map((one) => ['image', one, outer(one, `<img class="thumbnail" src="${one}" alt="Image" loading="lazy" referrerpolicy="no-referrer" />`)] as const),
  ...['https://cdn.example.com:444/a', 'https://example.com/a.png', 'https://cdn.example.com.evil.example/a', 'https://cdn.example.com@evil.example/a'].map((one) => ['image', one, outer(one, one)] as const),
  ...['/admin/note/-/export.csv', '/media/../api/note/', '/%61dmin/', '/.%2e/api/'].map((one) => ['image', one, one.includes('-') ? `<span class="whole">${one}</span>` : one] as const),
  ...['/media/a.png', '/apiary/b.png', '/a?b=1#c', '/.//evil.example/a'].map((one) => ['image', one, outer(one, `<img class="thumbnail" src="${one}" alt="Image" loading="lazy" referrerpolicy="no-referrer" />`)] as const),
  ...['javascript:alert(1)', 'a.png', '//evil.example/a', '/\\evil.example/a', '\\\\evil.example', '/\t/evil.example/a'].map((one) => ['image', one, one.replace('\t', ' ')] as const),
  ['markdown', '**a** <b>'],
  ['code', 'if (a < b)\n  c()', '<code>if (a &lt; b) c()</code>'],
]; // prettier-ignore

describe('a text column with a widget', () => {
  const TITLES = { email: 'Email', url: 'Url', phone: 'Phone', color: 'Color', image: 'Image', markdown: 'Markdown', code: 'Code' }; // prettier-ignore
  const escaped = (value: string): string =>
    value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

  test('shows links, colors and images in a list, with safe schemes and allowed hosts only', async () => {
    for (const [column, value, cell = escaped(value)] of CELLS) {
      const [row] =
        await service.sql`insert into contact ${service.sql({ name: 'x', [column]: value })} returning id`;
      const list = await ada.get(`/admin/contact/?id=${row?.['id']}`);
      assert.equal(inLine(cellOf(list, TITLES[column])), inLine(cell), value);
    }
  });

  test('has no link in the link of the record, and is read-only as in a list, with Markdown rendered', async () => {
    const values = { url: 'https://a.b/', email: 'a@b.c', image: 'https://cdn.example.com/i', markdown: '*a* <i>', color: 'red', code: 'a\n  b' }; // prettier-ignore
    await service.sql`insert into folder (name) values ('f')`;
    await service.sql`insert into sheet ${service.sql({ folder_id: 1, ...values })}`;
    const [row] = await service.sql`insert into seen ${service.sql({ name: 'x', ...values })} returning id`;
    const list = await ada.get('/admin/seen/');
    const path = `/admin/seen/${row?.['id']}/`;
    assert.equal(cellOf(list, 'Url'), `<a href="${path}">https://a.b/</a>`);
    assert.match(inLine(cellOf(list, 'Image')), /^<a href="https:[^"]*" rel="noreferrer"><img /);
    for (const one of [path, '/admin/folder/1/']) {
      const { text: source } = await ada.get(one);
      const page = inLine(source);
      assert.ok(source.includes('<code>a\n  b</code>'));
      for (const part of [
        outer('https://a.b/', 'https://a.b/'),
        outer('mailto:a@b.c', 'a@b.c'),
        `${swatch('red')} red`,
        '<div class="markdown"><p><em>a</em> &lt;i&gt;</p></div>',
      ])
        assert.ok(page.includes(inLine(part)), `${one}: ${part}`);
    }
  });

  test('lets pages load images of the allowed hosts only, and no page without a session', async () => {
    const policyOf = ({ headers }: AdminAnswer): string =>
      /img-src ([^;]*)/.exec(headers.get('content-security-policy') ?? '')?.[1] ?? '';
    assert.equal(policyOf(await ada.get('/admin/contact/')), "'self' data: cdn.example.com localhost:9000");
    assert.equal(policyOf(await openBrowser(service).get('/admin/-/login/')), "'self' data:");
  });

  test('has a field for its kind of text, with what it leads to beside it', async () => {
    const values = { name: 'x', email: 'a', url: 'https://a.b/', phone: '1', color: '#abc', image: 'https://cdn.example.com/i', markdown: 'm', code: 'c' }; // prettier-ignore
    const [row] = await service.sql`insert into contact ${service.sql(values)} returning id`;
    const path = `/admin/contact/${row?.['id']}/`;
    const { text: page } = await ada.get(path);
    const tagOf = (name: string): string =>
      new RegExp(`<(?:input|textarea)[^>]*name="${name}"[^>]*>`).exec(page)?.[0] ?? '';
    for (const [name, pattern] of [
      ['email', /^<input[^>]*type="text"[^>]* spellcheck="false"[^>]* inputmode="email"/],
      ['url', /^<input[^>]* inputmode="url"/],
      ['phone', /^<input[^>]* inputmode="tel"/],
      ['color', /^<input[^>]* data-color/],
      ['image', /^<input[^>]* inputmode="url"/],
      ['markdown', /^<textarea(?![^>]*spellcheck)/],
      ['code', /^<textarea[^>]* spellcheck="false"[^>]* class="code" wrap="off"/],
    ] as const)
      assert.match(tagOf(name), pattern);
    assert.ok(page.includes(outer('https://a.b/', 'Open')));
    assert.ok(inLine(page).includes(inLine(swatch('#abc'))));
    assert.match(page, /<img\s+class="thumbnail"\s+src="https:\/\/cdn\.example\.com\/i"/);
    assert.equal((await ada.post(path, { ...fieldsOf(await ada.get(path)), name: 'y' })).status, 303);
    const [stored] = await service.sql`select * from contact where name = 'y'`;
    assert.deepEqual({ ...stored }, { id: row?.['id'], ...values, name: 'y' });
  });
});

test('the Markdown of a stored record may have the line breaks of Windows', async () => {
  const text = '# One\r\n\r\na  \r\nb\r\n';
  const [row] =
    await service.sql`insert into seen ${service.sql({ name: 'x', markdown: text })} returning id`;
  const page = await ada.get(`/admin/seen/${row?.['id']}/`);
  assert.ok(inLine(page.text).includes('<p><strong>One</strong></p><p>a<br />b</p>'));
});

describe('the preview of Markdown', () => {
  /** The preview of a text on the form of a new record. */
  async function previewOf(markdown: string): Promise<string> {
    const path = '/admin/contact/-/add/';
    const answer = await save(ada, path, { name: 'typed <name>', markdown, _preview: 'markdown' });
    assert.equal(answer.status, 200);
    const { name, markdown: kept } = fieldsOf(answer);
    assert.deepEqual([name, kept], ['typed <name>', markdown.replace(/\r\n?/g, '\n')]);
    const [, preview = ''] = /<div class="markdown">([^]*?)<\/div>/.exec(answer.text) ?? [];
    return preview;
  }

  test('shows a small subset of Markdown, and links to safe addresses only', async () => {
    for (const [markdown, expected] of [
      ['a\nb', '<p>a\nb</p>'],
      ['a  \nb\n\nc', '<p>a<br />b</p><p>c</p>'],
      ['**a *b* c**', '<p><strong>a <em>b</em> c</strong></p>'],
      ['# One\n### Two', '<p><strong>One</strong></p><p><strong>Two</strong></p>'],
      [
        '**a *b*** `c**` _d_ e_f_g \\*h\\*',
        '<p><strong>a *b</strong>* <code>c**</code> <em>d</em> e_f_g *h*</p>',
      ],
      [
        '- a\n- **b**\n  - c\n\nd',
        '<ul><li>a</li><li><p><strong>b</strong></p><ul><li>c</li></ul></li></ul><p>d</p>',
      ],
      [
        '1. a\n2) b\n---\n> c\n> > d',
        '<ol><li>a</li><li>b</li></ol><hr /><blockquote><p>c</p><blockquote><p>d</p></blockquote></blockquote>',
      ],
      ['1. a\n\n2. b\n\n- c\n\nd', '<ol><li><p>a</p></li><li><p>b</p></li></ol><ul><li>c</li></ul><p>d</p>'],
      ['```js\n<a>\n  **b**\n```\nc', '<pre><code>&lt;a&gt;\n  **b**</code></pre><p>c</p>'],
      ['~~~\nopen', '<pre><code>open</code></pre>'],
      [
        '[a <b>](https://c.d/?e&f) <https://g.h> https://i.j.',
        `<p>${outer('https://c.d/?e&amp;f', 'a &lt;b&gt;')} ${outer('https://g.h/', 'https://g.h')} ${outer('https://i.j/', 'https://i.j')}.</p>`,
      ],
      [
        '[a](mailto:b@c.d) ![e](https://f.g/)',
        `<p>${outer('mailto:b@c.d', 'a')} ${outer('https://f.g/', 'e')}</p>`,
      ],
      ['[a](javascript:alert(1)) [b](data:x) [c](/d) [e](JAVASCRIPT:f)', '<p>a b c e</p>'],
      [
        '[a](https://b.c/d_(e)) (https://b.c/d_(e(f))) [g](https://b.c/(h) <https://b.c/)i>',
        `<p>${outer('https://b.c/d_(e)', 'a')} (${outer('https://b.c/d_(e(f))', 'https://b.c/d_(e(f))')}) [g](${outer('https://b.c/(h)', 'https://b.c/(h)')} ${outer('https://b.c/', 'https://b.c/')})i&gt;</p>`,
      ],
      [
        '7. a\n8. b\n\nc\n\n0) d\n- 03. e',
        '<ol start="7"><li>a</li><li>b</li></ol><p>c</p><ol start="0"><li>d</li></ol><ul><li>03. e</li></ul>',
      ],
      [
        '<script>alert(1)</script>\n\n<!-- a -->',
        '<p>&lt;script&gt;alert(1)&lt;/script&gt;</p><p>&lt;!-- a --&gt;</p>',
      ],
    ] as const)
      // prettier-ignore
      assert.equal((await previewOf(markdown)).replaceAll('&#39;', "'"), expected, markdown);
  });

  test('has only its own tags and safe addresses for any text', async () => {
    const word = fc.constantFrom('*', '**', '_', '`', '```', '[', ']', '](', ')', '<', '>', '!', '\n', '\n\n', '  ', '- ', '1. ', '> ', '# ', '\\', '"', '&', 'a', 'b c', 'https://a.b/', 'mailto:a@b.c', 'javascript:x', '<img src=x onerror=y>'); // prettier-ignore
    const property = fc.asyncProperty(fc.array(word, { maxLength: 40 }), async (words) => {
      const preview = await previewOf(`x${words.join('')}`);
      const rest = preview
        .replace(/<a href="(?:https?:\/\/|mailto:)[^"<>]*" rel="noreferrer">/g, '')
        .replace(/<\/?(?:p|strong|em|code|pre|ul|ol|ol start="\d+"|li|blockquote|a)>|<(?:br|hr) \/>/g, '');
      assert.doesNotMatch(rest, /[<>"]/);
    });
    await fc.assert(property, { numRuns: 60 });
  });

  test('takes no long time for a text that is hard to read', async () => {
    for (const hard of [
      '*a',
      '**a',
      '[',
      '[a](',
      '_a ',
      '`',
      '> ',
      '- ',
      '  ',
      '\\',
      'https://',
      '<https://',
      '[a](b(',
      '[a](b(c)',
      '[a](((b)',
      'https://(a',
      'https://((a)',
      '# ',
      '1. a\n ',
    ])
      assert.ok((await previewOf(`x${hard.repeat(20_000 / hard.length)}`)).length > 0, hard);
    const start = performance.now();
    for (let time = 0; time < 5; time += 1)
      assert.match(await previewOf(`# ${' '.repeat(19_000)}\u2028a`), /<strong>a/);
    assert.ok(performance.now() - start < 3_000);
  });

  test('is shown for a stored record and for a bulk action, which change nothing', async () => {
    const [row] = await service.sql`insert into contact (name, markdown) values ('kept', 'a') returning id`;
    const id = String(row?.['id']);
    const answer = await save(ada, `/admin/contact/${id}/`, { markdown: '**new**', _preview: 'markdown' });
    assert.match(answer.text, /role="region" aria-label="Preview of Markdown"[^]*<strong>new<\/strong>/);
    const bulk = {
      _state: '',
      _action: 'set',
      _id: id,
      _column: 'markdown',
      _value: '1',
      markdown: '**all**',
    };
    const page = await ada.post('/admin/contact/-/bulk/', { ...bulk, _preview: 'markdown' });
    assert.match(page.text, /<strong>all<\/strong>/);
    const stored = async (): Promise<unknown> =>
      (await service.sql`select markdown from contact where id = ${id}`)[0]?.['markdown'];
    assert.equal(await stored(), 'a');
    assert.equal((await ada.post(`/admin/contact/${id}/`, fieldsOf(answer))).status, 303);
    assert.equal(await stored(), '**new**');
    assert.equal((await runBulk(ada, 'contact', { ...bulk })).status, 303);
    assert.equal(await stored(), '**all**');
  });
});
