// Texts that make careless parsers slow, and every place where an anonymous client or a user can put one.
import { PASSWORD } from '../rows.ts';
import type { RequestParts } from './connection.ts';

/** The first of more than 20,000 Chinese characters. */
const FIRST_HAN = 0x4e00;

/** Texts of about this many bytes. */
const TEXTS: readonly (readonly [name: string, make: (size: number) => string])[] = [
  ['digits', (size) => `${'1'.repeat(size)}x`],
  ['a fraction', (size) => `${'1'.repeat(size / 2)}.${'1'.repeat(size / 2 - 2)}x`],
  ['zeros', (size) => `0.${'0'.repeat(size - 4)}e`],
  ['an exponent', (size) => `1e${'9'.repeat(size - 2)}`],
  ['spaces', (size) => `${' '.repeat(size - 1)}x`],
  ['tabs', (size) => `x${'\t'.repeat(size - 2)}x`],
  ['quotes', (size) => '"'.repeat(size)],
  ['commas', (size) => ','.repeat(size)],
  ['backslashes', (size) => '\\'.repeat(size)],
  ['equal signs', (size) => 'a=a;'.repeat(size / 4)],
  ['wildcards', (size) => '%_'.repeat(size / 2)],
  ['brackets', (size) => '['.repeat(size)],
  ['braces', (size) => '{"a":'.repeat(size / 5)],
  ['quoted items', (size) => '"a",'.repeat(size / 4)],
  ['percent codes', (size) => '%41'.repeat(size / 3)],
  ['dashes', (size) => `2024-${'-'.repeat(size - 6)}1`],
  ['colons', (size) => `1${':1'.repeat(size / 2 - 1)}`],
  ['combining marks', (size) => `e${'\u0301'.repeat(size / 2)}`],
  ['quality values', (size) => 'a/b;q=0.1,'.repeat(size / 10)],
  ['apostrophes', (size) => "'".repeat(size)],
  [
    'code points',
    (size) =>
      Array.from({ length: size / 9 }, (_, n) =>
        encodeURIComponent(String.fromCharCode(FIRST_HAN + (n % 20_000))),
      ).join(''),
  ],
  ['spaces in a weight', (size) => `a/a;q=${' '.repeat(size - 9)}x y`],
];

const COLUMNS = 'string text integer bigint float decimal boolean datetime date time uuid json'.split(' ');
const HEADERS = [
  'Accept',
  'Accept-Encoding',
  'Authorization',
  'Content-Type',
  'Cookie',
  'If-Match',
  'If-None-Match',
  'Origin',
  'Prefer',
  'X-Forwarded-For',
  'X-Forwarded-Proto',
  'User-Agent',
];

/** The most of a query string, of a header and of a body that gets through. */
const QUERY = 8000;
const HEADER = 30_000;
const BODY = 1_000_000;
const FORM = 60_000;

const CLIENT = { 'X-Forwarded-For': '203.0.113.1' };
const USER = {
  'X-Forwarded-For': '203.0.113.2',
  Authorization: `Basic ${Buffer.from(`user77:${PASSWORD}`).toString('base64')}`,
};
const FORM_TYPE = 'application/x-www-form-urlencoded';

export interface Place {
  readonly name: string;
  readonly requests: readonly RequestParts[];
}

/** Encodes as much of a text as fits. */
const encoded = (make: (size: number) => string): string => {
  const text = encodeURIComponent(make(QUERY).toWellFormed());
  return text.slice(0, QUERY).replace(/%.?$/, '');
};

/** Whether a header may hold the text as it is. */
const latin = (text: string): string => text.replace(/[^\t -~]/g, '~').trim();

/** All places, each with a request for every text. */
export function places(): Place[] {
  const each = (name: string, request: (make: (size: number) => string) => RequestParts): Place => ({
    name,
    requests: TEXTS.map(([, make]) => request(make)),
  });
  const filters = COLUMNS.flatMap((column) =>
    ['', '__in', '__like', '__gte'].map((operator) =>
      each(`filter ${column}${operator}`, (make) => ({
        path: `/api/value/?${column}${operator}=${encoded(make)}`,
        headers: CLIENT,
      })),
    ),
  );
  const headers = HEADERS.map((header) =>
    each(`header ${header}`, (make) => ({
      path: '/api/message/1/',
      headers: { ...CLIENT, [header]: latin(make(HEADER)) },
    })),
  );
  const bodies = COLUMNS.flatMap((column) => [
    each(`text in a body, ${column}`, (make) => ({
      method: 'PUT',
      path: '/api/value/1/',
      headers: { ...USER, 'Content-Type': 'application/json' },
      body: JSON.stringify({ [column]: make(BODY / 2) }),
    })),
    each(`bare value in a body, ${column}`, (make) => ({
      method: 'PUT',
      path: '/api/value/1/',
      headers: { ...USER, 'Content-Type': 'application/json' },
      body: `{"${column}":${make(BODY)}}`.slice(0, BODY),
    })),
  ]);
  const other: Place[] = [
    each('name of a filter', (make) => ({ path: `/api/value/?${encoded(make)}=1`, headers: CLIENT })),
    each('ordering', (make) => ({ path: `/api/value/?ordering=${encoded(make)}`, headers: CLIENT })),
    each('key of a record', (make) => ({ path: `/api/value/${encoded(make)}/`, headers: CLIENT })),
    each('path', (make) => ({ path: `/${encoded(make)}/`, headers: CLIENT })),
    each('path of the admin area', (make) => ({ path: `/admin/${encoded(make)}`, headers: CLIENT })),
    each('whole body', (make) => ({
      method: 'POST',
      path: '/api/value/',
      headers: { ...USER, 'Content-Type': 'application/json' },
      body: make(BODY),
    })),
    each('form of a record', (make) => ({
      method: 'POST',
      path: '/api/value/',
      headers: { ...USER, 'Content-Type': FORM_TYPE },
      body: `data=${make(BODY)}`,
    })),
    each('multipart form', (make) => ({
      method: 'POST',
      path: '/api/value/',
      headers: { ...USER, 'Content-Type': 'multipart/form-data; boundary=b' },
      body: `--b\r\nContent-Disposition: form-data; name="data"\r\n\r\n${make(BODY)}\r\n--b--\r\n`,
    })),
    each('head of a part', (make) => ({
      method: 'POST',
      path: '/api/value/',
      headers: { ...USER, 'Content-Type': 'multipart/form-data; boundary=b' },
      body: `--b\r\nContent-Disposition: form-data; name="${make(BODY)}"\r\n\r\nx\r\n--b--\r\n`,
    })),
    each('boundary', (make) => ({
      method: 'POST',
      path: '/api/value/',
      headers: { ...USER, 'Content-Type': `multipart/form-data; boundary=${latin(make(HEADER))}` },
      body: '-'.repeat(BODY),
    })),
    each('Host of a page', (make) => ({
      path: '/api/message/',
      headers: { ...CLIENT, Accept: 'text/html', Host: latin(make(HEADER)) },
    })),
    each('Host of a form', (make) => ({
      method: 'POST',
      path: '/admin/-/login/',
      headers: { ...CLIENT, Origin: 'http://a', Host: latin(make(HEADER)), 'Content-Type': FORM_TYPE },
    })),
    each('login form', (make) => ({
      method: 'POST',
      path: '/admin/-/login/',
      headers: { ...CLIENT, 'Content-Type': FORM_TYPE },
      body: `username=${make(FORM / 2)}&password=${make(FORM / 2)}&next=${make(FORM / 4)}`,
    })),
  ];
  return [...filters, ...headers, ...bodies, ...other];
}
