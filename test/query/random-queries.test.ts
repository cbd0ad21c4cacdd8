// Random queries, and values that must never become a part of SQL.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { anyCharacter } from '../characters.ts';
import type { Resource } from '../../src/index.ts';
import { useWritable, type WritableService } from '../db/helpers.ts';
import type { TestService } from '../support.ts';
import { rawGet, startSamples, TYPES, uuid } from './samples.ts';
import { after, before, describe, test } from 'node:test';

const OPERATORS = ['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'in', 'is', 'like', 'ilike'];
const NAMES = [...TYPES, 'id', 'box', 'box_id', 'spare', 'vault', 'safe', 'well', 'secret', 'hidden', 'owner', 'name', 'in', 'like', 'username', 'parent', 'rank']; // prettier-ignore
const TEXTS = [
  '', '0', '-1', '1', '1.5', '1e308', '1e-400', '1e999', '-0', '2147483648', '99999999999999999999', 'NaN', 'nan', 'Infinity',
  '-Infinity', '-infinity', 'infinity', 'true', 'f', 'null', 'None', '2024-02-29', '2024-02-30', '0000-00-00', '4713-01-01 BC',
  '0001-01-01 00:00:00', '294276-12-31 23:59:59', '294277-01-01', '5874897-12-31', '9999-12-31T23:59:59-15:59', '24:00:00',
  '23:59:60', '12:30', uuid('a'), uuid('g'), '{}', '[]', '[1e400]', '{"a":1e-20000}', '[0.1e-16380]', '"\\u0000"', '"\\ud800"',
  '{"__proto__":1}', '"', '""', 'a,b', '"a', ',', '%', '_', '\\', '\\\\', '\\%', "'", "';--", '$1', '{', '}', '{NULL}', '\0',
  '\u{1F600}', 'é', '\uFEFF', '\u202E', ' ', '\n', '\t', '1,2,3', '-', '--', 'id', '-id,id', 'id,,id', 'name', '[', '('.repeat(50),
  '['.repeat(600), '9'.repeat(400), `1e${'9'.repeat(20)}`, `0.${'0'.repeat(900)}1`, 'NULL', 'NOW()', 'epoch', 'today',
]; // prettier-ignore

const word = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...NAMES, ...OPERATORS) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('ordering', 'limit', 'page', '__proto__', 'constructor', '', '-', '[]'),
  },
  { weight: 1, arbitrary: fc.string({ unit: anyCharacter, maxLength: 4 }) },
);
const name = fc
  .tuple(
    fc.constantFrom('', '', '', '-', '--'),
    fc.array(word, { minLength: 1, maxLength: 6 }),
    fc.constantFrom('__', '__', '__', '_', '.'),
  ) // prettier-ignore
  .map(([sign, parts, separator]) => `${sign}${parts.join(separator)}`);
const known = fc.tuple(fc.constantFrom('', '-'), fc.constantFrom(...NAMES), fc.constantFrom('', ...OPERATORS.map((operator) => `__${operator}`))).map((parts) => parts.join('')); // prettier-ignore
const value = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(...TEXTS) },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: fc.double().map(String) },
  { weight: 1, arbitrary: fc.string({ unit: anyCharacter }) },
  {
    weight: 1,
    arbitrary: fc.array(fc.constantFrom(...TEXTS), { maxLength: 5 }).map((items) => items.join(',')),
  },
  { weight: 1, arbitrary: fc.tuple(fc.integer({ min: -99, max: 999_999 }), fc.string({ unit: fc.constantFrom(...'0123456789-:T .+ZBC'), maxLength: 20 })).map((parts) => parts.join('-')) }, // prettier-ignore
);

/** Percent-encodes a text, sometimes incorrectly. It leaves out characters that HTTP forbids. */
const encoded = (text: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 8, arbitrary: text.filter((each) => each.isWellFormed()).map(encodeURIComponent) },
    { weight: 1, arbitrary: text.map((each) => each.replace(/[^!-~]/g, '').replaceAll('#', '')) },
    { weight: 1, arbitrary: fc.array(fc.constantFrom('%', '%2', '%ff', '%00', '%C3', '%A9', '+', '%2B', '%u00e9', 'a', '='), { maxLength: 4 }).map((parts) => parts.join('')) }, // prettier-ignore
  );
