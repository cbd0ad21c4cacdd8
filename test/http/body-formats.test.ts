import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { anyCharacter } from '../characters.ts';
import { note, relationship, user } from '../../src/resources/registry.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { assertProblem } from './expect.ts';
import { dataField, FORM, JSON_TYPE, MULTIPART, multipart, noteJson, sendBytes } from './bodies.ts';
import { after, before, describe, test } from 'node:test';

const MAX_BODY = 400_000;

describe('the formats of a body', () => {
  let service: TestService;
  before(async () => {
    const box = { model: 'box', columns: { value: { type: 'json', null: true } }, access: 'user' } as const;
    service = await startService([user, note, relationship, box], { maxBody: MAX_BODY });
    await service.addUser('bob');
  });
  after(() => service.close());

  function assertMessage(answer: Answer, message: string): void {
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.json.message, message);
  }

  const accepted: readonly [name: string, contentType: string | undefined, body: string | Uint8Array][] = [
    ['JSON', JSON_TYPE, noteJson('hé')],
    ['JSON with a charset', 'application/json; charset=utf-8', noteJson('hé')],
    ['JSON with a quoted charset in capitals', 'Application/JSON;Charset="UTF-8"', noteJson('hé')],
    [
      'JSON with the text of a charset in another parameter',
      'application/json; profile="x; charset=latin1"',
      noteJson('hé'),
    ],
    ['a type that ends in +json', 'application/merge-patch+json', noteJson('hé')],
    ['no content type', undefined, noteJson('hé')],
    ['JSON with surrounding white space', JSON_TYPE, ` \r\n\t${noteJson('hé')}\n`],
    ['JSON with escapes', JSON_TYPE, '{"\\u006dessage":"h\\u00e9"}'],
    ['JSON with a duplicate key, of which the last one wins', undefined, '{"message":"a","message":"hé"}'],
    ['the body of curl -d {…}', FORM, noteJson('hé')],
    ['the body of curl -d {…} with characters that forms interpret', FORM, '{"message":"hé","id":null}'],
    ['a form', FORM, dataField(noteJson('hé'))],
    ['a form with a charset', `${FORM}; charset=UTF-8`, dataField(noteJson('hé'))],
    ['a form with a field that is not encoded', FORM, `data=${noteJson('hé')}`],
    ['a form with plus signs for spaces', FORM, `data=+${encodeURIComponent(noteJson('hé'))}+`],
    ['a form with other fields', FORM, `a=1&${dataField(noteJson('hé'))}&b=%7B&datas=x&=&Data=y`],
    ['a form with a field that is not UTF-8', FORM, `a=%FF&${dataField(noteJson('hé'))}`],
    ['multipart', MULTIPART, multipart([{ name: 'data', content: noteJson('hé') }])],
    [
      'multipart with a type on the part',
      MULTIPART,
      multipart([{ name: 'data', content: noteJson('hé'), type: JSON_TYPE }]),
    ],
    [
      'multipart with data as a file',
      MULTIPART,
      multipart([{ name: 'data', content: noteJson('hé'), filename: 'data.json', type: JSON_TYPE }]),
    ],
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
        { name: 'data', content: noteJson('hé') },
        { name: 'note', content: 'x' },
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
          { name: 'data', content: noteJson('hé') },
        ]),
        Buffer.from('\r\n--xYzZY\r\nContent-Disposition: form-data; name="data"\r\n\r\n{}\r\n--xYzZY--\r\n'),
      ]),
    ],
    [
      'multipart with spaces after its delimiters',
      MULTIPART,
      String(multipart([{ name: 'data', content: noteJson('hé') }])).replace(
        /(--xYzZY(?:--)?)\r/g,
        '$1 \t\r',
      ),
    ],
    [
      'multipart with a quoted boundary and characters of regular expressions',
      'multipart/form-data; boundary="a.b(c)+?d:/=\'_,-e f"',
      multipart([{ name: 'data', content: noteJson('hé') }], "a.b(c)+?d:/='_,-e f"),
    ],
    [
      'multipart with a quoted and escaped boundary',
      'multipart/form-data; boundary="a\\+b\\c"',
      multipart([{ name: 'data', content: noteJson('hé') }], 'a+bc'),
    ],
  ];
  for (const [name, contentType, body] of accepted) {
    test(`${name} is accepted`, async () => {
      const answer = await sendBytes(service, body, contentType);
      // A POST cannot set `id`, so this error shows that the body was read.
      if (String(body).includes('"id"')) assert.deepEqual(Object.keys(answer.json.errors), ['id']);
      else assertMessage(answer, 'hé');
    });
  }

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

  test('a deeply nested value is 400', async () => {
    const deep = '['.repeat(90_000) + ']'.repeat(90_000);
    for (const [model, body] of [
      ['note', deep],
      ['note', `{"message":${deep}}`],
      ['note', `{"nope":${deep}}`],
      ['relationship', `{"to_user":${deep},"to_user_id":${deep}}`],
      ['box', `{"value":${deep}}`],
    ] as const) {
      assertProblem(await sendBytes(service, body, JSON_TYPE, { path: `/api/${model}/` }), 400, model);
    }
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

test('a body of 1 MiB is accepted, and one byte more is 413', async () => {
  const service = await startService();
  try {
    await service.addUser('bob');
    const send = (bytes: number): Promise<Answer> => {
      const frame = JSON.stringify({ message: '' }).length;
      const body = { message: 'x'.repeat(bytes - frame) };
      return service.request('/api/note/', { method: 'POST', user: 'bob', body });
    };
    assert.equal((await send(1_048_576)).status, 201);
    assertProblem(await send(1_048_577), 413);
  } finally {
    await service.close();
  }
});
