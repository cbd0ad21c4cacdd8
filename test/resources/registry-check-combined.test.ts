import fc from 'fast-check';
import { users } from '../db/helpers.ts';
import { assertFaults, type Loose } from './registry-faults.ts';
import { describe, test } from 'node:test';

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
const MISTAKES: Record<string, (user: Loose, author: Loose, book: Loose) => void> = {
  'user: columns.password.type': ({ columns }) => (columns.password.type = 'string'),
  'user: columns.active': ({ columns }) => delete columns.active,
  'user: limit': (user) => (user.limit = 0),
  'author: columns.born.type': (_, { columns }) => (columns.born.type = 'day'),
  'author: columns.x': (_, { columns }) => (columns.x = { type: 'text', column: 'name' }),
  'author: ordering': (_, author) => (author.ordering = 'name,code'),
  'author: admin.list': (_, { admin }) => admin.list.push('nosuch'),
  'author: acess': (_, author) => (author.acess = 'user'),
  'book: columns.author.default': (_, __, { columns }) => (columns.author.default = 'x'),
  'book: columns.x.type': (_, __, { columns }) => (columns.x = { references: 'author' }),
  'book: columns.year.min': (_, __, { columns }) => (columns.year.min = 'none'),
  'book: columns.kind.default': (_, __, { columns }) => (columns.kind.default = 'c'),
  'book: columns.kind.nul': (_, __, { columns }) => (columns.kind.nul = true),
  'book: columns.y': (_, __, { columns }) => (columns.y = { type: 'text', column: 'author_id' }),
  'book: owner': (_, __, book) => (book.owner = 'author'),
  'book: exclude': (_, __, book) => (book.exclude = ['nosuch']),
  'book: ordering': (_, __, book) => (book.ordering = 'author__code'),
  'book: admin.search': (_, __, { admin }) => (admin.search = ['nosuch', 'title']),
  'book: admin.label': (_, __, { admin }) => (admin.label = '{title} {author__nosuch}'),
  'book: admin.dates': (_, __, { admin }) => (admin.dates = 'title'),
};

