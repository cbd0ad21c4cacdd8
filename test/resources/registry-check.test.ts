import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { users } from '../db/helpers.ts';
import { assertFaults, faultsOf, type Loose } from './registry-faults.ts';
import { describe, test } from 'node:test';

const withColumn = (column: Loose, name = 'x'): Loose => [{ model: 'a', columns: { [name]: column } }];
const withKeys = (keys: object): Loose => [users, { model: 'a', columns: { x: { type: 'text' } }, ...keys }];

/** Definitions of column `x` of a resource `a`, and their keys with a fault. */
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
  [{ type: 'text', column: 'a\0', label: '\ud800' }, 'column', 'label'],
  [{ type: 'text', column: 'ü'.repeat(32) }, 'column'],
  [{ type: 'integer', maxLength: 5 }, 'maxLength'],
  [{ type: 'strin', nul: true, Unique: true, min: 1 }, 'type', 'nul', 'Unique'],
  [{ typ: 'string' }, 'type', 'typ'],
  [{ type: 'strin', choices: 'abc', maxLength: 0, min: 2, max: 1 }, 'type'],
  [{ type: 'foreignkey', references: 'gone', onDelete: 'boom' }, 'type'],
  [{ references: 5, choices: [] }, 'type'],
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
  [{ type: 'integer', choices: ['5', 6], default: 5 }, 'choices'],
  [{ type: 'integer', choices: ['5', 6], default: 7 }, 'choices'],
  [{ type: 'decimal', precision: 2000, scale: 1500 }, 'precision', 'scale'],
  [{ type: 'decimal', precision: '10', scale: 2 }, 'precision'],
  [{ type: 'decimal', scale: 2 }, 'scale'],
  [{ type: 'foreignKey', references: 'a', null: 'yes', onDelete: 'setNull' }, 'null'],
  [{ references: 'a', min: 1, maxLength: 4 }, 'type'],
  [{ type: 'ForeignKey' }, 'type'],
  [{ onDelete: 'cascade' }, 'type'],
  [{ type: 'int', min: 1, max: 10, default: 50 }, 'type'],
  [{ type: 'varchar', maxLength: 3, choices: ['a', 'abcd'] }, 'type'],
  [{ type: 'numeric', precision: 4, scale: 2, default: '123.456' }, 'type'],
  [{ type: 'foreignKey', references: 'none', default: {}, choices: [true] }, 'references'],
]; // prettier-ignore

/** Names that neither a column nor a foreign key may have. */
const NAMES = ['id', 'ordering', 'limit', 'page', 'a__b', '__a', 'a__', '1a', 'a b', 'ä', '', '_a', 'a-b', '__proto__', 'x'.repeat(64)]; // prettier-ignore

/** A value that JSON cannot express. */
const LOOP: Loose = {};
LOOP.itself = LOOP;

/** Further keys of a resource `a` with one column `x`, and the keys with a fault. */
const RESOURCES: [keys: object, ...faults: string[]][] = [
  [{ acess: 'user', Exclude: [] }, 'acess', 'Exclude'],
  [{ columns: undefined }, 'columns'],
  [{ columns: [] }, 'columns'],
  [{ columns: 5, owner: 5, admin: { colour: 'red', list: 'x', label: 'x' } }, 'columns', 'owner', 'admin.colour', 'admin.list'],
  [{ table: '' }, 'table'],
  [{ table: 'a.b.c' }, 'table'],
  [{ table: 5 }, 'table'],
  [{ table: 'a\0' }, 'table'],
  [{ table: 'ü'.repeat(32) }, 'table'],
  [{ primaryKey: 'id' }, 'primaryKey'],
  [{ primaryKey: { type: 'text', colum: 'x' } }, 'primaryKey.type', 'primaryKey.colum'],
  [{ primaryKey: { type: 'integer', column: '' } }, 'primaryKey.column'],
  [{ primaryKey: { type: 'integer', column: 'k'.repeat(64) } }, 'primaryKey.column'],
  [{ primaryKey: { type: 'integer', column: 'x' } }, 'columns.x'],
  [{ access: 'everyone', read: 'nobody' }, 'access', 'read'],
  [{ exclude: 'x' }, 'exclude'],
  [{ exclude: ['y'], readonly: ['x', 'z', 5] }, 'readonly'],
  [{ exclude: ['y'], readonly: ['x', 'z', 'z'] }, 'exclude', 'readonly', 'readonly'],
  [{ exclude: ['id'] }, 'exclude'],
  [{ limit: 0, maxLimit: 1.5 }, 'limit', 'maxLimit'],
  [{ limit: '20' }, 'limit'],
  [{ limit: 21, maxLimit: 20 }, 'limit'],
  [{ methods: [] }, 'methods'],
  [{ methods: ['GET', 'PATCH'] }, 'methods'],
  [{ methods: 'GET' }, 'methods'],
  [{ methods: Object.assign([], { 1: 'GET' }) }, 'methods'],
  [{ limit: 10, maxLimit: 0 }, 'maxLimit'],
  [{ maxCount: 0, countLevel: 'everyone' }, 'countLevel', 'maxCount'],
  [{ maxCount: 1.5 }, 'maxCount'],
  [{ countLevel: 'user' }, 'countLevel'],
  [{ cache: 0 }, 'cache'],
  [{ databaseErrors: true }, 'databaseErrors'],
  [{ constraints: 5 }, 'constraints'],
  [{ constraints: { x: '' } }, 'constraints'],
  [{ cache: 60, read: 'user' }, 'cache'],
  [{ exclude: [10n], readonly: [LOOP], admin: { list: [1n] } }, 'exclude', 'readonly', 'admin.list'],
  [{ ordering: 5 }, 'ordering'],
  [{ ordering: '' }, 'ordering'],
  [{ ordering: 'y,-x' }, 'ordering'],
  [{ ordering: 'x,id,x,id,x,id,x,id,x' }, 'ordering'],
  [{ ordering: ',,' }, 'ordering'],
  [{ ordering: 'x', exclude: ['x'] }, 'ordering'],
  [{ owner: 'x' }, 'owner'],
  [{ owner: 'y' }, 'owner'],
  [{ admin: true }, 'admin'],
  [{ admin: { colour: 'red', hidden: 1, list: ['y'], readonly: 'x' } }, 'admin.colour', 'admin.hidden', 'admin.readonly'],
  [{ admin: { search: ['y'], filters: 'x', label: 5 } }, 'admin.filters', 'admin.label'],
  [{ admin: { list: ['y', 'x'], readonly: ['y'], exclude: ['x', 'y'] } }, 'admin.readonly', 'admin.exclude'],
  [{ admin: { list: ['y', 'x'], search: ['y', 'x'], exclude: ['x'], label: '{x} {y}' } }, 'admin.list', 'admin.list', 'admin.search', 'admin.search', 'admin.label', 'admin.label'],
]; // prettier-ignore

