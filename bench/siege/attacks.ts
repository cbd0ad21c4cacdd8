// The attacks of `npm run siege`, with the limits that an honest client and the service must keep meanwhile.
import type { Shape } from '../client.ts';
import type { Flood, SlowClients } from '../worker.ts';
import type { People } from './people.ts';

export interface Limits {
  /** By-id p99 of the honest client, as a multiple of the reference. */
  readonly read?: number;
  /** Its reads per second, at least so many times the reference. */
  readonly readRate?: number;
  /** Its median write, milliseconds; the percentage of its writes that may fail (0); their rate, at least so many times the reference. */
  readonly write?: number;
  readonly failures?: number;
  readonly writeRate?: number;
  /** How long the event loop may be held in one piece, milliseconds of processor time. */
  readonly hold?: number;
  /** Megabytes of each process of the service (300). */
  readonly memory?: number;
  /** Milliseconds until the slowest refusal (that of `MAX_WAIT`, and a little), and until 95 % of them. */
  readonly refusal?: number;
  readonly refusals?: number;
  /** Kilobytes of the largest answer. */
  readonly largest?: number;
  /** Milliseconds of the oldest snapshot at the end, and how many there are: one for each stream. */
  readonly snapshot?: number;
  readonly snapshots?: number;
  /** The longest statement, as a multiple of the time that it takes alone, and how many such statements run at once. */
  readonly statement?: number;
  readonly atOnce?: number;
}

type Given = 'port' | 'timedAfter';
export type Job = Omit<Flood, Given> | Omit<SlowClients, Given>;

export interface More {
  /** Honest people meanwhile. */
  readonly people?: readonly People[];
  /** How often every connection to PostgreSQL is ended meanwhile. */
  readonly disconnects?: number;
  /** SQL that prepares the database. All records but those of the world are deleted afterwards. */
  readonly setup?: string;
  /** SQL of a statement whose time alone is compared. */
  readonly alone?: string;
  /** SQL whose locks another session holds meanwhile. */
  readonly locks?: string;
  readonly settings?: Readonly<Record<string, string>>;
  /** Milliseconds in which the attack gets going (1500), and seconds that it is measured (12). */
  readonly ramp?: number;
  readonly seconds?: number;
  /** Whether what the service does as the attackers leave does not count: thousands that close at once hold any Node.js. */
  readonly ignoresEnd?: boolean;
}

export type Attack = readonly [name: string, jobs: Job | readonly Job[], limits: Limits, more?: More];

/** So many client addresses, each in a network of its own. */
export const addresses = (count: number): string[] =>
  times(count, (n) => `10.${(n >> 8) & 255}.${n & 255}.1`);
export const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

export const flood = (
  connections: number,
  requests: Shape | readonly Shape[],
  more: Partial<Flood> = {},
): Job => ({
  connections,
  requests: [requests].flat(),
  ...more,
});
const slow = (connections: number, request: Shape | string, more: Partial<SlowClients> = {}): Job => ({
  kind: 'slow',
  connections,
  request,
  ...more,
});
/** From so many addresses, each of which keeps its connections; and by requests that take addresses in turn. */
const from = (count: number) => ({ from: addresses(count), keepsAddress: true });
const among = (count: number) => ({ from: addresses(count) });
/** A client whose median may be so many times the reference. */
const beside = (request: Shape, most: number, more: Partial<People> = {}): More => ({
  people: [{ requests: [request], times: most, refused: 25, ...more }],
});

// Requests that are as costly for PostgreSQL as an anonymous client can make them.
/** Patterns that are tried at every place of every text and match none. Together they fit the budget. */
const PATTERNS = times(12, (n) => `${encodeURIComponent(`%e%a%o%i%e%z${n.toString(36)}`)}{n}%25`);
const any = (parameter: string): string => PATTERNS.map((pattern) => `${parameter}=${pattern}`).join('&');
export const message = (query: string, headers = {}): Shape => ({ path: `/api/message/?${query}`, headers });
const HEAVY: readonly Shape[] = [
  any('content__ilike'),
  any('content__like'),
  `${any('content__ilike')}&ordering=-content`,
  `user__username__ilike=%25r%25&${any('content__ilike')}`,
  `${any('content__ilike')}&pub_date__gte=2024-01-01&ordering=user__username`,
].map((query) => message(query));
/** Searches that are cheap by their range, and then costly, in shapes that no client has asked for before. */
const DECEIVING = times(200, (n) =>
  [1, 1, 1, 500_000].map((last) =>
    message(`id__lte=${last}&${any('content__ilike')}&limit=${1 + n}&ordering=${n % 2 ? '-id' : 'id'}`),
  ),
).flat();
/** About a second. */
const SEARCH = message('content__ilike=%25e%25a%25zz{n}%25');
const CHEAP_SEARCH = message('content__ilike=Message%201%25');
const COSTLY_SEARCH = message('content__ilike=%25zz_z%25q{n}%25');

