// Texts that make careless parsers slow, and every place where an anonymous client or a user can put one.
import { basic, type Request } from '../client.ts';

/** The first of more than 20,000 Chinese characters. */
const FIRST_HAN = 0x4e00;

/** Texts of about so many bytes: repeated ones, and others. */
const REPEATED = [
  ...[
    '"',
    ',',
    '\\',
    '[',
    "'",
    '{"a":',
    'a=a;',
    '%_',
    '"a",',
    '%41',
    'e\u0301',
    'a/b;q=0.1,',
    '0',
    ':1',
    ' ',
  ],
] as const;
const TEXTS: readonly ((size: number) => string)[] = [
  ...REPEATED.map((text) => (size: number) => text.repeat(size / text.length)),
  (size) => `${'1'.repeat(size)}x`,
  (size) => `${'1'.repeat(size / 2)}.${'1'.repeat(size / 2 - 2)}x`,
  (size) => `0.${'0'.repeat(size - 4)}e`,
  (size) => `1e${'9'.repeat(size - 2)}`,
  (size) => `${' '.repeat(size - 1)}x`,
  (size) => `x${'\t'.repeat(size - 2)}x`,
  (size) => `2024-${'-'.repeat(size - 6)}1`,
  (size) => `a/a;q=${' '.repeat(size - 9)}x y`,
  (size) => Array.from({ length: size / 9 }, (_, n) => encodeURIComponent(han(n))).join(''),
];
const han = (n: number): string => String.fromCharCode(FIRST_HAN + (n % 20_000));

const COLUMNS = 'string text integer bigint float decimal boolean datetime date time uuid json'.split(' ');
const HEADERS =
  'Accept Accept-Encoding Authorization Content-Type Cookie If-Match If-None-Match Origin Prefer X-Forwarded-For X-Forwarded-Proto User-Agent'.split(' '); // prettier-ignore

/** The most of a query string, of a header and of a body that gets through. */
const [QUERY, HEADER, BODY] = [8000, 30_000, 1_000_000];

const CLIENT = { 'X-Forwarded-For': '203.0.113.1' };
const USER = { 'X-Forwarded-For': '203.0.113.2', Authorization: basic('user77') };

/** As much of a text, encoded, as fits; and what of it a header may hold. */
const encoded = (make: (size: number) => string): string =>
  encodeURIComponent(make(QUERY).toWellFormed()).slice(0, QUERY).replace(/%.?$/, '');
const latin = (text: string): string => text.replace(/[^\t -~]/g, '~').trim();

type Make = (size: number) => string;
type Place = readonly [name: string, request: (make: Make) => Request];

const get = (name: string, path: (text: string) => string, header?: string): Place => [
  name,
  (make) => ({
    path: path(encoded(make)),
    headers: { ...CLIENT, ...(header && { [header]: latin(make(HEADER)) }) },
  }),
];
/** A body of this type, in which `…` is the text. */
const send = (name: string, type: string, body: string, path = '/api/value/', size = BODY): Place => [
  name,
  (make) => ({
    method: path === '/api/value/1/' ? 'PUT' : 'POST',
    path,
    headers: { ...USER, 'Content-Type': latin(type.replace('…', make(HEADER))) },
    // Between quotes of JSON, the text is escaped.
    body: body
      .replace('"…"', (text) => (type === JSON_TYPE ? JSON.stringify(make(size)) : text))
      .replaceAll('…', () => make(size)),
  }),
];
const JSON_TYPE = 'application/json';
const [URLENCODED, MULTIPART] = ['application/x-www-form-urlencoded', 'multipart/form-data; boundary='];
const PART = '--b\r\nContent-Disposition: form-data; name="';

const PLACES: readonly Place[] = [
  ...COLUMNS.flatMap((column) => [
    ...['', '__in', '__like', '__gte'].map((operator) =>
      get(`filter ${column}${operator}`, (text) => `/api/value/?${column}${operator}=${text}`),
    ),
    send(`text in a body, ${column}`, JSON_TYPE, `{"${column}":"…"}`, '/api/value/1/', BODY / 2),
    send(`value in a body, ${column}`, JSON_TYPE, `{"${column}":…}`, '/api/value/1/'),
  ]),
  ...HEADERS.map((name) => get(`header ${name}`, () => '/api/message/1/', name)),
  get('Host of a page', () => '/api/', 'Host'),
  get('name of a filter', (text) => `/api/value/?${text}=1`),
  get('ordering', (text) => `/api/value/?ordering=${text}`),
  get('key of a record', (text) => `/api/value/${text}/`),
  get('path', (text) => `/${text}/`),
  get('path of the admin area', (text) => `/admin/${text}`),
  send('whole body', JSON_TYPE, '…'),
  send('form of a record', URLENCODED, 'data=…'),
  send('login form', URLENCODED, 'username=…&password=…', '/admin/-/login/', 30_000),
  send('part of a form', `${MULTIPART}b`, `${PART}data"\r\n\r\n…\r\n--b--\r\n`),
  send('head of a part', `${MULTIPART}b`, `${PART}…"\r\n\r\nx\r\n--b--\r\n`),
  send('boundary', `${MULTIPART}…`, '-'.repeat(BODY)),
];

/** A request for every text at every place. */
export function* hostileTexts(): Generator<readonly [place: string, request: Request]> {
  for (const [place, request] of PLACES) for (const make of TEXTS) yield [place, request(make)];
}