describe('an invalid registry stops the start', () => {
  for (const registry of [undefined, null, {}, 'x', [], { user: users }]) {
    test(`when it is ${JSON.stringify(registry)?.slice(0, 20)}`, async () => {
      const faults = await faultsOf(registry);
      assert.equal(faults.length, 1);
      assert.match(faults[0] ?? '', /the registry: it has no resources|resources must be an array/);
    });
  }

  test('when a resource is not an object or has no valid name', async () => {
    await assertFaults([null, 'user', []], ['resource 1', 'resource 2', 'resource 3']);
    for (const model of [undefined, 5, '', 'a\nb'])
      await assertFaults([{ model, columns: {} }], ['resource 1: model']);
    for (const model of ['User', '1a', 'a-b', 'a__b', 'a b', 'ä', '_a', 'x'.repeat(64)])
      await assertFaults([{ model, columns: {} }], [`${model}: model`]);
  });

  for (const [column, ...keys] of COLUMNS) {
    test(`for the column ${inspect(column).slice(0, 80)}`, () =>
      assertFaults(
        withColumn(column),
        keys.map((key) => `a: columns.x${key && `.${key}`}:`),
      ));
  }

  for (const name of NAMES) {
    test(`for a column named ${JSON.stringify(name)}`, async () => {
      await assertFaults(withColumn({ type: 'text' }, name), [`a: columns.${name}:`]);
      await assertFaults(withColumn({ type: 'foreignKey', references: 'a' }, name), [`a: columns.${name}:`]);
    });
  }

  for (const [keys, ...faults] of RESOURCES) {
    test(`for a resource with ${inspect(keys, { breakLength: Infinity }).slice(0, 80)}`, () =>
      assertFaults(
        withKeys(keys),
        faults.map((fault) => `a: ${fault}:`),
      ));
  }

  test('for two columns with the same name in JSON or in the database', async () => {
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
    for (const version of ['c', 'b', 'n', 5, null])
      await assertFaults(
        [{ model: 'a', version, columns: { b: text, n: { type: 'bigint', null: true } } }],
        ['a: version:'],
      );
    await assertFaults([{ model: 'a', columns: { b: { ...text, column: 'xmin' } } }], ['a: columns.b:']);
    await assertFaults(
      [{ model: 'a', primaryKey: { type: 'integer', column: 'ctid' }, columns: {} }],
      ['a: primaryKey.column:'],
    );
  });

  test('for keys and foreign keys of several columns', async () => {
    const [n, t] = [{ type: 'integer' }, { type: 'string' }];
    const columns = { a: n, b: t, c: { ...n, null: true }, j: { type: 'json' } };
    const one = (more: object): object => ({ model: 'one', columns, ...more });
    const keys = (...names: unknown[]): object => one({ primaryKey: { columns: names } });
    const wrong = ['one: primaryKey.columns:'];
    for (const names of [[], ['a', 'a'], ['a', 'x'], ['a', 5], ['a', 'j'], ['a', 'c'], Array(9).fill('a')])
      await assertFaults([keys(...(names as unknown[]))], wrong);
    await assertFaults([one({ primaryKey: { columns: 'a,b' } })], wrong);
    await assertFaults(
      [one({ primaryKey: { type: 'integer', columns: ['a', 'b'] } })],
      ['one: primaryKey.type:'],
    );
    await assertFaults([{ ...keys('a', 'b'), exclude: ['b'] }], wrong);
    await assertFaults([{ ...keys('a', 'b'), admin: { exclude: ['a'] } }], wrong);
    const other = (more: object, name = 'to'): object => ({
      model: 'other',
      columns: { p: n, q: t, to_id: n, link: { type: 'foreignKey', references: 'other' } },
      foreignKeys: { [name]: { columns: ['p', 'q'], references: 'one', ...more } },
    });
    const target = keys('a', 'b');
    await assertFaults([target, other({ references: 'none' })], ['other: foreignKeys.to.references:']);
    await assertFaults([target, other({ references: 'other' })], ['other: foreignKeys.to.references:']);
    await assertFaults(
      [target, other({ columns: ['q', 'p'] })],
      Array(2).fill('other: foreignKeys.to.references:'),
    );
    await assertFaults([target, other({ columns: ['p'] })], ['other: foreignKeys.to.references:']);
    await assertFaults([target, other({ columns: ['p', 'x'] })], ['other: foreignKeys.to.columns:']);
    await assertFaults([target, other({ onDelete: 'boom' })], ['other: foreignKeys.to.onDelete:']);
    await assertFaults([target, other({ onDelete: 'setNull' })], ['other: foreignKeys.to.onDelete:']);
    await assertFaults([target, other({ why: 1 })], ['other: foreignKeys.to.why:']);
    for (const name of ['p', 'link_id', 'id', 'a__b'])
      await assertFaults([target, other({}, name)], [`other: foreignKeys.${name}:`]);
    await assertFaults([{ ...target, foreignKeys: 5 }], ['one: foreignKeys:']);
    await assertFaults(
      [target, { model: 'other', columns: { one: { type: 'foreignKey', references: 'one' } } }],
      ['other: columns.one.references:'],
    );
  });

  test('for two resources with the same model or table', async () => {
    const a = { model: 'a', columns: {} };
    await assertFaults([a, a], ['a: model']);
    await assertFaults([a, { model: 'b', table: 'a', columns: {} }], ['b: methods']);
    await assertFaults(
      [
        { ...a, table: 't' },
        { ...a, table: 't' },
      ],
      ['a: model', 'a: methods'],
    );
    await assertFaults([{ ...a, table: 'a' }, a], ['a: model', 'a: methods']);
    await assertFaults(
      [
        { ...a, table: 'x.y.z' },
        { ...a, model: 'b', table: 'a' },
      ],
      ['a: table'],
    );
  });
});

