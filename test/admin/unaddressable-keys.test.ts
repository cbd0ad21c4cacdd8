// Keys that no URL can name are shown without links, which would lead elsewhere.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService } from '../support.ts';
import { logIn } from './support.ts';
import { test } from 'node:test';

const RESOURCES: Resource[] = [
  user,
  { model: 'word', primaryKey: { type: 'string' }, columns: { text: { type: 'string' } } },
];

test('records with the keys "", "." and ".." have no links', async () => {
  const service = await startService(RESOURCES);
  try {
    await service.addUser('root', { admin: true });
    for (const id of ['', '.', '..', 'a.b']) await service.sql`insert into word values (${id}, 'x')`;
    const page = (await service.request('/api/word/', { headers: { accept: 'text/html' } })).text;
    const browser = await logIn(service, 'root');
    const list = (await browser.get('/admin/word/')).text;
    for (const [text, start] of [
      [page, '/api/word/'],
      [list, '/admin/word/'],
    ] as const) {
      const addresses = [...text.matchAll(/href="([^"?]*)/g)].map(([, address = '']) => address);
      assert.ok(addresses.includes(`${start}a.b/`));
      assert.deepEqual(
        addresses.filter((address) => /\/\.{0,2}\/$/.test(address)),
        [],
      );
    }
  } finally {
    await service.close();
  }
});
