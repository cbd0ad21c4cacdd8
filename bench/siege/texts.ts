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

/** The most of a query string, of a header, of a body and of a form that gets through. */
const [QUERY, HEADER, BODY, FORM] = [8000, 30_000, 1_000_000, 60_000];

const CLIENT = { 'X-Forwarded-For': '203.0.113.1' };
const USER = { 'X-Forwarded-For': '203.0.113.2', Authorization: basic('user77') };
const URLENCODED = 'application/x-www-form-urlencoded';
const MULTIPART = 'multipart/form-data; boundary=';
const PART = '--b\r\nContent-Disposition: form-data; name="';

/** As much of a text, encoded, as fits; and what of it a header may hold. */
const encoded = (make: (size: number) => string): string =>
  encodeURIComponent(make(QUERY).toWellFormed()).slice(0, QUERY).replace(/%.?$/, '');
const latin = (text: string): string => text.replace(/[^\t -~]/g, '~').trim();

type Place = readonly [name: string, request: (make: (size: number) => string) => Request];

const get = (name: string, path: (text: string) => string): Place => [
  name,
  (make) => ({ path: path(encoded(make)), headers: CLIENT }),
];
const send = (
  name: string,
  method: string,
  path: string,
  type: string,
  body: (make: (size: number) => string) => string,
): Place => [
  name,
  (make) => ({ method, path, headers: { ...USER, 'Content-Type': type }, body: body(make) }),
];
const JSON_TYPE = 'application/json';

const PLACES: readonly Place[] = [
  ...COLUMNS.flatMap((column) =>
    ['', '__in', '__like', '__gte'].map((operator) =>
      get(`filter ${column}${operator}`, (text) => `/api/value/?${column}${operator}=${text}`),
    ),
  ),
  ...HEADERS.map((name): Place => [
    `header ${name}`,
    (make) => ({ path: '/api/message/1/', headers: { ...CLIENT, [name]: latin(make(HEADER)) } }),
  ]),
  ...COLUMNS.flatMap((column) => [
    send(`text in a body, ${column}`, 'PUT', '/api/value/1/', JSON_TYPE, (make) =>
      JSON.stringify({ [column]: make(BODY / 2) }),
    ),
    send(`value in a body, ${column}`, 'PUT', '/api/value/1/', JSON_TYPE, (make) =>
      `{"${column}":${make(BODY)}}`.slice(0, BODY),
    ),
  ]),
  get('name of a filter', (text) => `/api/value/?${text}=1`),
  get('ordering', (text) => `/api/value/?ordering=${text}`),
  get('key of a record', (text) => `/api/value/${text}/`),
  get('path', (text) => `/${text}/`),
  get('path of the admin area', (text) => `/admin/${text}`),
  send('whole body', 'POST', '/api/value/', JSON_TYPE, (make) => make(BODY)),
  send('form of a record', 'POST', '/api/value/', URLENCODED, (make) => `data=${make(BODY)}`),
  send(
    'part of a form',
    'POST',
    '/api/value/',
    `${MULTIPART}b`,
    (make) => `${PART}data"\r\n\r\n${make(BODY)}\r\n--b--\r\n`,
  ),
  send(
    'head of a part',
    'POST',
    '/api/value/',
    `${MULTIPART}b`,
    (make) => `${PART}${make(BODY)}"\r\n\r\nx\r\n--b--\r\n`,
  ),
  send(
    'login form',
    'POST',
    '/admin/-/login/',
    URLENCODED,
    (make) => `username=${make(FORM / 2)}&password=${make(FORM / 2)}`,
  ),
  [
    'boundary',
    (make) => ({
      method: 'POST',
      path: '/api/value/',
      headers: { ...USER, 'Content-Type': `${MULTIPART}${latin(make(HEADER))}` },
      body: '-'.repeat(BODY),
    }),
  ],
  [
    'Host of a page',
    (make) => ({
      path: '/api/message/',
      headers: { ...CLIENT, Accept: 'text/html', Host: latin(make(HEADER)) },
    }),
  ],
];

/** A request for every text at every place. */
export function* hostileTexts(): Generator<readonly [place: string, request: Request]> {
  for (const [place, request] of PLACES) for (const make of TEXTS) yield [place, request(make)];
}
