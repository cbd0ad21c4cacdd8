import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const one: Resource = { model: 'one', columns: { number: { type: 'integer', null: true } }, access: 'user' };

describe('multipart bodies', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, one]);
    await service.addUser('ada');
    await service.sql`insert into one default values`;
  });
  after(() => service.close());

  const piece = (headers: string, body: string): string => `--BB\r\n${headers}\r\n\r\n${body}\r\n`;
  const part = (head: string, body: string): string => piece(`Content-Disposition: form-data; ${head}`, body);
  const data = part('name="data"', '{"number":7}');
  for (const [kind, text] of [
    ['a name without quotes', `${part('name=data', '{"number":7}')}--BB--\r\n`],
    ['a parameter in capitals', `${part('NAME="data"', '{"number":7}')}--BB--\r\n`],
    [
      'headers in capitals and without spaces',
      `${piece('CONTENT-DISPOSITION:FORM-DATA;name=data', '{"number":7}')}--BB--\r\n`,
    ],
    [
      'a header over two lines',
      `${piece('Content-Disposition: form-data;\r\n\tname="data"', '{"number":7}')}--BB--\r\n`,
    ],
    [
      'other headers before and after',
      `${piece('X-Name: form-data; name="x"\r\nContent-Disposition: form-data; name="data"\r\nContent-Type: text/plain', '{"number":7}')}--BB--\r\n`,
    ],
    ['data with its file name first', `${part('filename="x"; name="data"', '{"number":7}')}--BB--\r\n`],
    [
      'a file name that contains name=',
      `${part('filename="; name=x"; name=data', '{"number":7}')}--BB--\r\n`,
    ],
    ['a file with a name without quotes', `${part('name=file; filename=a.txt', 'x')}${data}--BB--\r\n`],
    ['a file with its file name first', `${part('filename="a.txt"; name="file"', 'x')}${data}--BB--\r\n`],
    [
      'a file with two file names',
      `${part(`name=file; filename="a.txt"; filename*=utf-8''a.txt`, 'x')}${data}--BB--\r\n`,
    ],
    [
      'a part that ends after its headers',
      `--BB\r\nContent-Disposition: form-data; name="x"\r\n\r\n${data}--BB--\r\n`,
    ],
    [
      'a file name with escaped backslashes',
      `${part('filename="C:\\\\x\\\\"; name="data"', '{"number":7}')}--BB--\r\n`,
    ],
    ['an escaped letter', `${part('name="d\\ata"', '{"number":7}')}--BB--\r\n`],
    ['a field with an empty name', `${part('name=""', 'x')}${data}--BB--\r\n`],
    ['a backslash at the end of a name', `${part('name="a\\"', 'x')}${data}--BB--\r\n`],
    ['an escaped quote in another name', `${part('name="a\\"b"', 'x')}${data}--BB--\r\n`],
    ['text before and after the parts', `before\r\n${data}--BB--\r\nbehind`],
    ['no line break at its end', `${data}--BB--`],
  ] as const) {
    test(`a multipart body with ${kind} is read`, async () => {
      await service.sql`update one set number = 0`;
      const headers = { 'content-type': 'multipart/form-data; boundary=BB' };
      const answer = await service.request('/api/one/1/', {
        method: 'PUT',
        user: 'ada',
        headers,
        body: text,
      });
      assert.deepEqual([answer.status, answer.json.number], [200, 7]);
    });
  }

  for (const [length, status] of [
    [70, 200],
    [71, 400],
  ] as const)
    test(`a boundary of ${length} characters is ${status}`, async () => {
      const boundary = 'B'.repeat(length);
      const answer = await service.request('/api/one/1/', {
        method: 'PUT',
        user: 'ada',
        headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
        body: `${data}--BB--`.replaceAll('--BB', `--${boundary}`),
      });
      assert.equal(answer.status, status);
    });
});
