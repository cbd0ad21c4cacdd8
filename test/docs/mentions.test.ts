import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SETTINGS } from '../../src/config.ts';
import { ARRAY_TYPES } from '../../src/db/types/array-types.ts';
import { COLUMN_TYPES, KEY_TYPES } from '../../src/db/types/column-types.ts';
import { OPERATORS } from '../../src/query/parse/filter-values.ts';
import { CHECKOUT } from '../process/support.ts';
import { allPages, readPage, ROOT } from './pages.ts';
import { keysOf, valuesOf } from './types.ts';
import { describe, test } from 'node:test';

/** The rows of the first table below a heading: the text of each cell. */
function tableBelow(page: string, heading: string): string[][] {
  const start = `\n${readPage(page)}`.split(`\n${heading}\n`)[1];
  assert.ok(start, `${page} has a heading ${heading}`);
  const lines = start.split('\n');
  const first = lines.findIndex((line) => line.startsWith('|'));
  const rows = lines.slice(first + 2);
  return rows
    .slice(
      0,
      rows.findIndex((line) => !line.startsWith('|')),
    )
    .map((line) =>
      line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

/** What stands in code in a cell of each row. */
const codeIn = (rows: readonly string[][], cell = 0): string[] =>
  rows.flatMap((row) => [...(row[cell] ?? '').matchAll(/`([^`]+)`/g)].map(([, code = '']) => code));

const sameNames = (actual: Iterable<string>, expected: Iterable<string>): void =>
  assert.deepEqual([...new Set(actual)].sort(), [...new Set(expected)].sort());

const unquoted = (texts: readonly string[]): string[] => texts.map((text) => text.replaceAll("'", ''));

describe('the pages list everything that the code defines, and nothing else', () => {
  test('settings, with their defaults', () => {
    const rows = tableBelow('docs/running.md', '## Settings');
    sameNames(codeIn(rows), Object.keys(SETTINGS));
    for (const [name, , fallback] of rows) {
      const known = SETTINGS[name?.replaceAll('`', '') ?? '']?.fallback ?? '?';
      assert.ok(
        fallback?.replaceAll('`', '').startsWith(known),
        `${name}: ${fallback}, and ${known} in the code`,
      );
    }
  });

  test('keys of a resource, and of its admin', () => {
    const rows = tableBelow('docs/resources.md', '## Keys of a resource');
    sameNames(codeIn(rows), keysOf('resources/definition/resource.ts', 'Resource'));
    const admin = tableBelow('docs/configuring-admin.md', '## Keys of admin');
    sameNames(codeIn(admin), keysOf('resources/definition/resource.ts', 'AdminOptions'));
  });

  test('keys of a column', () => {
    const rows = tableBelow('docs/resources.md', '## Keys of a column');
    sameNames(codeIn(rows), keysOf('db/schema/model-definition.ts', 'ColumnDefinition'));
  });

  test('types of columns and of keys', () => {
    const columns = codeIn(tableBelow('docs/resources.md', '## Column types'));
    sameNames(columns, [...Object.keys(COLUMN_TYPES), 'array', 'foreignKey']);
    sameNames(unquoted(codeIn(tableBelow('docs/resources.md', '## Keys'))), Object.keys(KEY_TYPES));
  });

  const TYPES = [
    ['resources/definition/resource.ts', 'Resource'],
    ['resources/definition/resource.ts', 'AdminOptions'],
    ['resources/definition/panel.ts', 'PanelSeries'],
    ['db/schema/model-definition.ts', 'ColumnDefinition'],
    ['config.ts', 'Settings'],
  ] as const;
  /** Keys with one level, or with roles that the registry defines. */
  const LEVELS = ['access', 'read'];
  test('values of keys that take one of a list', () => {
    const all = new Map<string, Set<string>>();
    for (const [file, type] of TYPES)
      for (const [key, values] of valuesOf(file, type))
        all.set(key, new Set([...(all.get(key) ?? []), ...values]));
    assert.deepEqual([...(all.get('kind') ?? [])], ['bar', 'line']);
    for (const value of Object.keys(KEY_TYPES)) all.get('type')?.add(value); // of `primaryKey`
    const text = allPages().map(readPage).join('\n');
    for (const [key, values] of all) {
      const list = LEVELS.includes(key) ? '' : '|\\[[^\\]]*\\]';
      const written = [...text.matchAll(new RegExp(`\\b${key}: ('[^'\n]*'${list})`, 'g'))].flatMap(
        ([, one = '']) => [...one.matchAll(/'([^']*)'/g)].map(([, value = '']) => value),
      );
      // Others are rules about rows.
      for (const value of written.filter((one) => !one.includes('=')))
        assert.ok(values.has(value), `${key}: '${value}'`);
      for (const value of values) assert.match(text, new RegExp(`['\`]${value}['\`]`), `${key}: ${value}`);
    }
  });

  test('values of settings that take one of a list', () => {
    const text = allPages().map(readPage).join('\n');
    for (const [name, { parse }] of Object.entries(SETTINGS)) {
      try {
        parse('?');
      } catch (error) {
        if (!/^must be one of/.test((error as Error).message)) continue;
        for (const [, value = ''] of text.matchAll(new RegExp(`\\b${name}=(\\w+)`, 'g')))
          assert.doesNotThrow(() => parse(value), `${name}=${value}`);
      }
    }
  });

  test('operators, and which fit which type', () => {
    sameNames(codeIn(tableBelow('docs/reading.md', '## Filters')), OPERATORS);
    const fitting = tableBelow('docs/reading.md', '### Which operators a type takes');
    for (const [types = '', documented = ''] of fitting) {
      const named = codeIn([[documented]]);
      const others = [...OPERATORS].filter((operator) => !named.includes(operator));
      const expected = documented.startsWith('all') ? others : named;
      for (const type of codeIn([[types]]).filter((name) => name !== 'foreignKey')) {
        const found = type === 'array' ? ARRAY_TYPES.text : COLUMN_TYPES[type as keyof typeof COLUMN_TYPES];
        sameNames(found.operators, expected);
      }
    }
    sameNames(codeIn(fitting), [...Object.keys(COLUMN_TYPES), 'array', 'foreignKey']);
  });

  test('commands', () => {
    const help = execFileSync(process.execPath, [CHECKOUT, '--help'], {
      encoding: 'utf8',
    });
    const commands = [
      ...(help.split('Commands\n')[1] ?? '').split('\n\n')[0]!.matchAll(/^ {2}(\S.*?)(?: {2}|$)/gm),
    ];
    const options = [...help.matchAll(/^ {2}(--\S+)/gm)];
    sameNames(
      codeIn(tableBelow('docs/running.md', '## Commands')),
      [...commands, ...options].map(([, name]) => `vitrine ${name}`),
    );
  });

  test('messages: those of the page on troubleshooting are in the code', () => {
    const source = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => readPage(join('src', name)))
      .join('\n');
    const rows = readPage('docs/troubleshooting.md').matchAll(/^\| ([^|]+) \|/gm);
    const messages = codeIn([...rows].map(([, first = '']) => [first]));
    assert.ok(messages.length > 20);
    const parts = messages.flatMap((message) => message.split('…')).filter((part) => part.trim().length > 5);
    const notOurs = ['unsupported startup parameter: statement_timeout'];
    assert.deepEqual(
      parts.filter((part) => !source.includes(part) && !notOurs.includes(part)),
      [],
    );
  });

  test('options and types of the library', () => {
    const options = codeIn(tableBelow('docs/embedding.md', '## Options'));
    sameNames(options, keysOf('index.ts', 'VitrineOptions'));
    const members = codeIn(tableBelow('docs/embedding.md', '# Embedding')).slice(1);
    sameNames(
      members.map((text) => /^vitrine\.(\w+)/.exec(text)?.[1] ?? text),
      keysOf('index.ts', 'Vitrine'),
    );
    for (const name of keysOf('index.ts')) {
      assert.match(readPage('docs/embedding.md'), new RegExp(`\`${name}[\`(]`), name);
    }
  });
});

describe('links', () => {
  const withoutCode = (page: string): string => readPage(page).replace(/^```.*?^```$/gms, '');

  /** The anchors of a page as GitHub makes them of its headings. */
  const anchorsOf = (page: string): string[] =>
    [...withoutCode(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    );

  for (const page of allPages()) {
    test(`${page}: relative links lead to files and headings that exist`, () => {
      for (const [, link = ''] of withoutCode(page).matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z]+:/.test(link)) continue;
        const [path = '', anchor] = link.split('#');
        const target = path === '' ? page : join(dirname(page), decodeURIComponent(path));
        assert.ok(existsSync(join(ROOT, target)), `${link}: there is no ${target}`);
        if (anchor === undefined) continue;
        assert.ok(
          statSync(join(ROOT, target)).isFile() && anchorsOf(target).includes(anchor),
          `${link}: no such heading`,
        );
      }
    });
  }
});
