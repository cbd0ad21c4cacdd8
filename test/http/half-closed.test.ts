import assert from 'node:assert/strict';
import { note, user } from '../../src/resources/registry.ts';
import { basic, startService, type TestService } from '../support.ts';
import { requestText, wire, type Wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

describe('a half-closed connection', () => {
  let service: TestService;
  const open: Wire[] = [];
  before(async () => {
    service = await startService([user, note]);
    await service.addUser('bob');
    await service.sql`insert into note (message) values ('x')`;
  });
  after(async () => {
    for (const connection of open) connection.destroy();
    await service.close();
  });
  const start = (): Wire => {
    const connection = wire(service);
    open.push(connection);
    return connection;
  };
  const bob = { authorization: basic('bob') };
  const post = (message: string): string =>
    requestText('POST', '/api/note/', bob, JSON.stringify({ message }));

  test('gets all its answers', async () => {
    for (const texts of [
      [requestText('GET', '/api/note/1/')],
      [requestText('GET', '/api/note/?message__like=x%25')],
      [post('half')],
      [requestText('GET', '/api/note/1/'), post('half'), requestText('GET', '/api/note/?message=half')],
      [requestText('GET', '/nowhere'), requestText('GET', '/healthz')],
    ]) {
      const connection = start();
      connection.socket.end(texts.join(''));
      for (const text of texts) {
        const status = text.startsWith('POST') ? 201 : text.includes('/nowhere') ? 404 : 200;
        let answer = await connection.next();
        // A 102 checks whether the client is still there.
        while (answer?.status === 102) answer = await connection.next();
        assert.equal(answer?.status, status, text);
      }
      assert.equal(await connection.rest(), '', 'the connection is closed then');
    }
    const cut = start();
    cut.socket.end(post('cut').slice(0, -3));
    const answer = await cut.next();
    assert.ok(answer === undefined || answer.status === 400);
    assert.deepEqual((await service.request('/api/note/?message=cut')).json.objects, []);
  });

  test('gets the answer of a short request with HTTP/1.0', async () => {
    for (const [text, status] of [
      [requestText('GET', '/api/note/?message__like=x%25'), 200],
      [post('1.0'), 201],
    ] as const) {
      const connection = start();
      connection.socket.end(text.replace('HTTP/1.1', 'HTTP/1.0'));
      assert.equal((await connection.next())?.status, status);
      assert.equal(await connection.rest(), '');
    }
  });
});