const TEN_MILLISECONDS = message('id__lt=6000&content__ilike=%25zz_z%25q{n}%25&limit=7');

const NDJSON = { Accept: 'application/x-ndjson' };
const HTML = { Accept: 'text/html' };
const STREAM = { path: '/api/message/', headers: NDJSON };
const ONE: Shape = { path: '/api/message/1/' };
const document = (limit: number): Shape => ({ path: `/api/document/?limit=${limit}` });
const asUser = (requests: readonly Shape[]): Shape[] => requests.map((one) => ({ ...one, as: 'user7' }));
/** Pages of up to 100 records, of many sizes, which never share a statement. */
const pagesOf = (model: string, as?: string): Shape[] =>
  times(400, (n) => {
    const limit = 50 + (n % 51);
    const page = 1 + (n % Math.floor(1000 / limit));
    const path = `/api/${model}/?limit=${limit}&page=${page}${n % 2 === 0 ? '' : '&ordering=-id'}`;
    return { method: 'HEAD', path, ...(as && { as }) };
  });

const put = (path: string, body: string, as = 'user60'): Shape => ({ method: 'PUT', path, body, as });
const post = (model: string, body: string, as = 'user7'): Shape => ({
  method: 'POST',
  path: `/api/${model}/`,
  body,
  as,
});
const value = (body: string): Shape => put('/api/value/1/', body);
const patch = (path: string): Shape => ({ ...put(path, '{"string":"{n}"}', 'user7'), method: 'PATCH' });
/** The same request by 20 users. */
const byAll = (method: string, path: string, body: string): Shape[] =>
  times(20, (n) => ({ method, path, body, as: `user${100 + n}` }));
const bulk = (record: string, count: number): string => `[${`${record},`.repeat(count - 1)}${record}]`;
const BULK = post('value', bulk('{"string":"bulk","integer":1}', 1_000));
/** JSON of a megabyte whose every second byte is a token. */
const MEGABYTE = `{"json":[${'1,'.repeat(500_000)}1]}`;
/** A change of a record of the second user. */
const change = (as: string, filler = ''): Shape => put('/api/message/2/', `{"content":"{n}${filler}"}`, as);

const LARGE_MESSAGE = "insert into message (id, user_id, content) values (900000, 1, repeat('x', 900000))";
/** Ten values with a megabyte of JSON each: 11 to 20. */
const LARGE_VALUES = `insert into value (id, json)
  select n, ('[' || repeat('1,', 500000) || '1]')::jsonb from generate_series(11, 20) n`;
const TEXTS = { message: 'content', folded: 'body', document: 'body', value: 'text' };
/** Ten records of each with 160 KB of control characters, which are a megabyte of JSON. */
const CONTROL_CHARACTERS = Object.entries(TEXTS)
  .map(([table, column]) => {
    const [owner, one] = table === 'message' ? ['user_id, ', '1, '] : ['', ''];
    return `insert into ${table} (${owner}id, ${column}) select ${one}n, repeat(chr(1), 160000) from generate_series(910000, 910009) n`;
  })
  .join(';');
const ofValues = (make: (path: string) => Shape): Shape[] => times(10, (n) => make(`/api/value/${11 + n}/`));
/** A trigger that lets each write take so many milliseconds. */
const slowed = (on: 'insert' | 'update', milliseconds: number): More => ({
  setup: `${LARGE_VALUES};
    create function slow() returns trigger language plpgsql as
      $$ begin perform pg_sleep(${milliseconds} / 1000.0); return null; end $$;
    create trigger slow after ${on} on value for each row execute function slow()`,
});
const SLOWED = { read: 5, write: 50, writeRate: 0.6 };

/** Records and their users, who are none of the honest ones. */
const LOCKS = 'select from message where id in (101, 102, 103) for update';
const changeLocked = (filler = ''): Shape[] =>
  [101, 102, 103].map((n) => put(`/api/message/${n}/`, `{"content":"{n}${filler}"}`, `user${n}`));

