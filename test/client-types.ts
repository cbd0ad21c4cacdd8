// Checked by `npm run typecheck`: code that the typed client accepts, and code that it refuses. test/client/types.system.ts checks
// it again with other compiler settings.
import type chinook from '../examples/chinook/resources.ts';
import {
  createClient,
  etagOf,
  listChanges,
  type Client,
  type Registry,
  type Resource,
  type ResourceClient,
  type Row,
} from '../src/client.ts';
import { createVitrine, type Vitrine } from '../src/index.ts';
import type shipped from '../src/resources/registry.ts';

export const resources = [
  {
    model: 'user',
    columns: {
      username: { type: 'string', unique: true },
      password: { type: 'password' },
      active: { type: 'boolean', default: true },
    },
    exclude: ['password'],
  },
  {
    model: 'message',
    columns: {
      user: { type: 'foreignKey', references: 'user' },
      content: { type: 'text' },
      stars: { type: 'integer', null: true },
      pub_date: { type: 'datetime', default: 'now' },
      kind: { type: 'string', choices: ['note', 'question'], default: 'note' },
      extra: { type: 'json', null: true },
      tags: { type: 'array', of: 'string', default: [] },
      sizes: { type: 'array', of: 'bigint', null: true, elements: { null: false } },
      moods: { type: 'array', of: 'text', choices: ['sad', 'glad'], null: true },
    },
    owner: 'user',
    readonly: ['pub_date'],
  },
  {
    model: 'land',
    primaryKey: { type: 'string', column: 'code' },
    columns: { name: { type: 'string' } },
  },
  {
    model: 'account',
    primaryKey: { type: 'bigint' },
    columns: {
      land: { type: 'foreignKey', references: 'land', null: true },
      parent: { type: 'foreignKey', references: 'account', null: true },
      balance: { type: 'decimal', precision: 10, scale: 2 },
      total: { type: 'bigint', default: 0 },
      // The name of a column takes precedence over an operator.
      in: { type: 'boolean', null: true },
    },
  },
  {
    model: 'stay',
    primaryKey: { columns: ['land', 'year'] },
    columns: {
      land: { type: 'foreignKey', references: 'land' },
      year: { type: 'integer' },
      nights: { type: 'integer', null: true },
    },
  },
  {
    model: 'picture',
    columns: { land_code: { type: 'string' }, year: { type: 'integer' } },
    foreignKeys: { stay: { columns: ['land_code', 'year'], references: 'stay' } },
  },
  {
    model: 'total',
    table: 'totals',
    primaryKey: { type: 'string' },
    columns: { total: { type: 'bigint' } },
    methods: ['GET'],
  },
  {
    model: 'tally',
    primaryKey: false,
    columns: { land: { type: 'foreignKey', references: 'land' }, stays: { type: 'bigint', null: true } },
  },
  {
    model: 'report',
    view: true,
    primaryKey: { type: 'integer' },
    columns: { total: { type: 'bigint' } },
  },
  {
    model: 'log',
    primaryKey: { type: 'uuid' },
    columns: { text: { type: 'text' } },
    methods: ['GET', 'POST'],
  },
  {
    model: 'inbox',
    columns: { text: { type: 'text' } },
    methods: ['POST'],
  },
] as const satisfies readonly Resource[];

const client = createClient<typeof resources>({
  baseUrl: 'http://127.0.0.1',
  credentials: { username: 'ada', password: 'x' },
  headers: { 'X-Mine': '1' },
  retries: 2,
});

