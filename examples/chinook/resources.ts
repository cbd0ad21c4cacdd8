// The Chinook music store: a database that was there before, served as it is. README.md beside this file starts and uses it.
//
// A resource's table is called like its model, and a foreign key `artist` is stored in the column `artist_id`, unless the
// resource says otherwise; here most names fit, but no key is called `id`. Lengths and precisions are read from the database.

// Where Vitrine is installed from npm, this line reads: import type { Registry, Resource } from 'vitrine';
import type { Registry, Resource } from '../../src/index.ts';

// The catalogue: anyone may look at it.

/** No `access`: the level is `default`, at which nobody writes, so genres and media types stay as they are. */
const genre = {
  model: 'genre',
  primaryKey: { type: 'integer', column: 'genre_id' },
  columns: { name: { type: 'string', null: true } },
} satisfies Resource;

const mediaType = {
  model: 'media_type',
  primaryKey: { type: 'integer', column: 'media_type_id' },
  columns: { name: { type: 'string', null: true } },
} satisfies Resource;

const artist = {
  model: 'artist',
  primaryKey: { type: 'integer', column: 'artist_id' },
  columns: { name: { type: 'string', null: true } },
  access: 'user',
} satisfies Resource;

const album = {
  model: 'album',
  primaryKey: { type: 'integer', column: 'album_id' },
  columns: {
    title: { type: 'string' },
    artist: { type: 'foreignKey', references: 'artist' },
  },
  access: 'user',
} satisfies Resource;

const track = {
  model: 'track',
  primaryKey: { type: 'integer', column: 'track_id' },
  columns: {
    name: { type: 'string' },
    album: { type: 'foreignKey', references: 'album', null: true },
    media_type: { type: 'foreignKey', references: 'media_type' },
    genre: { type: 'foreignKey', references: 'genre', null: true },
    composer: { type: 'string', null: true },
    milliseconds: { type: 'integer', min: 1 },
    bytes: { type: 'integer', null: true, min: 1 },
    unit_price: { type: 'decimal', min: 0 },
  },
  access: 'user',
} satisfies Resource;

// Chinook's eleventh table, playlist_track, says which tracks a playlist has. Its key is made of two columns (playlist_id
// and track_id), so none of its rows has an `id` to stand in a URL: it cannot be served.
const playlist = {
  model: 'playlist',
  primaryKey: { type: 'integer', column: 'playlist_id' },
  columns: { name: { type: 'string', null: true } },
  access: 'user',
} satisfies Resource;

// The business: only people with a login see it.

/** Where employees live and when they were born stays in the database: a column that is not named here is not served. */
const employee = {
  model: 'employee',
  primaryKey: { type: 'integer', column: 'employee_id' },
  columns: {
    first_name: { type: 'string' },
    last_name: { type: 'string' },
    title: { type: 'string', null: true },
    // Still `reports_to_id` in JSON, like every foreign key.
    reports_to: { type: 'foreignKey', references: 'employee', null: true, column: 'reports_to' },
    hire_date: { type: 'datetime', null: true },
    phone: { type: 'string', null: true },
    fax: { type: 'string', null: true },
    email: { type: 'string', null: true },
  },
  read: 'user',
  access: 'admin',
} satisfies Resource;

const customer = {
  model: 'customer',
  primaryKey: { type: 'integer', column: 'customer_id' },
  columns: {
    first_name: { type: 'string' },
    last_name: { type: 'string' },
    company: { type: 'string', null: true },
    address: { type: 'string', null: true },
    city: { type: 'string', null: true },
    state: { type: 'string', null: true },
    country: { type: 'string', null: true },
    postal_code: { type: 'string', null: true },
    phone: { type: 'string', null: true },
    fax: { type: 'string', null: true },
    email: { type: 'string' },
    support_rep: { type: 'foreignKey', references: 'employee', null: true },
  },
  read: 'user',
  access: 'user',
} satisfies Resource;

const invoice = {
  model: 'invoice',
  primaryKey: { type: 'integer', column: 'invoice_id' },
  columns: {
    customer: { type: 'foreignKey', references: 'customer' },
    invoice_date: { type: 'datetime' },
    billing_address: { type: 'string', null: true },
    billing_city: { type: 'string', null: true },
    billing_state: { type: 'string', null: true },
    billing_country: { type: 'string', null: true },
    billing_postal_code: { type: 'string', null: true },
    total: { type: 'decimal', min: 0 },
  },
  read: 'user',
  access: 'admin',
  ordering: '-invoice_date',
} satisfies Resource;

const invoiceLine = {
  model: 'invoice_line',
  primaryKey: { type: 'integer', column: 'invoice_line_id' },
  columns: {
    invoice: { type: 'foreignKey', references: 'invoice' },
    track: { type: 'foreignKey', references: 'track' },
    unit_price: { type: 'decimal', min: 0 },
    quantity: { type: 'integer', min: 1 },
  },
  read: 'user',
  access: 'admin',
} satisfies Resource;

/** The table that users.sql adds. Vitrine finds its users in the resource named `user`, whatever the table is called. */
const user = {
  model: 'user',
  table: 'login',
  primaryKey: { type: 'integer', column: 'login_id' },
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' },
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
  },
  read: 'admin',
  access: 'admin',
  exclude: ['password'],
} satisfies Resource;

const resources = [
  artist,
  album,
  track,
  genre,
  mediaType,
  playlist,
  employee,
  customer,
  invoice,
  invoiceLine,
  user,
] satisfies Resource[];

export default resources satisfies Registry<typeof resources>;
