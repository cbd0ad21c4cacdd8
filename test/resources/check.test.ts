import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { createVitrine, StartError } from '../../src/index.ts';
import { users } from '../db/helpers.ts';
import { serverUrl } from '../support.ts';

/** A registry as somebody may write it who has no types to help. */
type Loose = any; // eslint-disable-line @typescript-eslint/no-explicit-any -- anything can be exported

/** The lines of the start's message. The registry is checked before the database is asked: this one is not there. */
async function faultsOf(resources: Loose, settings: object = {}): Promise<string[]> {
  const databaseUrl = new URL('/vitrine_test_none', serverUrl()).href;
  const error: unknown = await createVitrine({
    databaseUrl,
    resources,
    log: () => undefined,
    ...settings,
  }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof StartError, `a StartError, and not ${String(error)}`);
  return error.message.split('\n').slice(1);
}

/** Each fault as `resource: key`. */
async function assertFaults(
  resources: Loose,
  expected: readonly string[],
  settings: object = {},
): Promise<void> {
  const faults = await faultsOf(resources, settings);
  const unseen = faults.slice();
  for (const fault of expected) {
    const at = unseen.findIndex((line) => line.startsWith(`  - ${fault}`));
    assert.ok(at >= 0, `${fault} must be told in\n${faults.join('\n')}`);
    assert.match(unseen[at] ?? '', /: [^:]{8,}/, 'and why');
    unseen.splice(at, 1);
  }
  assert.deepEqual(unseen, [], 'nothing else is a fault');
}

const withColumn = (column: Loose, name = 'x'): Loose => [{ model: 'a', columns: { [name]: column } }];
const withKeys = (keys: object): Loose => [{ model: 'a', columns: { x: { type: 'text' } }, ...keys }];

/** The keys of column `x` of a resource `a`, and those that are at fault. */
const COLUMNS: [column: Loose, ...keys: string[]][] = [
  [null, ''],
  ['string', ''],
  [[], ''],
  [{}, 'type'],
  [{ type: 'varchar' }, 'type'],
  [{ type: 'toString' }, 'type'],
  [{ type: 'text', nul: true, uniq: true }, 'nul', 'uniq'],
  [{ type: 'text', null: 1, unique: 'yes', index: 0 }, 'null', 'unique', 'index'],
  [{ type: 'text', column: '', label: 5, help: null }, 'column', 'label', 'help'],
  [{ type: 'text', column: 'ü'.repeat(32) }, 'column'],
  [{ type: 'integer', maxLength: 5 }, 'maxLength'],
  [{ type: 'strin', nul: true, Unique: true, min: 1 }, 'type', 'nul', 'Unique'],
  [{ typ: 'string' }, 'type', 'typ'],
  [{ type: 'strin', choices: 'abc', maxLength: 0, min: 2, max: 1 }, 'type', 'choices', 'maxLength', 'min'],
  [{ type: 'foreignkey', references: 'gone', onDelete: 'boom' }, 'type', 'references', 'onDelete'],
  [{ references: 5, choices: [] }, 'type', 'references', 'choices'],
  [{ type: 'foreignkey', references: 'a', onDelete: 'cascade' }, 'type'],
  [{ type: 'string', maxLength: 0 }, 'maxLength'],
  [{ type: 'string', maxLength: 2.5 }, 'maxLength'],
  [{ type: 'text', min: 1, max: 2 }, 'min', 'max'],
  [{ type: 'integer', min: '1', max: NaN }, 'min', 'max'],
  [{ type: 'float', min: 2, max: 1 }, 'min'],
  [{ type: 'decimal', precision: 0 }, 'precision'],
  [{ type: 'decimal', precision: 3, scale: 4 }, 'scale'],
  [{ type: 'decimal', scale: 2 }, 'scale'],
  [{ type: 'float', precision: 3 }, 'precision'],
  [{ type: 'text', references: 'a', onDelete: 'cascade' }, 'references', 'onDelete'],
  [{ type: 'foreignKey' }, 'references'],
  [{ type: 'foreignKey', references: 'nobody' }, 'references'],
  [{ type: 'foreignKey', references: 'a', onDelete: 'explode' }, 'onDelete'],
  [{ type: 'foreignKey', references: 'a', onDelete: 'setNull' }, 'onDelete'],
  [{ type: 'foreignKey', references: 'a', default: 'x' }, 'default'],
  [{ type: 'foreignKey', references: 'a', default: 2147483648 }, 'default'],
  [{ type: 'boolean', default: 'yes' }, 'default'],
  [{ type: 'integer', default: 2147483648 }, 'default'],
  [{ type: 'integer', default: 5, max: 4 }, 'default'],
  [{ type: 'bigint', default: '9223372036854775808' }, 'default'],
  [{ type: 'decimal', precision: 3, scale: 1, default: '12.34' }, 'default'],
  [{ type: 'decimal', default: 'NaN' }, 'default'],
  [{ type: 'decimal', default: -1e16 }, 'default'],
  [{ type: 'bigint', default: 2 ** 53 }, 'default'],
  [{ type: 'bigint', choices: [1, 2 ** 53] }, 'choices'],
  [{ type: 'json', default: 5n }, 'default'],
  [{ type: 'json', default: () => 1 }, 'default'],
  [{ type: 'date', default: '2023-02-29' }, 'default'],
  [{ type: 'date', default: 'infinity' }, 'default'],
  [{ type: 'datetime', default: 'tomorrow' }, 'default'],
  [{ type: 'uuid', default: 'x' }, 'default'],
  [{ type: 'text', default: null }, 'default'],
  [{ type: 'text', default: 'a\0b' }, 'default'],
  [{ type: 'string', maxLength: 3, default: 'four' }, 'default'],
  [{ type: 'string', default: 'x'.repeat(256) }, 'default'],
  [{ type: 'password', default: 'secret' }, 'default'],
  [{ type: 'text', choices: 'a' }, 'choices'],
  [{ type: 'text', choices: [] }, 'choices'],
  [{ type: 'text', choices: [1] }, 'choices'],
  [{ type: 'text', choices: ['a'], default: 'b' }, 'default'],
]; // prettier-ignore

