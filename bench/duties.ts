// Checks that the servers which are measured with the same duties have them.
import assert from 'node:assert/strict';
import type { BenchDatabase } from './database.ts';
import { BASE, USERS, writing, type Request } from './rows.ts';
import type { Server } from './servers.ts';

const send = ({ port }: Server, { method, path, headers, body }: Request): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body: body ?? null });

const put = (id: number, content: string): Request => writing('PUT', 0, `${BASE}${id}/`, { content });

/**
 * Credentials are checked, other owners' records are refused, a change gives the record a new ETag, and the history has it.
 */
export async function checkDuties(servers: readonly Server[], { query }: BenchDatabase): Promise<void> {
  const entries = async (): Promise<number> => {
    const [found] = await query<{ count: number }>('select count(*)::int as count from vitrine_history');
    return found?.count ?? NaN;
  };
  for (const server of servers) {
    const statusOf = async (request: Request, authorization?: string): Promise<number> => {
      const headers = { ...request.headers, Authorization: authorization ?? '' };
      const changed = authorization === undefined ? request : { ...request, headers };
      return (await send(server, changed)).status;
    };
    const wrong = `Basic ${Buffer.from('user1:wrong password').toString('base64')}`;
    assert.equal(await statusOf(put(1, 'a'), ''), 401, `${server.name} needs no credentials`);
    assert.equal(await statusOf(put(1, 'a'), wrong), 401, `${server.name} accepts a wrong password`);
    assert.equal(await statusOf(put(2, 'a')), 403, `${server.name} changes the record of another owner`);
    const before = await entries();
    const tags: (string | null)[] = [];
    for (const content of ['a', 'b']) {
      const response = await send(server, put(1 + USERS, content));
      assert.equal(response.status, 200);
      tags.push(response.headers.get('etag'));
    }
    assert.ok(tags[0] && tags[1] && tags[0] !== tags[1], `${server.name} has no ETag`);
    assert.equal((await entries()) - before, 2, `${server.name} has no history`);
  }
}
