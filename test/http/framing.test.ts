// Unusual framing, sent over raw sockets: trailers, chunk extensions and transfer codings.
import assert from 'node:assert/strict';
import { note, user } from '../../src/resources/registry.ts';
import { basic, startService, type TestService } from '../support.ts';
import { requestText, wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

describe('unusual framing', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, note]);
    await service.addUser('bob');
  });
  after(() => service.close());
  const json = { authorization: basic('bob'), 'content-type': 'application/json' };

  test('chunk extensions and trailers change no header and no other request', async () => {
    const connection = wire(service);
    const body = '{"message":"chunked"}';
    const chunk = `${body.length.toString(16)};name="value";other\r\n${body}\r\n`;
    const trailers = `authorization: ${basic('nobody')}\r\nx: GET /nowhere HTTP/1.1\r\n`;
    connection.send(
      requestText('POST', '/api/note/', {
        ...json,
        'transfer-encoding': 'chunked',
        trailer: 'authorization',
      }),
    );
    connection.send(`${chunk}0;last\r\n${trailers}\r\n${requestText('GET', '/healthz')}`);
    const created = await connection.next();
    assert.equal(created?.status, 201, created?.body);
    assert.equal((JSON.parse(created.body) as { message: string }).message, 'chunked');
    assert.equal((await connection.next())?.body, '{"status":"ok"}');
    connection.send(requestText('GET', '/healthz', { connection: 'close' }));
    assert.equal((await connection.next())?.status, 200);
    assert.equal(await connection.rest(), '');
  });

  test('endless chunk extensions and trailers end the connection', async () => {
    for (const start of [`1;${'x'.repeat(200_000)}`, `0\r\nx: ${'x'.repeat(200_000)}`]) {
      const connection = wire(service);
      connection.send(requestText('POST', '/api/note/', { ...json, 'transfer-encoding': 'chunked' }));
      connection.send(start);
      assert.match(String((await connection.next())?.status), /^4\d\d$/);
      assert.equal(await connection.rest(), '');
    }
    assert.equal((await service.request('/healthz')).status, 200);
  });

  test('a transfer coding other than chunked is 501 or 400, and the connection closes', async () => {
    for (const coding of ['gzip, chunked', 'deflate,chunked', 'chunked, chunked']) {
      const connection = wire(service);
      const headers = { ...json, 'transfer-encoding': coding };
      connection.send(requestText('POST', '/api/note/', headers, '5\r\n{"x":\r\n0\r\n\r\n'));
      const answer = await connection.next();
      assert.ok(answer?.status === 501 || answer?.status === 400, `${coding} ${answer?.status}`);
      assert.equal(answer.headers['content-type'], 'application/problem+json');
      assert.equal(answer.headers['connection'], 'close');
      assert.equal(await connection.rest(), '');
    }
    const chunked = wire(service);
    const body = JSON.stringify({ message: 'in capitals' });
    const headers = { ...json, 'transfer-encoding': 'Chunked' };
    const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    chunked.send(requestText('POST', '/api/note/', headers, chunks));
    assert.equal((await chunked.next())?.status, 201);
  });
});
