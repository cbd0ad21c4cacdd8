// Pages and documents that are the same for everyone, or that no record is needed for, asked for from many addresses.
import { addresses, besiege, holdRow, readRow, writeRows } from '../besiege.ts';
import type { RequestShape } from '../jobs.ts';
import { atMost, holds, type Scenario } from '../scenario.ts';

const PAGE = { Accept: 'text/html' };
const ADDRESSES = 64;
const OPENAPI = '/api/openapi.json';

function pageScenario(name: string, title: string, requests: readonly RequestShape[]): Scenario {
  return {
    name,
    title: `${title}, from ${ADDRESSES} addresses`,
    async run(stage) {
      const siege = await besiege(stage, (port) => [
        {
          kind: 'flood',
          port,
          connections: ADDRESSES,
          addresses: addresses(ADDRESSES),
          keepsAddress: true,
          requests,
        },
      ]);
      return [readRow(siege, 20), ...writeRows(stage, siege, 500, 1), holdRow(stage, siege.watched)];
    },
  };
}

/** As many parameters as fit into a query: of one name, and of many. */
const REPEATED = 'a&'.repeat(4_000);
const DISTINCT = Array.from({ length: 1_800 }, (_, n) => n.toString(36)).join('&');

/** Seconds until the buffers of the system are full, so that further answers stay with the service. */
const FILLING = { full: 40, short: 8 };

const unreadDocuments: Scenario = {
  name: 'unread-documents',
  title: '1,500 connections from 500 addresses with 16 unread OpenAPI documents each',
  async run(stage) {
    const siege = await besiege(
      stage,
      (port) => [
        {
          kind: 'slow readers',
          port,
          connections: 1_500,
          addresses: addresses(500),
          request: { path: OPENAPI },
          rate: 0,
          times: 16,
        },
      ],
      { ramp: 1000 * stage.either(FILLING.full, FILLING.short) },
    );
    return [
      atMost('memory', 'memory', 300, siege.watched.memory, 'MB'),
      readRow(siege, 20),
      holds('the service is alive', siege.service.isAlive()),
    ];
  },
};

export const pages: readonly Scenario[] = [
  pageScenario(
    'error-pages',
    'error pages for thousands of parameters',
    [REPEATED, DISTINCT].map((query) => ({ path: `/api/message/?${query}`, headers: PAGE })),
  ),
  pageScenario('index', 'the index as a page', [{ path: '/api/', headers: PAGE }]),
  pageScenario('openapi', 'the OpenAPI document', [{ path: OPENAPI }]),
  unreadDocuments,
];
