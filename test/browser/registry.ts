// The registry and the records of the browser tests.
import { Message, type Panel, type Resource } from '../../src/index.ts';
import { resources as known } from '../admin/sample-resources.ts';
import type { TestService } from '../support.ts';

/** More records than a select field offers. */
export const TOWNS = 120;
/** More records than fit on two pages of a list. */
export const TRIPS = 45;

const town = {
  model: 'town',
  columns: { name: { type: 'string', unique: true } },
  admin: { title: 'Towns', group: 'Travel', list: ['name'] },
} satisfies Resource;

const trip = {
  model: 'trip',
  columns: {
    name: { type: 'string', maxLength: 60 },
    town: { type: 'foreignKey', references: 'town' },
    guide: { type: 'foreignKey', references: 'user', null: true, onDelete: 'setNull' },
    day: { type: 'date', null: true },
    rating: { type: 'integer', null: true, min: 1, max: 5 },
  },
  admin: {
    title: 'Trips',
    group: 'Travel',
    list: ['name', 'town', 'guide', 'day', 'rating'],
    search: ['name', 'town__name'],
  },
} satisfies Resource;

const ticket = {
  model: 'ticket',
  columns: {
    trip: { type: 'foreignKey', references: 'trip', onDelete: 'cascade' },
    seat: { type: 'string' },
  },
  admin: {
    title: 'Tickets',
    group: 'Travel',
    actions: [
      {
        name: 'move',
        title: 'Move',
        on: ['record', 'list'],
        fields: {
          seat: { type: 'string', maxLength: 10, help: 'The number is added.' },
          trip: { type: 'foreignKey', references: 'trip', null: true },
          paid: { type: 'boolean', default: false },
        },
        confirm: 'The passengers get a mail.',
        run: async ({ records, values, operations }) => {
          if (values['seat'] === 'none') throw new Message('is no seat', 'seat');
          for (const [index, { id }] of records.entries())
            await operations.update('ticket', String(id), { seat: `${String(values['seat'])} ${index + 1}` });
        },
      },
    ],
  },
} satisfies Resource;

const text = { type: 'text', null: true } as const;
const states = ['neutral', 'info', 'success', 'warning', 'danger', 'accent'] as const;

/** A choice of every tone, and a column of every widget. */
const sight = {
  model: 'sight',
  columns: {
    name: { type: 'string' },
    state: {
      type: 'string',
      choices: states,
      tones: { neutral: 'neutral', info: 'info', success: 'success', warning: 'warning', danger: 'danger', accent: 'accent' }, // prettier-ignore
    },
    email: { ...text, widget: 'email' },
    url: { ...text, widget: 'url' },
    phone: { ...text, widget: 'phone' },
    color: { ...text, widget: 'color' },
    image: { ...text, widget: 'image' },
    body: { ...text, widget: 'markdown' },
    script: { ...text, widget: 'code' },
  },
  admin: {
    title: 'Sights',
    group: 'Travel',
    list: ['name', 'state', 'email', 'url', 'phone', 'color', 'image', 'body', 'script'],
  },
} satisfies Resource;

/** Its form has rows of two child tables: one to edit, and one to read. */
const parcel = {
  model: 'parcel',
  columns: { name: { type: 'string' } },
  admin: {
    title: 'Parcels',
    group: 'Travel',
    inlines: [{ model: 'item' }, { model: 'scan', readonly: true }],
  },
} satisfies Resource;
const toParcel = { type: 'foreignKey', references: 'parcel', onDelete: 'cascade' } as const;

const item = {
  model: 'item',
  columns: {
    parcel: toParcel,
    name: { type: 'string' },
    town: { type: 'foreignKey', references: 'town', null: true },
    weight: { type: 'decimal', precision: 6, scale: 2, null: true },
    packed: { type: 'date', null: true },
    fragile: { type: 'boolean', default: false },
    remarks: { type: 'text', null: true },
  },
  admin: { title: 'Items', group: 'Travel' },
} satisfies Resource;

const scan = {
  model: 'scan',
  columns: { parcel: toParcel, remarks: { type: 'text' } },
  admin: { title: 'Scans', group: 'Travel' },
} satisfies Resource;

export const registry: readonly Resource[] = [...known, town, trip, ticket, sight, parcel, item, scan];

