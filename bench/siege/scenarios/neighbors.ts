// What many clients with costly requests take from one whose requests of the same kind are cheap.
import { setTimeout as sleep } from 'node:timers/promises';
import { addresses, besiege, holdRow, readRow, writeRows } from '../besiege.ts';
import { encode, openConnection, type Connection } from '../connection.ts';
import { PASSWORD } from '../../rows.ts';
import type { Flood, RequestShape } from '../jobs.ts';
import { atMost, median, type Row, type Scenario } from '../scenario.ts';
import type { Stage } from '../stage.ts';

const NEIGHBOR = '198.51.100.20';
/** A search that takes PostgreSQL about a second. */
const SEARCH = '/api/message/?content__ilike=%25e%25a%25zz%25';
/** Milliseconds between two requests of the neighbor. */
const PAUSE = 40;
/** Milliseconds in which an attack gets going. */
const RAMP = { full: 1_500, short: 800 };

/** What a client asks that takes part in no flood. */
type OwnRequest = Omit<RequestShape, 'body'> & { readonly body?: string };

interface Asked {
  /** Milliseconds. */
  readonly median: number;
  /** The share of answers other than 200. */
  readonly failures: number;
  readonly count: number;
}

/** One client that asks over and over. */
async function ask(
  port: number,
  { headers, ...parts }: OwnRequest,
  seconds: number,
  pause = PAUSE,
): Promise<Asked> {
  const request = encode({ ...parts, headers: { 'X-Forwarded-For': NEIGHBOR, ...headers } });
  const times: number[] = [];
  let failures = 0;
  let connection: Connection | undefined;
  for (const until = performance.now() + seconds * 1000; performance.now() < until; await sleep(pause)) {
    const started = performance.now();
    if (!connection?.isOpen()) connection = openConnection(port);
    const answer = await connection.ask(request).catch(() => undefined);
    times.push(performance.now() - started);
    if (answer?.status !== 200) failures += 1;
  }
  connection?.destroy();
  return { median: median(times), failures: failures / times.length, count: times.length };
}

interface Neighborhood {
  readonly name: string;
  readonly title: string;
  /** What the neighbor asks, and what the others do. */
  readonly own: OwnRequest;
  readonly others: RequestShape | readonly RequestShape[];
  readonly clients: number;
  /** The addresses that the requests of the others take in turn; else each of these clients keeps its own. */
  readonly from?: readonly string[];
  /** Milliseconds between two requests of the neighbor; else PAUSE. */
  readonly pause?: number;
  /** How the others ask. */
  readonly flood?: Pick<Flood, 'abandonAfter' | 'stagger'>;
  /** Whether the records of `LOCKED` are locked meanwhile. */
  readonly isLocked?: boolean;
  /** The most times the reference that the neighbor's median may take. */
  readonly limit: number;
}

/** Records and their users, who are none of the honest ones. */
const LOCKED = [101, 102, 103];

/** Runs something while somebody else holds the records locked. */
async function whileLocked<T>({ world }: Stage, run: () => Promise<T>): Promise<T> {
  const own = await world.sql.reserve();
  try {
    await own`begin`;
    await own`select from message where id = any(${LOCKED}) for update`;
    return await run();
  } finally {
    await own`rollback`;
    own.release();
  }
}

const changeOfLocked = (user: number, body: RequestShape['body'] = '{"content":"{n}"}'): RequestShape => ({
  method: 'PUT',
  path: `/api/message/${user}/`,
  headers: { 'Content-Type': 'application/json', Authorization: `Basic user${user}:${PASSWORD}` },
  body,
});

const floodOf = (
  port: number,
  clients: number,
  requests: RequestShape | readonly RequestShape[],
  from?: readonly string[],
): Flood => ({
  kind: 'flood',
  port,
  connections: clients,
  addresses: from ?? addresses(clients),
  keepsAddress: from === undefined,
  requests: [requests].flat(),
});

/** The networks of one customer (a /56), or more than are ever used. */
const networks = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `2001:db8:${(n >> 8).toString(16)}:${(n & 0xff).toString(16)}::1`);

const neighborhood = ({ name, title, isLocked = false, ...rest }: Neighborhood): Scenario => ({
  name,
  title,
  run: (stage) => (isLocked ? whileLocked(stage, () => askBeside(stage, rest)) : askBeside(stage, rest)),
});

