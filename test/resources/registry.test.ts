// A registry with faults stops the start, with one message that names each of them.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { inspect } from 'node:util';
import { after, before, describe, test } from 'node:test';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createVitrine, type AdminArea, type Panel, type Resource, StartError } from '../../src/index.ts';
import { startFaults, startOnce, users, useWritable, type WritableService } from '../db/helpers.ts';
import {
  type Answer,
  closedAfter,
  createDatabase,
  serverUrl,
  startService,
  type TestService,
  useService,
  pluck,
  useDatabase,
} from '../support.ts';
import { hiddenFields, logIn, readable } from '../admin/support.ts';
import { run } from '../commands/support.ts';
import { loadRegistryFile } from '../../src/resources/load-registry.ts';
import shipped from '../../src/resources/registry.ts';

/** A registry without types, which may have any fault. */
type Loose = any; // eslint-disable-line @typescript-eslint/no-explicit-any -- anything can be exported

/** The lines of the error message of a start. The registry is checked first, so the database need not exist. */
const faultsOf = (resources: Loose, settings: object = {}): Promise<string[]> =>
  startFaults({ url: new URL('/vitrine_test_none', serverUrl()).href }, resources, settings);

/** Checks that the start reports exactly these faults, each as `resource: key`. */
async function assertFaults(
  resources: Loose,
  expected: readonly string[],
  settings: object = {},
): Promise<void> {
  const faults = await faultsOf(resources, settings);
  const remaining = faults.slice();
  for (const fault of expected) {
    const at = remaining.findIndex((line) => line.startsWith(`  - ${fault}`));
    assert.ok(at >= 0, `${fault} must be reported in\n${faults.join('\n')}`);
    assert.match(remaining[at] ?? '', /: [^:]{8,}/, 'and why');
    remaining.splice(at, 1);
  }
  assert.deepEqual(remaining, [], 'nothing else is a fault');
}

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
  [{ type: 'text', widget: 'html' }, 'widget'],
  [{ type: 'integer', widget: 'phone' }, 'widget'],
  [{ type: 'array', of: 'text', widget: 'url' }, 'widget'],
  [{ type: 'string', choices: ['a'], widget: 'code' }, 'widget'],
  [{ type: 'text', choices: ['a'], tones: { a: 'warning', b: 'info' } }, 'tones.b'],
  [{ type: 'integer', choices: { 1: 'low', 2: 'high' }, tones: { 1: 'red', 2: 'danger' } }, 'tones.1'],
  [{ type: 'boolean', choices: [true, false], tones: { yes: 'success', true: 'success' } }, 'tones.yes'],
  [{ type: 'string', tones: { a: 'neutral' } }, 'tones.a'],
  [{ type: 'string', choices: ['a'], tones: ['info'] }, 'tones'],
  [{ type: 'array', of: 'string', choices: ['a'], tones: { a: 'info' } }, 'tones'],
  [{ type: 'foreignKey', references: 'a', tones: {} }, 'tones'],
  [{ type: 'json', tones: {} }, 'tones'],
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
const NAMES = ['id', 'id_', 'ordering', 'limit', 'page', 'a__b', '__a', 'a__', '1a', 'a b', 'ä', '', '_a', 'a-b', '__proto__', 'x'.repeat(64)]; // prettier-ignore

/** A value that JSON cannot express. */
const LOOP: Loose = {};
LOOP.itself = LOOP;

const CLOSE = { name: 'close', title: 'Close', on: ['list'], run: () => undefined };

