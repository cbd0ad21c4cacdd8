// What one client may take from the others: heavy filters, many connections.
import { setTimeout as sleep } from 'node:timers/promises';
import { DECEIVING, HEAVY, heavyPath, WARMED } from '../heavy.ts';
import { encode, openConnection } from '../connection.ts';
import { PASSWORD } from '../../rows.ts';
import { addresses, besiege, holdRow, readRow, refusalRows, writeRows } from '../besiege.ts';
import type { Flood } from '../jobs.ts';
import { atLeast, atMost, median, type Scenario } from '../scenario.ts';
import { running } from '../stage.ts';
import { uncancelable } from './uncancelable.ts';

const ATTACKER = '203.0.113.1';
const AS_USER = { Authorization: `Basic user7:${PASSWORD}` };

const heavy = (port: number, more: Partial<Flood>): Flood => ({
  kind: 'flood',
  port,
  connections: 1,
  addresses: [ATTACKER],
  requests: HEAVY,
  ...more,
});

function heavyScenario(
  name: string,
  title: string,
  [reads, writes, failures]: readonly [reads: number, writes: number, failures: number],
  jobs: (port: number) => Partial<Flood> | readonly Partial<Flood>[],
): Scenario {
  return {
    name,
    title,
    async run(stage) {
      const siege = await besiege(stage, (port) => [jobs(port)].flat().map((job) => heavy(port, job)));
      return [
        readRow(siege, reads),
        ...writeRows(stage, siege, writes, failures),
        ...refusalRows(siege.reports, 6000, 1),
      ];
    },
  };
}

const none: Scenario = {
  name: 'none',
  title: 'no attack (reference)',
  async run(stage) {
    const service = await stage.service();
    await stage.probe(service, 1);
    const watch = service.watch();
    const { readP99, readRate, writeMedian, writeFailures } = await stage.probe(service, stage.either(5, 2));
    const watched = await watch();
    return [
      atMost('time', 'by-id p99', 50, readP99, 'ms', `${Math.round(readRate)} reads per second`),
      atMost('time', 'median write', 50, writeMedian, 'ms'),
      atMost('count', 'writes that failed', 0, writeFailures * 100, '%'),
      holdRow(stage, watched),
      atMost('memory', 'memory', 300, watched.memory, 'MB'),
    ];
  },
};

/** Connections of every kind from one address: heavy filters, reads, pages, wrong logins, and some that only connect. */
const crowd: Scenario = {
  name: 'crowd',
  title: '2,000 mixed connections',
  async run(stage) {
    // What is measured is life with the connections: how new ones are made among many others, `churn` measures, and 2,000 that
    // close in one millisecond hold the event loop of a bare Node server for up to 50 ms.
    const attack = (port: number): Flood[] => {
      const job = (connections: number, requests: Flood['requests']): Flood => ({
        ...heavy(port, { connections, requests, pause: 1000, stagger: 1, isGradual: true }),
      });
      const login = { path: '/api/diary/', headers: { Authorization: 'Basic user{n}:wrong' } };
      return [
        job(500, HEAVY),
        job(1250, [{ path: '/api/message/{n}/' }, { path: '/api/message/' }, { path: '/healthz' }]),
        job(250, [login]),
      ];
    };
    const siege = await besiege(stage, attack, { countsEnd: false, comparesRates: true });
    const { reference, during, watched, reports } = siege;
    const rate = during.readRate;
    return [
      atLeast(
        'ratio',
        'by-id rate',
        0.5,
        rate / reference.readRate,
        '×',
        `${Math.round(rate)} of ${Math.round(reference.readRate)} per second`,
      ),
      ...writeRows(stage, siege, 500, 5),
      ...refusalRows(reports, 100, 0.95),
      holdRow(stage, watched),
      atMost('memory', 'memory', 300, watched.memory, 'MB'),
    ];
  },
};

const cancel: Scenario = {
  name: 'cancel',
  title: 'one heavy filter whose client disconnects',
  async run(stage) {
    const { port } = await stage.service();
    const times: number[] = [];
    for (let round = 0; round < stage.either(5, 2); round += 1) {
      const connection = openConnection(port);
      connection.ask(encode({ path: heavyPath(round) })).catch(() => undefined);
      for (let tries = 0; tries < 100 && (await running(stage)) === 0; tries += 1) await sleep(5);
      connection.destroy();
      const gone = performance.now();
      while ((await running(stage)) > 0 && performance.now() - gone < 3000) await sleep(5);
      times.push(performance.now() - gone);
    }
    return [
      atMost('time', 'statement canceled within', 100, median(times), 'ms', `median of ${times.length}`),
      atMost('count', 'statements that ran on for 3 s', 0, times.filter((time) => time >= 3000).length),
    ];
  },
};

export const fairness: readonly Scenario[] = [
  none,
  heavyScenario('heavy-held', '20 heavy filters held open', [5, 50, 0], () => ({ connections: 20 })),
  heavyScenario(
    'heavy-abandoned',
    '20 heavy filters per second, disconnecting after 30 ms',
    [5, 50, 0],
    () => ({
      connections: 4,
      stagger: 50,
      pause: 170,
      abandonAfter: 30,
    }),
  ),
  heavyScenario('heavy-drip', '1 heavy filter per second, disconnecting after 30 ms', [5, 50, 0], () => ({
    pause: 970,
    abandonAfter: 30,
  })),
  heavyScenario('heavy-many', '250 heavy filters from one address', [10, 200, 0], () => ({
    connections: 250,
  })),
  heavyScenario('heavy-spread', '64 heavy filters from 64 addresses', [20, 500, 1], () => ({
    connections: 64,
    addresses: addresses(64),
    keepsAddress: true,
  })),
  heavyScenario('heavy-deceiving', '60 addresses, filters that seem cheap first', [20, 500, 1], () => ({
    connections: 60,
    addresses: addresses(60),
    keepsAddress: true,
    requests: DECEIVING,
  })),
  heavyScenario('left-streams', '20 connections, streams that search and are left', [5, 50, 0], () => ({
    connections: 20,
    addresses: addresses(6),
    requests: HEAVY.map(({ path }) => ({ path, headers: { Accept: 'application/x-ndjson' } })),
    abandonAfter: 300,
  })),
  heavyScenario('fast-streams', '12 addresses, streams read at full speed', [5, 50, 0], () => ({
    connections: 12,
    addresses: addresses(5_000),
    requests: [{ path: '/api/message/?id__lte=20000', headers: { Accept: 'application/x-ndjson' } }],
  })),
  heavyScenario(
    'streams-and-filters',
    '3 connections of one user, a stream beside slow filters',
    [6, 50, 0],
    () => [
      { requests: [{ path: '/api/message/', headers: { ...AS_USER, Accept: 'application/x-ndjson' } }] },
      { connections: 2, requests: HEAVY.map(({ path }) => ({ path, headers: AS_USER })) },
    ],
  ),
  heavyScenario('small-pages', '20 connections, pages for browsers of 40 records', [5, 50, 0], () => ({
    connections: 20,
    requests: [{ path: '/api/message/?limit=40', headers: { Accept: 'text/html' } }],
  })),
  heavyScenario('heavy-warmed', '3 connections, filters that seem cheap first', [5, 50, 0], () => ({
    connections: 3,
    requests: WARMED,
  })),
  ...uncancelable,
  crowd,
  cancel,
];
