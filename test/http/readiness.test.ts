import assert from 'node:assert/strict';
import { note, user } from '../../src/resources/registry.ts';
import { startService } from '../support.ts';
import { wire } from './wire.ts';
import { test } from 'node:test';

test('a service that is shutting down is alive but not ready, for requests on open connections', async () => {
  for (const [path, status] of [
    ['/healthz', 200],
    ['/readyz', 503],
  ] as const) {
    const service = await startService([user, note]);
    const connection = wire(service);
    const head = `GET ${path} HTTP/1.1\r\nHost: x\r\n`;
    connection.send(`${head}\r\n${head}`); // the second request lacks its last line
    assert.equal((await connection.next())?.status, 200);
    const closing = service.close();
    connection.send('\r\n');
    const answer = await connection.next();
    assert.equal(answer?.status, status);
    assert.equal(answer.headers['connection'], 'close');
    assert.equal(answer.headers['retry-after'] !== undefined, status === 503);
    await closing;
  }
});
