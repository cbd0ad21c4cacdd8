import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { basic, createDatabase, request, type TestDatabase } from '../support.ts';
import { addUser, serve } from './support.ts';
import { after, before, describe, test } from 'node:test';

describe('the service process', { concurrency: 8 }, () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await (await serve({ env: { DATABASE_URL: database.url } })).stop(); // creates the tables
    await addUser(database.sql, 'ada');
  });
  after(() => database.drop());

  test('listens on HOST', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url, HOST: 'localhost' } });
    assert.match(service.base, /^http:\/\/localhost:[1-9]\d*$/);
    assert.equal((await request(service.base, '/readyz')).status, 200);
    assert.equal((await service.stop()).code, 0);
  });

  test('stops with a request in flight soon after the grace period of ten seconds', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url } });
    const { hostname, port } = new URL(service.base);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    const head = [
      'POST /api/note/ HTTP/1.1',
      'Host: x',
      `Authorization: ${basic('ada')}`,
      'Content-Type: application/json',
      'Content-Length: 1000',
      'Expect: 100-continue',
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    await once(socket, 'data'); // the service waits for the body now
    service.child.kill('SIGTERM');
    const timeout = new Promise((resolve) => setTimeout(resolve, 20_000, 'still there').unref());
    assert.notEqual(await Promise.race([service.ended, timeout]), 'still there');
    assert.equal((await service.ended).code, 0);
    socket.destroy();
  });
});
