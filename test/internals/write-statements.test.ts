import assert from 'node:assert/strict';
import { raw, sql, value } from '../../src/db/fragment.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import type { Column, Model } from '../../src/db/schema/model.ts';
import { type Write, WriteStatements } from '../../src/query/statements/write-statements.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import { createSqlCache } from '../../src/db/sql-cache.ts';
import { parseListQuery } from '../../src/query/parse/grammar.ts';
import { planList } from '../../src/query/plan.ts';
import { pageStatement } from '../../src/query/read.ts';
import { ADMIN } from '../../src/resources/access/access.ts';
import { type ServedResource, createViews } from '../../src/resources/serve/served-resource.ts';
import { assertWrittenSql, isRolledBack } from '../../src/query/statements/check-statements.ts';
import { describe, test } from 'node:test';

const registry = [
  { model: 'item', columns: { name: { type: 'string' }, secret: { type: 'password' } } },
] as const satisfies readonly Resource[];

/** Writes to a model whose output column counts how often SQL is built. */
function createWrites({ isOwned = false } = {}) {
  const model = buildModels(registry).get('item') as Model;
  const [name, secret] = model.columns as [Column, Column];
  let built = 0;
  const counted = (): ReturnType<typeof raw> => {
    built += 1;
    return raw("'x'");
  };
  const counting = { ...name, type: { ...name.type, output: counted } };
  const owner = isOwned ? name : undefined;
  const target = { model, formatted: [model.primaryKey, counting], owner, recording: undefined };
  return { writes: new WriteStatements(target), name, secret, built: () => built };
}

describe('the writing statements of a resource', () => {
  test('the SQL of a shape is built once, and each statement has its own values', () => {
    const { writes, name, built } = createWrites();
    const first = writes.update({ id: '1', changes: [{ column: name, value: 'a' }], author: null });
    const once = built();
    const second = writes.update({ id: '2', changes: [{ column: name, value: 'b' }], author: null });
    assert.ok(once > 0);
    assert.equal(built(), once);
    assert.equal(second.text, first.text);
    assert.deepEqual(first.values, ['1', 'a']);
    assert.deepEqual(second.values, ['2', 'b']);
  });

  test('writes with other SQL are other shapes, and every parameter is in the SQL', () => {
    const { writes, name, secret } = createWrites();
    const author = { id: '7', name: 'ada' };
    const check = { column: name, value: 'a', kind: 'unchanged', fieldNames: ['name'], fault: '' } as const;
    const changes: Write['changes'] = [{ column: name, value: 'a' }];
    const all: Write[] = [
      { id: '1', changes, author },
      { id: '1', changes: [], author },
      { id: '1', changes: [{ column: secret, value: null, hash: 'h' }], author },
      { id: '1', changes: [{ column: secret, value: 'salt:digest', hash: 'h' }], author },
      { id: '1', changes, checks: [check], author },
      { id: '1', changes, checks: [{ ...check, kind: 'recordKey', urlKey: '1' }], author },
      { id: '1', changes, author, versions: ['5', '6'] },
      { id: '1', changes, author: { ...author, precondition: sql`${value('7')} = '7'` } },
      { id: '1', changes, author: { ...author, precondition: sql`${value('7')} = '8'` } },
    ];
    const statements = all.map((write) => writes.update(write));
    assert.equal(new Set(statements.map(({ text }) => text)).size, all.length);
    for (const { text, values } of statements) {
      const used = new Set([...text.matchAll(/\$(\d+)/g)].map(([, place]) => Number(place)));
      assert.deepEqual(
        [...used].sort((a, b) => a - b),
        values.map((_, index) => index + 1),
        text,
      );
    }
    assert.deepEqual(statements[3]?.values, ['1', 'h', 'salt', 'digest']);
    assert.deepEqual(statements[6]?.values, ['1', 'a', '{"5","6"}']);
  });

  test('the SQL of several new records builds no JSON where only the keys are returned', () => {
    const { writes, name, built } = createWrites();
    const group = { columns: [name], lists: [sql`array['a']`], size: 1 };
    const many = { groups: [group], references: [], author: { id: '7', name: 'ada' } };
    writes.insertMany({ ...many, isMinimal: true });
    assert.equal(built(), 0);
    writes.insertMany({ ...many, isMinimal: false });
    assert.equal(built(), 1);
  });

  test('a write without an author does not share its SQL with one whose author must be the owner', () => {
    const { writes, name } = createWrites({ isOwned: true });
    const write = { id: '1', changes: [{ column: name, value: 'a' }] };
    const anonymous = writes.update({ ...write, author: null });
    const owned = writes.update({ ...write, author: { id: '7', name: 'ada' } });
    assert.deepEqual(anonymous.values, ['1', 'a']);
    assert.deepEqual(owned.values, ['1', 'a', '7']);
    assert.doesNotMatch(anonymous.text, /\$3/);
    assert.match(owned.text, /\$3/);
  });

  test('the SQL that was used least recently is forgotten when the texts exceed the limit', () => {
    const { writes, built } = createWrites();
    const padding = ' '.repeat(500_000);
    const remove = (number: number): number => {
      const before = built();
      const precondition = raw(`${number} = ${number}${padding}`);
      writes.update({ id: '1', changes: [], author: { id: '7', name: 'ada', precondition } });
      return built() - before;
    };
    const once = remove(0);
    assert.ok(once > 0);
    for (let number = 1; number < 20; number += 1) {
      assert.equal(remove(number), once);
      assert.equal(remove(0), 0, 'a text in use is kept');
    }
    assert.equal(remove(1), once);
  });
});

