// Work that is small for one request, but that many requests cause at the same moment: one answer or one packet resumes all of them.
import { PASSWORD } from '../../rows.ts';
import { besiege, holdRow, readRow, writeRows, type SiegeOptions } from '../besiege.ts';
import type { RequestShape } from '../jobs.ts';
import type { Scenario } from '../scenario.ts';

const CONNECTIONS = 20;
/** Nearly all that fits into the headers of a request. */
const LONG = 31_000;
const ONE_ADDRESS = ['10.2.0.1'];
const addresses = Array.from({ length: CONNECTIONS }, (_, index) => `10.${index + 1}.0.1`);
const userHeaders = {
  Authorization: `Basic user7:${PASSWORD}`,
  'Content-Type': 'application/json',
};

interface Attack {
  readonly name: string;
  readonly title: string;
  readonly requests: readonly RequestShape[];
  readonly from?: readonly string[];
  readonly connections?: number;
  /** The most times the reference that a read by id may take. */
  readonly limit: number;
  readonly options?: SiegeOptions;
}

const scenario = ({
  name,
  title,
  requests,
  from = ONE_ADDRESS,
  connections = CONNECTIONS,
  limit,
  options,
}: Attack): Scenario => ({
  name,
  title,
  async run(stage) {
    const siege = await besiege(
      stage,
      (port) => [{ kind: 'flood', port, connections, addresses: from, requests }],
      options,
    );
    return [readRow(siege, limit), ...writeRows(stage, siege, 50), holdRow(stage, siege.watched)];
  },
});

const lists: readonly RequestShape[] = [
  { path: '/api/message/{n}/', headers: { 'If-None-Match': '"'.repeat(2_000) } },
  ...[',', 'br', 'brz,'].map((text) => ({
    path: '/api/message/?limit=20',
    headers: { 'Accept-Encoding': text.repeat(LONG / text.length) },
  })),
];

/** Bodies just below the size from which they wait for a slot. */
const bodies: readonly RequestShape[] = [
  `{"values0":[${'1,'.repeat(8_000)}1],"nothing":1}`,
  `{${Array.from({ length: 2_000 }, (_, index) => `"${index}":0`).join()}}`,
].map((body) => ({ method: 'POST', path: '/api/measure/', headers: userHeaders, body }));

export const repeatedWork: readonly Scenario[] = [
  scenario({
    name: 'listed-headers',
    title: 'headers that list as much as fits, on 20 connections of 20 addresses',
    requests: lists,
    from: addresses,
    limit: 10,
  }),
  scenario({
    name: 'user-orderings',
    title: 'one user with 20 connections whose orderings have as many columns as fit',
    requests: [{ path: `/api/diary/?ordering=${','.repeat(8_000)}`, headers: userHeaders }],
    limit: 10,
  }),
  scenario({
    name: 'user-bodies',
    title: 'one user with 20 connections that sends bodies of 16 KB with many faults',
    requests: bodies,
    limit: 10,
  }),
  scenario({
    name: 'few-wide-pages',
    title: '4 connections of one address that ask for pages of wide records',
    requests: Array.from({ length: 10 }, (_, index) => ({
      path: `/api/report/?limit=100&page=${index + 1}`,
    })),
    connections: 4,
    limit: 8,
  }),
];