/** Filters on a value of a megabyte, whose comparison PostgreSQL cannot cancel. */
const pattern = (length: number, around = '%25'): string => `${around}${'a'.repeat(length - 3)}b${around}`;
const patterns = [256, 8000].flatMap((n) => ['like', 'ilike'].map((one) => `body__${one}=${pattern(n)}`));
const arrays = (count: number): string => `[${Array<string>(count).fill('[1]').join()}]`;
const containments = [24, 1900].map((count) => `json__contains=${arrays(count)}`);
const ofLarge = (model: string, filters: readonly string[]): Shape[] =>
  filters.map((filter) => ({ path: `/api/${model}/?id=1000&${filter}` }));
const UNCANCELABLE = { read: 20, statement: 4, atOnce: 8 };
const LARGE_TEXT = {
  setup: "insert into document (id, body) values (1000, repeat('a', 1048576))",
  alone: `select from document where id = 1000 and body ilike '${pattern(256, '%')}'`,
};
const LARGE_JSON = {
  setup: "insert into value (id, json) values (1000, ('[' || repeat('[0],', 262144) || '[1]]')::jsonb)",
  alone: `select from value where id = 1000 and json @> '${arrays(24)}'`,
};

/** A PUT of 20 arrays, 1 MB in all. */
const arraysOf = (element: string): Shape => {
  const array = Array(8_000).fill(element).join();
  return put('/api/measure/1,2026-01-01/', `{${times(20, (n) => `"values${n}":[${array}]`).join()}}`);
};
/** Bodies just below the size from which they wait for a slot. */
const FAULTY_BODIES = [
  `{"values0":[${'1,'.repeat(8_000)}1],"nothing":1}`,
  `{${times(2_000, (n) => `"${n}":0`).join()}}`,
].map((body) => post('measure', body));
const KEYS = [
  `id__in=${encodeURIComponent(times(250, (n) => `"${n},2026-01-01"`).join())}`,
  `id__gt=${'%31'.repeat(2_000)},2026-01-01`,
  `values0__contains=${encodeURIComponent(times(2_500, String).join())}`,
  `values0__contains=${Array(890).fill('1e131071').join()}`,
  `cursor=${'A'.repeat(8_000)}`,
].map((query) => ({ path: `/api/measure/?${query}`, headers: { Prefer: 'paging=cursor' } }));
/** As many parameters as fit into a query: of one name, and of many. */
const PARAMETERS = ['a&'.repeat(4_000), times(1_800, (n) => n.toString(36)).join('&')];
const ERRORS: readonly Shape[] = [
  { path: '/api/message/999999999/' },
  { path: '/api/nothing/' },
  message('nothing=1'),
  value('{"nothing":1}'),
  { method: 'POST', path: '/api/value/', body: '{' },
  { method: 'FOO', path: '/api/value/' },
];
const LISTED = [
  { path: '/api/message/{n}/', headers: { 'If-None-Match': '"'.repeat(2_000) } },
  ...[',', 'br', 'brz,'].map((text) => message('', { 'Accept-Encoding': text.repeat(31_000 / text.length) })),
];
const FORMS = ['-/login/', 'message/-/add/', 'message/1/', 'message/-/bulk/'].map((page) => ({
  method: 'POST',
  path: `/admin/${page}`,
  headers: { 'Content-Type': 'application/x-www-form-urlencoded', Origin: 'http://127.0.0.1' },
  body: 'a&'.repeat(1_500_000),
}));
const UNKNOWN_FIELDS = JSON.stringify(Object.fromEntries(times(1_300, (n) => [`x${n}`, 1])));