/** One panel of each kind, and one that fails. */
export const panels: readonly Panel[] = [
  { title: 'Trips so far', text: 'Of all guides.', load: async ({ query }) => Number((await query('select count(*) from trip'))[0]?.['count']) }, // prettier-ignore
  { title: 'Best month', load: () => Promise.resolve('December, by far the busiest month of all') },
  {
    title: 'Ratings',
    load: () =>
      Promise.resolve({
        columns: ['Rating', 'Trips', 'Seen'],
        rows: [['5', 9, true], ['4', 9, null], ['4, and no guide knows why it was not a full 5', 12_345.678, false]], // prettier-ignore
      }),
  },
  {
    title: 'Trips by month',
    load: () =>
      Promise.resolve({ series: [10, 31, 4].map((value, at) => ({ label: `Month ${at}`, value })) }),
  },
  {
    title: 'Sales',
    load: () =>
      Promise.resolve({
        kind: 'line',
        unit: 'EUR',
        series: [5, 3, 8, -2].map((value, at) => ({ label: `Week ${at}`, value })),
      }),
  },
  { title: 'Broken', load: () => Promise.reject(new Error('on purpose')) },
];

/** A word that is wider than a narrow window. */
export const LONG_WORD = 'Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft';

/** Adds an admin `admin`, other users, and records of every model. */
export async function addRecords({ sql, addUser }: TestService): Promise<void> {
  await addUser('admin', { admin: true });
  for (const name of ['ada', 'grace', 'linus']) await addUser(name);
  const at = '2026-01-15 09:30:00';
  const user = (name: string) => sql`(select id from "user" where username = ${name})`;
  for (const [name, content] of [
    ['ada', 'The engine weaves algebraic patterns just as the loom weaves flowers and leaves.'],
    ['grace', 'Found a moth in relay 70 of panel F. Taped it into the log book.'],
    ['linus', 'Just a hobby, it will not be big and professional.'],
    ['ada', 'Notes are longer than the paper they annotate. So be it.'],
    ['grace', 'The most dangerous phrase: we have always done it this way.'],
  ] as const)
    await sql`insert into message ("user_id", content, pub_date) values (${user(name)}, ${content}, ${at})`;
  for (const [from, to] of [
    ['grace', 'ada'],
    ['linus', 'ada'],
    ['linus', 'grace'],
  ] as const)
    await sql`insert into relationship (from_user_id, to_user_id) values (${user(from)}, ${user(to)})`;
  await sql`insert into note (message, created)
    values ('Look, but do not touch.', ${at}), ('The key is with the admin.', ${at})`;
  await sql`insert into town (name) select 'Town ' || to_char(n, 'FM000') from generate_series(1, ${TOWNS}::integer) n`;
  await sql`insert into trip (name, town_id, day, rating)
    select 'Trip ' || to_char(n, 'FM00'), n, date '2025-11-20' + n, 1 + n % 5 from generate_series(1, ${TRIPS}::integer) n`;
  await sql`insert into ticket (trip_id, seat) select 1, 'Seat ' || n from generate_series(1, 3) n`;
  await sql`insert into thing (name, colour, note, author_id) values ('Anvil', 'red', 'Heavy.', ${user('ada')})`;
  await sql`insert into note (message, created) values (${LONG_WORD.repeat(3)}, ${at})`;
  await sql`insert into thing (name, note, extra, secret) values
    (${LONG_WORD.slice(0, 50)}, ${LONG_WORD.repeat(5)}, ${`{"word": "${LONG_WORD}"}`}, ${LONG_WORD})`;
  await sql`insert into town (name) values (${LONG_WORD})`;
  const values = { email: 'ada@example.com', url: 'https://example.com/', phone: '+41 44 123 45 67', color: '#abc', image: 'https://example.com/a.png', body: '# One\n\n- *two*\n- [three](https://example.com)', script: 'if (a < b) c();' }; // prettier-ignore
  for (const state of states)
    await sql`insert into sight ${sql({ name: `SIGHT-1-${state}`, state, ...values })}`;
  await sql`insert into parcel (name) values ('Parcel')`;
  await sql`insert into item (parcel_id, name, town_id) select 1, 'Item ' || n, n from generate_series(1, 3) n`;
  await sql`insert into scan (parcel_id, remarks) values (1, 'Arrived.'), (1, ${LONG_WORD})`;
}
