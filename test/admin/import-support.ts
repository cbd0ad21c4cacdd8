// The registry, the records and the steps of the tests of CSV imports.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, type AdminAnswer, type Browser } from './support.ts';
import { after, before, beforeEach } from 'node:test';

const resources = [
  user,
  {
    model: 'book',
    columns: {
      title: { type: 'string', maxLength: 20 },
      reader: { type: 'foreignKey', references: 'user', null: true },
      pages: { type: 'integer', null: true, min: 1 },
      price: { type: 'decimal', precision: 8, scale: 2, null: true },
      rating: { type: 'float', null: true },
      data: { type: 'json', null: true },
      lent: { type: 'boolean', default: false },
      since: { type: 'datetime', default: 'now' },
      day: { type: 'date', null: true },
      kind: { type: 'string', choices: ['novel', 'poem'], default: 'novel' },
      code: { type: 'uuid', null: true, unique: true },
      note: { type: 'text', null: true },
      stamp: { type: 'string', default: 'none' },
      secret: { type: 'string', null: true },
      shelf: { type: 'foreignKey', references: 'shelf', null: true },
    },
    admin: { exclude: ['secret'], readonly: ['stamp'], title: 'Books & <b>papers</b>' },
  },
  {
    model: 'place',
    primaryKey: { type: 'string' },
    columns: { name: { type: 'string' } },
  },
  { model: 'visit', columns: { place: { type: 'foreignKey', references: 'place' } } },
  {
    model: 'sheet',
    columns: { name: { type: 'string' }, data: { type: 'json', default: { from: 'default' } } },
  },
  { model: 'shelf', columns: { name: { type: 'string' } }, admin: { hidden: true } },
  { model: 'looker', columns: { name: { type: 'string' } } },
  { model: 'grown', columns: { name: { type: 'string' } }, admin: { allow: ['add'] } },
  { model: 'kept', columns: { name: { type: 'string' } }, admin: { allow: ['change'] } },
  { model: 'looked', columns: { name: { type: 'string' } }, admin: { allow: ['delete'] } },
] satisfies Resource[];

export const PATH = '/admin/book/-/import/';
export const crlf = (...lines: readonly string[]): string => lines.map((line) => `${line}\r\n`).join('');

/** The text of a page without markup, on one line. */
export const visibleText = (page: string): string =>
  page
    .replace(/<(style|script)[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]*>/g, ' ')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')
    .replace(/\s+/g, ' ');

/** The service and the browser of an admin, while a suite with `useImports` runs. */
export let service: TestService;
export let browser: Browser;

/** Starts the service for the tests of a suite. Each test begins with three books. */
export function useImports(): void {
  before(async () => {
    service = await startService(resources);
    await service.addUser('ada', { admin: true });
    browser = await logIn(service, 'ada');
  });
  after(() => service.close());
  beforeEach(async () => {
    await service.sql`truncate book, shelf, visit, place, grown, kept, vitrine_history restart identity`;
    await service.sql`delete from "user" where username <> 'ada'`;
    await service.sql`insert into book (title, pages, since, note, secret) values
      ('One', 1, '2026-01-15 09:30:00', null, 'hushed'), ('Two', 2, '2026-01-15 09:30:00', '', 'hushed'),
      ('Three', 3, '2026-01-15 09:30:00', ${'a\nb\r\nc'}, 'hushed')`;
  });
}

export function upload(content: string | Uint8Array, path = PATH, name = 'books.csv'): Promise<AdminAnswer> {
  const form = new FormData();
  form.append('_file', new Blob([content], { type: 'text/csv' }), name);
  form.append('_text', '');
  return browser.upload(path, form);
}

export function paste(text: string, path = PATH): Promise<AdminAnswer> {
  const form = new FormData();
  form.append('_file', new Blob([]), '');
  form.append('_text', text);
  return browser.upload(path, form);
}

export const hidden = (page: string, name: string): string | undefined =>
  new RegExp(`name="${name}" value="([^"]*)"`).exec(page)?.[1];

/** Confirms a preview. */
export function apply({ text }: AdminAnswer, path = PATH): Promise<AdminAnswer> {
  const form = new FormData();
  if (text.includes('name="_current"')) form.append('_current', 'pw-ada');
  for (const name of ['_csv', '_digest']) {
    const value = hidden(text, name);
    assert.ok(value, `the preview carries ${name}`);
    form.append(name, value);
  }
  return browser.upload(path, form);
}

export const titles = async (): Promise<string[]> =>
  (await service.sql<{ title: string }[]>`select title from book order by id`).map(({ title }) => title);
export const history = async (): Promise<number> => (await service.sql`select from vitrine_history`).count;
