import assert from 'node:assert/strict';
import { COSTLY } from '../../src/db/statement-shapes.ts';
import { note, user } from '../../src/resources/registry.ts';
import { startService } from '../support.ts';
import { describe, test } from 'node:test';

describe('the quick pool', () => {
  /** How many statements of the work pool each request runs. Requests are tried again if the machine paused: then reads count as slow. */
  async function statementsOf(
    messages: string,
    requests: readonly { readonly path: string; readonly before?: string }[],
  ): Promise<number[]> {
    for (let tries = 1; ; tries += 1) {
      const service = await startService([user, note]);
      const work = async (): Promise<number> => {
        const text = await service.metrics();
        const [, count] = /statement_duration_seconds_count\{pool="work"\} (\d+)/.exec(text) ?? [];
        return Number(count);
      };
      try {
        await service.sql.unsafe(`insert into note (message) ${messages}`);
        const counts: number[] = [];
        let slowest = 0;
        for (const { path, before } of requests) {
          if (before) await service.sql.unsafe(before);
          const [already, started] = [await work(), performance.now()];
          assert.equal((await service.request(path)).status, 200);
          slowest = Math.max(slowest, performance.now() - started);
          counts.push((await work()) - already);
        }
        if (slowest < COSTLY || tries === 5) return counts;
      } finally {
        await service.close();
      }
    }
  }

  test('accepts no page of unknown size, and no page that was large lately', async () => {
    const small = { path: '/api/note/?limit=1' };
    const large = { path: '/api/note/?limit=20' };
    const counts = await statementsOf(
      'select repeat(md5(n::text), 2000) from generate_series(1, 20) n',
      [small, small, small, small, large, large, large, large, { ...large, before: `update note set message = 'short'` }, large], // prettier-ignore
    );
    const [first, ...later] = counts.slice(0, 4);
    assert.ok(first !== undefined && first > 0);
    assert.deepEqual(later, [0, 0, 0], 'the first one alone');
    assert.ok(counts.slice(4, 8).every((count) => count > 0));
    assert.deepEqual(counts.slice(8), [1, 1], 'it was large lately');
  });

  test('accepts records next to a large one, and not the large one', async () => {
    const counts = await statementsOf(
      `select repeat('x', 300000) union all select 'short'`,
      [1, 1, 2, 1, 2].map((id) => ({ path: `/api/note/${id}/` })),
    );
    // The cost of a statement is estimated before its first run.
    assert.deepEqual(counts, [2, 1, 0, 1, 0]);
  });
});