/** Names of a column `text`, or of a foreign key, that mean something else already. */
const NAMES = ['id', 'ordering', 'limit', 'page', 'a__b', '__a', 'a__', '1a', 'a b', 'ä', '', '_a', 'a-b', '__proto__', 'x'.repeat(64)]; // prettier-ignore

/** Further keys of a resource `a` with one column `x`, and those at fault. */
const RESOURCES: [keys: object, ...faults: string[]][] = [
  [{ acess: 'user', Exclude: [] }, 'acess', 'Exclude'],
  [{ columns: undefined }, 'columns'],
  [{ columns: [] }, 'columns'],
  [{ table: '' }, 'table'],
  [{ table: 'a.b.c' }, 'table'],
  [{ table: 5 }, 'table'],
  [{ table: 'ü'.repeat(32) }, 'table'],
  [{ primaryKey: 'id' }, 'primaryKey'],
  [{ primaryKey: { type: 'text', colum: 'x' } }, 'primaryKey.type', 'primaryKey.colum'],
  [{ primaryKey: { type: 'integer', column: '' } }, 'primaryKey.column'],
  [{ primaryKey: { type: 'integer', column: 'k'.repeat(64) } }, 'primaryKey.column'],
  [{ primaryKey: { type: 'integer', column: 'x' } }, 'columns.x'],
  [{ access: 'everyone', read: 'nobody' }, 'access', 'read'],
  [{ exclude: 'x' }, 'exclude'],
  [{ exclude: ['y'], readonly: ['x', 'z', 5] }, 'exclude', 'readonly', 'readonly'],
  [{ exclude: ['id'] }, 'exclude'],
  [{ limit: 0, maxLimit: 1.5 }, 'limit', 'maxLimit'],
  [{ limit: '20' }, 'limit'],
  [{ limit: 30, maxLimit: 20 }, 'limit'],
  [{ methods: [] }, 'methods'],
  [{ methods: ['GET', 'PATCH'] }, 'methods'],
  [{ methods: 'GET' }, 'methods'],
  [{ ordering: 5 }, 'ordering'],
  [{ ordering: '' }, 'ordering'],
  [{ ordering: 'y,-x' }, 'ordering'],
  [{ ordering: 'x,id,x,id,x,id,x,id,x' }, 'ordering'],
  [{ ordering: ',,' }, 'ordering'],
  [{ ordering: 'x', exclude: ['x'] }, 'ordering'],
  [{ owner: 'x' }, 'owner'],
  [{ owner: 'y' }, 'owner'],
  [{ admin: true }, 'admin'],
  [{ admin: { colour: 'red', hidden: 1, list: ['y'], readonly: 'x' } }, 'admin.colour', 'admin.hidden', 'admin.list', 'admin.readonly'],
  [{ admin: { search: ['y'], filters: 'x', label: 5 } }, 'admin.search', 'admin.filters', 'admin.label'],
]; // prettier-ignore

