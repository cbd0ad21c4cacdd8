// What is measured. Every server gets the very same requests: the two that do not authenticate ignore the credentials,
// and Vitrine ignores `X-User-Id`.
import { randomUUID } from 'node:crypto';
import type { Shape } from './client.ts';
import { MESSAGES, OWNED, USERS } from './messages.ts';
import { message, user } from '../src/resources/registry.ts';

export const CONNECTIONS = 16;
const PAGE = 20;
/** How many different requests a connection goes through, over and over. */
const VARIETY = 500;
export const BASE = '/api/message/';

export interface Row {
  readonly name: string;
  readonly status: number;
  /** A page by cursor whose link to the next one is given to `requests`. */
  readonly linkOn?: string;
  /** Connections, if not as many as usual. */
  readonly connections?: number;
  /** The requests of one connection, which are the same in every run. */
  readonly requests: (connection: number, link: string) => readonly Shape[];
}

/** Whole numbers from 1 to `most` that look random (a linear congruential generator). */
export function numbers(seed: number, most: number): number[] {
  let state = seed + 1;
  return Array.from({ length: VARIETY }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return 1 + Math.floor((state / 2 ** 32) * most);
  });
}

/** GETs of paths, the same for all connections or made for each. */
export const reading = (
  name: string,
  paths: (connection: number) => readonly string[],
  headers = {},
): Row => ({
  name,
  status: 200,
  requests: (connection) => paths(connection).map((path) => ({ path, headers })),
});

const text = (verb: string, n: number, connection: number): string =>
  `${verb} ${n} over connection ${connection}, of about the same length as the messages that are there.`;

/** A request of a user. */
export const writing = (method: 'POST' | 'PUT', id: number, path: string, fields: object): Shape => ({
  method,
  path,
  as: `user${id}`,
  headers: { 'X-User-Id': String(id) },
  body: JSON.stringify(fields),
});

/** Each connection writes as a user of its own, so that they never wait for each other's rows. */
const post = (connection: number): Shape[] =>
  Array.from({ length: VARIETY }, (_, n) =>
    writing('POST', 1 + connection, BASE, {
      user_id: 1 + connection,
      content: text('Posted', n, connection),
    }),
  );

/** Goes round some messages of a user, with a text that differs from the one that is there. */
const put = (connection: number, id = 1 + connection, records = OWNED): Shape[] =>
  Array.from({ length: VARIETY }, (_, n) =>
    writing('PUT', id, `${BASE}${id + (n % records) * USERS}/`, { content: text('Edited', n, connection) }),
  );

/** Records that all connections change, as one user: they wait for each other's locks. */
export const CONTESTED = 40;

export const byId = (size: number): Row =>
  reading('by id', (connection) => numbers(connection, size).map((id) => `${BASE}${id}/`));
export const FIRST_PAGE = reading('first page', () => [BASE]);
export const POST: Row = { name: 'POST', status: 201, requests: post };
export const PUT: Row = { name: 'PUT', status: 200, requests: (connection) => put(connection) };

/** Measured on all servers. */
export const ROWS: readonly Row[] = [
  FIRST_PAGE,
  byId(MESSAGES),
  { ...byId(MESSAGES), name: 'by id over 64 connections', connections: 64 },
  reading('by foreign key', (connection) => numbers(connection, USERS).map((id) => `${BASE}?user=${id}`)),
  reading('by joined column', (connection) =>
    numbers(connection, USERS).map((id) => `${BASE}?user__username=user${id}`),
  ),
  reading('last page', () => [`${BASE}?page=${MESSAGES / PAGE}`]),
  POST,
  PUT,
  {
    name: `PUT over ${CONTESTED} records`,
    status: 200,
    requests: (connection) => put(connection, 1, CONTESTED),
  },
];

const LARGE = 5_000_000;
/** Records of one POST. */
export const MANY = 1000;

/** Measured on Vitrine alone, each beside another row of its own. */
export interface Pair {
  readonly row: Row;
  readonly base: Row;
  /** How many requests of `base` do the work of one of `row`. */
  readonly work: number;
  readonly goal: string;
}

const CURSORS = { Prefer: 'paging=cursor' };
const keys = (name: string, pathOf: (number: number) => string): Row =>
  reading(name, (connection) => numbers(connection, MESSAGES).map(pathOf));