/** With much memory, Node.js would leave hundreds of megabytes to its garbage collector. */
const SMALL_HEAP = { settings: { NODE_OPTIONS: '--max-old-space-size=300' }, ignoresEnd: true };
const CHUNKED = 'POST /api/note/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
const TINY_CHUNKS = `${CHUNKED}${'1\r\nx\r\n'.repeat(16_000)}0\r\n\r\n`;
const MANY_HEADERS = Object.fromEntries(times(3_500, (n) => [`h${n.toString(36)}`, '']));
/** Once all connections are there. */
const STEADY = { ...SMALL_HEAP, ramp: 4_000 };
const FROM_66 = { reopens: true, localAddress: '127.0.0.66' };
const UNREAD = { rate: 0, ...among(20) };
/** Each client of others asks for a short stream. */
const SHORT_STREAMS: More = {
  seconds: 80,
  people: [
    {
      requests: [message('id__lte=50', NDJSON)],
      from: times(60, (n) => `198.51.100.${20 + n}`),
      pause: 500,
      refused: 10,
    },
  ],
};
const NEW_CONNECTIONS: People = {
  requests: [{ path: '/healthz', headers: { Connection: 'close' } }],
  pause: 100,
  median: 300,
};
const WRONG_LOGIN: Shape = { path: '/api/diary/', as: 'user{n}:wrong {n}' };
const GRADUAL = { pause: 1000, stagger: 1 };
const CROWD = [
  flood(500, HEAVY, GRADUAL),
  flood(1_250, [{ path: '/api/message/{n}/' }, { path: '/api/message/' }, { path: '/healthz' }], GRADUAL),
  flood(250, WRONG_LOGIN, GRADUAL),
];

const FIRST = { read: 5, write: 50 };
const MANY = { read: 20, write: 500, failures: 1 };
const PARSED = { read: 10, hold: 50 };
const WRITTEN = { read: 10, write: 50 };
const ALL = { read: 20, write: 200 };

const LARGE_PAGE: Shape = { path: '/api/document/?limit=100' };
const OPENAPI: Shape = { path: '/api/openapi.json' };
const USER_STREAM = flood(1, { ...STREAM, as: 'user7' });
const COUNTED = HEAVY.map((shape) => ({ ...shape, headers: { Prefer: 'count=exact' } }));
const STREAMED = HEAVY.map((shape) => ({ ...shape, headers: NDJSON }));
const ENDLESS = 'POST /api/message/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000000\r\n\r\n';
const HEAD = `GET /healthz HTTP/1.1\r\nHost: x\r\n${`X: ${'x'.repeat(280)}\r\n`.repeat(100)}`;
const login = (n: number): Shape => ({ path: '/api/diary/', as: `user${n}` });
const LOGINS = { pause: 250, slowest: 1000 };

