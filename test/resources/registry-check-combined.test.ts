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
type Mistakes = Record<string, (user: Loose, author: Loose, book: Loose) => void>;
const SHAPE: Mistakes = {
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
};

const text = { type: 'text' };
const link = (references: string, more: object = {}): object => ({
  type: 'foreignKey',
  references,
  ...more,
});

describe('all faults of one kind are reported at once', () => {
  test('for any combination of independent mistakes: those of the shape, else of definitions, else of paths', async () => {
    const mistakes = [SHAPE, DEFINITIONS, PATHS].map((group) => fc.subarray(Object.entries(group)));
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

  test('the shape of resources, columns and options', async () => {
    await assertFaults(
      [
        { ...users, columns: { ...users.columns, username: { type: 'txt' }, admin: 5 } },
        { model: 'a', columns: { x: { type: 'txt' }, y: { type: 'text', nul: true }, größe: text, link: { references: 'a' }, aim: { type: 'foreignKey' } }, acess: 'user', limit: 0 },
        { model: 'b', columns: { z: { type: 'text', references: 'a' } }, access: 'all', ordering: 'nosuch' },
        { model: 'c', columns: null, exclude: 5, admin: { list: 'x', colour: 'red' } },
        { model: 'k', primaryKey: { type: 'text' }, columns: { id_: text, a: { type: 'array', of: 'text', elements: { nul: 1 } } } },
        { model: 'G', columns: {} },
        7,
      ],
      ['user: columns.username.type:', 'user: columns.admin:', 'a: columns.x.type:', 'a: columns.y.nul:', 'a: columns.größe:', 'a: columns.link.type:', 'a: columns.aim.references:', 'a: acess:', 'a: limit:', 'b: columns.z.references:', 'b: access:', 'c: columns:', 'c: exclude:', 'c: admin.list:', 'c: admin.colour:', 'k: primaryKey.type:', 'k: columns.id_:', 'k: columns.a.elements.nul:', 'G: model:', 'resource 7'],
    ); // prettier-ignore
  });

  test('definitions within one resource, in several, and between them', async () => {
    await assertFaults(
      [
        { ...users, columns: { ...users.columns, active: text, password: { type: 'string', maxLength: 128 } } },
        { model: 'a', table: 'same', columns: { x: link('nobody'), y: text }, ordering: 'x__nosuch' },
        { model: 'b', table: 'same', columns: { x: text, y: { ...text, column: 'x' } }, ordering: 'nosuch' },
        { model: 'c', columns: { a: link('a', { default: 'x' }), user: link('a') }, owner: 'user' },
        { model: 'd', columns: {} },
        { model: 'd', table: 'd2', columns: { x: link('nowhere') }, ordering: 'x,x,x,x,x,x,x,x,x' },
        { model: 'e', methods: ['POST', 'POST'], columns: { x: { type: 'array', of: 'integer', elements: { min: 2, max: 1 }, default: ['x'] } } },
        { model: 'f', columns: { y: link('d'), y_id: text } },
      ],
      ['user: columns.active.type:', 'user: columns.password.type:', 'a: columns.x.references:', 'b: methods:', 'b: columns.y:', 'c: columns.a.default:', 'c: owner:', 'd: model:', 'd: columns.x.references:', 'd: ordering: must have at most 8 columns (got 9)', 'e: methods:', 'e: columns.x.elements.min:', 'f: columns.y:'],
    ); // prettier-ignore
  });

  test('orderings, and names of the admin area', async () => {
    await assertFaults(
      [
        users,
        { model: 'm', columns: { j: { type: 'json', null: true }, t: text }, ordering: 'j,gone', admin: { search: ['j'], dates: 't' } },
        { model: 'n', columns: { a: link('shut'), x: link('m') }, ordering: 'a__x,x__id__z,x__t', admin: { list: ['x__t', 'gone'] } },
        { model: 'shut', columns: { x: text }, read: 'admin' },
      ],
      ['m: ordering: j', 'm: ordering: gone', 'm: admin.search:', 'm: admin.dates:', 'n: ordering: a__x', 'n: ordering: x__id__z', 'n: admin.list:'],
    ); // prettier-ignore
  });
});