const reserved = fc
  .tuple(fc.constantFrom('ordering', 'limit', 'page'), encoded(value))
  .map((pair) => pair.join('='));
const parameter = fc.tuple(encoded(fc.oneof(known, known, name)), fc.constantFrom('=', '=', '='), encoded(value)).map((parts) => parts.join('')); // prettier-ignore
const query = fc
  .array(fc.oneof({ weight: 4, arbitrary: parameter }, { weight: 1, arbitrary: reserved }), { maxLength: 4 })
  .map((parts) => parts.join('&'));

/** The names of parameters in errors: decoded, or as they were sent. */
function namesOf(text: string): Set<string> {
  const names = text.split('&').map((part) => part.split('=', 1)[0] ?? '');
  const decoded = names.flatMap((each) => {
    try {
      return [decodeURIComponent(each.replaceAll('+', ' '))];
    } catch {
      return [each];
    }
  });
  return new Set(decoded);
}

describe('a random query', () => {
  let service: TestService;
  const agent = new Agent({ keepAlive: true });
  before(async () => {
    service = await startSamples();
  });
  after(async () => {
    agent.destroy();
    await service.close();
  });

  test('gets records, or a 400 that names the invalid parameters', async () => {
    const seen = new Set<number>();
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('thing', 'thing', 'node', 'shelf'), query, async (model, text) => {
        const { status, json, headers } = await rawGet(service.base, `/api/${model}/?${text}`, agent);
        if (text.length > 8192) return assert.equal(status, 414);
        seen.add(status);
        assert.ok(status === 200 || status === 400, `${status} ${JSON.stringify(json)}`);
        if (status === 200) {
          assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
          assert.deepEqual(Object.keys(json), ['meta', 'objects']);
          return;
        }
        assert.equal(headers.get('content-type'), 'application/problem+json');
        const names = Object.keys(json.errors ?? {});
        assert.ok(names.length > 0, 'a 400 without errors');
        const sent = [...namesOf(text)];
        // Errors truncate long names.
        const isSent = (each: string): boolean =>
          sent.some((one) => one === each || (each.endsWith('…') && one.startsWith(each.slice(0, -1))));
        for (const each of names) assert.ok(isSent(each), each);
      }),
      { numRuns: 700 },
    );
    assert.deepEqual(seen, new Set([200, 400]));
  });

  test('with an unusual value gets 200 or 400 on every column', async () => {
    const bad: string[] = [];
    for (const column of [...TYPES, 'id', 'box', 'box__name', 'box__owner__active']) {
      const answers = TEXTS.map(async (text) => {
        const quoted = `"${text.replaceAll('"', '""')}"`;
        const parameters = `${column}=${encodeURIComponent(text)}&-${column}__in=${encodeURIComponent(quoted)}`;
        let answer = await rawGet(service.base, `/api/thing/?${parameters}`, agent);
        // A client must wait when the machine is so slow that a query counts as costly, or has to wait for long.
        while (answer.status === 429 || answer.status === 503) {
          await sleep(500);
          answer = await rawGet(service.base, `/api/thing/?${parameters}`, agent);
        }
        const { status, json } = answer;
        const isGood = status === 200 || (status === 400 && Object.keys(json.errors ?? {}).length > 0);
        if (!isGood) bad.push(`${status} ${column}=${text}`);
      });
      await Promise.all(answers);
    }
    assert.deepEqual(bad, []);
  });

  test('gets next and previous links that lead to each other', async () => {
    const filter = fc.tuple(
      fc.constantFrom('-name', 'name__ne', '-name__like', '-rank', '-name__in'),
      encoded(value),
    );
    const several = fc.array(filter.map((pair) => pair.join('=')), { maxLength: 3 }); // prettier-ignore
    let pages = 0;
    await fc.assert(
      fc.asyncProperty(several, async (filters) => {
        const parameters = [...filters, 'limit=2', 'page=2'].join('&');
        const { status, json, text } = await rawGet(service.base, `/api/shelf/?${parameters}`, agent);
        if (status !== 200) return;
        pages += 1;
        const back = await rawGet(service.base, json.meta.previous, agent);
        assert.equal(back.status, 200);
        assert.equal(back.json.meta.page, 1);
        if (back.json.meta.next)
          assert.equal((await rawGet(service.base, back.json.meta.next, agent)).text, text);
        else assert.deepEqual(json.objects, []);
        if (json.meta.next)
          assert.equal((await rawGet(service.base, json.meta.next, agent)).json.meta.page, 3);
      }),
      { numRuns: 150 },
    );
    assert.ok(pages > 20, `${pages} pages`);
  });
});

