import { readFile } from 'node:fs/promises';
import { cpus, totalmem, type } from 'node:os';
import type { MeasuredPair } from './measure-pairs.ts';
import { MANY } from './pairs.ts';
import { CONNECTIONS, CONTESTED, MESSAGES, USERS } from './rows.ts';
import { markdown, median, whole } from './tables.ts';

export interface Measurement {
  readonly row: string;
  readonly server: string;
  /** Answers per second. */
  readonly rate: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Processor time per request, microseconds: of the server's process, of PostgreSQL, of the load generator. */
  readonly cpu: number;
  readonly databaseCpu: number;
  readonly generatorCpu: number;
}

export interface ServerFacts {
  readonly server: string;
  readonly firstPath: string;
  /** Milliseconds of each start. */
  readonly starts: readonly number[];
  /** Megabytes: after the start, and after the load. */
  readonly memory: readonly number[];
}

export interface Results {
  /** Absent where only pairs are measured. */
  readonly measurements?: readonly Measurement[];
  readonly facts?: readonly ServerFacts[];
  readonly pairs: readonly MeasuredPair[];
  readonly rounds: number;
  readonly seconds: number;
  readonly postgres: string;
  /** How many processes wanted to run just before: above 0.5 or so the machine had other work, and the numbers are noisy. */
  readonly loadBefore: number;
}

/** What the others are compared with: another version of Vitrine where there is one. */
export const BEFORE = 'before';
const FASTIFY = 'Fastify';
/** Serves only writes, with the duties that Vitrine has. */
export const DUTIES = 'Fastify, same duties';

function rates(measurements: readonly Measurement[]): string {
  const names = (key: 'row' | 'server'): string[] => [...new Set(measurements.map((one) => one[key]))];
  const of = (row: string, server: string): Measurement[] =>
    measurements.filter((one) => one.row === row && one.server === server);
  // Servers come in the order of their names, whoever was measured first.
  const servers = names('server').sort((one, other) => other.localeCompare(one, 'en'));
  const yardsticks = servers.includes(BEFORE)
    ? [BEFORE]
    : [FASTIFY, DUTIES].filter((name) => servers.includes(name));
  const body = names('row').flatMap((row) =>
    servers.flatMap((server) => {
      const rounds = of(row, server);
      if (rounds.length === 0) return [];
      const middle = (key: 'rate' | 'p50' | 'p99' | 'cpu' | 'databaseCpu'): number =>
        median(rounds.map((one) => one[key]));
      const ratios = yardsticks.map((name) => {
        const compared = of(row, name);
        return compared.length === 0
          ? ''
          : median(rounds.map(({ rate }, round) => rate / (compared[round]?.rate ?? NaN))).toFixed(2);
      });
      const times = [middle('p50').toFixed(2), middle('p99').toFixed(2)];
      const costs = [whole(middle('cpu')), whole(middle('databaseCpu'))];
      return [[row, server, whole(middle('rate')), ...ratios, ...times, ...costs]];
    }),
  );
  const head = [
    'row',
    'server',
    'requests/s',
    ...yardsticks.map((name) => `to ${name}`),
    'p50 ms',
    'p99 ms',
    'server µs',
    'PostgreSQL µs',
  ];
  return markdown(head, body, 2);
}

function starts(facts: readonly ServerFacts[]): string {
  const body = facts.map(({ server, firstPath, starts: times, memory }) => [
    server,
    `\`${firstPath}\``,
    whole(median(times)),
    ...memory.map((megabytes) => whole(megabytes)),
  ]);
  return markdown(['server', 'first answer', 'start ms', 'idle MB', 'MB after the load'], body, 2);
}

/** Both rows of each pair, and the ratio of their rates; for a POST of many records, of the rates of records. */
function pairRates(pairs: readonly MeasuredPair[]): string {
  const body = pairs.flatMap(({ row, base, work, goal }) => {
    const cells = (rounds: readonly Measurement[]): string[] => {
      const middle = (key: 'rate' | 'p50' | 'p99' | 'cpu' | 'databaseCpu'): number =>
        median(rounds.map((one) => one[key]));
      const times = [middle('p50').toFixed(2), middle('p99').toFixed(2)];
      return [whole(middle('rate')), ...times, whole(middle('cpu')), whole(middle('databaseCpu'))];
    };
    const ratio = median(row.map(({ rate }, round) => (rate * work) / (base[round]?.rate ?? NaN)));
    return [
      [base[0]?.row ?? '', '', ...cells(base), '1.00'],
      [row[0]?.row ?? '', goal, ...cells(row), ratio.toFixed(2)],
    ];
  });
  const head = ['row', 'goal', 'requests/s', 'p50 ms', 'p99 ms', 'server µs', 'PostgreSQL µs', 'ratio'];
  return markdown(head, body, 2);
}

