import assert from 'node:assert/strict';
import type { FieldErrors } from '../../src/errors.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

describe('a request with a hostile text', () => {
  let service: TestService;
  before(async () => {
    service = await startService([
      {
        model: 'user',
        columns: {
          username: { type: 'string', unique: true },
          email: { type: 'string' },
          password: { type: 'password' },
          active: { type: 'boolean', default: true },
          admin: { type: 'boolean', default: false },
        },
        access: 'admin',
        exclude: ['password'],
      },
      {
        model: 'thing',
        columns: {
          price: { type: 'decimal', null: true },
          size: { type: 'float', null: true },
          count: { type: 'bigint', null: true },
          note: { type: 'text', null: true },
          data: { type: 'json', null: true },
        },
        access: 'user',
      },
    ]);
    await service.addUser('ada', { admin: true });
  });
  after(() => service.close());

  const post = (body: unknown): ReturnType<TestService['request']> =>
    service.request('/api/thing/', { method: 'POST', user: 'ada', body });
  const sizeOf = (body: string): number => Buffer.byteLength(body);

  for (const [kind, value] of [
    ['a decimal of half a megabyte', '1'.repeat(500_000)],
    ['a decimal of half a megabyte that ends with a letter', `${'1'.repeat(500_000)}x`],
  ] as const)
    test(`${kind} gets a short 400`, async () => {
      const answer = await post({ price: value, count: value });
      assert.equal(answer.status, 400);
      assert.deepEqual(Object.keys(answer.json.errors as FieldErrors).sort(), ['count', 'price']);
      assert.ok(sizeOf(answer.text) < 1000);
    });

  test('the longest decimal is stored and returned', async () => {
    const price = `${'1'.repeat(131_072)}.${'1'.repeat(16_383)}`;
    const answer = await post({ price });
    assert.equal(answer.status, 201);
    assert.equal(answer.json.price, price);
  });

  test('errors name the first 100 unknown fields, and count the others', async () => {
    const fields = Object.fromEntries(Array.from({ length: 9000 }, (_, at) => [`unknown${at}`, 1]));
    const { status, json, text } = await post(fields);
    assert.equal(status, 400);
    const errors = json.errors as FieldErrors;
    assert.equal(Object.keys(errors).length, 100);
    assert.deepEqual(errors['unknown99'], ['there is no such field', 'and 8900 more fields do not exist']);
    assert.ok(sizeOf(text) < 10_000);
  });

  test('a body of more than 10,000 fields is 400', async () => {
    const fields = Object.fromEntries(Array.from({ length: 10_001 }, (_, at) => [`unknown${at}`, 1]));
    assert.match((await post(fields)).json.detail as string, /more than 10000 fields/);
  });

  test('errors truncate the long name of an unknown field', async () => {
    const answer = await post({ ['x'.repeat(500_000)]: 1 });
    assert.deepEqual(Object.keys(answer.json.errors as FieldErrors), [`${'x'.repeat(200)}…`]);
    assert.ok(sizeOf(answer.text) < 1000);
  });

  test('errors name the first 100 invalid parameters, and count the others', async () => {
    const query = Array.from({ length: 1500 }, (_, at) => `${at.toString(36)}=%`).join('&');
    const { status, json, text } = await service.request(`/api/thing/?${query}`);
    assert.equal(status, 400);
    const messages = Object.values(json.errors as FieldErrors);
    assert.equal(messages.length, 100);
    assert.equal(messages.flat().at(-1), 'and 1400 more parameters cannot be used');
    assert.ok(sizeOf(text) < 10_000);
  });

  test('a page for browsers does not repeat all parameters for each of them', async () => {
    const headers = { accept: 'text/html' };
    for (const query of [
      'a&'.repeat(4000),
      Array(50)
        .fill(`note=${'"'.repeat(150)}`)
        .join('&'),
    ]) {
      const { text } = await service.request(`/api/thing/?${query}`, { headers });
      assert.ok(sizeOf(text) < 80 * query.length, `${sizeOf(text)} bytes`);
    }
  });

  test('JSON with 450,000 nested levels is 400 in every column', async () => {
    const deep = '['.repeat(450_000) + ']'.repeat(450_000);
    for (const name of ['data', 'note', 'price', 'unknown']) {
      const body = `{"${name}":${deep}}`;
      const headers = { 'content-type': 'application/json' };
      const answer = await service.request('/api/thing/', { method: 'POST', user: 'ada', headers, body });
      assert.equal(answer.status, 400);
      assert.deepEqual(Object.keys(answer.json.errors as FieldErrors), [name]);
    }
  });

  test('a multipart form with more than 2,000 fields is 413', async () => {
    const form = new FormData();
    for (let at = 0; at <= 2000; at += 1) form.append('other', '');
    form.append('data', '{}');
    assert.equal((await post(form)).status, 413);
  });

  test('a form with half a million other fields next to its data is accepted', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const body = `${'a&'.repeat(500_000)}%64ata=${encodeURIComponent('{"note":"here"}')}`;
    const answer = await service.request('/api/thing/', { method: 'POST', user: 'ada', headers, body });
    assert.deepEqual([answer.status, answer.json.note], [201, 'here']);
  });
});