async function askBeside(
  stage: Stage,
  { own, others, clients, from, pause, flood, limit }: Omit<Neighborhood, 'name' | 'title'>,
): Promise<Row[]> {
  const { port } = await stage.service();
  const seconds = stage.either(8, 3);
  await ask(port, own, 1); // warms up
  const before = await ask(port, own, stage.either(3, 1), pause);
  const attack = await stage.attack({ ...floodOf(port, clients, others, from), ...flood });
  await sleep(stage.either(RAMP.full, RAMP.short));
  const during = await ask(port, own, pause === undefined ? seconds : 2 * seconds, pause);
  await attack.stop();
  const note = `${during.median.toFixed(1)} ms, reference ${before.median.toFixed(1)} ms`;
  return [
    atMost('ratio', 'median of the neighbor', limit, during.median / before.median, '×', note),
    atMost('count', 'refused', 25, 100 * during.failures, '%', `of ${during.count}`),
  ];
}

const largeRecord: Scenario = {
  name: 'large-record',
  title: '20 addresses that read one large record',
  async run(stage) {
    const { sql } = stage.world;
    const [large] = await sql<{ id: number }[]>`
      insert into message (user_id, content) values (1, repeat('x', 900000)) returning id`;
    try {
      const path = `/api/message/${large?.id}/`;
      const siege = await besiege(stage, (port) => [floodOf(port, 20, { path })]);
      return [readRow(siege, 20), ...writeRows(stage, siege, 200)];
    } finally {
      await sql`delete from message where id = ${large?.id ?? 0}`;
    }
  },
};

const cookies: Scenario = {
  name: 'cookies',
  title: '64 addresses that ask for the login page with 10,000 cookies',
  async run(stage) {
    const Cookie = `admin-session=${'x'.repeat(43)}; ${'0=;'.repeat(10_000)}`;
    const request = { path: '/admin/-/login/', headers: { Cookie } };
    const siege = await besiege(stage, (port) => [floodOf(port, 64, request)]);
    return [readRow(siege, 20), ...writeRows(stage, siege, 500), holdRow(stage, siege.watched)];
  },
};

const userSearches: Scenario = {
  name: 'user-searches',
  title: 'one user with 4 slow searches at once, and another one with one',
  async run(stage) {
    const { port } = await stage.service();
    const headersOf = (name: string): { Authorization: string } => ({
      Authorization: `Basic ${name}:${PASSWORD}`,
    });
    const search = { path: SEARCH, headers: { ...headersOf('user5'), 'X-Forwarded-For': NEIGHBOR } };
    await ask(port, { ...search, path: '/api/message/1/' }, 1); // logs in
    const attack = await stage.attack({
      ...floodOf(port, 4, { path: SEARCH, headers: headersOf('user6') }),
      addresses: ['10.2.0.1'],
    });
    await sleep(stage.either(RAMP.full, RAMP.short));
    const { failures, count } = await ask(port, search, stage.either(20, 8));
    await attack.stop();
    return [atMost('count', 'searches of the other one that failed', 25, 100 * failures, '%', `of ${count}`)];
  },
};

/** Pages of up to 100 records, of many sizes, which never share a statement. */
const pagesOf = (model: string, headers: RequestShape['headers'] = {}): RequestShape[] =>
  Array.from({ length: 400 }, (_, n) => {
    const limit = 50 + (n % 51);
    const page = 1 + (n % Math.floor(1000 / limit));
    const ordering = n % 2 === 0 ? '' : '&ordering=-id';
    return { method: 'HEAD', path: `/api/${model}/?limit=${limit}&page=${page}${ordering}`, headers };
  });

const userPages: Scenario = {
  name: 'user-pages',
  title: 'one user with 1,500 connections that ask for pages of up to 100 records',
  async run(stage) {
    const pages = pagesOf('diary', { Authorization: `Basic user7:${PASSWORD}` });
    const siege = await besiege(
      stage,
      (port) => [{ ...floodOf(port, 1_500, pages), addresses: ['10.2.0.1'], isGradual: true }],
      { countsEnd: false },
    );
    return [readRow(siege, 30), ...writeRows(stage, siege, 500)];
  },
};

const lockedRows: Scenario = {
  name: 'locked-rows',
  title: '3 users whose records somebody else holds locked, with 4 changes each',
  async run(stage) {
    const jobs = (port: number): Flood[] =>
      LOCKED.map((user) => ({ ...floodOf(port, 4, changeOfLocked(user)), addresses: [`10.1.${user}.1`] }));
    return whileLocked(stage, async () => writeRows(stage, await besiege(stage, jobs), 500));
  },
};

