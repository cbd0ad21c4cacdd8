// What clients can do that do not read their answers, or read them slowly.
import { setTimeout as sleep } from 'node:timers/promises';
import { besiege, addresses, holdRow, readRow, writeRows } from '../besiege.ts';
import { askOnce } from '../connection.ts';
import type { Flood, SlowReaders } from '../jobs.ts';
import { atLeast, atMost, holds, type Row, type Scenario } from '../scenario.ts';
import type { Stage } from '../stage.ts';

const ATTACKER = '203.0.113.1';

const unread = (port: number, connections: number, limit: number): SlowReaders => ({
  kind: 'slow readers',
  port,
  connections,
  addresses: [ATTACKER],
  request: { path: `/api/document/?limit=${limit}` },
  rate: 0,
});

const unreadPages: Scenario = {
  name: 'unread-pages',
  title: 'pages of records of 1 MB that nobody reads',
  async run(stage) {
    const rows: Row[] = [];
    for (const [connections, limit, memory] of [
      [10, 100, 300],
      [40, 20, 500],
    ] as const) {
      const siege = await besiege(stage, (port) => [unread(port, connections, limit)]);
      const note = `${connections} pages of limit=${limit}`;
      rows.push(
        atMost('memory', 'memory', memory, siege.watched.memory, 'MB', note),
        { ...readRow(siege, 5), note },
        holdRow(stage, siege.watched, note),
        holds('the service is alive', siege.service.isAlive()),
      );
    }
    return rows;
  },
};

/** Each page is just below `MAX_PAGE`, in several shapes, and waits in memory until its client has read it. */
const fullPages: Scenario = {
  name: 'full-pages',
  title: '40 connections from 20 addresses with pages of 30 MB, which they read',
  async run(stage) {
    const requests = Array.from({ length: 4 }, (_, n) => ({ path: `/api/document/?limit=${27 + n}` }));
    const siege = await besiege(stage, (port) => [
      { kind: 'flood', port, connections: 40, addresses: addresses(20), keepsAddress: true, requests },
    ]);
    return [
      readRow(siege, 20),
      ...writeRows(stage, siege, 500),
      atMost('memory', 'memory', 500, siege.watched.memory, 'MB'),
    ];
  },
};

/** First pages, which are usually short statements, of records of 1 MB: each page size is a statement of its own. */
const pageBurst: Scenario = {
  name: 'page-burst',
  title: '200 large pages of 50 sizes at once',
  async run(stage) {
    const requests = Array.from({ length: 50 }, (_, n) => ({ path: `/api/document/?limit=${51 + n}` }));
    const siege = await besiege(stage, (port) => [
      { kind: 'flood', port, connections: 200, addresses: [ATTACKER], requests, pause: 1000 },
    ]);
    return [
      readRow(siege, 5),
      ...writeRows(stage, siege, 50),
      holdRow(stage, siege.watched),
      atMost('memory', 'memory', 300, siege.watched.memory, 'MB'),
    ];
  },
};

const largePage: Scenario = {
  name: 'large-page',
  title: 'a page for browsers of 600 records of 1 MB',
  async run(stage) {
    const service = await stage.service();
    const watch = service.watch();
    const headers = { Accept: 'text/html', 'X-Forwarded-For': ATTACKER };
    const answer = await askOnce(service.port, { path: '/api/document/?limit=600', headers }, 30_000).catch(
      () => undefined,
    );
    const watched = await watch();
    return [
      holds(
        'the answer is 200 or 400',
        [200, 400].includes(answer?.status ?? 0),
        `status ${answer?.status ?? 'none'}`,
      ),
      holdRow(stage, watched),
      atMost('memory', 'memory', 300, watched.memory, 'MB'),
      holds('the service is alive', service.isAlive()),
    ];
  },
};

/** JSON of 1 MB whose every second byte is a token. */
const MANY_TOKENS = `[${'1,'.repeat(524_000)}1]`;