/** Fails where the text of a statement has a value of these tests. */
const WATCHED = `
  create function watch() returns boolean language plpgsql as $$ begin
    if current_query() ~* 'needle' then raise exception 'a value is a part of the statement'; end if;
    return true;
  end $$;
  create function watch_write() returns trigger language plpgsql as $$ begin perform watch(); return null; end $$;
  create table kept (id text primary key, name text, data jsonb, tags text[]);
  create trigger watch before insert or update or delete on kept execute function watch_write();
  create view seen as select * from kept where watch()`;

describe('a value that a client sends', () => {
  const columns = {
    name: { type: 'text', null: true },
    data: { type: 'json', null: true },
    tags: { type: 'array', of: 'text', null: true },
  } as const;
  const watched = (model: string): Resource => ({
    model,
    primaryKey: { type: 'string', column: 'id' },
    columns,
    access: 'user',
    ...(model === 'seen' && { methods: ['GET'] }),
  });
  const service: WritableService = useWritable([watched('kept'), watched('seen')], (sql) =>
    sql.unsafe(WATCHED).simple(),
  );

  const text = fc
    .tuple(
      fc.string({ unit: anyCharacter, maxLength: 6 }),
      fc.constantFrom('', "'", "';--", '$1', '\\', '%', '"'),
    )
    .map(([start, end]) => `${start.replaceAll('\0', '')}needle${end}`);

  test('is never a part of the text of a statement', async () => {
    await service.sql`insert into kept (id, name) values ('x', ${'needle'})`;
    for (const statement of [
      "insert into kept (id) values ('needle')",
      "select from seen where name = 'needle'",
    ])
      await assert.rejects(service.sql.unsafe(statement), /a value is a part of the statement/);
    await service.sql`truncate kept`;
    await fc.assert(
      fc.asyncProperty(text, text, async (one, other) => {
        const sent = { id: one, name: other, data: { [one]: other }, tags: [one, null] };
        const made = await service.send('POST', '/api/kept/', sent);
        assert.deepEqual([made.status, made.json], [201, sent], made.text);
        const key = encodeURIComponent(one);
        const quoted = `"${one.replaceAll('"', '""')}"`;
        const escaped = one.replace(/[\\%_]/g, '\\$&');
        for (const [name, value] of [
          ['id', one],
          ['id__gte', one],
          ['id__in', quoted],
          ['name', other],
          ['name__ne', `${other}x`],
          ['id__like', escaped],
          ['-id__ilike', `${escaped}x`],
          ['data', JSON.stringify(sent.data)],
          ['data__contains', JSON.stringify(sent.data)],
          ['tags', JSON.stringify(sent.tags)],
          ['tags__contains', quoted],
        ] as const) {
          const found = await service.request(
            `/api/seen/?${new URLSearchParams({ [name]: value }).toString()}`,
          );
          assert.deepEqual([found.status, found.json.objects], [200, [sent]], `${name}: ${found.text}`);
        }
        assert.deepEqual((await service.request(`/api/seen/${key}/`)).json, sent);
        const changed = await service.send('PUT', `/api/kept/${key}/`, {
          name: one,
          data: other,
          tags: [other],
        });
        assert.equal(changed.status, 200, changed.text);
        assert.equal((await service.send('DELETE', `/api/kept/${key}/`)).status, 200);
        const many = await service.send('POST', '/api/kept/', [sent, { ...sent, id: `${one}2` }]);
        assert.equal(many.status, 201, many.text);
        await service.sql`truncate kept`;
      }),
      { numRuns: 40 },
    );
  });
});
