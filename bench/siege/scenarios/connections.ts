// What connections can do: requests sent ahead, bytes that are costly to parse, and many new ones.
import { setTimeout as sleep } from 'node:timers/promises';
import { addresses, besiege, holdRow, readRow, writeRows } from '../besiege.ts';
import { askOnce } from '../connection.ts';
import { slowPath } from '../heavy.ts';
import type { Pipeline, RequestShape, SlowReaders, UnfinishedHeads } from '../jobs.ts';
import { atMost, holds, quantile, type Row, type Scenario } from '../scenario.ts';
import type { Stage } from '../stage.ts';

const ATTACKER = '203.0.113.1';

const pipelining: Scenario = {
  name: 'pipelining',
  title: 'requests sent ahead behind a slow one, on one connection',
  async run(stage) {
    const rows: Row[] = [];
    for (const count of stage.isShort ? [100_000] : [100_000, 250_000]) {
      const job = (port: number): Pipeline => ({
        kind: 'pipeline',
        port,
        connections: 1,
        address: ATTACKER,
        first: slowPath(count),
        path: '/healthz',
        count,
      });
      const siege = await besiege(stage, (port) => [job(port)], { finish: stage.either(15, 5) });
      const note = `${count.toLocaleString('en-US')} requests`;
      rows.push(
        holdRow(stage, siege.watched, note),
        readRow(siege, 5),
        atMost('memory', 'memory', 300, siege.watched.memory, 'MB', note),
        holds('the service is alive', siege.service.isAlive()),
      );
    }
    return rows;
  },
};

/** How long new connections wait for an answer. @param limit of the median, milliseconds */
async function newConnections(stage: Stage, port: number, limit = 300): Promise<Row[]> {
  const asked: Promise<number>[] = [];
  for (let count = 0; count < stage.either(50, 20); count += 1) {
    const fresh = askOnce(port, { path: '/healthz' });
    asked.push(
      fresh.then(
        ({ time }) => time,
        () => Infinity,
      ),
    );
    await sleep(100);
  }
  const times = await Promise.all(asked);
  return [
    atMost('time', '/healthz on a new connection, median', limit, quantile(times, 0.5), 'ms'),
    atMost('time', '90 % within', 1000, quantile(times, 0.9), 'ms'),
    atMost('count', 'without an answer', 0, times.filter((time) => time === Infinity).length),
  ];
}

const manyPipelines: Scenario = {
  name: 'many-pipelines',
  title: '2,000 connections with 3,000 requests each sent ahead',
  async run(stage) {
    const job = (port: number): Pipeline => ({
      kind: 'pipeline',
      port,
      connections: 2_000,
      address: ATTACKER,
      first: slowPath(1),
      path: '/api/message/1/',
      count: 3_000,
      isGradual: true,
    });
    const siege = await besiege(stage, (port) => [job(port)], { countsEnd: false });
    return [
      readRow(siege, 20),
      ...writeRows(stage, siege, 200),
      atMost('memory', 'memory', 300, siege.watched.memory, 'MB'),
      holds('the service is alive', siege.service.isAlive()),
    ];
  },
};

const churn: Scenario = {
  name: 'churn',
  title: '30 connections that ask for a page, close after 40 ms and open again',
  async run(stage) {
    const { port } = await stage.service();
    const page = { path: '/api/message/?limit=100', headers: { Accept: 'text/html' } };
    await askOnce(port, page);
    const attack = await stage.attack({
      kind: 'flood',
      port,
      connections: 30,
      addresses: [ATTACKER],
      requests: [page],
      abandonAfter: 40,
    });
    await sleep(stage.either(3000, 1500));
    const rows = await newConnections(stage, port);
    await attack.stop();
    return rows;
  },
};

/** The system accepts connections in the order of their arrival, and an iteration of the event loop accepts one. */
const departing: Scenario = {
  name: 'departing',
  title: '450 connections per second from 16 addresses, each with a filter, closed after 60 ms',
  async run(stage) {
    const { port } = await stage.service();
    const attack = await stage.attack({
      kind: 'flood',
      port,
      connections: 36,
      addresses: addresses(16),
      requests: Array.from({ length: 900 }, (_, index) => ({
        path: `/api/message/?content__ilike=%25zz{n}%25&limit=${index + 1}`,
      })),
      abandonAfter: 60,
      pause: 20,
    });
    await sleep(stage.either(3000, 1500));
    const rows = await newConnections(stage, port, 150);
    await attack.stop();
    return rows;
  },
};

/** Requests whose bytes take the HTTP parser far longer than others. */
const costlyToParse = (name: string, title: string, request: RequestShape): Scenario => ({
  name,
  title,
  async run(stage) {
    const siege = await besiege(stage, (port) => [
      { kind: 'flood', port, connections: 32, addresses: [ATTACKER], requests: [request] },
    ]);
    return [
      readRow(siege, 20),
      ...writeRows(stage, siege, 200),
      holdRow(stage, siege.watched),
      atMost('memory', 'memory', 300, siege.watched.memory, 'MB'),
    ];
  },
});