describe('all faults of a registry are reported at once', () => {
  test('within one resource, in several, and between them', async () => {
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

  test('also conflicts of columns with an unknown type', async () => {
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
            e: {},
            f: { type: 'text', column: 'e' },
            up: { references: 'a', default: 'x' },
            g: { type: 'text', column: 'up_id' },
            aim: { type: 'foreignKey' },
            h: { type: 'text', column: 'aim_id' },
            none: { type: 'txt', default: null },
            some: { choices: ['a'], default: 'b' },
            bare: 'text',
            i: { type: 'text', column: 'bare' },
          },
          access: 'user',
          owner: 'up',
          exclude: ['e'],
          ordering: 'e,up__nosuch,some__a',
        },
        { model: 'b', methods: ['POST', 'POST'], columns: { x: { type: 'text' } } },
        { model: 'c', columns: { b: { type: 'foreignKey', references: 'b' }, x: 5 }, ordering: 'b__x,x,x,x,x,x,x,x,x' },
      ],
      ['user: columns.username.type:', 'a: columns.a.type:', 'a: columns.b:', 'a: columns.d.type:', 'a: columns.d:', 'a: columns.link.type:', 'a: columns.name.references:', 'a: columns.e.type:', 'a: columns.up.type:', 'a: columns.aim.references:', 'a: columns.h:', 'a: columns.none.type:', 'a: columns.some.type:', 'a: columns.bare:', 'a: ordering:', 'b: methods:', 'c: columns.x:', 'c: ordering: must have at most 8 columns (got 9)', 'c: ordering: b__x'],
    ); // prettier-ignore
  });

  test('columns of the user model with a wrong type, each once', async () => {
    await assertFaults(
      [
        {
          ...users,
          columns: {
            ...users.columns,
            password: { type: 'foreignKey', maxLength: 9 },
            active: { type: 'text', references: 'user' },
            admin: { type: 'integer', default: 'x' },
          },
        },
      ],
      ['user: columns.password.type:', 'user: columns.active.type:', 'user: columns.admin.type:'],
    ); // prettier-ignore
  });

  test('for any combination of independent mistakes', async () => {
    const mistakes = fc.shuffledSubarray(Object.entries(MISTAKES), { minLength: 1 });
    await fc.assert(
      fc.asyncProperty(mistakes, async (made) => {
        const resources = structuredClone(LIBRARY);
        for (const [, make] of made) make(...resources);
        const keys = made.map(([key]) => `${key}:`);
        await assertFaults(resources, keys);
      }),
    );
  });

  test('a wrong type alone where only one type is possible', async () => {
    const columns = {
      ...users.columns,
      password: { type: 'string', maxLength: 128 },
      active: { type: 'integer', default: 1 },
    };
    await assertFaults(
      [{ ...users, columns }],
      ['user: columns.password.type:', 'user: columns.active.type:'],
    ); // prettier-ignore
  });

  test('also for columns with invalid names, and columns that do not fit their use', async () => {
    await assertFaults(
      [
        users,
        {
          model: 'm',
          columns: { größe: { type: 'integer' }, limit: { type: 'json', null: true }, t_: { type: 'text' } },
          ordering: 'limit,größe__x',
          owner: 't_',
          admin: { search: ['größe'], dates: 'limit' },
        },
        { model: 'n', columns: { a: { type: 'foreignKey', references: 'shut' }, x: { type: 'foreignKey', references: 'gone' } }, ordering: 'a__x,a__y__z,x__id__z', admin: { list: ['id'] } },
        { model: 'shut', columns: { x: 'string', y: { type: 'foreignKey', references: 'gone' } }, read: 'admin' },
      ],
      ['m: columns.größe:', 'm: columns.limit:', 'm: columns.t_:', 'm: ordering: limit', 'm: ordering: größe', 'm: owner:', 'm: admin.search:', 'm: admin.dates:', 'n: columns.x.references:', 'n: ordering: a__x', 'n: ordering: a__y__z', 'n: ordering: x__id__z', 'shut: columns.x:', 'shut: columns.y.references:'],
    ); // prettier-ignore
  });

  test('also conflicts between resources that have other faults', async () => {
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
      ['user: limit:', 'user: columns.active.type:', 'a: acess:', 'a: columns.x.references:', 'b: methods:', 'b: columns.y:', 'b: columns.z.maxLength:', 'c: columns.b.null:', 'c: columns.a.default:', 'c: ordering:', 'c: ordering:', 'd: columns.t.type:', 'd: columns.t.index:', 'd: owner:', 'd: ordering:', 'd: model:', 'd: columns.x.references:', 'e: columns:', 'e: access:', 'e: exclude:', 'f: columns.t.type:', 'f: admin.colour:', 'f: admin.search:', 'G: model:', 'G: columns.x.references:', 'resource 10'],
    ); // prettier-ignore
  });

  test('also for columns of the same name in different resources', async () => {
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

  test('without errors that only follow from another fault', async () => {
    const link = { type: 'foreignKey', references: 'e' };
    await assertFaults(
      [
        { model: 'user', columns: { username: { type: 'strng', unique: true }, password: 5, active: {}, admin: { type: 'boolean' } } },
        { model: 'a', columns: { e: link, k: { ...link, references: 'k', default: 'x' } }, ordering: 'e__x', access: 'user' },
        { model: 'e', columns: null, owner: 'x', readonly: ['x'], ordering: 'x', admin: { label: '{x}', dates: 'x' } },
        { model: 'k', primaryKey: { type: 'text' }, columns: { id_: { type: 'text' } } },
        { model: 'l', columns: { x: { type: 'txt' } }, ordering: '-x', admin: { label: 'x', dates: 'x', search: ['x'] } },
        { model: 'n', columns: { x: 5, y: { type: 'foreignKey' } }, ordering: 'x__y,y__x', owner: 'x' },
        { model: 'p', read: 'admn', columns: { n: { type: 'ForeignKey', reference: 'n' }, q: { type: 'foreignKey', references: 'q' } }, owner: 'n', ordering: 'n__x,q__x', admin: { search: ['n__x'] } },
        { model: 'q', read: 'admin', methods: ['POST', 'GET', 'GET'], columns: { x: { type: 'text' } } },
        { model: 'r', columns: { q: { type: 'foreignKey', references: 'gone' } }, owner: 'q' },
        { model: 'o', columns: { k: { type: 'foreignKey', references: 'k' } }, admin: { search: ['k'] } },
      ],
      ['user: columns.username.type:', 'user: columns.password:', 'user: columns.active.type:', 'e: columns:', 'k: primaryKey.type:', 'k: columns.id_:', 'l: columns.x.type:', 'n: columns.x:', 'n: columns.y.references:', 'p: read:', 'p: columns.n.type:', 'p: columns.n.reference:', 'q: methods:', 'r: columns.q.references:'],
    ); // prettier-ignore
  });
});