/** The numbers alone. */
export const tables = ({ measurements, facts, pairs }: Results): string =>
  [
    ...(measurements && facts ? [rates(measurements), starts(facts)] : []),
    ...(pairs.length > 0 ? [pairRates(pairs)] : []),
  ].join('\n\n');

async function versionOf(name: string): Promise<string> {
  const file = new URL(`../node_modules/${name}/package.json`, import.meta.url);
  return (JSON.parse(await readFile(file, 'utf8')) as { version: string }).version;
}

/** The numbers, and all that is needed to judge them and to have them again. */
export async function report(results: Results): Promise<string> {
  const { measurements = [], facts = [], pairs, rounds, seconds, postgres, loadBefore } = results;
  const processors = cpus();
  const packages = await Promise.all(
    ['fastify', 'postgres', '@node-rs/argon2'].map(async (name) => `${name} ${await versionOf(name)}`),
  );
  const generator = median(measurements.map(({ generatorCpu }) => generatorCpu));
  return `# Benchmark

Vitrine beside the same endpoints written by hand: with Fastify and postgres.js as one would write them for production, and with
bare \`node:http\` and postgres.js as the limit of what this runtime and driver give. A second Fastify serves POST and PUT with the
duties that Vitrine has.

${rates(measurements)}

Medians of ${rounds} rounds of ${seconds} s for each row and server, the servers taking turns within a round. "to …" is the
median of the ratios within each round. "server µs" and "PostgreSQL µs" are the processor time that one request takes, of the server's
process and of its PostgreSQL sessions; other work on the machine disturbs them less than the rates. The load generator itself took ${whole(generator)} µs for each request.

${starts(facts)}

The start is the median time from the spawn to the first 200 on a database that is ready. Memory is resident memory of the
process, idle: first after the start, then after all of the load.

## Vitrine beside itself

${pairRates(pairs)}

Each row is measured in turn with the one above it. "ratio" compares their rates; for the POST of ${whole(MANY)} records, the rates of records.
Page 25,000 is reached by a cursor. The keys of one and of two columns have the same ${whole(MESSAGES)} records.

## What is measured

One PostgreSQL with ${whole(MESSAGES)} messages of ${whole(USERS)} users: the shipped models, tables and indexes as Vitrine makes
them, autovacuum of the messages replaced by a vacuum between the rounds. Four servers on 127.0.0.1, each a process of its own
that is started once and kept. ${CONNECTIONS} connections send the next request as soon as the last one is answered. All on one machine, so the
generator, the servers and PostgreSQL share its processors.

- All servers get the same requests and give the same JSON: answers are compared before anything is measured, and the status of
  every answer is checked. Pages have 20 records; the last page is the one with offset 499,980.
- Vitrine is compiled and runs as shipped, with \`NODE_ENV=production LOG_LEVEL=warn\`. **POST and PUT are authenticated**: each request
  carries Basic credentials of a user with an argon2id hash, looked up in the database each time; the hash is verified once.
- Fastify validates parameters, headers and bodies by JSON schema, serializes by response schemas, has no logger and a pool of
  10 connections with prepared statements. It does **not** authenticate; PUT checks the owner that a header names. Timestamps pass
  as PostgreSQL's text, so formatting them costs nothing.
- "${DUTIES}" is Fastify with what Vitrine does for a write: it verifies Basic credentials by argon2id and remembers them for
  5 minutes as a keyed digest, reads the user for each request, checks the owner, adds to the history in the same statement, and sends an ETag.
  Before the measurement, a request without each of these duties is checked to fail.
- By id reads random records. Over ${CONTESTED} records, all connections change the same records as one user.
- Bare does the same with nothing but \`JSON.stringify\`: no routing, no validation, no error handling.

## The machine

- ${processors[0]?.model.trim()}, ${processors.length} cores, ${(totalmem() / 2 ** 30).toFixed(0)} GB of memory, ${type()}
- load average before the run: ${loadBefore.toFixed(1)} (a machine with other work to do gives noisy numbers)
- Node ${process.versions.node}, PostgreSQL ${postgres}, ${packages.join(', ')}

## How to run it

\`npm run bench\` takes about ${Math.ceil(((measurements.length + pairs.length * rounds * 2) * seconds * 1.5) / 60 + 2)} minutes and writes this file. \`BENCH_ROUNDS\` and \`BENCH_SECONDS\` set how long it measures, \`BENCH_ROWS\` (names
separated by commas) measures some rows and only prints them. \`BENCH_DATABASE_URL\` names a server to make and drop a database
on; without it an embedded PostgreSQL with its default settings is used.
`;
}