const htmlPages: Scenario = {
  name: 'html-pages',
  title: 'pages for browsers of records with 1 MB of JSON',
  async run(stage) {
    const { sql } = stage.world;
    await sql`insert into value (json) select ${MANY_TOKENS}::text::jsonb from generate_series(1, 7)`;
    const rows: Row[] = [];
    for (const path of ['/api/value/?ordering=-id&limit=7', '/api/document/?limit=7']) {
      const job = (port: number): Flood => ({
        kind: 'flood',
        port,
        connections: 8,
        addresses: [ATTACKER],
        requests: [{ path, headers: { Accept: 'text/html' } }],
      });
      const siege = await besiege(stage, (port) => [job(port)]);
      const note = `8 connections, ${path}`;
      rows.push(
        holdRow(stage, siege.watched, note),
        { ...readRow(siege, 5), note },
        atMost('memory', 'memory', 300, siege.watched.memory, 'MB', note),
      );
    }
    await sql`delete from value where id > 1`;
    return rows;
  },
};

const STREAM = { path: '/api/message/', headers: { Accept: 'application/x-ndjson' } };

/** Asks for streams from a new address each time, and reads a little of each. @returns the share that was answered with 200 */
async function tryStreams(stage: Stage, port: number, seconds: number): Promise<number> {
  const until = performance.now() + seconds * 1000;
  let tries = 0;
  let good = 0;
  while (performance.now() < until) {
    tries += 1;
    const headers = { ...STREAM.headers, 'X-Forwarded-For': `198.51.100.${20 + tries}` };
    // A stream has no end in a second: a narrow filter makes it short.
    const path = `${STREAM.path}?id__lte=50`;
    const answer = await askOnce(port, { path, headers }, 5000).catch(() => undefined);
    if (answer?.status === 200) good += 1;
    await sleep(500);
  }
  return (100 * good) / tries;
}

const slowStreams: Scenario = {
  name: 'slow-streams',
  title: 'streams read at 32 KB/s',
  async run(stage) {
    const { port } = await stage.service();
    const job = (connections: number, from: readonly string[]): SlowReaders => ({
      kind: 'slow readers',
      port,
      connections,
      addresses: from,
      request: STREAM,
      rate: 32_768,
    });
    const greedy = await stage.attack(job(3, [ATTACKER]));
    await sleep(2000);
    const one = await greedy.stop();
    await sleep(500);
    const attack = await stage.attack(job(3, addresses(3)));
    await sleep(1000);
    const share = await tryStreams(stage, port, stage.either(80, 4));
    const [oldest] = await stage.world.sql<{ age: number }[]>`
      select coalesce(max(extract(epoch from now() - xact_start)), 0)::float as age from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' and backend_xmin is not null`;
    await attack.stop();
    return [
      atMost('count', 'streams of one client at once', 1, one.statuses['200'] ?? 0, '', 'of 3 asked for'),
      atLeast('count', 'streams that others get', 90, share, '%', 'beside three slow clients'),
      atMost('time', 'oldest snapshot', 70_000, (oldest?.age ?? NaN) * 1000, 'ms', 'after 80 s'),
    ];
  },
};

/** @param limit megabytes of the service */
const behindStreams = (
  name: string,
  title: string,
  limit: number,
  behind: Pick<SlowReaders, 'behind' | 'packets'>,
): Scenario => ({
  name,
  title: `20 connections from 20 addresses, each with ${title} behind a stream that it does not read`,
  async run(stage) {
    const from = { connections: 20, addresses: addresses(20) };
    const siege = await besiege(stage, (port) => [
      { kind: 'slow readers', port, ...from, request: STREAM, rate: 0, ...behind },
    ]);
    return [
      atMost('memory', 'memory', limit, siege.watched.memory, 'MB'),
      readRow(siege, 20),
      holds('the service is alive', siege.service.isAlive()),
    ];
  },
});

const POST = 'POST /api/message/ HTTP/1.1\r\nHost: x\r\n';
/** Node holds each chunk of an unread body as an object of its own. */
const TINY_CHUNKS = `${POST}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(16_000)}0\r\n\r\n`;

const unreadBodies = behindStreams('unread-bodies', 'an endless body', 300, {
  behind: `${POST}Content-Length: 100000000000\r\n\r\n0`,
  packets: 'large',
});

const unreadChunks = behindStreams('unread-chunks', '15 bodies of 16,000 chunks of one byte', 220, {
  behind: TINY_CHUNKS.repeat(15),
});

export const transport: readonly Scenario[] = [
  unreadPages,
  fullPages,
  pageBurst,
  largePage,
  htmlPages,
  slowStreams,
  unreadBodies,
  unreadChunks,
];
