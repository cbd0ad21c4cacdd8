import assert from 'node:assert/strict';
import { raw, sql, value } from '../../src/db/fragment.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import type { Column, Model } from '../../src/db/schema/model.ts';
import { WriteStatements, type Write } from '../../src/query/statements/write-statements.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
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
  const output = [model.primaryKey, counting];
  const target = { model, output, formatted: output, owner, recording: undefined };
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
    const check = { column: name, value: 'a', kind: 'unchanged', fieldName: 'name', fault: '' } as const;
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