/** Further keys of a resource `a` with one column `x`, and the keys with a fault. */
const RESOURCES: [keys: object, ...faults: string[]][] = [
  [{ acess: 'user', Exclude: [] }, 'acess', 'Exclude'],
  [{ columns: undefined }, 'columns'],
  [{ columns: [] }, 'columns'],
  [{ rows: { read: 'x__ilike=%late%', write: ['x=1', 'x=50%'] } }, 'rows.read', 'rows.write'],
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
  [{ columns: { x: { type: 'text', formerly: 'y' }, z: { type: 'text', formerly: ['y__z'] } } }, 'columns.x.formerly', 'columns.z.formerly'],
  [{ columns: { x: { type: 'text', formerly: ['z', 'y'] }, z: { type: 'text', formerly: ['y', 'w', 'w'] } } }, 'columns.x.formerly', 'columns.z.formerly', 'columns.z.formerly'],
  [{ columns: { x: { type: 'foreignKey', references: 'user', formerly: ['z'] }, z_id: { type: 'text', formerly: ['x'] } } }, 'columns.x.formerly', 'columns.z_id.formerly'],
  [{ view: 'yes' }, 'view'],
  [{ view: true }, 'primaryKey'],
  [{ view: true, primaryKey: false, methods: ['GET', 'POST'] }, 'methods', 'methods'],
  [{ view: true, primaryKey: { type: 'integer' }, methods: ['GET', 'DELETE'] }, 'methods'],
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
  [{ methods: ['POST', 'POST'] }, 'methods'],
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
  [{ admin: { views: { title: 'x' } } }, 'admin.views'],
  [{ admin: { views: ['x=1', { title: '', query: 'x=%' }, { name: 'x' }] } }, 'admin.views.0', 'admin.views.1.title', 'admin.views.1.query', 'admin.views.2.name', 'admin.views.2.title', 'admin.views.2.query'],
  [{ admin: { views: [{ title: 'x', query: 'y=1' }, { title: 'x', query: 'ordering=y' }, { title: 'x', query: '_columns=x,y' }, { title: 'x', query: 'x=$me.y' }, { title: 'x', query: 'x=$me&x__is=null&ordering=-x&limit=0' }] } }, 'admin.views', 'admin.views', 'admin.views', 'admin.views', 'admin.views'],
  [{ admin: { actions: { name: 'b' } } }, 'admin.actions'],
  [{ admin: { actions: [{ name: 'B c', title: '', on: ['all'], fields: { id: { type: 'text' } }, confirm: 1, level: 'any', changesUsers: 'yes', run: 'x', more: 1 }, 5, {}] } }, 'admin.actions.0.more', 'admin.actions.0.name', 'admin.actions.0.title', 'admin.actions.0.on', 'admin.actions.0.fields.id', 'admin.actions.0.confirm', 'admin.actions.0.level', 'admin.actions.0.changesUsers', 'admin.actions.0.run', 'admin.actions.1', ...['name', 'title', 'on', 'run'].map((key) => `admin.actions.2.${key}`)],
  [{ admin: { actions: [{ ...CLOSE, on: [], fields: { x: { type: 'texts' } } }] } }, 'admin.actions.0.on', 'admin.actions.0.fields.x.type'],
  [{ admin: { actions: [CLOSE, { ...CLOSE, fields: { p: { type: 'password' }, u: { type: 'text', unique: true, read: 'user' }, r: { type: 'foreignKey', references: 'none' }, n: { type: 'integer', min: 2, max: 1 } } }] } }, 'admin.actions.1.name', 'admin.actions.1.fields.r.references', 'admin.actions.1.fields.n.min', 'admin.actions.1.fields.p.type', 'admin.actions.1.fields.u.unique', 'admin.actions.1.fields.u.read'],
  [{ admin: { actions: [{ ...CLOSE, level: ['nobody'] }] } }, 'admin.actions.0.level'],
  [{ primaryKey: false, admin: { actions: [CLOSE] } }, 'admin.actions'],
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

  const withInlines = (inlines: unknown, columns: object = { parent: { type: 'foreignKey', references: 'a' } }) => [
    { model: 'a', columns: {}, admin: { inlines } },
    { model: 'child', columns: { ...columns, name: { type: 'string' } } },
    { model: 'shut', columns, admin: { hidden: true } },
    { model: 'keyless', primaryKey: false, columns, methods: ['GET'] },
  ]; // prettier-ignore
  const two = { one: { type: 'foreignKey', references: 'a' }, other: { type: 'foreignKey', references: 'a' } }; // prettier-ignore

  for (const [inlines, ...faults] of [
    ['child', ''],
    [[5], '.0'],
    [Array.from({ length: 6 }, () => ({ model: 'child' })), ''],
    [[{}], '.0.model'],
    [[{ model: 'child', extra: 11, readonly: 1, columns: [], other: 5 }], '.0.other', '.0.columns', '.0.extra', '.0.readonly'],
    [[{ model: 'missing' }], '.0.model'],
    [[{ model: 'child' }, { model: 'child' }], '.1.model'],
    [[{ model: 'shut' }], '.0.model'],
    [[{ model: 'keyless' }], '.0.readonly'],
    [[{ model: 'a' }], '.0.column'],
    [[{ model: 'child', column: 'name' }], '.0.column'],
    [[{ model: 'child', columns: ['parent'] }], '.0.columns'],
    [[{ model: 'child', columns: ['name', 'missing'] }], '.0.columns'],
    [[{ model: 'keyless', readonly: true }, { model: 'child', columns: ['name'] }]],
  ] as const) {
    test(`for the inlines ${inspect(inlines).slice(0, 80)}`, () =>
      assertFaults(
        withInlines(inlines),
        faults.map((fault) => `a: admin.inlines${fault}:`),
      ));
  } // prettier-ignore

  test('for inlines with several foreign keys, and of the user model', async () => {
    await assertFaults(withInlines([{ model: 'child' }], two), ['a: admin.inlines.0.column:']);
    await assertFaults(withInlines([{ model: 'child', column: 'other' }], two), []);
    const inlines = { admin: { inlines: [{ model: 'user' }] } };
    const team = { model: 'team', columns: {}, ...inlines };
    await assertFaults(
      [team, { ...users, columns: { ...users.columns, team: { type: 'foreignKey', references: 'team' } } }],
      ['team: admin.inlines.0.readonly:'],
    );
  });

  const [integer, string, text] = [{ type: 'integer' }, { type: 'string' }, { type: 'text' }];
  const link = { type: 'foreignKey', references: 'a' };
  const a = { model: 'a', columns: {} };
  const withColumns = (columns: object, more: object = {}): object => ({ model: 'a', columns, ...more });
  const keyed = { a: integer, b: string, c: { ...integer, null: true }, j: { type: 'json' } };
  const withKey = (names: unknown, more: object = {}): object => ({ model: 'one', columns: keyed, primaryKey: { columns: names }, ...more }); // prettier-ignore
  const other = (more: object, name = 'to'): object[] => [
    withKey(['a', 'b']),
    {
      model: 'other',
      columns: { p: integer, q: string, to_id: integer, link: { type: 'foreignKey', references: 'other' } },
      foreignKeys: { [name]: { columns: ['p', 'q'], references: 'one', ...more } },
    },
  ];
  const KEY = 'one: primaryKey.columns:';
  const TARGET = 'other: foreignKeys.to.references:';
  const together: Record<string, [resources: object[], ...faults: string[]][]> = {
    'two columns with the same name in JSON or in the database': [
      [[withColumns({ user: link, user_id: text })], 'a: columns.user:'],
      [[withColumns({ user: link, user_id: link })], 'a: columns.user:'],
      [[withColumns({ b: text, c: { ...text, column: 'b' } })], 'a: columns.c:'],
      [[withColumns({ b: link, c: { ...text, column: 'b_id' } })], 'a: columns.c:'],
      [[withColumns({ b: { ...text, column: 'id' } })], 'a: columns.b:'],
      [[withColumns({ b: { ...text, column: 'xmin' } })], 'a: columns.b:'],
      [[withColumns({}, { primaryKey: { type: 'integer', column: 'ctid' } })], 'a: primaryKey.column:'],
    ],
    'a version that is no column, or may be NULL': ['c', 'b', 'n', 5, null].map((version) => [
      [withColumns({ b: text, n: { type: 'bigint', null: true } }, { version })],
      'a: version:',
    ]),
    'keys of several columns': [
      ...[[], ['a', 'a'], ['a', 'x'], ['a', 5], ['a', 'j'], ['a', 'c'], Array(9).fill('a'), 'a,b'].map((names): [object[], string] => [[withKey(names)], KEY]),
      [[withKey([], { primaryKey: { type: 'integer', columns: ['a', 'b'] } })], 'one: primaryKey.type:'],
      [[withKey(['a', 'b'], { exclude: ['b'] })], KEY],
      [[withKey(['a', 'b'], { admin: { exclude: ['a'] } })], KEY],
    ],
    'foreign keys of several columns': [
      [other({ references: 'none' }), TARGET],
      [other({ references: 'other' }), TARGET],
      [other({ columns: ['q', 'p'] }), TARGET, TARGET],
      [other({ columns: ['p'] }), TARGET],
      [other({ columns: ['p', 'x'] }), 'other: foreignKeys.to.columns:'],
      [other({ onDelete: 'boom' }), 'other: foreignKeys.to.onDelete:'],
      [other({ onDelete: 'setNull' }), 'other: foreignKeys.to.onDelete:'],
      [other({ why: 1 }), 'other: foreignKeys.to.why:'],
      ...['p', 'link_id', 'id', 'a__b'].map((name): [object[], string] => [other({}, name), `other: foreignKeys.${name}:`]),
      [[withKey(['a', 'b'], { foreignKeys: 5 })], 'one: foreignKeys:'],
      [[withKey(['a', 'b']), { model: 'other', columns: { one: { ...link, references: 'one' } } }], 'other: columns.one.references:'],
    ],
    'two resources with the same model or table': [
      [[a, a], 'a: model'],
      [[a, { ...a, model: 'b', table: 'a' }], 'b: methods'],
      [[{ ...a, table: 't' }, { ...a, table: 't' }], 'a: model', 'a: methods'],
      [[{ ...a, table: 'a' }, a], 'a: model', 'a: methods'],
      [[{ ...a, table: 'x.y.z' }, { ...a, model: 'b', table: 'a' }], 'a: table'],
    ],
  }; // prettier-ignore
  for (const [about, cases] of Object.entries(together))
    test(`for ${about}`, async () => {
      for (const [resources, ...faults] of cases) await assertFaults(resources, faults);
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
    [{ type: 'array' }, /of: must be one of string, text,/],
    [{ type: 'array', of: 'json', elements: 1 }, /of: must be one of/],
    [{ type: 'array', of: 'text', elements: true }, /elements: must be an object/],
    [
      { type: 'array', of: 'text', elements: { min: 1 } },
      /elements\.min: elements of type text have no such key/,
    ],
    [{ type: 'array', of: 'integer', elements: { min: 'a' } }, /elements\.min: must be a number$/],
    [{ type: 'array', of: 'integer', elements: { null: 1 } }, /elements\.null: must be true or false$/],
    [
      { type: 'array', of: 'integer', elements: { min: 2, max: 1 } },
      /elements\.min: must not be greater than max$/,
    ],
    [{ type: 'array', of: 'text', maxLength: 5 }, /maxLength: type array has no such key/],
    [{ type: 'array', of: 'integer', choices: [1, 'a'] }, /choices: "a" must be a whole number$/],
    [{ type: 'array', of: 'bigint', choices: [1n] }, /choices: 1n must be a number or a string of digits$/],
    [{ type: 'array', of: 'text', elements: { maxLength: 5n } }, /elements\.maxLength: must be a/],
    [
      { type: 'array', of: 'string', choices: ['abc'], elements: { maxLength: 2 } },
      /choices: "abc" must be at most 2 characters/,
    ],
    [{ type: 'array', of: 'text', default: 'a' }, /default: "a" must be an array$/],
    [
      { type: 'array', of: 'text', choices: ['a'], default: ['a', 'b'] },
      /default: \["a","b"\] element 2: must be one of a$/,
    ],
    [
      { type: 'array', of: 'text', elements: { null: false }, default: [null] },
      /default: \[null\] element 1: must not be null$/,
    ],
  ] as [Loose, RegExp][]) {
    test(`matches ${pattern.source}`, async () => {
      const faults = await faultsOf(withColumn(column));
      assert.equal(faults.length, 1, faults.join());
      assert.match(faults[0] ?? '', pattern);
    });
  }
});

