import assert from 'node:assert/strict';
import { note, user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { assertProblem } from './expect.ts';
import { BOM, dataField, FORM, JSON_TYPE, MULTIPART, multipart, noteJson, sendBytes } from './bodies.ts';
import { after, before, describe, test } from 'node:test';

/** JSON with a byte that is not valid UTF-8. */
const invalid = Buffer.from('{"message":"\xff"}', 'latin1');
const one = { name: 'data', content: noteJson('x') };

describe('invalid bodies', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, note]);
    await service.addUser('bob');
  });
  after(() => service.close());

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
    [
      'JSON after a byte order mark in multipart',
      400,
      MULTIPART,
      multipart([{ name: 'data', content: BOM + noteJson('x') }]),
    ],
    ['JSON that is not UTF-8', 400, JSON_TYPE, invalid],
    [
      'JSON with half a surrogate in UTF-8',
      400,
      undefined,
      Buffer.from('{"message":"\xed\xa0\x80"}', 'latin1'),
    ],
    ['JSON in UTF-16', 400, undefined, Buffer.from(noteJson('x'), 'utf16le')],
    ['JSON that is not UTF-8, as curl sends it', 400, FORM, invalid],
    ['a form that is not UTF-8', 400, FORM, 'data=%7B%22message%22%3A%22%FF%22%7D'],
    ['a form with raw bytes that are not UTF-8', 400, FORM, Buffer.concat([Buffer.from('data='), invalid])],
    ['a form with broken percent-encoding', 400, FORM, 'data=%7'],
    ['multipart that is not UTF-8', 400, MULTIPART, multipart([{ name: 'data', content: invalid }])],
    [
      'multipart with a data file that is not UTF-8',
      400,
      MULTIPART,
      multipart([{ name: 'data', content: invalid, filename: 'x' }]),
    ],
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
    [
      'multipart with data twice',
      400,
      MULTIPART,
      multipart([one, { name: 'data', content: noteJson('x'), filename: 'y' }]),
    ],
    ['multipart without a boundary', 400, 'multipart/form-data', multipart([one])],
    ['multipart with another boundary', 400, 'multipart/form-data; boundary=q', multipart([one])],
    ['multipart that ends early', 400, MULTIPART, multipart([one]).subarray(0, 70)],
    ['multipart without its last delimiter', 400, MULTIPART, multipart([one]).subarray(0, -11)],
    ['multipart with delimiters inside other lines', 400, MULTIPART, `x${String(multipart([one]))}`],
    ['JSON with the content type of multipart', 400, MULTIPART, noteJson('x')],
  ];
  for (const [name, status, contentType, body] of refused) {
    test(`${name} is ${status}`, async () => {
      assertProblem(await sendBytes(service, body, contentType), status);
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

  test('create no record', async () => {
    assert.deepEqual((await service.request('/api/note/')).json.objects, []);
  });
});