const bulkPost: RequestShape = {
  method: 'POST',
  path: '/api/value/',
  headers: { 'Content-Type': 'application/json', Authorization: `Basic user7:${PASSWORD}` },
  body: { before: '[', repeat: '{"string":"bulk"},', times: 999, after: '{"string":"bulk"}]' },
};
/** A change of the record that belongs to the second user. */
const changeBy = (user: number, content = 'changed'): OwnRequest => ({
  method: 'PUT',
  path: '/api/message/2/',
  headers: {
    'Content-Type': 'application/json',
    Authorization: `Basic ${Buffer.from(`user${user}:${PASSWORD}`).toString('base64')}`,
  },
  body: JSON.stringify({ content }),
});

export const neighbors: readonly Scenario[] = [
  largeRecord,
  cookies,
  userSearches,
  userPages,
  lockedRows,
  neighborhood({
    name: 'locked-large-rows',
    title:
      'changes of 3 KB beside 3 users with 4 changes of 17 KB each of records that somebody else holds locked',
    own: changeBy(2, 'x'.repeat(3000)),
    others: LOCKED.map((user) =>
      changeOfLocked(user, { before: '{"content":"{n}', repeat: 'x', times: 16_500, after: '"}' }),
    ),
    clients: 12,
    from: LOCKED.map((user) => `10.1.${user}.1`),
    flood: { abandonAfter: 450, stagger: 40 },
    isLocked: true,
    limit: 20,
  }),
  neighborhood({
    name: 'browser-pages',
    title: '60 addresses with pages of 300 records for browsers, and one with small ones',
    own: { path: '/api/message/', headers: { Accept: 'text/html' } },
    others: { path: '/api/message/?limit=300', headers: { Accept: 'text/html' } },
    clients: 60,
    limit: 60,
  }),
  neighborhood({
    name: 'rare-requests',
    title:
      'one user with 20 connections that reads pages of 1,000 records, and a client that asks every 1.1 s',
    own: { path: '/api/message/1/' },
    others: {
      path: '/api/message/?limit=1000&id__gt={n}',
      headers: { Authorization: `Basic user7:${PASSWORD}` },
    },
    clients: 20,
    from: ['10.2.0.1'],
    pause: 1_100,
    limit: 10,
  }),
  neighborhood({
    name: 'costly-values',
    title: '20 addresses that make a search costly, and one for whom it is cheap',
    own: { path: '/api/message/?content__ilike=Message%201%25' },
    others: { path: '/api/message/?content__ilike=%25zz_z%25q{n}%25' },
    clients: 20,
    limit: 30,
  }),
  neighborhood({
    name: 'alternating-values',
    title: '20 addresses whose searches are cheap and costly in turn, and one for whom they are cheap',
    own: { path: '/api/message/?content__ilike=Message%201%25' },
    others: ['Message%201%25', '%25zz_z%25q{n}%25'].map((pattern) => ({
      path: `/api/message/?content__ilike=${pattern}`,
    })),
    clients: 20,
    limit: 30,
  }),
  neighborhood({
    name: 'new-clients',
    title: '20 connections that ask for pages of 300 records, each time from a new address',
    own: { path: '/api/message/', headers: { Accept: 'text/html' } },
    others: { path: '/api/message/?limit=300', headers: { Accept: 'text/html' } },
    clients: 20,
    from: networks(50_000),
    limit: 60,
  }),
  neighborhood({
    name: 'new-searches',
    title: '40 connections from the networks of one customer that make a search costly',
    own: { path: '/api/message/?content__ilike=Message%201%25' },
    others: { path: '/api/message/?content__ilike=%25zz_z%25q{n}%25' },
    clients: 40,
    from: networks(256),
    limit: 60,
  }),
  neighborhood({
    name: 'wide-pages',
    title:
      '64 connections of 4 addresses that ask for pages of wide records, and one client that reads single ones',
    own: { path: '/api/message/1/' },
    others: pagesOf('report'),
    clients: 64,
    from: addresses(4),
    limit: 30,
  }),
  neighborhood({
    name: 'forbidden-changes',
    title: 'one user with many slow writes, who tries to change a record, and its owner',
    own: changeBy(2),
    others: [bulkPost, bulkPost, changeBy(7)],
    clients: 20,
    from: ['10.2.0.1'],
    limit: 10,
  }),
  neighborhood({
    name: 'longer-reads',
    title: '60 addresses with reads of 10 ms and more, and one with brief ones',
    own: { path: '/api/message/?user=77' },
    others: { path: '/api/message/?id__lt=6000&content__ilike=%25zz_z%25q{n}%25&limit=7' },
    clients: 60,
    limit: 60,
  }),
];