export async function accepted(): Promise<void> {
  await client.message.list();
  await client.stay.get('NO,2026');
  await client.stay.list({ id: 'NO,2026', id__gte: 'NO,2000', land__name: 'Norway', ordering: '-id,nights' });
  await client.stay.create({ land_id: 'NO', year: 2026 });
  const { objects: tallies } = await client.tally.list({ land__name: 'Norway', ordering: '-stays' });
  tallies[0]?.stays satisfies string | null | undefined;
  await client.picture.list({ stay__nights__gt: 3, stay: 'NO,2026', ordering: '-stay__land__name' });
  const { id: stay }: { id: string } = await client.stay.get('NO,2026');
  await client.stay.update(stay, { nights: 3 });
  await client.message.list({ user__username: 'ada', ordering: '-pub_date', limit: 5, page: 2 });
  await client.message.list({
    user: 1,
    user_id__in: [1, 2],
    stars__gte: 3,
    '-content__ilike': '%x%',
    stars__is: null,
    extra__is: 'null',
  });
  await client.message.list({ ordering: ['user__username', '-id'], content: ['a', 'b'] });
  await client.message.list({ ordering: 'user_id__active,-user__id,id' });
  await client.message.list({ user__id__in: '1,2', id__lt: 9, '-user__active__is': true });
  await client.message.list({}, { signal: AbortSignal.timeout(1000) });
  const { objects, meta } = await client.message.list({ user__active: true });
  objects[0]?.user_id satisfies number | undefined;
  objects[0]?.stars satisfies number | null | undefined;
  meta.next satisfies string;
  for await (const { content } of client.message.all({ stars__lt: 2 })) content satisfies string;
  for await (const { content } of client.message.all({}, { paging: 'cursor' })) content satisfies string;
  for await (const { stays } of client.tally.all({}, {})) stays satisfies string | null;
  (await client.message.count({ kind: 'note' })) satisfies number;

  await client.message.list({ tags: '["a"]', tags__contains: ['a', 'b'], '-sizes__contains': [1, 2n, '3'] });
  await client.message.list({ tags__in: ['["a"]', '[]'], sizes__is: null, extra__contains: '{"a": 1}' });
  objects[0]?.tags satisfies (string | null)[] | undefined;
  objects[0]?.sizes satisfies string[] | null | undefined;
  await client.message.create({ content: 'x', tags: ['a', null], sizes: [1n, 2], moods: ['sad', null] });

  const made = await client.message.create({ content: 'x', kind: 'question', extra: { any: ['thing'] } });
  made satisfies Row<(typeof resources)[1], (typeof resources)[number]>;
  await client.message.update(made.id, { stars: null }, { etag: etagOf(made) });
  await client.message.update(made.id, made);
  await client.message.update(made.id, { ...made, content: 'y' });
  await client.message.delete(made.id, { etag: '"1"' });
  await client.user.create({ username: 'ada', password: 'x' });
  await client.user.update(1, { password: 'y' });

  const land = await client.land.create({ id: 'ch', name: 'Schweiz' });
  land.id satisfies string;
  await client.land.get('a/b');
  await client.land.list({ id__like: 'c%', id__in: ['ch', 'a,b'] });
  await client.account.list({
    land__ilike: 'C%',
    land__name: 'Schweiz',
    parent__parent__land__name__ne: 'x',
  });
  await client.account.list({
    balance__gte: '0.10',
    total: 9007199254740993n,
    total__in: [1, '2', 3n],
    in: true,
  });
  await client.account.list({ parent: 9007199254740993n, id__gt: '9007199254740993' });
  const account = await client.account.create({ balance: '1.00', total: 1n, land_id: 'ch', parent_id: null });
  account.balance satisfies string;
  account.total satisfies string;
  account.land_id satisfies string | null;
  account.parent_id satisfies number | null;
  await client.account.create({ id: 5n, balance: 2.5 });
  await client.message.list({ sizes__contains: 1, tags__contains: ['a, b'], extra__contains: 1 });
  await client.account.list({ parent__in: true, '-parent__parent__in__in': [true, false] });
  await client.message.list({ extra__contains: true, '-extra__contains': '"a"' });
  (await client.total.get('x')).total satisfies string;
  (await client.report.get(1)).total satisfies string;
  const [key] = await client.account.createMany([{ balance: 1 }], { return: 'minimal' });
  key satisfies number | undefined;
  const [whole] = await client.account.createMany([{ balance: 1 }], {});
  whole?.balance satisfies string | undefined;
  const [codes] = await client.land.createMany([{ id: 'a', name: 'b' }], { return: 'minimal' });
  codes satisfies string | undefined;
  (await client.land.createAt('ch', { name: 'Schweiz' })).name satisfies string;
  await client.land.createAt('ch', { id: 'ch', name: 'Schweiz' }, { signal: AbortSignal.timeout(1000) });
  await client.stay.createAt('NO,2026', { nights: 2 });
  await client.log.createMany([{ text: 'x' }]);
  (await client.inbox.create({ text: 'x' })).text satisfies string;
  await client.account.get(9007199254740993n);
  await client.account.get('9007199254740993');
}

