// Rows that are measured on Vitrine alone, each beside another one of its own.
import { BASE, get, MESSAGES, numbers, PAGE, post, USERS, writerOf, writing, type Row } from './rows.ts';

/** Rows of the table whose count is estimated. */
export const LARGE = 5_000_000;
/** Records of one POST. */
export const MANY = 1000;

export interface Pair {
  readonly row: Row;
  readonly base: Row;
  /** How many requests of `base` do the work of one of `row`. */
  readonly work: number;
  readonly goal: string;
}

const CURSORS = { Prefer: 'paging=cursor' };
const NUMBERS = MESSAGES / USERS;

/** Reads of the same records by keys of one column and of several; see `fillPairs`. */
const entries = (name: string, idOf: (number: number) => string): Row => ({
  name,
  status: 200,
  requests: (connection) => numbers(connection, MESSAGES).map((n) => get(idOf(n))),
});

function postMany(connection: number): ReturnType<typeof post> {
  const records = Array.from({ length: MANY }, (_, n) => ({
    user_id: writerOf(connection),
    content: `Posted ${n} over connection ${connection}, of about the same length as the messages that are there.`,
  }));
  return [writing('POST', connection, BASE, records)];
}

export const PAIRS: readonly Pair[] = [
  {
    base: { name: 'first page by cursor', status: 200, requests: () => [get(BASE, CURSORS)] },
    row: {
      name: 'page 25,000 by cursor',
      status: 200,
      linkOn: `${BASE}?page=${MESSAGES / PAGE - 1}`,
      requests: (_connection, link) => [get(link, CURSORS)],
    },
    work: 1,
    goal: 'at least 0.90',
  },
  {
    base: entries('by a key of one column', (n) => `/api/single/${n}/`),
    row: entries(
      'by a key of two columns',
      (n) => `/api/several/${1 + Math.floor((n - 1) / NUMBERS)},${1 + ((n - 1) % NUMBERS)}/`,
    ),
    work: 1,
    goal: 'at least 0.90',
  },
  {
    base: {
      name: `page of ${LARGE.toLocaleString('en')} rows`,
      status: 200,
      requests: () => [get('/api/large/')],
    },
    row: {
      name: 'the same with count=estimated',
      status: 200,
      requests: () => [get('/api/large/', { Prefer: 'count=estimated' })],
    },
    work: 1,
    goal: 'PostgreSQL: under 5,000 µs',
  },
  {
    base: { name: 'POST of one record', status: 201, requests: post },
    row: {
      name: `POST of ${MANY.toLocaleString('en')} records`,
      status: 201,
      connections: 4,
      requests: postMany,
    },
    work: MANY,
    goal: 'at least 15',
  },
];