describe('a faulty registry stops the start', () => {
  for (const registry of [undefined, null, {}, 'x', [], { user: users }]) {
    test(`when it is ${JSON.stringify(registry)?.slice(0, 20)}`, async () => {
      const faults = await faultsOf(registry);
      assert.equal(faults.length, 1);
      assert.match(faults[0] ?? '', /the registry/);
    });
  }

  test('when a resource is no object or has no name of the right form', async () => {
    await assertFaults([null, 'user', []], ['resource 1', 'resource 2', 'resource 3']);
    for (const model of [undefined, 5]) await assertFaults([{ model, columns: {} }], ['resource 1: model']);
    for (const model of ['User', '1a', 'a-b', 'a__b', 'a b', 'ä', '_a', 'x'.repeat(64)])
      await assertFaults([{ model, columns: {} }], [`${model}: model`]);
  });

  for (const [column, ...keys] of COLUMNS) {
    test(`by a column ${inspect(column).slice(0, 80)}`, () =>
      assertFaults(
        withColumn(column),
        keys.map((key) => `a: columns.x${key && `.${key}`}:`),
      ));
  }

  for (const name of NAMES) {
    test(`by a column called ${JSON.stringify(name)}`, async () => {
      await assertFaults(withColumn({ type: 'text' }, name), [`a: columns.${name}:`]);
      await assertFaults(withColumn({ type: 'foreignKey', references: 'a' }, name), [`a: columns.${name}:`]);
    });
  }

  for (const [keys, ...faults] of RESOURCES) {
    test(`by a resource with ${JSON.stringify(keys).slice(0, 80)}`, () =>
      assertFaults(
        withKeys(keys),
        faults.map((fault) => `a: ${fault}:`),
      ));
  }

  test('by a foreign key whose name in JSON or in the database is that of another column', async () => {
    const link = { type: 'foreignKey', references: 'a' };
    const text = { type: 'text' };
    await assertFaults([{ model: 'a', columns: { user: link, user_id: text } }], ['a: columns.user:']);
    await assertFaults([{ model: 'a', columns: { user: link, user_id: link } }], ['a: columns.user:']);
    await assertFaults(
      [{ model: 'a', columns: { b: text, c: { ...text, column: 'b' } } }],
      ['a: columns.c:'],
    );
    await assertFaults(
      [{ model: 'a', columns: { b: link, c: { ...text, column: 'b_id' } } }],
      ['a: columns.c:'],
    );
    await assertFaults([{ model: 'a', columns: { b: { ...text, column: 'id' } } }], ['a: columns.b:']);
  });

  test('by two resources with one model or one table', async () => {
    const a = { model: 'a', columns: {} };
    await assertFaults([a, a], ['a: model']);
    await assertFaults([a, { model: 'b', table: 'a', columns: {} }], ['b: table']);
  });
});

describe('the faults of a registry', () => {
  for (const [column, said] of [
    [{ type: 'string', maxLength: 1e9 }, /from 1 to 10485760$/],
    [{ type: 'float', default: NaN }, /default: NaN must be/],
    [{ type: 'float', default: -Infinity }, /default: -Infinity must be/],
    [{ type: 'json', default: NaN }, /default: NaN cannot be written as JSON/],
    [{ type: 'json', default: { a: [NaN] } }, /cannot be written as JSON/],
    [{ type: 'json', default: { a: () => 1 } }, /cannot be written as JSON/],
    [{ type: 'json', default: [undefined] }, /cannot be written as JSON/],
    [{ type: 'json', default: new Map([[1, 2]]) }, /cannot be written as JSON/],
    [{ type: 'text', default: () => 1 }, /default: \(\) ?=> ?1 must be/],
    [{ type: 'text', choices: ['a', undefined] }, /choices: undefined must be/],
    [{ type: 'integer', default: 5n }, /default: 5n must be/],
    [{ type: 'bigint', default: 9007199254740993 }, /default: 9007199254740992 .*write it as a string/], // eslint-disable-line no-loss-of-precision
  ] as [Loose, RegExp][]) {
    test(`say ${said.source}`, async () => {
      const faults = await faultsOf(withColumn(column));
      assert.equal(faults.length, 1, faults.join());
      assert.match(faults[0] ?? '', said);
    });
  }
});

