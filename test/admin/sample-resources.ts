// The registry of most tests of the admin area. The model `thing` has a column of every type.
import shipped from '../../src/resources/registry.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';

export const thing = {
  model: 'thing',
  columns: {
    name: { type: 'string', maxLength: 50, unique: true, help: 'What it is called.' },
    note: { type: 'text', null: true },
    amount: { type: 'integer', null: true, min: 0, max: 100 },
    big: { type: 'bigint', null: true },
    ratio: { type: 'float', null: true },
    price: { type: 'decimal', precision: 10, scale: 2, null: true },
    ready: { type: 'boolean', default: false },
    maybe: { type: 'boolean', null: true },
    at: { type: 'datetime', null: true },
    day: { type: 'date', null: true },
    hour: { type: 'time', null: true },
    code: { type: 'uuid', null: true },
    extra: { type: 'json', null: true },
    colour: { type: 'string', choices: ['red', 'green', 'blue'], default: 'red' },
    author: { type: 'foreignKey', references: 'user', null: true, onDelete: 'setNull' },
    secret: { type: 'string', null: true },
    fixed: { type: 'integer', default: 7 },
    hidden: { type: 'string', default: 'out of sight' },
  },
  access: 'user',
  exclude: ['secret'],
  admin: {
    title: 'Things',
    readonly: ['fixed'],
    exclude: ['hidden'],
    label: '{name} ({colour})',
    dates: 'at',
  },
} satisfies Resource;

/** A model with a text key that users enter. */
export const land = {
  model: 'land',
  primaryKey: { type: 'string', column: 'code' },
  columns: { name: { type: 'string' }, capital: { type: 'string', null: true } },
  admin: {
    title: 'Lands',
    actions: [
      {
        name: 'shout',
        title: 'Shout',
        on: ['record'],
        run: async ({ records: [record], operations }) => {
          await operations.update('land', String(record?.['id']), { name: `${String(record?.['name'])}!` });
        },
      },
    ],
  },
} satisfies Resource;

export const resources: readonly Resource[] = [...shipped, thing, land];
