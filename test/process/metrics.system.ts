import assert from 'node:assert/strict';
import { createDatabase, request } from '../support.ts';
import { answered, valueOf, readExposition } from './exposition.ts';
import { freePort, run, serve } from './support.ts';
import { describe, test } from 'node:test';

describe('who may read the metrics', () => {
  test('with METRICS=HOST:PORT every client of that address, which serves nothing else', async () => {
    const database = await createDatabase();
    const address = `127.0.0.1:${await freePort()}`;
    const program = await serve({ env: { DATABASE_URL: database.url, METRICS: address } });
    const own = `http://${address}`;
    assert.equal((await request(program.base, '/metrics')).status, 404);
    await request(program.base, '/api/note/');
    const through = await request(own, '/metrics?x=1', { headers: { 'X-Forwarded-For': '10.0.0.1' } });
    assert.equal(valueOf(readExposition(through.text), answered('/api/{model}/', 'GET', 200)), 1);
    assert.equal((await request(own, '/api/note/')).status, 404);
    const post = await request(own, '/metrics', { method: 'POST' });
    assert.deepEqual([post.status, post.headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
    const again = await run(['serve'], { env: { DATABASE_URL: database.url, METRICS: address, PORT: '0' } });
    assert.equal(again.code, 1);
    assert.match(again.stderr, new RegExp(`^vitrine: Cannot listen on ${address}: `, 'm'));
    assert.equal((await program.stop()).code, 0);
    await database.drop();
  });

  test('what METRICS does not take ends the start', async () => {
    for (const METRICS of [
      'on',
      'loopback',
      '9464',
      ':9464',
      '127.0.0.1:',
      '127.0.0.1:70000',
      '::1:9464',
      'http://x:1',
    ]) {
      const { code, stderr } = await run(['serve'], { env: { METRICS } });
      assert.equal(code, 1, METRICS);
      assert.match(stderr, /METRICS must be off, or an address to listen on such as 127\.0\.0\.1:9464/);
    }
  });
});
