import assert from 'node:assert/strict';
import fc from 'fast-check';
import { note, user } from '../../src/resources/registry.ts';
import { basic, useService, type TestService } from '../support.ts';
import { requestText, wire, type WireAnswer } from './wire.ts';
import { describe, test } from 'node:test';

describe('invalid HTTP', () => {
  const service: TestService = useService([user, note], {}, async () => {
    await service.addUser('bob');
    await service.sql`insert into note (message) values ('x')`;
  });

  /** The answer to these bytes. The connection must be closed after it. */
  async function answerTo(bytes: string | Uint8Array, pieces = 1): Promise<WireAnswer | undefined> {
    const connection = wire(service);
    connection.socket.setNoDelay(true);
    const all = Buffer.from(bytes as string);
    const size = Math.ceil(all.length / pieces);
    for (let at = 0; at < all.length; at += size) {
      connection.send(all.subarray(at, at + size));
      if (pieces > 1) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const answer = await connection.next();
    assert.equal(await connection.rest(), '');
    return answer;
  }

  function assertRefused(answer: WireAnswer | undefined, status: number, label?: string): void {
    assert.equal(answer?.status, status, label);
    assert.equal(answer?.headers['content-type'], 'application/problem+json', label);
    assert.equal(answer?.headers['x-content-type-options'], 'nosniff', label);
    assert.equal(answer?.headers['connection'], 'close', label);
    const document = JSON.parse(answer?.body ?? '');
    for (const name of ['server', 'x-powered-by', 'via']) assert.equal(answer?.headers[name], undefined);
    assert.doesNotMatch(answer?.body ?? '', /node|vitrine|postgres/i);
    assert.deepEqual(Object.keys(document), ['type', 'title', 'status', 'detail']);
    assert.equal(document.status, status);
  }

  const host = 'Host: localhost\r\n';
  const garbage: Record<string, string | Uint8Array> = {
    'a TLS handshake': Buffer.from('16030100a5010000a10303', 'hex'),
    'another protocol': 'SSH-2.0-OpenSSH_9.6\r\n',
    'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'a line that is not a request': 'hello\r\n\r\n',
    'a method with an invalid character': `B(REW /api/note/ HTTP/1.1\r\n${host}\r\n`,
    'an unknown method and two targets': `BREW /api/note/ /api/ HTTP/1.1\r\n${host}\r\n`,
    'an unknown method of an unknown version': `BREW /api/note/ HTTP/2.1\r\n${host}\r\n`,
    'an unknown method without a version': 'BREW /api/note/\r\n\r\n',
    'an unknown version': `GET / HTTP/9.9\r\n${host}\r\n`,
    'a space in the path': `GET /api/no te/ HTTP/1.1\r\n${host}\r\n`,
    'a header without a name': `GET / HTTP/1.1\r\n${host}: x\r\n\r\n`,
    'a header without a colon': `GET / HTTP/1.1\r\n${host}nonsense\r\n\r\n`,
    'a space before the colon': `GET / HTTP/1.1\r\n${host}X-A : x\r\n\r\n`,
    'a NUL character in a header': `GET / HTTP/1.1\r\n${host}X-A: \0\r\n\r\n`,
    'no Host': 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n',
    'a Host of 301 characters': `GET /healthz HTTP/1.1\r\nHost: ${'x'.repeat(301)}\r\n\r\n`,
    'two Hosts': `GET /healthz HTTP/1.1\r\n${host}${host}\r\n`,
    'two different Hosts': `GET /healthz HTTP/1.1\r\n${host}hOST: other\r\n\r\n`,
    'a transfer coding without chunks': `POST /api/note/ HTTP/1.1\r\n${host}Transfer-Encoding: gzip\r\n\r\n`,
    'a transfer coding in HTTP/1.0': `POST /api/note/ HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n`,
    'a length that is not a number': `POST /api/note/ HTTP/1.1\r\n${host}Content-Length: x\r\n\r\n`,
    'a negative length': `POST /api/note/ HTTP/1.1\r\n${host}Content-Length: -1\r\n\r\n`,
    'two lengths': `POST /api/note/ HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
    'a length and chunks': `POST /api/note/ HTTP/1.1\r\n${host}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'chunks that are not the last coding': `POST /api/note/ HTTP/1.1\r\n${host}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n`,
  };
  for (const [name, bytes] of Object.entries(garbage)) {
    test(`${name} is 400, and the connection closes`, async () => {
      assertRefused(await answerTo(bytes), 400);
    });
  }

  const headers = Array.from({ length: 250 }, (_, index) => `x-${index}: x\r\n`).join('');
  const invalidHeads: Record<string, readonly [rest: string, status: number]> = {
    'a byte of Latin-1 in the path': [`/api/note/\xfc/ HTTP/1.1\r\n${host}\r\n`, 400],
    'a space before a colon': [`/healthz HTTP/1.1\r\n${host}X-A : x\r\n\r\n`, 400],
    'a coding before chunks': [
      `/healthz HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      501,
    ],
    'too many headers': [`/healthz HTTP/1.1\r\n${host}${headers}\r\n`, 431],
  };
  for (const [name, [rest, status]] of Object.entries(invalidHeads))
    test(`a HEAD with ${name} is ${status} without content, also behind another request`, async () => {
      for (const before of ['', requestText('GET', '/healthz')]) {
        const connection = wire(service);
        connection.socket.write(`${before}HEAD ${rest}`, 'latin1');
        if (before !== '') assert.equal((await connection.next())?.status, 200);
        const answer = await connection.next({ head: true });
        assert.equal(answer?.status, status);
        assert.equal(answer.headers['connection'], 'close');
        assert.equal(await connection.rest(), '');
      }
    });

  test('too many headers are 431 in a request to upgrade, too', async () => {
    const connection = wire(service);
    connection.send(`GET /healthz HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: x\r\n${headers}\r\n`);
    assertRefused(await connection.next(), 431);
    assert.equal(await connection.rest(), '');
  });

  test('random bytes that start no method are 400, and the service keeps working', async () => {
    const first = fc.integer({ min: 0, max: 255 }).filter((byte) => {
      const character = String.fromCharCode(byte);
      return !/[A-Z\r\n]/.test(character);
    });
    await fc.assert(
      fc.asyncProperty(first, fc.uint8Array({ maxLength: 300 }), async (byte, rest) => {
        assertRefused(await answerTo(Buffer.from([byte, ...rest, 13, 10, 13, 10])), 400);
      }),
      { numRuns: 60 },
    );
    assert.equal((await service.request('/healthz')).status, 200);
  });

  for (const length of [9_000, 20_000, 200_000]) {
    test(`a URL of ${length} bytes is 414`, async () => {
      const path = `/api/note/?message=${'x'.repeat(length)}`;
      const text = requestText('GET', path, { connection: 'close' });
      // The parser stops at 32 KiB, and shows only the last piece of longer requests.
      for (const pieces of length > 30_000 ? [1] : [1, 3, 40]) {
        const answer = await answerTo(text, pieces);
        assertRefused(answer, 414, `${pieces} pieces`);
      }
    });
  }

  for (const [name, headers] of [
    ['one header of 70,000 bytes', { 'x-large': 'x'.repeat(70_000) }],
    ['one header of 200,000 bytes', { 'x-large': 'x'.repeat(200_000) }],
  ] as const) {
    test(`${name}: 431`, async () => {
      const text = requestText('GET', '/api/', { ...headers, connection: 'close' });
      assertRefused(await answerTo(text), 431);
    });
  }

  for (const name of ['If-Match', 'If-None-Match'])
    test(`${name} of 2,049 characters is 431, which names it`, async () => {
      const ask = (length: number): Promise<WireAnswer | undefined> => {
        const headers = { [name.toLowerCase()]: '"'.repeat(length), connection: 'close' };
        return answerTo(requestText('GET', '/api/', headers));
      };
      const refused = await ask(2_049);
      assertRefused(refused, 431);
      assert.match(refused?.body ?? '', new RegExp(`"${name} must have at most 2048 characters`));
      assert.equal((await ask(2_048))?.status, 200);
    });

  test('headers that arrive after the request line, in another packet, are 431, too', async () => {
    const connection = wire(service);
    const [line = '', ...headers] = requestText('GET', '/healthz', { 'x-large': 'x'.repeat(40_000) }).split(
      '\r\n',
    );
    const rest = headers.filter((header) => header !== '').reverse();
    connection.send(`${line}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 50));
    connection.send(`${rest.join('\r\n')}\r\n\r\n`);
    assert.equal((await connection.next())?.status, 431);
    connection.destroy();
  });

  test('headers of 30,000 bytes are accepted', async () => {
    const connection = wire(service);
    connection.send(requestText('GET', '/healthz', { 'x-large': 'x'.repeat(30_000) }));
    assert.equal((await connection.next())?.status, 200);
    connection.destroy();
  });

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

  test('logs no error', () => {
    assert.deepEqual(
      service.lines.filter(({ level }) => level === 'error'),
      [],
    );
  });
});