/** A valid registry, and mistakes to make in it, by the key that the error names. */
const LIBRARY: [Loose, Loose, Loose] = [
  { ...structuredClone(users), admin: {} },
  {
    model: 'author',
    columns: {
      name: { type: 'string' },
      born: { type: 'date', null: true },
      code: { type: 'text', unique: true },
    },
    exclude: ['code'],
    admin: { list: ['id', 'name'] },
  },
  {
    model: 'book',
    columns: {
      author: { type: 'foreignKey', references: 'author' },
      added_by: { type: 'foreignKey', references: 'user' },
      title: { type: 'string', maxLength: 40 },
      year: { type: 'integer', min: 0 },
      kind: { type: 'string', choices: ['a', 'b'] },
    },
    access: 'user',
    owner: 'added_by',
    admin: {},
  },
];
type Mistakes = Record<string, (user: Loose, author: Loose, book: Loose) => void>;
const TYPES: Mistakes = {
  'user: limit': (user) => (user.limit = 0),
  'author: columns.born.type': (_, { columns }) => (columns.born.type = 'day'),
  'author: acess': (_, author) => (author.acess = 'user'),
  'book: columns.x.type': (_, __, { columns }) => (columns.x = { references: 'author' }),
  'book: columns.year.min': (_, __, { columns }) => (columns.year.min = 'none'),
  'book: columns.kind.nul': (_, __, { columns }) => (columns.kind.nul = true),
};
const DEFINITIONS: Mistakes = {
  'user: columns.password.type': ({ columns }) => (columns.password.type = 'string'),
  'user: columns.active': ({ columns }) => delete columns.active,
  'author: columns.x': (_, { columns }) => (columns.x = { type: 'text', column: 'name' }),
  'book: columns.author.default': (_, __, { columns }) => (columns.author.default = 'x'),
  'book: columns.kind.default': (_, __, { columns }) => (columns.kind.default = 'c'),
  'book: columns.y': (_, __, { columns }) => (columns.y = { type: 'text', column: 'author_id' }),
  'book: owner': (_, __, book) => (book.owner = 'author'),
  'book: exclude': (_, __, book) => (book.exclude = ['nosuch']),
};
const PATHS: Mistakes = {
  'author: ordering': (_, author) => (author.ordering = 'name,code'),
  'author: admin.list': (_, { admin }) => admin.list.push('nosuch'),
  'book: ordering': (_, __, book) => (book.ordering = 'author__code'),
  'book: admin.search': (_, __, { admin }) => (admin.search = ['nosuch', 'title']),
  'book: admin.label': (_, __, { admin }) => (admin.label = '{title} {author__nosuch}'),
  'book: admin.dates': (_, __, { admin }) => (admin.dates = 'title'),
  'book: admin.views': (_, __, { admin }) => (admin.views = [{ title: 'Odd', query: 'nosuch=1' }]),
};

