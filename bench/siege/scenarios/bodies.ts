// Bodies, queries and keys that take long to parse, to check or to write.
import { besiege, holdRow, readRow, writeRows } from '../besiege.ts';
import type { RequestShape, WithheldBytes } from '../jobs.ts';
import { PASSWORD } from '../../rows.ts';
import { atMost, holds, type Row, type Scenario } from '../scenario.ts';
import { spell } from './parsing.ts';

const ATTACKER = '203.0.113.1';

/** One client sends these requests again and again. */
const floodScenario = (
  name: string,
  title: string,
  connections: number,
  requests: readonly RequestShape[],
): Scenario => ({
  name,
  title,
  async run(stage) {
    const siege = await besiege(stage, (port) => [
      { kind: 'flood', port, connections, addresses: [ATTACKER], requests },
    ]);
    return [
      holdRow(stage, siege.watched, spell(siege.reports)),
      readRow(siege, 10),
      holds('the service is alive', siege.service.isAlive()),
    ];
  },
});

const written = (method: string, path: string, body: RequestShape['body'] & {}): RequestShape => ({
  method,
  path,
  headers: { Authorization: `Basic user60:${PASSWORD}`, 'Content-Type': 'application/json' },
  body,
});

/** The path of the measure in `world.ts`. */
const MEASURE = '/api/measure/1,2026-01-01/';

/** The arrays of a measure, see `registry.ts`. */
const ARRAYS = Array.from({ length: 20 }, (_, index) => `values${index}`);

/** A body with 1 MB of arrays. */
const arraysOf = (element: string, size: number): string => {
  const array = Array(size).fill(element).join(',');
  return `{${ARRAYS.map((name) => `"${name}":[${array}]`).join(',')}}`;
};

/** A thousand records, of which the last one is there already. */
const RECORDS = `[${Array.from(
  { length: 1_000 },
  (_, index) => `{"station":${index < 999 ? 1_000 + index : 1},"day":"2026-01-01","values0":[1,null]}`,
).join(',')}]`;

const listOf = (count: number, make: (index: number) => string): string =>
  encodeURIComponent(Array.from({ length: count }, (_, index) => make(index)).join(','));

/** The shortest texts of the longest numbers. */
const EXPONENTS = Array(890).fill('1e131071').join(',');

const KEYS: readonly RequestShape[] = [
  `id__in=${listOf(250, (index) => `"${index},2026-01-01"`)}`,
  `id__gt=${'%31'.repeat(2_000)},2026-01-01`,
  `values0__contains=${listOf(2_500, String)}`,
  `values0=${encodeURIComponent(`[${Array(2_500).fill('1').join(',')}]`)}`,
  `values0__contains=${EXPONENTS}`,
  `cursor=${'A'.repeat(8_000)}`,
].map((query) => ({ path: `/api/measure/?${query}`, headers: { Prefer: 'paging=cursor' } }));

const LONG_QUERY = {
  path: `/api/wide/?column0__ne=${'%22'.repeat(2_600)}`,
  headers: { Accept: 'text/html' },
};

/** 12 kB with errors for 1,300 unknown fields. */
const UNKNOWN_FIELDS = JSON.stringify(
  Object.fromEntries(Array.from({ length: 1_300 }, (_, index) => [`x${index}`, 1])),
);

/** Requests of one client whose last bytes all come at once. */
const withheldScenario = (name: string, title: string, request: RequestShape): Scenario => ({
  name,
  title,
  async run(stage) {
    // With much memory, Node.js would leave hundreds of megabytes of old bodies to its garbage collector.
    const settings = { NODE_OPTIONS: '--max-old-space-size=300' };
    const siege = await besiege(
      stage,
      (port) => [{ kind: 'withheld bytes', port, connections: 1_000, address: ATTACKER, request }],
      { settings, countsEnd: false },
    );
    return [
      readRow(siege, 20),
      ...writeRows(stage, siege, 200),
      holdRow(stage, siege.watched, spell(siege.reports)),
      atMost('memory', 'memory', 300, siege.watched.memory, 'MB'),
      holds('the service is alive', siege.service.isAlive()),
    ];
  },
});

/** Requests that are not admitted: health checks, invalid ones, and those for other protocols. */
const UNADMITTED: Readonly<Record<string, Pick<WithheldBytes, 'request' | 'withheld'>>> = {
  'health checks': { request: { path: '/healthz' } },
  'invalid headers': { request: { path: '/', headers: { A: '\u0001' } }, withheld: 5 },
  CONNECT: { request: { method: 'CONNECT', path: 'example.org:443' } },
  Upgrade: { request: { path: '/healthz', headers: { Connection: 'Upgrade', Upgrade: 'x' } } },
};

const withheldOthers: Scenario = {
  name: 'withheld-others',
  title: '1,000 requests of one address that are not admitted, whose last bytes all come at once',
  async run(stage) {
    const rows: Row[] = [];
    for (const [note, request] of Object.entries(UNADMITTED)) {
      const siege = await besiege(
        stage,
        (port) => [{ kind: 'withheld bytes', port, connections: 1_000, address: ATTACKER, ...request }],
        { countsEnd: false },
      );
      const answers = `${note}: ${spell(siege.reports)}`;
      rows.push({ ...readRow(siege, 20), note }, holdRow(stage, siege.watched, answers));
    }
    return rows;
  },
};

export const bodies: readonly Scenario[] = [
  floodScenario(
    'bodies',
    'JSON of 1 MB with an unknown field or with exponents, 30 in parallel by one user',
    30,
    [
      written('PUT', '/api/value/1/', { before: '{"nosuch":[', repeat: '1,', times: 500_000, after: '1]}' }),
      written('PUT', '/api/value/1/', {
        before: '{"json":[',
        repeat: '1e999,',
        times: 170_000,
        after: '1]}',
      }),
    ],
  ),
  floodScenario('arrays', 'PUT of 20 arrays with 1 MB in all, 10 in parallel by one user', 10, [
    written('PUT', MEASURE, arraysOf('1.5', 10_000)),
    written('PUT', MEASURE, arraysOf('"1.5"', 8_000)),
    written('PUT', MEASURE, arraysOf('"x"', 8_000)),
    written('PUT', MEASURE, arraysOf('1e999', 8_000)),
  ]),
  floodScenario('records', 'POST of 1,000 records of which the last is a duplicate, 10 in parallel', 10, [
    written('POST', '/api/measure/', RECORDS),
  ]),
  floodScenario('long-query', 'pages for browsers with a query of 8 KB, 100 columns, 8 in parallel', 8, [
    LONG_QUERY,
  ]),
  withheldScenario(
    'withheld-bytes',
    '1,000 bodies of 12 kB by one user, whose last bytes all come at once',
    written('PUT', '/api/value/1/', UNKNOWN_FIELDS),
  ),
  withheldScenario('withheld-heads', '1,000 requests of one address, whose last bytes all come at once', {
    path: '/api/message/?limit=1',
  }),
  withheldOthers,
  floodScenario('keys', 'long keys, arrays and cursors in anonymous filters, 20 in parallel', 20, KEYS),
];