describe('the message of a fault', () => {
  const flags = { active: { type: 'boolean', default: true }, admin: { type: 'boolean', default: false } };
  const user = { model: 'user', columns: { ...users.columns }, access: 'admin' };
  const OTHER =
    'If this table is not the users of Vitrine, add another model, such as login, and set USER_MODEL=login';
  const userModels: [about: string, registry: Loose, expected: string[]][] = [
    [
      'no user model',
      [{ model: 'a', columns: {}, access: 'user' }],
      [
        'the registry: there is no user model "user" (USER_MODEL), and the access levels of a need one: add a model "user" with the columns username, password, active, admin, or set USER_MODEL to the model that has them',
      ],
    ],
    [
      'an unrelated table',
      [{ model: 'user', columns: { password: { type: 'string' }, ...flags }, access: 'admin' }],
      [
        'user: columns.username: the user model must have this column',
        `user: columns.password.type: must be password in the user model. ${OTHER}`,
      ],
    ],
    [
      'a key of columns in the user model',
      [{ ...user, columns: { ...user.columns, code: { type: 'date' } }, primaryKey: { columns: ['code'] } }],
      ['user: primaryKey: must have a type in the user model: { type, column } and not { columns }'],
    ],
    ['two user models', [user, user], [`user: model: another resource has this model. ${OTHER}`]],
  ];
  for (const [about, registry, expected] of userModels)
    test(`says what to do: ${about}`, async () => {
      const faults = await faultsOf(registry);
      assert.deepEqual(
        faults.filter((fault) => !/another resource has this table/.test(fault)),
        expected.map((fault) => `  - ${fault}`),
      );
    });

  for (const [column, pattern] of [
    [{ type: 'string', maxLength: 1e9 }, /from 1 to 10485760$/],
    [{ type: 'strng' }, /must be one of string, .* \(got "strng"\)$/],
    [{}, /must be one of string, [^()]*$/],
    [{ type: 'array', of: 'strng' }, /must be one of string, .* \(got "strng"\)$/],
    [{ type: 'string', maxlenght: 9 }, /maxlenght: type string has no such key; did you mean maxLength\?$/],
    [{ type: 'string', size: 9 }, /size: type string has no such key$/],
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
    test(`matches ${pattern.source}`, async () => {
      const faults = await faultsOf(withColumn(column));
      assert.equal(faults.length, 1, faults.join());
      assert.match(faults[0] ?? '', pattern);
    });
  }
});