describe('all faults of one kind are reported at once', () => {
  test('for any combination of independent mistakes: those of types, else of definitions, else of paths', async () => {
    const mistakes = [TYPES, DEFINITIONS, PATHS].map((group) => fc.subarray(Object.entries(group)));
    await fc.assert(
      fc.asyncProperty(fc.tuple(...mistakes), async (groups) => {
        const reported = groups.find(({ length }) => length > 0);
        if (!reported) return;
        const resources = structuredClone(LIBRARY);
        for (const [, make] of groups.flat()) make(...resources);
        await assertFaults(
          resources,
          reported.map(([key]) => `${key}:`),
        );
      }),
    );
  });

  test('orderings, and names of the admin area', async () => {
    const link = (references: string): object => ({ type: 'foreignKey', references });
    await assertFaults(
      [
        users,
        { model: 'm', columns: { j: { type: 'json', null: true }, t: { type: 'text' } }, ordering: 'j,gone', admin: { search: ['j'], dates: 't', focus: 'gone' } },
        { model: 'n', columns: { a: link('shut'), x: link('m') }, ordering: 'a__x,x__id__z,x__t', admin: { list: ['x__t', 'gone'] } },
        { model: 'shut', columns: { x: { type: 'text' } }, read: 'admin' },
      ],
      ['m: ordering: j', 'm: ordering: gone', 'm: admin.search:', 'm: admin.dates:', 'm: admin.focus:', 'n: ordering: a__x', 'n: ordering: x__id__z', 'n: admin.list:'],
    ); // prettier-ignore
  });
});

const text = { type: 'text' } as const;
const note: Resource = { model: 'note', columns: { text } };
const link = { type: 'foreignKey', references: 'note' } as const;