describe('all faults of a registry are told at once', () => {
  test('those of one resource, of several, and those between them', async () => {
    await assertFaults(
      [
        users,
        { model: 'a', columns: { x: { type: 'txt' }, y: { type: 'text', nul: true } }, acess: 'user', limit: 0 },
        { model: 'b', columns: { z: { type: 'foreignKey', references: 'nobody' } }, ordering: 'w' },
        { model: 'b', columns: {}, access: 'all' },
        { model: 'c', columns: { user: { type: 'foreignKey', references: 'b' } }, owner: 'user' },
        7,
      ],
      ['a: columns.x.type:', 'a: columns.y.nul:', 'a: acess:', 'a: limit:', 'b: columns.z.references:', 'b: ordering:', 'b: model:', 'b: access:', 'c: owner:', 'resource 6'],
    ); // prettier-ignore
  });

  test('what a column of no known type has in common with others', async () => {
    await assertFaults(
      [
        { ...users, columns: { ...users.columns, username: { type: 'txt' } } },
        {
          model: 'a',
          columns: {
            a: { type: 'txt', column: 'x' },
            b: { type: 'text', column: 'x' },
            d: { column: 'id' },
            link: { references: 'a' },
            link_id: { type: 'text' },
            name: { type: 'text', references: 'a' },
            name_id: { type: 'text' },
          },
          access: 'user',
        },
      ],
      ['user: columns.username.type:', 'user: columns.username:', 'a: columns.a.type:', 'a: columns.b:', 'a: columns.d.type:', 'a: columns.d:', 'a: columns.link.type:', 'a: columns.link:', 'a: columns.name.references:'],
    ); // prettier-ignore
  });

  test('names that do not fit each other, in resources that have other faults as well', async () => {
    const text = { type: 'text' };
    const link = (references: string, more: object = {}): object => ({
      type: 'foreignKey',
      references,
      ...more,
    });
    await assertFaults(
      [
        { ...users, columns: { ...users.columns, active: text }, limit: 0 },
        { model: 'a', table: 'same', columns: { x: link('nobody'), y: text }, acess: 'user' },
        { model: 'b', table: 'same', columns: { x: text, y: { ...text, column: 'x' }, z: { ...text, maxLength: 0 } } },
        { model: 'c', columns: { a: link('a', { default: 'x' }), b: { ...text, null: 1 } }, ordering: 'nosuch,a__nosuch,-b' },
        { model: 'd', columns: { a: link('a'), t: { type: 'txt', index: 1 } }, owner: 'a', ordering: 'a__y,t,nosuch' },
        { model: 'd', columns: { x: link('nowhere') } },
        { model: 'e', columns: 'none', access: 'all', exclude: 5, ordering: 'x', admin: { list: ['x'] } },
        { model: 'f', columns: { t: { type: 'txt' } }, admin: { list: ['t'], search: ['nosuch'], colour: 'red' } },
        { model: 'G', columns: { x: link('nobody') } },
        7,
      ],
      ['user: limit:', 'user: columns.active:', 'a: acess:', 'a: columns.x.references:', 'b: table:', 'b: columns.y:', 'b: columns.z.maxLength:', 'c: columns.b.null:', 'c: columns.a.default:', 'c: ordering:', 'c: ordering:', 'd: columns.t.type:', 'd: columns.t.index:', 'd: owner:', 'd: ordering:', 'd: model:', 'd: columns.x.references:', 'e: columns:', 'e: access:', 'e: exclude:', 'f: columns.t.type:', 'f: admin.colour:', 'f: admin.search:', 'G: model:', 'G: columns.x.references:', 'resource 10'],
    ); // prettier-ignore
  });

  test('and a fault of one resource hides none of another that has a column of the same name', async () => {
    await assertFaults(
      [
        { model: 'x', columns: { name: { type: 'txt' }, z: { type: 'foreignKey', references: 'y' } }, ordering: 'z__other' },
        { model: 'y', columns: { title: { type: 'text' } }, ordering: 'name', admin: { list: ['name'] } },
        { model: 'y', columns: { u: { type: 'text' } }, ordering: 'v' },
        { model: 'v', columns: { y: { type: 'foreignKey', references: 'y' }, y_id: { type: 'text' } }, ordering: 'y__none,none' },
        { model: 'w', columns: { x: { type: 'foreignKey', references: 'x' } }, ordering: 'x__name', admin: { search: ['x__name'] } },
      ],
      ['x: columns.name.type:', 'x: ordering:', 'y: ordering:', 'y: admin.list:', 'y: model:', 'y: ordering:', 'v: columns.y:', 'v: ordering:', 'v: ordering:'],
    ); // prettier-ignore
  });

  test('and what a fault leaves open is not called one', async () => {
    const link = { type: 'foreignKey', references: 'e' };
    await assertFaults(
      [
        { model: 'user', columns: { username: { type: 'strng', unique: true }, password: 5, active: {}, admin: { type: 'boolean' } } },
        { model: 'a', columns: { e: link, k: { ...link, references: 'k', default: 'x' } }, ordering: 'e__x', access: 'user' },
        { model: 'e', columns: null, owner: 'x', readonly: ['x'], ordering: 'x', admin: { label: '{x}', dates: 'x' } },
        { model: 'k', primaryKey: { type: 'text' }, columns: { id_: { type: 'text' } } },
        { model: 'l', columns: { x: { type: 'txt' } }, exclude: ['x'], ordering: '-x', admin: { label: 'x', dates: 'x' } },
      ],
      ['user: columns.username.type:', 'user: columns.password:', 'user: columns.active.type:', 'e: columns:', 'k: primaryKey.type:', 'k: columns.id_:', 'l: columns.x.type:'],
    ); // prettier-ignore
  });
});
