// The registry for Chinook, a music store: an existing database that is served unchanged. README.md shows how to use it.
//
// By default, a table has the name of its model, a foreign key `artist` is the column `artist_id`, and the primary key is `id`.
// Most names fit here, but each primary key needs its `column`. Lengths and precisions come from the database.

// Where Vitrine is installed from npm, this line reads: import type { Panel, Registry, Resource } from 'vitrine';
import type { Panel, Registry, Resource } from '../../src/index.ts';

// The catalogue: everyone may read it.

/** Without `access`, the level is `default`: no one writes through the API, but admins may in the admin area. */
const genre = {
  model: 'genre',
  read: 'default',
  primaryKey: { type: 'integer', column: 'genre_id' },
  columns: { name: { type: 'string', null: true } },
  admin: {
    title: 'Genres',
    group: 'Catalogue',
  },
} satisfies Resource;

const mediaType = {
  model: 'media_type',
  read: 'default',
  primaryKey: { type: 'integer', column: 'media_type_id' },
  columns: { name: { type: 'string', null: true } },
  admin: {
    title: 'Media types',
    group: 'Catalogue',
  },
} satisfies Resource;

const artist = {
  model: 'artist',
  primaryKey: { type: 'integer', column: 'artist_id' },
  columns: { name: { type: 'string', null: true } },
  read: 'default',
  access: 'user',
  admin: {
    title: 'Artists',
    group: 'Catalogue',
  },
} satisfies Resource;

const album = {
  model: 'album',
  primaryKey: { type: 'integer', column: 'album_id' },
  columns: {
    title: { type: 'string' },
    artist: { type: 'foreignKey', references: 'artist' },
  },
  read: 'default',
  access: 'user',
  admin: {
    title: 'Albums',
    group: 'Catalogue',
    label: '{title} – {artist__name}',
    list: ['title', 'artist'],
    search: ['title', 'artist__name'],
    filters: ['title', 'artist', 'artist__name'],
  },
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
  read: 'default',
  access: 'user',
  admin: {
    title: 'Tracks',
    group: 'Catalogue',
    list: ['name', 'album', 'genre', 'milliseconds', 'unit_price'],
    search: ['name', 'composer', 'album__title', 'album__artist__name'],
    filters: [
      'name',
      'album__artist__name',
      'album',
      'genre',
      'media_type',
      'composer',
      'milliseconds',
      'unit_price',
    ],
  },
} satisfies Resource;

// Chinook's eleventh table, playlist_track, is left out. It lists the tracks of each playlist, and its primary key has two
// columns (playlist_id and track_id). The README shows its resource.
const playlist = {
  model: 'playlist',
  primaryKey: { type: 'integer', column: 'playlist_id' },
  columns: { name: { type: 'string', null: true } },
  read: 'default',
  access: 'user',
  admin: {
    title: 'Playlists',
    group: 'Catalogue',
  },
} satisfies Resource;

// The business: only users with a login may read it.

/** The addresses and birth dates of employees stay private: columns that are not listed here are not served. */
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
  admin: {
    title: 'Employees',
    group: 'Business',
    label: '{first_name} {last_name}',
    list: ['last_name', 'first_name', 'title', 'reports_to', 'hire_date'],
    filters: ['title', 'reports_to', 'reports_to__last_name', 'hire_date'],
  },
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
  admin: {
    title: 'Customers',
    group: 'Business',
    label: '{first_name} {last_name}',
    list: ['last_name', 'first_name', 'company', 'city', 'country', 'support_rep'],
    search: ['first_name', 'last_name', 'company', 'email', 'city'],
    filters: ['country', 'city', 'company', 'support_rep'],
  },
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
  admin: {
    title: 'Invoices',
    group: 'Business',
    label: '#{id} {customer__first_name} {customer__last_name}',
    list: ['id', 'customer', 'invoice_date', 'billing_country', 'total'],
    search: ['customer__first_name', 'customer__last_name', 'billing_city', 'billing_country'],
    filters: ['customer', 'customer__country', 'billing_country', 'invoice_date', 'total'],
    dates: 'invoice_date',
  },
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
  admin: {
    title: 'Invoice lines',
    group: 'Business',
    label: '{track__name} × {quantity}',
    list: ['id', 'invoice', 'track', 'unit_price', 'quantity'],
    search: ['track__name'],
    filters: ['invoice', 'track__name', 'track__album__artist__name', 'quantity'],
  },
} satisfies Resource;

/** The table that users.sql adds. The user model must have the name `user`, but its table may have another name. */
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
  admin: {
    title: 'Users',
    group: 'Logins',
  },
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

/** Panels for the start page of the admin area: three SQL queries. */
export const panels = [
  {
    title: 'Sales by year',
    text: 'The totals of all invoices',
    async load({ query }) {
      const years = await query(`
        select extract(year from invoice_date) as year, sum(total) as total
        from invoice
        group by year
        order by year`);
      return {
        series: years.map(({ year, total }) => ({ label: year ?? '', value: Number(total) })),
        unit: 'USD',
      };
    },
  },
  {
    title: 'Best customers',
    text: 'By total spending',
    async load({ query }) {
      const customers = await query(
        `select first_name || ' ' || last_name as name, customer.country, sum(total) as spent
         from invoice
         join customer using (customer_id)
         group by customer.customer_id
         order by spent desc, customer.customer_id
         limit $1`,
        [5],
      );
      return {
        columns: ['Customer', 'Country', 'Spent (USD)'],
        rows: customers.map(({ name = null, country = null, spent = null }) => [name, country, spent]),
      };
    },
  },
  {
    title: 'Never sold',
    text: 'Tracks that are on no invoice',
    async load({ query }) {
      const [row] = await query(`
        select count(*) as tracks
        from track
        where not exists (select from invoice_line where invoice_line.track_id = track.track_id)`);
      return Number(row?.['tracks']);
    },
  },
] satisfies Panel[];