/** Registries with access levels or owners, and the faults of their user model. */
const USER_FAULTS: Record<string, [resources: readonly Resource[], faults: RegExp[], settings?: object]> = {
  'a level to write without a user model': [[{ ...note, access: 'user' }], [/user model "user".*\bnote\b/]],
  'a level to read without a user model': [[{ ...note, read: 'admin' }], [/user model "user".*\bnote\b/]],
  'the level of the service without a user model': [[note], [/user model "user".*\bnote\b/], { access: 'user' }],
  'an owner without a user model': [
    [note, { model: 'b', columns: { note: link }, owner: 'note' }],
    [/\bb: owner\b.*user/, /user model "user".*\bb\b/],
  ],
  'a user model without its columns': [
    [{ model: 'user', columns: {}, access: 'admin' }],
    [/user: columns\.username/, /user: columns\.password/, /user: columns\.active/, /user: columns\.admin/],
  ],
  'a user model with columns of other types': [
    [
      {
        ...users,
        columns: {
          username: { type: 'string' },
          password: { type: 'text' },
          active: { type: 'integer', default: 1 },
          admin: { type: 'string', default: '' },
        },
        exclude: [],
        admin: {},
      },
    ],
    [/columns\.username.*unique/, /columns\.password\.type.*password/, /columns\.active\.type.*boolean/, /columns\.admin\.type.*boolean/],
  ], // prettier-ignore
  'a USER_MODEL that does not exist': [
    [users, { ...note, access: 'user' }],
    [/user model "person"/],
    { userModel: 'person' },
  ],
  'an owner that does not reference the user model': [
    [users, note, { model: 'b', columns: { note: link }, owner: 'note', access: 'user' }],
    [/\bb: owner\b.*\buser\b/],
  ],
}; // prettier-ignore
for (const [title, [resources, expected, settings]] of Object.entries(USER_FAULTS))
  test(`the user model: ${title} is refused`, async () => {
    const faults = await faultsOf(resources, settings);
    assert.equal(faults.length, expected.length, faults.join('\n'));
    expected.forEach((pattern, index) => assert.match(faults[index] ?? '', pattern));
  });

const writer = { type: 'foreignKey', references: 'writer', onDelete: 'cascade' } as const;
const writers: Resource = { model: 'writer', columns: { name: { type: 'text' } }, access: 'user' };
const article: Resource = {
  model: 'article',
  columns: { title: { type: 'string' }, notes: { type: 'text', null: true }, writer },
  access: 'admin',
  read: 'admin',
};
const headline: Resource = {
  model: 'headline',
  table: 'article',
  columns: { title: { type: 'string' }, writer },
  methods: ['GET'],
  access: 'user',
  ordering: '-id',
};

const lock = { model: 'lock', columns: { code: { type: 'text' } } };
const coded = (model: string, type: string) => ({
  model,
  table: 'lock',
  columns: { code: { type } },
  methods: ['GET'],
});

const TABLE_FAULTS: Record<string, { registry: object[]; faults: string[] }> = {
  'that writes': {
    registry: [writers, article, { ...headline, methods: ['GET', 'PUT'] }],
    faults: ['headline: methods'],
  },
  'with the default methods': {
    registry: [writers, article, { ...headline, methods: undefined }],
    faults: ['headline: methods'],
  },
  'that is referred to': {
    registry: [
      writers,
      article,
      headline,
      { model: 'comment', columns: { about: { type: 'foreignKey', references: 'headline' } } },
    ],
    faults: ['comment: columns.about.references'],
  },
  'that shows a password': {
    registry: [{ model: 'login', table: 'user', columns: { password: { type: 'text' } }, methods: ['GET'] }],
    faults: ['login: columns.password.type'],
  },
  'that shows what a further one has as a password': {
    registry: [lock, coded('first_key', 'text'), coded('second_key', 'password')],
    faults: ['lock: columns.code.type', 'first_key: columns.code.type'],
  },
  'that shows what another further one has as a password': {
    registry: [
      { ...lock, columns: { name: { type: 'text' } } },
      coded('first_key', 'password'),
      { ...coded('second_key', ''), columns: { shown: { type: 'text', column: 'code' } } },
    ],
    faults: ['second_key: columns.shown.type'],
  },
};

for (const [about, { registry, faults }] of Object.entries(TABLE_FAULTS))
  test(`a second resource ${about} is refused`, () => assertFaults([users, ...registry], faults));

/** The columns that a login needs, without any access level that would need users. */
const openUsers = { model: 'user', columns: users.columns } as const;
const person: Resource = { model: 'person', table: 'user', columns: { username: { type: 'string' } } };
const FIRST =
  '  - user: table: the user model must be the first resource of its table: register it before person';

for (const [about, registry] of [
  ['with access levels', [person, { ...users, methods: ['GET'] }]],
  ['without access levels', [person, { ...openUsers, methods: ['GET'] }]],
  ['with the default methods', [person, openUsers]],
] as const)
  test(`the user model must be the first resource of its table ${about}`, async () => {
    assert.deepEqual(await faultsOf(registry), [FIRST]);
  });

