import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, test } from 'node:test';
import { ServerResponse } from 'node:http';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { anyCharacter } from '../characters.ts';
import { note, relationship, user } from '../../src/resources/registry.ts';
import { type Answer, closedAfter, startService, type TestService, useService } from '../support.ts';
import { assertProblem } from './expect.ts';
import { logIn } from '../admin/support.ts';
import type { Resource } from '../../src/index.ts';

const JSON_TYPE = 'application/json';
const FORM = 'application/x-www-form-urlencoded';
const BOM = '\uFEFF';

/** The JSON of a note. */
const noteJson = (message: string): string => JSON.stringify({ message });

const dataField = (text: string): string => `data=${encodeURIComponent(text)}`;

interface Part {
  readonly name: string;
  readonly content: string | Uint8Array;
  readonly filename?: string;
  readonly type?: string;
}

/** A multipart body, byte for byte. */
function multipart(parts: readonly Part[], boundary = 'xYzZY'): Buffer {
  const pieces = parts.flatMap(({ name, content, filename, type }) => [
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"`,
    filename === undefined ? '' : `; filename="${filename}"`,
    type === undefined ? '' : `\r\nContent-Type: ${type}`,
    '\r\n\r\n',
    content,
    '\r\n',
  ]);
  return Buffer.concat([...pieces, `--${boundary}--\r\n`].map((piece) => Buffer.from(piece as string)));
}

const MULTIPART = 'multipart/form-data; boundary=xYzZY';