export async function refused(): Promise<void> {
  // @ts-expect-error there is no such resource
  await client.massage.list();
  // @ts-expect-error there is no such column
  await client.message.list({ contents: 'x' });
  // @ts-expect-error a resource without a key has no id
  await client.tally.list({ id: 1 });
  // @ts-expect-error nor an address of a record
  await client.tally.get(1);
  // @ts-expect-error nor cursors
  client.tally.all({}, { paging: 'cursor' });
  // @ts-expect-error nor is it written
  await client.tally.create({ land_id: 'NO' });
  // @ts-expect-error nor do its records have an id
  (await client.tally.list()).objects[0]?.id satisfies unknown;
  // @ts-expect-error there is no such related column
  await client.message.list({ user__name: 'x' });
  // @ts-expect-error an excluded column
  await client.user.list({ password__is: null });
  // @ts-expect-error an excluded column of a related record
  await client.message.list({ user__password: 'x' });
  // @ts-expect-error the operator does not fit the type
  await client.message.list({ stars__like: 'x' });
  // @ts-expect-error the operator does not fit the referenced key
  await client.message.list({ user__like: '1' });
  // @ts-expect-error the operator does not fit the type
  await client.message.list({ content__contains: 'x' });
  // @ts-expect-error the operator does not fit the type of the related column
  await client.message.count({ user__username__contains: 'ad' });
  // @ts-expect-error the operator does not fit the key
  await client.land.list({ id__contains: 'c' });
  // @ts-expect-error the operator does not fit the referenced key
  await client.account.list({ land__contains: 'c' });
  // @ts-expect-error there is no such operator
  await client.message.list({ stars__between: 1 });
  // @ts-expect-error nothing may follow an operator
  await client.message.list({ stars__gt__lt: 1 });
  // @ts-expect-error the value has another type
  await client.message.list({ stars: 'many' });
  // @ts-expect-error a value of the list has another type
  await client.message.list({ stars__in: [1, 'two'] });
  // @ts-expect-error null needs the operator `is`
  await client.message.list({ stars: null });
  // @ts-expect-error only booleans can be true
  await client.message.list({ stars__is: true });
  // @ts-expect-error the key is a string
  await client.account.list({ land: 1 });
  // @ts-expect-error a page is a number
  await client.message.list({ page: '2' });
  // @ts-expect-error there is no such column
  await client.message.list({ ordering: '-contents' });
  // @ts-expect-error an array of values would be several filters
  await client.message.list({ sizes: [1, 2] });
  // @ts-expect-error an element has another type
  await client.message.list({ sizes__contains: [true] });
  // @ts-expect-error arrays have no order
  await client.message.list({ ordering: 'tags' });
  // @ts-expect-error the operator does not fit the type
  await client.message.list({ tags__like: 'a%' });
  // @ts-expect-error an element has another type
  await client.message.create({ content: 'x', tags: [1] });
  // @ts-expect-error NULL elements are not allowed
  await client.message.create({ content: 'x', sizes: [null] });
  // @ts-expect-error not one of the choices
  await client.message.create({ content: 'x', moods: ['angry'] });
  // @ts-expect-error one of the columns does not exist
  await client.message.list({ ordering: 'id,contents' });
  // @ts-expect-error one of the columns does not exist
  await client.message.list({ ordering: ['id', 'contents'] });
  // @ts-expect-error two signs
  await client.message.list({ ordering: '--id' });
  // @ts-expect-error JSON has no order
  await client.message.list({ ordering: 'extra' });
  // @ts-expect-error an excluded column
  await client.message.list({ ordering: 'user__password' });
  // @ts-expect-error iteration accepts the same queries
  client.message.all({ contents: 'x' });
  // @ts-expect-error a count accepts the same queries
  await client.message.count({ contents: 'x' });

  // @ts-expect-error a required field is missing
  await client.message.create({});
  // @ts-expect-error a natural key is required
  await client.land.create({ name: 'x' });
  // @ts-expect-error the service generates the key
  await client.message.create({ id: 5, content: 'x' });
  // @ts-expect-error clients do not set the owner
  await client.message.create({ content: 'x', user_id: 1 });
  // @ts-expect-error there is no such column
  await client.message.create({ content: 'x', contents: 'y' });
  // @ts-expect-error not one of the choices
  await client.message.create({ content: 'x', kind: 'answer' });
  // @ts-expect-error NULL is not allowed
  await client.message.create({ content: null });
  // @ts-expect-error a foreign key is set by its `_id`
  await client.account.create({ balance: '1', land: 'ch' });
  // @ts-expect-error read-only
  await client.message.update(1, { pub_date: 'x' });
  // @ts-expect-error a key is not an object
  await client.message.get({ id: 1 });
  // @ts-expect-error this key is a number
  await client.message.get('first');
  // @ts-expect-error a natural key is a string
  await client.land.update(1, {});
  // @ts-expect-error a natural key is a string
  await client.land.delete(1n);

  const { objects } = await client.user.list();
  // @ts-expect-error excluded from the output
  objects[0]?.password satisfies string | undefined;
  // @ts-expect-error there is no such method
  await client.user.patch(1, {});
  // @ts-expect-error only read
  await client.total.create({ total: 1 });
  // @ts-expect-error only read
  await client.total.createMany([]);
  // @ts-expect-error only read
  await client.total.createAt('x', { total: 1 });
  // @ts-expect-error only read
  await client.total.update('x', {});
  // @ts-expect-error only read
  await client.total.delete('x');
  // @ts-expect-error only read
  await client.report.create({ total: '1' });
  // @ts-expect-error cannot be changed
  await client.log.update('x', {});
  // @ts-expect-error cannot be deleted
  await client.log.delete('x');
  // @ts-expect-error cannot be read
  await client.inbox.list();
  // @ts-expect-error cannot be read
  client.inbox.all();
  // @ts-expect-error cannot be read
  await client.inbox.count();
  // @ts-expect-error cannot be read
  await client.inbox.get(1);
  // @ts-expect-error needs PUT too
  await client.log.createAt('x', { text: 'x' });
  // @ts-expect-error the service generates the key
  await client.message.createAt(1, { content: 'x' });
  // @ts-expect-error a required field is missing
  await client.land.createAt('ch', {});
  // @ts-expect-error an array is a list of values, which is not JSON
  await client.message.list({ extra__contains: ['1'] });
  // @ts-expect-error an element has another type
  await client.message.list({ sizes__contains: true });
  // @ts-expect-error the service would read one text as a list
  await client.message.list({ tags__contains: 'a, b' });
  // @ts-expect-error the service would read one text as a list, also of choices
  await client.message.list({ '-moods__contains': 'sad' });
  // @ts-expect-error the client would send one list, but this is a column
  await client.account.list({ parent__in: [true, false] });
  // @ts-expect-error the client would send one list, but this is a column
  await client.account.list({ '-parent__parent__in': [true, false] });
}