/** GETs of a user of each connection. */
const readingAs = (name: string, paths: (connection: number) => readonly string[]): Row => ({
  name,
  status: 200,
  requests: (connection) =>
    paths(connection).map((path) => ({ path, as: `user${1 + connection}`, headers: {} })),
});

/** POSTs with a header that differs in each of them. */
const postWith = (name: string, header: string): Row => ({
  ...POST,
  name,
  requests: (connection) => {
    // Each run starts from other numbers.
    const value = `${randomUUID()}-{n}`;
    return post(connection).map((shape) => ({ ...shape, headers: { ...shape.headers, [header]: value } }));
  },
});

export const PAIRS: readonly Pair[] = [
  {
    base: readingAs("a user's first page by filter", (connection) => [
      `/api/for_users/?user=${1 + connection}`,
    ]),
    row: readingAs('the same by a rule about rows', () => ['/api/own/']),
    work: 1,
    goal: 'at least 0.90',
  },
  {
    base: readingAs('by id as a user', (connection) =>
      numbers(connection, MESSAGES).map((n) => `/api/for_users/${n}/`),
    ),
    row: readingAs('the same with identity', (connection) =>
      numbers(connection, MESSAGES).map((n) => `/api/identified/${n}/`),
    ),
    work: 1,
    goal: 'at least 0.60',
  },
  {
    base: reading('first page by cursor', () => [BASE], CURSORS),
    row: {
      name: 'page 25,000 by cursor',
      status: 200,
      linkOn: `${BASE}?page=${MESSAGES / PAGE - 1}`,
      requests: (_, link) => [{ path: link, headers: CURSORS }],
    },
    work: 1,
    goal: 'at least 0.90',
  },
  {
    base: keys('by a key of one column', (n) => `/api/single/${n}/`),
    row: keys(
      'by a key of two columns',
      (n) => `/api/several/${1 + Math.floor((n - 1) / OWNED)},${1 + ((n - 1) % OWNED)}/`,
    ),
    work: 1,
    goal: 'at least 0.90',
  },
  {
    base: reading(`page of ${LARGE.toLocaleString('en')} rows`, () => ['/api/large/']),
    row: reading('the same with count=estimated', () => ['/api/large/'], { Prefer: 'count=estimated' }),
    work: 1,
    goal: 'PostgreSQL: under 5,000 µs',
  },
  {
    base: postWith('POST without a key', 'X-Request-Id'),
    row: postWith('POST with an Idempotency-Key', 'Idempotency-Key'),
    work: 1,
    goal: 'at least 0.85',
  },
  {
    base: { ...POST, name: 'POST of one record' },
    row: {
      name: `POST of ${MANY.toLocaleString('en')} records`,
      status: 201,
      connections: 4,
      requests: (connection) => {
        const content = (n: number): string => text('Posted', n, connection);
        const records = Array.from({ length: MANY }, (_, n) => ({
          user_id: 1 + connection,
          content: content(n),
        }));
        return [writing('POST', 1 + connection, BASE, records)];
      },
    },
    work: MANY,
    goal: 'at least 15',
  },
];

const entry = {
  user: { type: 'foreignKey', references: 'user' },
  number: { type: 'integer' },
  content: { type: 'text' },
  pub_date: { type: 'datetime', default: 'now' },
};
/** Further resources on the table of messages. */
const ofMessages = {
  columns: message.columns,
  table: 'message',
  methods: ['GET'],
  read: 'user',
  admin: { hidden: true },
};

/** The registry of the pairs, and SQL that fills its tables. */
export const PAIR_REGISTRY: readonly object[] = [
  user,
  message,
  { model: 'single', columns: entry },
  { model: 'several', primaryKey: { columns: ['user', 'number'] }, columns: entry },
  { model: 'large', columns: { number: { type: 'integer' } } },
  { ...ofMessages, model: 'for_users' },
  { ...ofMessages, model: 'own', rows: { read: 'user=$me' } },
  { ...ofMessages, model: 'identified', identity: true },
];
export const PAIR_TABLES = [
  ...['single', 'several'].map(
    (table) => `insert into ${table} (user_id, number, content, pub_date)
      select 1 + (n - 1) / ${OWNED}, 1 + (n - 1) % ${OWNED},
        'Entry ' || n || ': what people write to each other is mostly about as long as this is.',
        timestamp '2024-01-01' + n * interval '1 minute'
      from generate_series(1, ${MESSAGES}) n`,
  ),
  `insert into large (number) select n from generate_series(1, ${LARGE}) n`,
  'vacuum (analyze)',
];