const load = (): Promise<number> => Promise.resolve(1);
const PANELS: [string, unknown, string[]][] = [
  ['that are not an array', { title: 'A', load }, ['the registry: panels must be an array of panels']],
  ['that are not objects', ['A', null], ['panel 1: must be an object', 'panel 2: must be an object']],
  ['without a title', [{ load }, { title: ' ', load }], ['panel 1: title: must be a non-empty string', 'panel 2: title: must be a non-empty string']],
  ['without a function', [{ title: 'A' }, { title: 'B', load: 5 }], ['panel "A": load: must be a function', 'panel "B": load: must be a function']],
  ['with the same title', [{ title: 'A', load }, { title: 'A', load }], ['panel "A": title: another panel has this title']],
  ['with unknown keys', [{ title: 'A', load, size: 2 }], ['panel "A": size: there is no such key']],
  ['with a text that is not a string', [{ title: 'A', load, text: 5 }], ['panel "A": text: must be a string']],
]; // prettier-ignore
const HOSTS = 'images: must be an array of lower-case hosts such as cdn.example.com or localhost:9000';
const ADMIN: [string, unknown, string[]][] = [
  ['that is no object', ['cdn.example.com'], ["admin: must be an object such as { title: 'Shop', accent: '#0a58a6' }"]],
  ['with an unknown key', { image: [] }, ['admin: image: there is no such key; did you mean images?']],
  ['with an empty title', { title: '' }, ['admin: title: must be a non-empty string']],
  ['with a named color', { accent: 'red' }, ['admin: accent: must be a color such as #0a58a6']],
  ['with a pale color', { accent: '#ffcc00' }, ['admin: accent: #ffcc00 has a contrast of 1.3 to its background in light color schemes; links need at least 4.5']],
  ['with a dark color for dark schemes', { accent: { light: '#0a58a6', dark: '#0a58a6' } }, ['admin: accent.dark: #0a58a6 has a contrast of 2.1 to its background in dark color schemes; links need at least 4.5']],
  ['with one of two colors', { accent: { light: '#0a58a6' } }, ['admin: accent.dark: must be a color such as #0a58a6']],
  ['with a ribbon of no tone', { ribbon: { text: 'Test', tone: 'red' } }, ['admin: ribbon.tone: must be one of neutral, info, success, warning, danger, accent']],
  ['with a logo that is no path', { logo: 5 }, ['admin: logo: must be a non-empty string']],
  ...['https://a.b', 'a.b/c', 'a.b;', '*.a.b', 'A.b', 'a b', '', "'self'", 'a.b:0', 5].map(
    (host): (typeof ADMIN)[number] => [`with the host ${host}`, { images: [host] }, [`admin: ${HOSTS}`]],
  ),
]; // prettier-ignore
for (const [kind, given, faults] of [
  ...PANELS.map(([about, panels, all]) => [`panels ${about}`, { panels: panels as Panel[] }, all] as const),
  ...ADMIN.map(([about, admin, all]) => [`admin ${about}`, { admin: admin as AdminArea }, all] as const),
]) {
  test(`${kind} are reported together with faults of resources`, async () => {
    const resources = [{ model: 'A', columns: {} }];
    const options = { databaseUrl: 'postgres://127.0.0.1:1/none', resources, ...given };
    await assert.rejects(createVitrine(options), (error: unknown) => {
      assert.ok(error instanceof StartError);
      const lines = error.message.split('\n').filter((line) => line.startsWith('  - '));
      assert.match(lines[0] ?? '', /^ {2}- A: model: must be a lower-case name/);
      assert.deepEqual(
        lines.filter((line) => !line.startsWith('  - A: ') && !line.includes('user model')),
        faults.map((fault) => `  - ${fault}`),
      );
      return true;
    });
  });
}

/** Valid registries. */
const ACCEPTED: Record<string, readonly Resource[]> = {
  'the smallest registry': [{ model: 'a', columns: {} }],
  'the longest names': [
    { model: 'm'.repeat(63), columns: { ['c'.repeat(60)]: { type: 'text' } } },
    { model: 'n', table: 'ü'.repeat(31), columns: { ['f'.repeat(60)]: { ...link, references: 'n' } } },
  ],
  'names with a meaning in JavaScript or SQL': [
    note,
    {
      model: 'select',
      columns: {
        constructor: text,
        toString: text,
        valueOf: text,
        where: text,
        Capital: text,
        a1_B: text,
        eq: text,
        id_x: text,
        user_id: text,
        note: link,
      },
    },
    { model: 'constructor', columns: {} },
  ],
  'two foreign keys to one model, and one to itself': [
    note,
    { model: 'pair', columns: { left: link, right: { ...link, onDelete: 'cascade' }, up: { ...link, references: 'pair', null: true, onDelete: 'setNull' } } },
  ],
  'every key of a resource': [
    {
      model: 'full',
      table: 'public.full table',
      primaryKey: { type: 'bigint', column: 'Key' },
      columns: {
        a: { type: 'string', maxLength: 3, choices: ['x', 'yy'], tones: { x: 'accent' }, default: 'x', label: 'A', help: 'An a.', column: 'The A' },
        b: { type: 'integer', min: 0, max: 10, choices: [1, 2], default: 2, index: true },
        c: { type: 'bigint', min: 0, default: 5, choices: [5, '9007199254740993'] },
        d: { type: 'decimal', precision: 5, scale: 2, min: 0.01, default: '1.50', unique: true },
        e: { type: 'datetime', default: '2024-01-01T00:00' },
        f: { type: 'date', default: 'now' },
        g: { type: 'time', default: 'now', null: true },
        h: { type: 'json', default: [] },
        i: { type: 'boolean', null: true },
        j: { type: 'float', default: 1e300 },
        k: { type: 'uuid', null: true, unique: true },
        l: { type: 'text', null: true, widget: 'markdown' },
      },
      access: 'default',
      read: 'default',
      exclude: ['h'],
      readonly: ['a', 'i'],
      limit: 5,
      maxLimit: 5,
      methods: ['GET'],
      ordering: '-a,b,-id',
      admin: { label: 'Everything', list: ['id', 'a'], search: ['a'], filters: ['b'], readonly: ['d'], hidden: true, actions: [{ name: 'a-1_b', title: 'B', on: ['record', 'list'], fields: { up: { type: 'foreignKey', references: 'full', null: true }, at: { type: 'date', default: 'now' } }, confirm: 'Sure?', level: 'default', changesUsers: true, run: () => 'Done.' }] },
    },
  ],
  'a small maxLimit without a limit': [{ ...note, maxLimit: 5 }],
  'an ordering over foreign keys': [note, { model: 'b', columns: { note: link }, ordering: '-note__text,note_id,note' }],
}; // prettier-ignore