/** Sends bytes as `bob`, without a content type by default. */
function sendBytes(
  service: TestService,
  body: string | Uint8Array,
  contentType?: string,
  {
    path = '/api/note/',
    method = 'POST',
    headers = {},
  }: { path?: string; method?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  return service.request(path, {
    method,
    user: 'bob',
    headers: { ...(contentType === undefined ? {} : { 'content-type': contentType }), ...headers },
    body: Buffer.from(body as string),
  });
}

const MAX_BODY = 400_000;
/** JSON with a byte that is not valid UTF-8. */
const invalid = Buffer.from('{"message":"\xff"}', 'latin1');
const one = { name: 'data', content: noteJson('x') };

const JSON_TEXT = noteJson('hé');
const piece = (headers: string, body: string): string => `--xYzZY\r\n${headers}\r\n\r\n${body}\r\n`;
const part = (head: string, body: string): string => piece(`Content-Disposition: form-data; ${head}`, body);
const data = part('name="data"', JSON_TEXT);

/** Parts that have the JSON in their field `data`. */
const PARTS: readonly [name: string, parts: string][] = [
  ['a name without quotes', part('name=data', JSON_TEXT)],
  ['a parameter in capitals', part('NAME="data"', JSON_TEXT)],
  ['headers in capitals and without spaces', piece('CONTENT-DISPOSITION:FORM-DATA;name=data', JSON_TEXT)],
  ['a header over two lines', piece('Content-Disposition: form-data;\r\n\tname="data"', JSON_TEXT)],
  ['other headers before and after', piece('X-Name: form-data; name="x"\r\nContent-Disposition: form-data; name="data"\r\nContent-Type: text/plain', JSON_TEXT)],
  ['data with its file name first', part('filename="x"; name="data"', JSON_TEXT)],
  ['a file name that contains name=', part('filename="; name=x"; name=data', JSON_TEXT)],
  ['a file with a name without quotes', `${part('name=file; filename=a.txt', 'x')}${data}`],
  ['a file with its file name first', `${part('filename="a.txt"; name="file"', 'x')}${data}`],
  ['a file with two file names', `${part(`name=file; filename="a.txt"; filename*=utf-8''a.txt`, 'x')}${data}`],
  ['a part that ends after its headers', `--xYzZY\r\nContent-Disposition: form-data; name="x"\r\n\r\n${data}`],
  ['a file name with escaped backslashes', part('filename="C:\\\\x\\\\"; name="data"', JSON_TEXT)],
  ['an escaped letter', part('name="d\\ata"', JSON_TEXT)],
  ['a field with an empty name', `${part('name=""', 'x')}${data}`],
  ['a backslash at the end of a name', `${part('name="a\\"', 'x')}${data}`],
  ['an escaped quote in another name', `${part('name="a\\"b"', 'x')}${data}`],
]; // prettier-ignore

describe('a body', () => {
  const box = { model: 'box', columns: { value: { type: 'json', null: true } }, access: 'user' } as const;
  const service: TestService = useService(
    [user, note, relationship, box],
    { maxBody: MAX_BODY },
    async () => {
      await service.addUser('bob');
    },
  );

  function assertMessage(answer: Answer, message: string): void {
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.json.message, message);
  }

  const accepted: readonly (readonly [
    name: string,
    contentType: string | undefined,
    body: string | Uint8Array,
  ])[] = [
    ['JSON', JSON_TYPE, JSON_TEXT],
    ['JSON with a charset', 'application/json; charset=utf-8', JSON_TEXT],
    ['JSON with a quoted charset in capitals', 'Application/JSON;Charset="UTF-8"', JSON_TEXT],
    ['JSON with the text of a charset in another parameter', 'application/json; profile="x; charset=latin1"', JSON_TEXT],
    ['a type that ends in +json', 'application/merge-patch+json', JSON_TEXT],
    ['no content type', undefined, JSON_TEXT],
    ['JSON with surrounding white space', JSON_TYPE, ` \r\n\t${JSON_TEXT}\n`],
    ['JSON with escapes', JSON_TYPE, '{"\\u006dessage":"h\\u00e9"}'],
    ['JSON with a duplicate key, of which the last one wins', undefined, '{"message":"a","message":"hé"}'],
    ['the body of curl -d {…}', FORM, JSON_TEXT],
    ['the body of curl -d {…} with characters that forms interpret', FORM, '{"message":"hé","id":null}'],
    ['a form', FORM, dataField(JSON_TEXT)],
    ['a form with a charset', `${FORM}; charset=UTF-8`, dataField(JSON_TEXT)],
    ['a form with a field that is not encoded', FORM, `data=${JSON_TEXT}`],
    ['a form with plus signs for spaces', FORM, `data=+${encodeURIComponent(JSON_TEXT)}+`],
    ['a form with other fields', FORM, `a=1&${dataField(JSON_TEXT)}&b=%7B&datas=x&=&Data=y`],
    ['a form with a field that is not UTF-8', FORM, `a=%FF&${dataField(JSON_TEXT)}`],
    ['multipart', MULTIPART, multipart([{ name: 'data', content: JSON_TEXT }])],
    ['multipart with a type on the part', MULTIPART, multipart([{ name: 'data', content: JSON_TEXT, type: JSON_TYPE }])],
    ['multipart with data as a file', MULTIPART, multipart([{ name: 'data', content: JSON_TEXT, filename: 'data.json', type: JSON_TYPE }])],
    [
      'multipart with another file next to data',
      MULTIPART,
      multipart([
        {
          name: 'file',
          content: Buffer.from([0, 255, 13, 10, 45, 45]),
          filename: 'a.bin',
          type: 'image/png',
        },
        { name: 'data', content: JSON_TEXT },
        { name: 'database', content: 'x' },
      ]),
    ],
    [
      'multipart with the text of its delimiters before, inside and after the parts',
      MULTIPART,
      Buffer.concat([
        Buffer.from('preamble --xYzZY\r\n --xYzZY\r\n--xYzZYx\r\n'),
        multipart([
          { name: 'a', content: 'x--xYzZY\r\n-xYzZY--\n--xYzZY\r\n--xYzZYx\r\n --xYzZY--' },
          { name: 'b', content: 'x\r\nContent-Disposition: form-data; name=data\r\n\r\n' },
          { name: 'data', content: JSON_TEXT },
        ]),
        Buffer.from('\r\n--xYzZY\r\nContent-Disposition: form-data; name="data"\r\n\r\n{}\r\n--xYzZY--\r\n'),
      ]),
    ],
    ['multipart with spaces after its delimiters', MULTIPART, String(multipart([{ name: 'data', content: JSON_TEXT }])).replace(/(--xYzZY(?:--)?)\r/g, '$1 \t\r')],
    [
      'multipart with a quoted boundary and characters of regular expressions',
      'multipart/form-data; boundary="a.b(c)+?d:/=\'_,-e f"',
      multipart([{ name: 'data', content: JSON_TEXT }], "a.b(c)+?d:/='_,-e f"),
    ],
    ['multipart with a quoted and escaped boundary', 'multipart/form-data; boundary="a\\+b\\c"', multipart([{ name: 'data', content: JSON_TEXT }], 'a+bc')],
    ...PARTS.map(([name, parts]) => [`multipart with ${name}`, MULTIPART, `${parts}--xYzZY--\r\n`] as const),
    ['multipart with text before and after the parts', MULTIPART, `before\r\n${data}--xYzZY--\r\nbehind`],
    ['multipart with no line break at its end', MULTIPART, `${data}--xYzZY--`],
  ]; // prettier-ignore
  for (const [name, contentType, body] of accepted) {
    test(`${name} is accepted`, async () => {
      const answer = await sendBytes(service, body, contentType);
      // A POST cannot set `id`, so this error shows that the body was read.
      if (String(body).includes('"id"')) assert.deepEqual(Object.keys(answer.json.errors), ['id']);
      else assertMessage(answer, 'hé');
    });
  }

  test('a boundary may have 70 characters, and no more', async () => {
    for (const [length, status] of [
      [70, 201],
      [71, 400],
    ] as const) {
      const boundary = 'B'.repeat(length);
      const body = `${data}--xYzZY--`.replaceAll('--xYzZY', `--${boundary}`);
      const answer = await sendBytes(service, body, `multipart/form-data; boundary=${boundary}`);
      assert.equal(answer.status, status);
    }
  });

  test('a text may contain a delimiter', async () => {
    for (const message of ['--xYzZY', '--xYzZY--', 'x--xYzZY x', '--xYzZY\n--xYzZY']) {
      const parts = [{ name: 'data', content: noteJson(message) }];
      assertMessage(await sendBytes(service, multipart(parts), MULTIPART), message);
      const pretty = [{ name: 'data', content: `{"message":\r\n ${JSON.stringify(message)}\r\n}` }];
      assertMessage(await sendBytes(service, multipart(pretty), MULTIPART), message);
    }
  });

  test('every format keeps any text, also in a PUT', async () => {
    const { json: created } = await sendBytes(service, noteJson('first'));
    const path = `/api/note/${created.id}/`;
    const put = { path, method: 'PUT' };
    const text = fc.string({ unit: anyCharacter, maxLength: 40 }).filter((value) => !value.includes('\0'));
    await fc.assert(
      fc.asyncProperty(text, async (message) => {
        const body = noteJson(message);
        const form = new FormData();
        form.set('data', body);
        const encoded = new URLSearchParams({ data: body }).toString();
        const answers = [
          await sendBytes(service, body, JSON_TYPE, put),
          await sendBytes(service, body, FORM, put),
          await sendBytes(service, encoded, FORM, put),
          await sendBytes(service, multipart([{ name: 'data', content: body }]), MULTIPART, put),
          await service.request(path, { method: 'PUT', user: 'bob', body: form }),
        ];
        for (const answer of answers) {
          assert.equal(answer.status, 200, answer.text);
          assert.equal(answer.json.message, message);
        }
      }),
      { numRuns: 25 },
    );
  });

  test('a compressed body is 415; identity and an empty header mean no compression', async () => {
    for (const encoding of ['gzip', 'deflate', 'br', 'gzip, identity']) {
      const answer = await sendBytes(service, gzipSync(noteJson('x')), JSON_TYPE, {
        headers: { 'content-encoding': encoding },
      });
      assertProblem(answer, 415);
    }
    for (const none of ['identity', 'Identity', '']) {
      const headers = { 'content-encoding': none };
      assertMessage(await sendBytes(service, noteJson('x'), JSON_TYPE, { headers }), 'x');
    }
  });

  test('a body of MAX_BODY bytes is accepted, and one byte more is 413 in every format', async () => {
    const frame = noteJson('').length;
    assertMessage(
      await sendBytes(service, noteJson('x'.repeat(MAX_BODY - frame))),
      'x'.repeat(MAX_BODY - frame),
    );
    const larger = noteJson('x'.repeat(MAX_BODY - frame + 1));
    for (const type of [JSON_TYPE, FORM, MULTIPART])
      assertProblem(await sendBytes(service, larger, type), 413);
  });

  const refused: readonly [
    name: string,
    status: number,
    contentType: string | undefined,
    body: string | Uint8Array,
  ][] = [
    ['text', 415, 'text/plain', noteJson('x')],
    ['XML', 415, 'application/xml', '<message/>'],
    ['JSON with another content type', 415, 'text/json', noteJson('x')],
    ['a content type that starts like that of JSON', 415, 'application/jsonp', noteJson('x')],
    ['bytes', 415, 'application/octet-stream', noteJson('x')],
    ['other multipart', 415, 'multipart/mixed; boundary=xYzZY', multipart([one])],
    ['an invalid content type', 415, 'nonsense', noteJson('x')],
    ['a content type of semicolons', 415, ';;', noteJson('x')],
    ['a content type with only a charset', 415, '; charset=utf-8', noteJson('x')],
    ['JSON in another charset', 415, 'application/json; charset=latin1', noteJson('x')],
    ['a form in another charset', 415, `${FORM}; charset=iso-8859-1`, dataField(noteJson('x'))],
    ['no body', 400, JSON_TYPE, ''],
    ['no body and no content type', 400, undefined, ''],
    ['an empty form', 400, FORM, ''],
    ['JSON that ends early', 400, undefined, '{"message":"x"'],
    ['JSON followed by text', 400, undefined, '{"message":"x"} x'],
    ['JSON with a trailing comma', 400, undefined, '{"message":"x",}'],
    ['JSON with single quotes', 400, undefined, "{'message':'x'}"],
    ['an array with an element that is no object', 400, undefined, '[{"message":"x"},"y"]'],
    ['an empty array', 400, undefined, '[]'],
    ['a string', 400, undefined, '"x"'],
    ['a number', 400, undefined, '1'],
    ['null', 400, undefined, 'null'],
    ['JSON after a byte order mark', 400, JSON_TYPE, BOM + noteJson('x')],
    ['JSON after a byte order mark, as curl sends it', 400, FORM, BOM + noteJson('x')],
    ['JSON after a byte order mark in a form', 400, FORM, dataField(BOM + noteJson('x'))],
    ['JSON after a byte order mark in multipart', 400, MULTIPART, multipart([{ name: 'data', content: BOM + noteJson('x') }])],
    ['JSON that is not UTF-8', 400, JSON_TYPE, invalid],
    ['JSON with half a surrogate in UTF-8', 400, undefined, Buffer.from('{"message":"\xed\xa0\x80"}', 'latin1')],
    ['JSON in UTF-16', 400, undefined, Buffer.from(noteJson('x'), 'utf16le')],
    ['JSON that is not UTF-8, as curl sends it', 400, FORM, invalid],
    ['a form that is not UTF-8', 400, FORM, 'data=%7B%22message%22%3A%22%FF%22%7D'],
    ['a form with raw bytes that are not UTF-8', 400, FORM, Buffer.concat([Buffer.from('data='), invalid])],
    ['a form with broken percent-encoding', 400, FORM, 'data=%7'],
    ['multipart that is not UTF-8', 400, MULTIPART, multipart([{ name: 'data', content: invalid }])],
    ['multipart with a data file that is not UTF-8', 400, MULTIPART, multipart([{ name: 'data', content: invalid, filename: 'x' }])],
    [
      'multipart that is not UTF-8, with a valid replacement character',
      400,
      MULTIPART,
      multipart([
        { name: 'other', content: '\uFFFD' },
        { name: 'data', content: invalid },
      ]),
    ],
    ['a form without data', 400, FORM, 'message=x'],
    ['a form that begins with a space', 400, FORM, ` ${noteJson('x')}`],
    ['a form with data twice', 400, FORM, `${dataField(noteJson('x'))}&${dataField(noteJson('x'))}`],
    ['a form with data twice, once encoded', 400, FORM, `${dataField(noteJson('x'))}&%64ata=`],
    ['a form with empty data', 400, FORM, 'data='],
    ['a form with data that is not JSON', 400, FORM, 'data=x'],
    ['a form with an array as data', 400, FORM, 'data=[]'],
    ['multipart without data', 400, MULTIPART, multipart([{ name: 'message', content: 'x' }])],
    ['multipart with data twice', 400, MULTIPART, multipart([one, { name: 'data', content: noteJson('x'), filename: 'y' }])],
    ['multipart without a boundary', 400, 'multipart/form-data', multipart([one])],
    ['multipart with another boundary', 400, 'multipart/form-data; boundary=q', multipart([one])],
    ['multipart that ends early', 400, MULTIPART, multipart([one]).subarray(0, 70)],
    ['multipart without its last delimiter', 400, MULTIPART, multipart([one]).subarray(0, -11)],
    ['multipart with delimiters inside other lines', 400, MULTIPART, `x${String(multipart([one]))}`],
    ['JSON with the content type of multipart', 400, MULTIPART, noteJson('x')],
  ]; // prettier-ignore
  for (const [name, status, contentType, body] of refused) {
    test(`${name} is ${status}`, async () => {
      const count = () => service.sql`select count(*) from note`;
      const before = await count();
      assertProblem(await sendBytes(service, body, contentType), status);
      assert.deepEqual(await count(), before);
    });
  }

  const places: readonly [body: string, place: string | undefined][] = [
    ['', undefined],
    [' \r\n\t', undefined],
    ['{"message": "x",}', 'unexpected character at line 1, column 17'],
    ['{"message": "x"', 'unexpected end at line 1, column 16'],
    ['{\n  "message": "x"\n  "n": 1\n}', 'unexpected character at line 3, column 3'],
    ['{"message": "x\ny"}', 'unexpected character at line 1, column 15'],
    ['{"message": "x\\q"}', 'unexpected character at line 1, column 15'],
    ['{"message": "\\u12x4"}', 'unexpected character at line 1, column 14'],
    ['{"message": "x', 'unexpected end at line 1, column 15'],
    ['{"message": 01}', 'unexpected character at line 1, column 14'],
    ['{"message": 1.}', 'unexpected character at line 1, column 15'],
    ['{"message": True}', 'unexpected character at line 1, column 13'],
    ['{message: 1}', 'unexpected character at line 1, column 2'],
    ['{"message"}', 'unexpected character at line 1, column 11'],
    ['{"message": "x"}}', 'unexpected character at line 1, column 17'],
    ['[{"message": "x"},\r\n{]', 'unexpected character at line 2, column 2'],
    ['{"message": [1, 2}', 'unexpected character at line 1, column 18'],
    ['undefined', 'unexpected character at line 1, column 1'],
  ];
  for (const [body, place] of places)
    test(`${JSON.stringify(body)} is 400 with ${place === undefined ? 'the reason' : 'the place of the error'}`, async () => {
      const detail = place === undefined ? 'The body is empty.' : `The body is not valid JSON: ${place}.`;
      for (const [method, path] of [
        ['POST', '/api/note/'],
        ['PUT', '/api/note/1/'],
        ['PATCH', '/api/note/1/'],
      ] as const) {
        if (method !== 'POST' && body.startsWith('[')) continue;
        const answer = await service.request(path, {
          method,
          user: 'bob',
          headers: { 'content-type': JSON_TYPE },
          body,
        });
        assertProblem(answer, 400);
        assert.equal(answer.json.detail, detail, method);
      }
      if (body === '') return;
      for (const [type, form] of [
        [FORM, dataField(body)],
        [MULTIPART, multipart([{ name: 'data', content: body }])],
      ] as const)
        assert.equal((await sendBytes(service, form, type)).json.detail, detail, type);
    });

  test('an empty body is called empty, whatever its content type', async () => {
    for (const type of [JSON_TYPE, undefined, FORM, MULTIPART])
      assert.equal((await sendBytes(service, '', type)).json.detail, 'The body is empty.', type);
  });

  test('a form says how to write an offset whose + was not encoded', async () => {
    const body = 'data={"message": "x", "created": "2024-01-31T10:00+02:00"}';
    const { json } = await sendBytes(service, body, FORM);
    assert.match(json.errors.created[0], /, write the \+ of the offset as %2B$/);
  });

  test('random bytes are 400 or 415 with every content type', async () => {
    const types = fc.constantFrom(undefined, JSON_TYPE, FORM, MULTIPART, 'text/plain');
    const bodies = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.json().map((text) => Buffer.from(text)),
      fc.string().map((text) => Buffer.from(`data=${text}&data`)),
      fc.uint8Array({ maxLength: 30 }).map((content) => multipart([{ name: 'data', content }])),
    );
    await fc.assert(
      fc.asyncProperty(types, bodies, async (type, body) => {
        const answer = await sendBytes(service, body, type);
        assertProblem(answer, type === 'text/plain' ? 415 : 400);
      }),
      { numRuns: 80 },
    );
  });
});