const authors = [
  {
    model: 'author',
    columns: {
      name: { type: 'string' },
      born: { type: 'datetime', null: true },
      mentor: { type: 'foreignKey', references: 'author', null: true },
      rival: { type: 'foreignKey', references: 'author', null: true },
    },
  },
] as const satisfies readonly Resource[];

const served = createViews(authors, buildModels(authors), { access: 'default', userModel: 'user' })(ADMIN);
const author = served.get('author') as ServedResource;

const QUERIES = [
  ...['', 'limit=1', 'limit=500', 'page=2', 'page=999', 'page=99999999999999999999'],
  ...['name=a', 'name=b', 'name__ne=a', '-name=a', 'name=a&name=b', 'name=a&page=2', 'name__in=a', 'name__in=a,b'],
  ...['name__like=a', 'name__ilike=a', 'name__is=null', '-name__is=null', 'born=2024-01-01', 'born__lt=2024-01-01'],
  ...['mentor=1', 'rival=1', 'mentor__name=a', 'rival__name=a', 'mentor__rival__name=a', 'rival__mentor__name=a'],
  ...['name=a&mentor__name=b', 'mentor__name=b&name=a', 'ordering=name', 'ordering=-name', 'ordering=-id'],
  ...['ordering=name,-id', 'ordering=mentor__name', 'ordering=rival__name', 'ordering=-name,born&page=3&name=a'],
]; // prettier-ignore

describe('the cache of SQL texts', () => {
  test('a page has the same SQL and values with a cache as without', () => {
    const cache = createSqlCache();
    const visibility = author.visibility;
    for (const query of [...QUERIES, ...QUERIES]) {
      for (const isCounted of [false, true]) {
        const plan = planList(parseListQuery(query, author, {}), author.model, visibility, [], {});
        const read = { ...plan, columns: author.plain, maxBytes: 1000, countTo: isCounted ? 100 : undefined };
        const built = pageStatement(read);
        const cached = pageStatement(read, (shape, build) => cache(`${isCounted} ${shape}`, build));
        assert.equal(cached.text, built.text, query);
        assert.deepEqual(cached.values, built.values, query);
      }
    }
  });

  test('a text is built once for all values of its shape', () => {
    const cache = createSqlCache();
    /** The text, and the two for shared connections. */
    const TEXTS = 3;
    let built = 0;
    for (const query of ['name=a', 'name=b', 'name=&page=1', 'name=%22', 'page=1&name=a%20b']) {
      const plan = planList(parseListQuery(query, author, {}), author.model, author.visibility, [], {}); // prettier-ignore
      const { small } = pageStatement({ ...plan, columns: author.plain, maxBytes: 1000 }, (shape, build) =>
        cache(shape, () => {
          built += 1;
          return build();
        }),
      );
      for (const isSummed of [false, true]) assert.ok(small?.(isSummed));
    }
    assert.equal(built, TEXTS);
  });

  test('a page has no more than the bytes that it may have, and a small one is checked before it is made', () => {
    const visibility = author.visibility;
    const plan = planList(parseListQuery('limit=40', author, {}), author.model, visibility, [], {});
    const { text, small } = pageStatement({ ...plan, columns: author.plain, maxBytes: 2 ** 20 });
    assert.match(text, new RegExp(` over \\(rows unbounded preceding\\) <= ${2 ** 20} `));
    for (const isSummed of [false, true])
      assert.match(small?.(isSummed) ?? '', new RegExp(` octet_length\\(objects\\) <= ${2 ** 18} `));
  });

  test('equal shapes of different caches are separate', () => {
    const [one, other] = [createSqlCache(), createSqlCache()];
    assert.equal(one('shape', () => 'select 1'), 'select 1'); // prettier-ignore
    assert.equal(other('shape', () => 'select 2'), 'select 2'); // prettier-ignore
    assert.equal(one('shape', () => 'select 3'), 'select 1'); // prettier-ignore
  });
});

// Errors that the statements of writes raise on purpose, to be undone.
describe('the error of a statement that ends itself', () => {
  const [, shown = ''] = /'(vitrine [^']+)'/.exec(assertWrittenSql(raw('true')).text.join('')) ?? [];

  for (const [language, message] of [
    ['English', `invalid input syntax for type bigint: "${shown}"`],
    ['German', `ungültige Eingabesyntax für Typ bigint: »${shown}«`],
    ['French', `syntaxe en entrée invalide pour le type bigint : « ${shown} »`],
    ['Japanese', `"bigint"型の入力構文が不正です: "${shown}"`],
  ] as const)
    test(`is recognized in ${language}`, () => {
      assert.equal(isRolledBack({ code: '22P02', message }), true);
      assert.equal(isRolledBack({ code: 'P0001', message }), false);
      assert.equal(isRolledBack({ code: '22P02', message: message.replace(shown, 'vitrine') }), false);
    });
});