describe('the check of a registry', () => {
  const database = useDatabase();

  for (const [title, resources] of Object.entries(ACCEPTED)) {
    test(`accepts ${title}`, async () => {
      await startOnce(database, resources);
      await startOnce(database, resources, { schema: 'check' });
      await database.sql`drop schema public cascade`;
      await database.sql`create schema public`;
    });
  }

  test('creates no table for a registry with a fault', async () => {
    await startFaults(database, [{ ...note, access: 'user' }]);
    const [tables] =
      await database.sql`select count(*)::int as count from pg_tables where schemaname = 'public'`;
    assert.equal(tables?.['count'], 0);
  });
});

describe('a service', () => {
  test('uses the credentials and owners of USER_MODEL', async (t) => {
    const person: Resource = { ...users, model: 'person', access: 'user' };
    const owned: Resource = {
      model: 'owned',
      columns: { person: { type: 'foreignKey', references: 'person' } },
      owner: 'person',
    };
    const settings = { userModel: 'person', access: 'user' } as const;
    const prepare = `create table "user" (id serial, username text, password text, email text)`;
    // The service must not read the table `user`.
    const service = closedAfter(
      t,
      await startService([person, owned], {
        ...settings,
        prepare: (sql) => sql.unsafe(prepare),
      }),
    );
    await service.addUser('ada');
    const attempt = { method: 'POST', user: 'ada', body: {} };
    assert.equal((await service.request('/api/owned/', attempt)).status, 401);
    await service.sql`insert into person (username, password, email) select username, password, email from "user"`;
    assert.equal((await service.request('/api/owned/', attempt)).status, 201);
    const nameless = { username: 'a:b', password: 'x', email: '' };
    const { status, json } = await service.request('/api/person/', { ...attempt, body: nameless });
    assert.deepEqual([status, Object.keys(json.errors ?? {})], [400, ['username']]);
  });

  test('treats NULL in active or admin as false', async (t) => {
    const maybe = { type: 'boolean', null: true } as const;
    const people: Resource = { ...users, columns: { ...users.columns, active: maybe, admin: maybe } };
    const service = closedAfter(t, await startService([people, { ...note, access: 'user' }]));
    await service.addUser('ann', { active: null, admin: true });
    await service.addUser('bea', { active: true, admin: null });
    for (const [user, path, status] of [
      ['ann', '/api/note/', 401],
      ['bea', '/api/note/', 201],
      ['bea', '/api/user/', 403],
    ] as const) {
      const answer = await service.request(path, { method: 'POST', user, body: { text: 'x' } });
      assert.equal(answer.status, status, `${user} ${path}`);
    }
  });
});

describe('a second resource for a table', () => {
  const service: WritableService = useWritable([writers, article, headline], '', async () => {
    await service.sql`insert into writer (name) values ('Ada'), ('Bob')`;
    for (const title of ['one', 'two', 'three'])
      await service.send('POST', '/api/article/', { title, notes: `secret ${title}`, writer: 1 });
  });

  test('serves its columns in its order with its access', async () => {
    const { status, json } = await service.request('/api/headline/?writer__name=Ada');
    assert.deepEqual(
      [status, json.objects],
      [
        200,
        [
          { id: 3, title: 'three', writer_id: 1 },
          { id: 2, title: 'two', writer_id: 1 },
          { id: 1, title: 'one', writer_id: 1 },
        ],
      ],
    );
    assert.equal((await service.request('/api/article/')).status, 401);
    for (const query of ['notes=secret+one', 'ordering=notes'])
      assert.equal((await service.request(`/api/headline/?${query}`)).status, 400);
  });

  test('cannot be written', async () => {
    for (const [method, path] of [
      ['POST', '/api/headline/'],
      ['PUT', '/api/headline/1/'],
      ['DELETE', '/api/headline/1/'],
    ] as const) {
      const body = method === 'DELETE' ? undefined : { title: 'x', writer: 1 };
      assert.equal((await service.send(method, path, body)).status, 405, method);
    }
  });

  test('is read-only in the admin area, and a deletion counts each record once', async () => {
    const ada = await logIn(service, 'ada');
    for (const path of ['/admin/headline/add/', '/admin/headline/1/delete/'])
      assert.ok([403, 404].includes((await ada.get(path)).status), path);
    assert.match(
      readable(await ada.get('/admin/headline/1/history/')),
      /Changes to these records are not recorded/,
    );
    const related = readable(await ada.get('/admin/writer/1/'));
    assert.match(related, /Article by Writer 3/);
    assert.doesNotMatch(related, /Headline by Writer none/);
    const shown = await ada.get('/admin/headline/1/');
    assert.match(readable(shown), /one/);
    assert.doesNotMatch(shown.text, /name="title"|secret one/);
    const page = readable(await ada.get('/admin/writer/1/delete/'));
    assert.match(page, /Deleted with it 3 records of Article, by “Writer”/);
    assert.doesNotMatch(page, /Headline/);
    const fields = hiddenFields(await ada.get('/admin/article/2/delete/'), 'confirm');
    assert.equal((await ada.post('/admin/article/2/delete/', fields)).status, 303);
    assert.equal((await service.request('/api/headline/2/')).status, 404);
  });
});

