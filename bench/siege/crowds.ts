// Honest crowds: people who do what people do, and must all be answered.
import type { Shape } from '../client.ts';
import { flood, message, times, type Attack } from './attacks.ts';
import type { People } from './people.ts';

/** Rows of the table of messages while crowds are served. */
export const CROWDED = 1_500_000;

const OFFICE = '198.51.100.40';
/** About a second, and some seconds. */
const SEARCH = message('content__ilike=%25e%25a%25zz{n}%25');
const LONG_SEARCH = message('content__ilike=%25e%25a%25zz{n}%25&id__lte=1100000');
const DEEP = times(350, (n) => message(`page=${1 + n * 200}`));
const LISTS = times(12, (n) => ({ ...message(`user=${n + 1}&content__ilike=%25${n}%25`), as: 'user9' }));
const SIMPLE = times(40, (n): Shape =>
  n % 2 === 0 ? { path: `/api/message/${1 + n * 997}/` } : message(`user=${1 + n * 97}`),
);
const STREAM = message('id__lte=350000', { Accept: 'application/x-ndjson' });
const crowd = (
  count: number,
  each: number,
  requests: readonly Shape[],
  more: Partial<People> = {},
): People => ({
  requests,
  count,
  each,
  pause: 0,
  slowest: 60_000,
  ...more,
});

export const CROWDS: readonly Attack[] = [
  // One reader, one search after the other. Some begin with 300 ms in the lane `read`, about as long as a search takes.
  ['reader', [], {}, { people: [crowd(1, 20, [SEARCH], { steady: 2 })] }],
  // Eight people behind one address, six searches each; another client does not notice.
  ['office-searches', [], { read: 5 }, { people: [crowd(8, 6, [SEARCH], { from: OFFICE })] }],
  ['crawler', [], {}, { people: [crowd(16, 22, DEEP, { from: OFFICE })] }],
  // 12 filtered lists at once, every 10 s, as a user.
  ['dashboard', [], {}, { people: [crowd(12, 3, LISTS, { before: LISTS.slice(0, 1), pause: 10_000 })] }],
  ['office', [], {}, { people: [crowd(200, 40, SIMPLE, { from: OFFICE, pause: 50, asApart: 1.3 })] }],
  // A client that obeys Retry-After, while others search.
  [
    'obedient',
    flood(3, SEARCH),
    {},
    { people: [crowd(1, 7, [LONG_SEARCH], { areObedient: true, refusals: 1 })] },
  ],
  ['lost-connections', [], {}, { people: [crowd(16, 600, SIMPLE, { pause: 5 })], disconnects: 10 }],
  // A stream of 50 MB over a line of 32 KB/s that becomes faster after 100 s.
  [
    'slow-line',
    [],
    {},
    { people: [crowd(1, 1, [STREAM], { rate: 32_768, slowFor: 100, slowest: 600_000 })] },
  ],
];