/** Registries that use `satisfies Resource[]`, like those of the repository. */
export async function others(): Promise<void> {
  const site = createClient<typeof shipped>({ baseUrl: '' });
  const { objects } = await site.relationship.list({
    from_user__username__in: ['ada'],
    ordering: '-to_user__join_date',
  });
  objects[0]?.to_user_id satisfies number | undefined;
  await site.message.create({ content: 'x' });
  await site.user.create({ username: 'a', password: 'b', email: 'c' });
  // @ts-expect-error excluded
  await site.message.list({ user__email: 'x' });
  // @ts-expect-error clients do not set the owner
  await site.relationship.create({ from_user_id: 1, to_user_id: 2 });

  const store = createClient<typeof chinook>({ baseUrl: 'https://example.org/' });
  const { objects: tracks } = await store.track.list({
    album__artist__name__ilike: 'a%',
    genre__is: null,
    unit_price__gt: '0.99',
    ordering: ['album__artist__name', '-milliseconds'],
  });
  tracks[0]?.unit_price satisfies string | undefined;
  tracks[0]?.album_id satisfies number | null | undefined;
  await store.invoice_line.list({ invoice__customer__support_rep__last_name: 'Park' });
  await store.customer.create({ first_name: 'a', last_name: 'b', email: 'c', support_rep_id: 3 });
  // @ts-expect-error there is no such column
  await store.track.list({ album__artist__title: 'x' });
  // @ts-expect-error an excluded column
  await store.customer.list({ support_rep__birth_date__gt: '2000-01-01' });
  // @ts-expect-error playlist_track is not served
  await store.playlist_track.list();
}

export const shop = [
  {
    model: 'bill',
    columns: {
      state: { type: 'string', choices: ['Open', 'paid'], default: 'Open' },
      sum: { type: 'bigint', choices: ['5', '6'] },
    },
  },
] satisfies Resource[];

/** String choices have literal types without `as const`. */
export async function chosen(): Promise<void> {
  const { bill } = createClient<typeof shop>({ baseUrl: 'https://example.org/' });
  await bill.create({ state: 'paid', sum: 6n });
  // @ts-expect-error not one of the choices
  await bill.create({ state: 'pade', sum: '5' });
}

