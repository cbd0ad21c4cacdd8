// A request that has waited for something counts as active again before it reads, so that one client cannot fill the queue.
import assert from 'node:assert/strict';
import { user } from '../../src/resources/registry.ts';
import { basic, startService } from '../support.ts';
import { requestText, wire } from './wire.ts';
import { test } from 'node:test';

const LIMITS = [20, 21, 22, 23];
/** The requests that are active at once before the user is looked up and before the record is read, and some that are answered meanwhile. */
const MOST = 2 * 64 + 32;
/** An address without too many headers lately: the requests of one with them are read one after the other. */
const ADDRESS = '127.0.0.74';

test('a read does not wait behind hundreds of pages of a user, whose requests have waited until the user was looked up', async () => {
  const paper = { model: 'paper', columns: { text: { type: 'text' } }, read: 'user' } as const;
  const service = await startService([user, paper], { trustProxy: 1 });
  const wires = Array.from({ length: 400 }, () => wire(service, ADDRESS));
  // Connected before: a connection that is made meanwhile would be accepted after many pages.
  const reader = wire(service, ADDRESS);
  try {
    await service.addUser('bob');
    await service.addUser('ada');
    await service.sql`insert into paper (text) select repeat('"a" line ', 1000) from generate_series(1, 1000)`;
    const pathOf = (index: number): string =>
      `/api/paper/?limit=${LIMITS[index % LIMITS.length]}&page=${1 + (index % 40)}`;
    const headersOf = (name: string, address: string) => ({
      authorization: basic(name),
      'x-forwarded-for': address,
    });
    const [own, others] = [headersOf('ada', '10.0.0.1'), headersOf('bob', '10.0.0.2')];
    // Only a page that has been small before shares the connection.
    for (let index = 0; index < 8; index += 1) await service.request(pathOf(index), { headers: others });
    const read = async (): Promise<number | undefined> => {
      reader.send(requestText('GET', '/api/paper/1/', own));
      return (await reader.next())?.status;
    };
    assert.equal(await read(), 200);
    let answered = 0;
    const begun = new Promise<void>((resolve) => {
      for (const [index, connection] of wires.entries()) {
        connection.send(requestText('HEAD', pathOf(index), others));
        void connection.next({ head: true }).then((answer) => {
          if (answer?.status === 200) answered += 1;
          if (answered === 20) resolve();
        });
      }
    });
    await begun;
    const before = answered;
    assert.equal(await read(), 200);
    const meanwhile = answered - before;
    assert.ok(meanwhile <= MOST, `${meanwhile} pages came first`);
  } finally {
    for (const connection of [...wires, reader]) connection.destroy();
    await service.close();
  }
});