test('a body of 1 MiB is accepted, and one byte more is 413', async (t) => {
  const service = closedAfter(t, await startService());
  await service.addUser('bob');
  const send = (bytes: number): Promise<Answer> => {
    const frame = JSON.stringify({ message: '' }).length;
    const body = { message: 'x'.repeat(bytes - frame) };
    return service.request('/api/note/', { method: 'POST', user: 'bob', body });
  };
  assert.equal((await send(1_048_576)).status, 201);
  assertProblem(await send(1_048_577), 413);
});

// Responses of megabytes are written in pieces, and other requests are served in between.

/** Milliseconds that each piece takes at least, and how many of them begin within the 5 ms of one turn. */
const PIECE_TIME = 1;
const MAX_IN_TURN = 5;

const LARGE = `${'"<é🦉>'.repeat(100_000)}`;

describe('a response of megabytes', () => {
  const service: TestService = useService([user, note], {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.sql`insert into note (message) select ${LARGE} from generate_series(1, 5)`;
  });

  for (const [name, path, text] of [
    ['a page of records', '/api/note/?limit=5', '"objects":['],
    ['a page in another order', '/api/note/?limit=5&ordering=-message', '"objects":['],
    ['a form of the admin area', '/admin/note/1/', '<textarea'],
  ] as const)
    test(`is whole, and written in many turns of the event loop: ${name}`, async (context) => {
      const browser = await logIn(service, 'ada');
      let turn = 0;
      let isOver = false;
      const nextTurn = (): void => {
        turn += 1;
        if (!isOver) setImmediate(nextTurn);
      };
      const turns: number[] = [];
      // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its object below
      const write = ServerResponse.prototype.write as (this: ServerResponse, piece: unknown) => boolean;
      context.mock.method(ServerResponse.prototype, 'write', function (this: ServerResponse, piece: unknown) {
        turns.push(turn);
        const started = performance.now();
        while (performance.now() - started < PIECE_TIME);
        return write.call(this, piece);
      });
      nextTurn();
      const answer = await (path.startsWith('/api/')
        ? service.request(path, { user: 'ada' })
        : browser.get(path));
      isOver = true;
      assert.equal(answer.status, 200);
      assert.ok(answer.text.includes(text));
      if (path.startsWith('/api/')) {
        const { objects } = JSON.parse(answer.text) as { objects: { message: string }[] };
        assert.ok(objects.length === 5 && objects.every(({ message }) => message === LARGE));
      } else assert.ok(answer.text.includes('&quot;&lt;é🦉&gt;'.repeat(100_000)));
      assert.ok(turns.length > 10, `${turns.length} pieces`);
      const most = Math.max(...turns.map((one) => turns.filter((other) => other === one).length));
      assert.ok(most <= MAX_IN_TURN, `pieces in turns ${turns.join(', ')}`);
    });
});

describe('a long body', () => {
  const paper: Resource = { model: 'paper', columns: { body: { type: 'text' } } };
  const service: TestService = useService(
    [user, paper],
    {},
    () => service.sql`insert into paper (body) select repeat('x', 1000000) from generate_series(1, 20)`,
  );

  test('reaches a client that first sends all of its own', async () => {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(service.base).port) });
    await once(socket, 'connect');
    socket.write('GET /api/paper/?limit=20 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    await sleep(300); // The response has begun.
    const chunk = Buffer.from(`10000\r\n${'y'.repeat(65_536)}\r\n`);
    for (let sent = 0; sent < 4_600_000; sent += chunk.length)
      if (!socket.write(chunk)) await once(socket, 'drain');
    socket.write('0\r\n\r\n');
    let received = 0;
    socket.on('data', ({ length }) => (received += length));
    await once(socket, 'close');
    assert.ok(received > 20_000_000, `${received} bytes`);
  });
});
