// Requests that are as costly for PostgreSQL as an anonymous client can make them, in several shapes.
import type { RequestShape } from './jobs.ts';

/** Patterns that are tried at every place of every text and match none; `{n}` makes each one new. Together they fit the budget. */
const PATTERNS = Array.from(
  { length: 12 },
  (_, index) => encodeURIComponent(`%e%a%o%i%e%z${index.toString(36)}`) + '{n}%25',
);
const any = (parameter: string): string => PATTERNS.map((pattern) => `${parameter}=${pattern}`).join('&');

const message = (query: string): RequestShape => ({ path: `/api/message/?${query}` });

export const HEAVY: readonly RequestShape[] = [
  message(any('content__ilike')),
  message(any('content__like')),
  message(`${any('content__ilike')}&ordering=-content`),
  message(`user__username__ilike=%25r%25&${any('content__ilike')}`),
  message(`${any('content__ilike')}&pub_date__gte=2024-01-01&ordering=user__username`),
];

/** The path of one such request. */
export const heavyPath = (n: number): string => (HEAVY[0]?.path ?? '').replaceAll('{n}', String(n));

/** The path of a request that takes PostgreSQL about a second. */
export const slowPath = (n: number): string => `/api/message/?content__ilike=%25e%25a%25zz${n}%25`;

/** Statements that are cheap at first, and costly with other values. */
export const WARMED: readonly RequestShape[] = ['zz{n}%25', '%25e%25a%25o%25i%25e%25z{n}%25'].flatMap(
  (pattern) => Array.from({ length: 20 }, (_, n) => message(`content__like=${pattern}&limit=${n + 1}`)),
);

/** The same by the range of the search: three cheap ones for each costly one, in shapes that nobody has asked for before. */
export const DECEIVING: readonly RequestShape[] = Array.from({ length: 200 }, (_, n) =>
  [1, 1, 1, 500_000].map((last) =>
    message(`id__lte=${last}&${any('content__ilike')}&limit=${1 + n}&ordering=${n % 2 ? '-id' : 'id'}`),
  ),
).flat();