/** A client can be passed to a function, and a client of an unknown registry accepts any name. */
export async function passedOn(
  given: Client<typeof resources>,
  one: ResourceClient<(typeof resources)[0], (typeof resources)[number]>,
  unknown: Client<readonly Resource[]>,
): Promise<void> {
  one satisfies typeof given.user;
  const { objects } = await unknown['anything']!.list();
  await unknown['anything']!.get('x');
  await unknown['anything']!.get(1);
  objects[0]?.id satisfies string | number | undefined;
}

/** TypeScript gives each literal of an array the columns of all others, as undefined. They are not columns of the resource. */
export const inline = [
  {
    model: 'user',
    columns: { username: { type: 'string' }, password: { type: 'password' } },
    exclude: ['password'],
  },
  {
    model: 'book',
    columns: { title: { type: 'string' }, reader: { type: 'foreignKey', references: 'user' } },
    owner: 'reader',
  },
] satisfies Resource[];
inline satisfies Registry<typeof inline>;
export const embedded = (): Promise<Vitrine> =>
  createVitrine({ databaseUrl: 'postgres://localhost/x', resources: inline });

export async function read(): Promise<void> {
  const { book, user } = createClient<typeof inline>({ baseUrl: 'https://example.org/' });
  const { objects } = await book.list({ reader__username: 'ada', ordering: 'title' });
  objects[0]?.reader_id satisfies number | undefined;
  await book.create({ title: 'x' });
  // @ts-expect-error the title of another model
  await user.list({ title: 'x' });
  // @ts-expect-error an excluded column
  await user.list({ password: 'x' });
}

const clinic = [
  { model: 'user', columns: { username: { type: 'string' } } },
  {
    model: 'visit',
    columns: {
      user: { type: 'foreignKey', references: 'user' },
      doctor: { type: 'foreignKey', references: 'user', null: true },
      kind: { type: 'string', choices: { f: 'first', r: 'repeated' } },
      level: { type: 'integer', choices: [1, 2], null: true },
      flags: { type: 'array', of: 'string', choices: { a: 'A', b: 'B' } },
      total: { type: 'bigint', choices: [1, 2] },
      text: { type: 'text' },
    },
    strict: true,
    unique: [['user', 'kind']],
  },
  { model: 'loose', columns: { kind: { type: 'string', choices: ['a'] } } },
] as const satisfies readonly Resource[];
clinic satisfies Registry<typeof clinic>;

export async function related(): Promise<void> {
  const { visit, loose } = createClient<typeof clinic>({ baseUrl: '' });
  const page = await visit.list({}, { related: ['user'], count: 'exact' });
  page.total satisfies number;
  page.related.user.get(1)?.username satisfies string | undefined;
  const [first] = page.objects;
  const both = await visit.list({}, { related: { user: 'user', doctor: 'user' } });
  both.related.doctor.get(1)?.id satisfies number | undefined;
  // @ts-expect-error it was not asked for
  void both.total;
  // @ts-expect-error it was not asked for
  void page.related.doctor;
  // @ts-expect-error the model has another name
  await visit.list({}, { related: ['doctor'] });
  // @ts-expect-error it refers to another model
  await visit.list({}, { related: { doctor: 'visit' } });
  // @ts-expect-error no such count
  await visit.list({}, { count: 'all' });
  first?.kind satisfies 'f' | 'r' | undefined;
  first?.level satisfies 1 | 2 | null | undefined;
  first?.flags satisfies ('a' | 'b' | null)[] | undefined;
  first?.total satisfies string | undefined;
  first?.text satisfies string | undefined;
  'x' satisfies NonNullable<typeof first>['text'];
  await visit.create({ user_id: 1, kind: 'f', flags: ['a'], total: 1, text: 'x' });
  // @ts-expect-error no such choice
  await visit.create({ user_id: 1, kind: 'first', flags: ['a'], total: 1, text: 'x' });
  // @ts-expect-error no such choice
  await visit.create({ user_id: 1, kind: 'f', flags: ['A'], total: 1, text: 'x' });
  const one = await loose.get(1);
  // A table may hold other values.
  one.kind = 'b';
}

export async function feed(): Promise<void> {
  const { objects, meta } = await listChanges<typeof clinic>({ baseUrl: '' }, { after: 'now' });
  meta.after satisfies string;
  for (const change of objects) {
    if (change.model !== 'visit') continue;
    change.record satisfies number;
    change.after?.kind satisfies 'f' | 'r' | undefined;
    // @ts-expect-error no such column
    void change.after?.username;
  }
}