test('SCHEMA=apply creates the table of the first resource only', async (t) => {
  const database = closedAfter(t, await createDatabase());
  const extra = {
    ...headline,
    columns: { title: { type: 'string' }, more: { type: 'text', null: true } },
  } as const;
  assert.deepEqual(await startFaults(database, [users, writers, article, extra]), [
    '  - headline: columns.more: there is no column more',
  ]);
  await startOnce(database, [users, writers, article, headline]);
  const [row] =
    await database.sql`select count(*)::int from pg_attribute where attrelid = 'article'::regclass and attnum > 0`;
  assert.equal(row?.['count'], 4);
});

describe('panels of a registry', () => {
  let directory: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'vitrine-panels-'));
  });
  after(() => rm(directory, { recursive: true }));

  const REGISTRY = "[{ model: 'note', columns: { message: { type: 'text' } } }]";
  const files: [string, string, unknown][] = [
    ['as.mjs', `export default ${REGISTRY}; export const panels = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['as.ts', `export default ${REGISTRY}; export const panels: object[] = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['common.js', `exports.default = ${REGISTRY}; exports.panels = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['admin.mjs', `export default ${REGISTRY}; export const admin = { images: [] };`, []],
    ['none.mjs', `export default ${REGISTRY};`, []],
    ['wrong.mjs', `export default ${REGISTRY}; export const panels = 5;`, 5],
  ]; // prettier-ignore
  for (const [name, text, expected] of files) {
    test(`are exported as panels by ${name}`, async () => {
      const file = join(directory, name);
      await writeFile(file, text);
      const { registry, panels, admin } = await loadRegistryFile(file);
      assert.deepEqual(admin, name === 'admin.mjs' ? { images: [] } : undefined);
      assert.deepEqual(panels, expected);
      assert.deepEqual(registry, [{ model: 'note', columns: { message: { type: 'text' } } }]);
    });
  }

  test('are empty for the shipped registry', async () => {
    assert.deepEqual(await loadRegistryFile(undefined), { registry: shipped, panels: [], roles: {} });
  });

  test('are checked by vitrine check', async () => {
    const file = join(directory, 'faulty.mjs');
    await writeFile(file, "export { default } from './as.mjs'; export const panels = [{ title: 'A' }];");
    const env = { RESOURCES: file, DATABASE_URL: 'postgres://127.0.0.1:1/none' };
    const { code, stderr } = await run(['check'], { env });
    assert.equal(code, 1);
    assert.ok(stderr.includes('panel "A": load: must be a function'), stderr);
  });
});

const NOW = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/;

describe('the shipped registry', () => {
  const service: TestService = useService(undefined, {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
  });

  const post = (model: string, user: string, body: object): Promise<Answer> =>
    service.request(`/api/${model}/`, { method: 'POST', user, body });

  test('has four models with the documented columns and types', async () => {
    const rows = await service.sql<{ line: string }[]>`
      select c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) ||
             case when a.attnotnull then '' else ' null' end || case when a.atthasdef then ' default' else '' end as line
      from pg_attribute a join pg_class c on c.oid = a.attrelid
      where c.relnamespace = 'public'::regnamespace and c.relname in ('user', 'relationship', 'message', 'note') and a.attnum > 0
      order by c.relname, a.attnum`;
    const moment = 'timestamp(0) without time zone default';
    assert.deepEqual(pluck(rows, 'line'), [
      'message.id integer',
      'message.user_id integer',
      'message.content text',
      `message.pub_date ${moment}`,
      'note.id integer',
      'note.message text',
      `note.created ${moment}`,
      'relationship.id integer',
      'relationship.from_user_id integer',
      'relationship.to_user_id integer',
      'user.id integer',
      'user.username character varying(255)',
      'user.password text',
      'user.email character varying(255)',
      `user.join_date ${moment}`,
      'user.active boolean default',
      'user.admin boolean default',
    ]);
  });

  test('sets the date of a user, active and not admin, and allows duplicate e-mail addresses', async () => {
    for (const username of ['carl', 'cleo']) {
      const { status, json } = await post('user', 'ada', { username, password: 'x', email: 'c@example.org' });
      assert.equal(status, 201);
      assert.match(json.join_date, NOW);
      assert.deepEqual([json.active, json.admin], [true, false]);
    }
    const twice = await post('user', 'ada', { username: 'carl', password: 'x', email: '' });
    assert.deepEqual([twice.status, Object.keys(twice.json.errors)], [409, ['username']]);
  });
});