/** In the order of the page of results. */
export const ATTACKS: readonly Attack[] = [
  ['none', [], { ...FIRST, hold: 50 }],

  // Filters that search everything: held open, left after 30 ms, from one address and from many, and some that seem cheap first.
  ['heavy-held', flood(20, HEAVY), FIRST],
  ['heavy-abandoned', flood(4, HEAVY, { stagger: 50, pause: 170, abandonAfter: 30 }), FIRST],
  ['heavy-drip', flood(1, HEAVY, { pause: 970, abandonAfter: 30 }), FIRST],
  ['heavy-many', flood(250, HEAVY), { read: 10, write: 200 }],
  ['heavy-spread', flood(64, HEAVY, from(64)), MANY],
  ['heavy-deceiving', flood(60, DECEIVING, from(60)), MANY],
  ['heavy-counted', flood(20, COUNTED), FIRST],
  // Comparisons with a value of 1 MB, which PostgreSQL cannot cancel.
  ['patterns', flood(20, ofLarge('document', patterns), from(20)), UNCANCELABLE, LARGE_TEXT],
  ['containment', flood(20, ofLarge('value', containments), from(20)), UNCANCELABLE, LARGE_JSON],
  // A client with cheap requests beside others whose requests of the same kind are costly.
  ['costly-values', flood(20, COSTLY_SEARCH, from(20)), {}, beside(CHEAP_SEARCH, 30)],
  ['alternating-values', flood(20, [CHEAP_SEARCH, COSTLY_SEARCH], from(20)), {}, beside(CHEAP_SEARCH, 30)],
  ['longer-reads', flood(60, TEN_MILLISECONDS, from(60)), {}, beside(message('user=77'), 60)],
  ['browser-pages', flood(60, message('limit=300', HTML), from(60)), {}, beside(message('', HTML), 60)],
  ['wide-pages', flood(64, pagesOf('report'), among(4)), {}, beside(ONE, 30)],
  [
    'user-searches',
    flood(4, { ...SEARCH, as: 'user6' }),
    {},
    { ...beside({ ...SEARCH, as: 'user5' }, 10), seconds: 20 },
  ],

  // Pages: many, long, wide and large ones.
  ['small-pages', flood(20, message('limit=40', HTML)), FIRST],
  [
    'long-pages',
    flood(
      20,
      times(5, (n) => message(`limit=200&page=${n + 1}`)),
    ),
    { read: 6, write: 50 },
  ],
  ['user-pages', flood(1_500, pagesOf('diary', 'user7')), { read: 30, write: 500 }, { ignoresEnd: true }],
  ['large-record', flood(20, { path: '/api/message/900000/' }, from(20)), ALL, { setup: LARGE_MESSAGE }],
  [
    'large-records',
    flood(
      20,
      ofValues((path) => ({ path })),
    ),
    FIRST,
    { setup: LARGE_VALUES },
  ],
  [
    'full-pages',
    flood(
      40,
      times(4, (n) => document(27 + n)),
      from(20),
    ),
    { read: 20, write: 500, memory: 500 },
  ],
  // Records whose JSON is six times as long, which short reads share statements with.
  [
    'records-together',
    flood(
      50,
      Object.keys(TEXTS).flatMap((name) =>
        times(10, (n) => ({ path: `/api/${name}/${910_000 + n}/`, headers: { 'If-None-Match': '*' } })),
      ),
    ),
    ALL,
    { setup: CONTROL_CHARACTERS },
  ],
  [
    'page-burst',
    flood(
      200,
      times(50, (n) => document(51 + n)),
      { pause: 1000 },
    ),
    { ...FIRST, hold: 50 },
  ],
  ['openapi', flood(64, OPENAPI, from(64)), { ...MANY, hold: 50 }],

  // Streams and answers that are left, read slowly, or not at all.
  ['left-streams', flood(20, STREAMED, { ...among(6), abandonAfter: 300 }), FIRST],
  ['fast-streams', flood(12, message('id__lte=20000', NDJSON), among(5_000)), FIRST],
  ['streams-and-filters', [USER_STREAM, flood(2, asUser(HEAVY))], { read: 6, write: 50 }],
  ['streams-of-one', slow(8, STREAM, { rate: 32_768 }), { snapshots: 2 }, { seconds: 2 }],
  // Slower than a client may read on average.
  [
    'slow-streams',
    slow(8, STREAM, { rate: 4_096, ...among(8) }),
    { snapshot: 110_000 },
    { ...SHORT_STREAMS, seconds: 130 },
  ],
  ['unread-pages', slow(10, LARGE_PAGE, { rate: 0 }), { read: 5, hold: 50 }],
  ['unread-small-pages', slow(40, document(20), { rate: 0 }), { read: 5, hold: 50, memory: 500 }],
  [
    'unread-documents',
    slow(1_500, OPENAPI, { rate: 0, times: 16, ...among(500) }),
    { read: 20 },
    { ramp: 40_000 },
  ],
  [
    'unread-bodies',
    slow(20, STREAM, { ...UNREAD, behind: ENDLESS, endless: '0'.repeat(65_536) }),
    { read: 20 },
  ],
  ['unread-chunks', slow(20, STREAM, { ...UNREAD, behind: TINY_CHUNKS.repeat(15) }), { read: 20 }],

  // Writes: of one record, slow ones, locked ones, large ones, many at a time.
  [
    'hot-record',
    flood(20, byAll('PATCH', '/api/value/11/', '{"string":"{n}"}'), among(20)),
    SLOWED,
    slowed('update', 80),
  ],
  [
    'slow-posts',
    flood(20, byAll('POST', '/api/value/', '{"string":"{n}"}').slice(0, 3), among(3)),
    SLOWED,
    slowed('insert', 250),
  ],
  ['locked-rows', flood(12, changeLocked(), among(3)), { write: 500 }, { locks: LOCKS }],
  ['forbidden-changes', flood(20, [BULK, BULK, change('user7')]), {}, beside(change('user2'), 10)],
  ['large-posts', flood(20, post('value', MEGABYTE)), { read: 6, write: 50 }],
  [
    'large-posts-of-many',
    flood(20, byAll('POST', '/api/value/', MEGABYTE), among(20)),
    { read: 12, write: 50 },
  ],
  ['large-patches', flood(20, ofValues(patch)), FIRST, { setup: LARGE_VALUES }],
  ['bulk-posts', flood(20, BULK), WRITTEN],
  ['posts-of-20', flood(20, post('diary', bulk('{"entry":"bulk"}', 20))), { read: 6, write: 50 }],
  ['posts-of-100', flood(20, post('diary', bulk('{"entry":"bulk"}', 100))), { read: 6, write: 50 }],

  // Texts that are long, or costly to parse: bodies, filters, headers, forms; and errors.
  [
    'bodies',
    flood(30, [
      value(`{"nosuch":[${'1,'.repeat(500_000)}1]}`),
      value(`{"json":[${'1e999,'.repeat(170_000)}1]}`),
    ]),
    PARSED,
  ],
  [
    'deep-json',
    flood(
      30,
      ['[', '{"a":'].map((text) => value(`{"json":${text.repeat(1_000_000 / text.length)}`)),
    ),
    PARSED,
  ],
  ['arrays', flood(10, ['1.5', '"1.5"', '"x"', '1e999'].map(arraysOf)), PARSED],
  ['unstorable-json', flood(5, value(`{"json":[${String.raw`"\ud800",`.repeat(110_000)}1]}`)), WRITTEN],
  ['user-bodies', flood(20, FAULTY_BODIES), { ...WRITTEN, hold: 50 }],
  ['keys', flood(20, KEYS), PARSED],
  [
    'orderings',
    flood(20, asUser([{ path: `/api/diary/?ordering=${','.repeat(8_000)}` }])),
    { ...WRITTEN, hold: 50 },
  ],
  ['long-query', flood(8, { path: `/api/wide/?column0__ne=${'%22'.repeat(2_600)}`, headers: HTML }), PARSED],
  [
    'error-pages',
    flood(
      64,
      PARAMETERS.map((query) => message(query, HTML)),
      from(64),
    ),
    { ...MANY, hold: 50 },
  ],
  ['errors', flood(64, ERRORS), { ...MANY, hold: 50 }],
  ['listed-headers', flood(20, LISTED, from(20)), { ...WRITTEN, hold: 50 }],
  [
    'cookies',
    flood(64, { path: '/admin/-/login/', headers: { Cookie: '0=;'.repeat(10_000) } }, from(64)),
    { ...MANY, hold: 50 },
  ],
  ['forms', flood(4, FORMS, { pause: 100 }), { read: 5, hold: 50, largest: 100 }],

  // Connections: many, short ones, requests sent ahead, heads and bodies that are slow or costly.
  [
    'crowd',
    CROWD,
    { readRate: 0.5, write: 500, failures: 5, refusals: 100, hold: 50 },
    { ignoresEnd: true, ramp: 5_000 },
  ],
  ['churn', flood(30, message('limit=100', HTML), { abandonAfter: 40 }), {}, { people: [NEW_CONNECTIONS] }],
  ['pipelining', slow(1, { path: '/healthz' }, { first: SEARCH, times: 100_000 }), { read: 5, hold: 100 }],
  // Node.js makes objects for all requests of a packet: a bare server that destroys each connection at its 65th unanswered request
  // takes 12 ms of processor time for one, and at least 670 MB for 500. A proxy in front (deploy/nginx.conf) never sends requests
  // ahead.
  [
    'many-pipelines',
    slow(500, ONE, { first: SEARCH, times: 3_000 }),
    { ...ALL, memory: 400 },
    { ignoresEnd: true, ramp: 10_000 },
  ],
  ['tiny-chunks', slow(32, TINY_CHUNKS, { reopens: true }), ALL],
  ['many-headers', flood(32, { path: '/healthz', headers: MANY_HEADERS }), { ...ALL, hold: 50 }],
  ['withheld-heads', slow(1_000, message('limit=1'), { withheld: 1 }), { ...ALL, hold: 50 }, SMALL_HEAP],
  ['withheld-bytes', slow(1_000, value(UNKNOWN_FIELDS), { withheld: 1 }), { ...ALL, hold: 50 }, SMALL_HEAP],
  ['unfinished-heads', times(2, () => slow(6_000, HEAD, FROM_66)), { ...ALL, hold: 50, memory: 400 }, STEADY],

  // Wrong logins from everywhere; meanwhile, new names log in from a known address, and known names from new addresses.
  [
    'login-flood',
    flood(200, WRONG_LOGIN, { ...among(4_000), pause: 100 }),
    { read: 5 },
    {
      people: [
        { ...LOGINS, requests: times(60, (n) => login(600 + n)), before: times(8, (n) => login(500 + n)) },
        {
          ...LOGINS,
          slowest: 8000, // they wait for their turn among the addresses of the flood
          requests: times(8, (n) => login(500 + n)),
          from: times(60, (n) => `198.51.100.${30 + n}`),
        },
      ],
    },
  ],
];