const TINY_CHUNKS: RequestShape = {
  method: 'POST',
  path: '/api/note/',
  headers: { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' },
  body: { repeat: '1\r\nx\r\n', times: 10_000, after: '0\r\n\r\n' },
};

const tinyChunks = costlyToParse(
  'tiny-chunks',
  'bodies of 10,000 chunks of one byte, without credentials',
  TINY_CHUNKS,
);

const chunkConnections: Scenario = {
  name: 'chunk-connections',
  title: '200 connections with such bodies',
  async run(stage) {
    const { port } = await stage.service();
    const attack = await stage.attack({
      kind: 'flood',
      port,
      connections: 200,
      addresses: [ATTACKER],
      requests: [TINY_CHUNKS],
    });
    await sleep(stage.either(3000, 1500));
    const rows = await newConnections(stage, port);
    await attack.stop();
    return rows;
  },
};

const manyHeaders = costlyToParse('many-headers', 'requests with 3,500 headers', {
  path: '/healthz',
  headers: Object.fromEntries(Array.from({ length: 3_500 }, (_, index) => [`h${index.toString(36)}`, ''])),
});

/** After an Upgrade, the server gets the same connection again. */
const upgrades: Scenario = {
  name: 'upgrades',
  title: '4 connections that ask for an Upgrade again and again, with chunked bodies and 28 kB of headers',
  async run(stage) {
    const request: RequestShape = {
      path: '/healthz',
      headers: {
        Connection: 'upgrade',
        Upgrade: 'x',
        'X-Long': 'x'.repeat(28_000),
        'Transfer-Encoding': 'chunked',
      },
      body: { repeat: '0\r\n\r\n', times: 1 },
    };
    const settings = { NODE_OPTIONS: '--max-old-space-size=300' };
    const siege = await besiege(
      stage,
      (port) => [{ kind: 'flood', port, connections: 4, addresses: [ATTACKER], requests: [request] }],
      { settings },
    );
    return [
      readRow(siege, 20),
      atMost('memory', 'memory', 300, siege.watched.memory, 'MB'),
      holds('the service is alive', siege.service.isAlive()),
    ];
  },
};

const lateBytes: Scenario = {
  name: 'late-bytes',
  title: 'single bytes that are no HTTP, behind a request whose answer is read slowly',
  async run(stage) {
    const rows: Row[] = [];
    for (const [count, behind, note] of [
      [1, '\0', '1 connection'],
      [20, '\0', '20 connections'],
      [20, `GET / HTTP/1.1\r\n${'h: y\r\n'.repeat(300)}`, '20 connections, after a head with 300 headers'],
    ] as const) {
      const job = (port: number): SlowReaders => ({
        kind: 'slow readers',
        port,
        connections: count,
        addresses: [ATTACKER],
        request: { path: '/api/document/?limit=4' },
        rate: 65_536,
        behind,
      });
      const siege = await besiege(stage, (port) => [job(port)]);
      rows.push(
        { ...readRow(siege, 5), note },
        holdRow(stage, siege.watched, note),
        atMost('memory', 'memory', 300, siege.watched.memory, 'MB', note),
        holds('the service is alive', siege.service.isAlive()),
      );
    }
    return rows;
  },
};

const LONG_HEADERS = `X: ${'x'.repeat(280)}\r\n`.repeat(100);

const unfinishedHeads: Scenario = {
  name: 'unfinished-heads',
  title: '12,000 connections from one address, each with 28 kB of a head that never ends',
  async run(stage) {
    const job = (port: number): UnfinishedHeads => ({
      kind: 'unfinished heads',
      port,
      connections: 6_000,
      head: `GET /healthz HTTP/1.1\r\nHost: x\r\n${LONG_HEADERS}`,
      from: '127.0.0.66',
    });
    // With much memory, Node.js would leave hundreds of megabytes of closed connections to its garbage collector.
    const settings = { NODE_OPTIONS: '--max-old-space-size=300' };
    const siege = await besiege(stage, (port) => [job(port), job(port)], { settings, countsEnd: false });
    return [
      readRow(siege, 20),
      ...writeRows(stage, siege, 200),
      holdRow(stage, siege.watched),
      atMost('memory', 'memory', 400, siege.watched.memory, 'MB'),
      holds('the service is alive', siege.service.isAlive()),
    ];
  },
};

const longPaths: Scenario = {
  name: 'long-paths',
  title: '20 connections that ask for paths of 30 kB, which are logged',
  async run(stage) {
    const request = { path: `/${'x'.repeat(30_000)}` };
    const siege = await besiege(
      stage,
      (port) => [{ kind: 'flood', port, connections: 20, addresses: [ATTACKER], requests: [request] }],
      { settings: { LOG_LEVEL: 'info' } },
    );
    return [
      atMost('count', 'longest line of the log', 1_000, siege.service.longestLine(), 'bytes'),
      readRow(siege, 20),
      holdRow(stage, siege.watched),
    ];
  },
};

export const connections: readonly Scenario[] = [
  pipelining,
  manyPipelines,
  churn,
  departing,
  tinyChunks,
  chunkConnections,
  manyHeaders,
  upgrades,
  lateBytes,
  unfinishedHeads,
  longPaths,
];
