import assert from 'node:assert/strict';
import { note, user } from '../../src/resources/registry.ts';
import { assertProblem } from '../http/expect.ts';
import { startService } from '../support.ts';
import { test } from 'node:test';

test('the link to the next page works for the longest requests', async () => {
  const service = await startService([user, note]);
  try {
    for (let count = 0; count < 5; count += 1) await service.sql`insert into note (message) values ('x')`;
    const maxQuery = 8192;
    const values = (one: string, name = 'message__in='): string => {
      const count = Math.floor((maxQuery - name.length) / (one.length + 1));
      return `${name}x,${`${one},`.repeat(Math.min(count, 998)).slice(0, -one.length - 1)}`;
    };
    const moments = Array.from({ length: 390 }, () => '2024-01-01+00:00:00').join(',');
    for (const query of [
      `message__ne=${'y'.repeat(maxQuery - 'message__ne='.length)}`,
      values('1234567'),
      values('a%20b', '-message__in=y,').replace('=y,x,', '=y,'),
      `-created__in=${moments}`,
    ]) {
      for (const paging of [
        '',
        '&limit=2',
        '&page=2&limit=2',
        '&page=0000000002&limit=00000000000000000002',
      ]) {
        const { status, json, text } = await service.request(`/api/note/?${query}${paging || '&limit=1'}`);
        assert.equal(status, 200, text.slice(0, 300));
        assert.notEqual(json.meta.next, '', `${query.slice(0, 30)} ${paging}`);
        const next = await service.request(json.meta.next);
        assert.equal(next.status, 200, next.text.slice(0, 300));
        assert.equal(next.json.meta.page, json.meta.page + 1);
        assert.equal((await service.request(next.json.meta.previous)).text, text);
      }
    }
    assertProblem(await service.request(`/api/note/?message=${'y'.repeat(maxQuery)}&limit=1`), 414);
  } finally {
    await service.close();
  }
});
