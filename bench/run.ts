// Measures Vitrine beside the same endpoints written by hand, or beside another version of itself: npm run bench. See --help.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import ts from 'typescript';
import { askOnce, headerOf, PASSWORD, prepare, type Shape } from './client.ts';
import { cellsOf, endGenerator, HEAD, interruption, measure, medianOf, type Measurement } from './measure.ts';
import { addMessages, MESSAGES, removeMessages, USERS } from './messages.ts';
import { createDatabase, openServer, type Database } from './postgres.ts';
import {
  BASE,
  CONNECTIONS,
  CONTESTED,
  MANY,
  PAIR_REGISTRY,
  PAIR_TABLES,
  PAIRS,
  ROWS,
  writing,
  type Row,
} from './rows.ts';
import { addUser, createService, programOf, type Service, type ServiceOptions } from './service.ts';
import { machine, markdown, median, whole } from './table.ts';

const NAMES = [...ROWS, ...PAIRS.map(({ row }) => row)].map(({ name }) => name);
const USAGE = `Usage: npm run bench -- [ROW...] [--against DIRECTORY] [--rounds N] [--seconds N] [--postgres VERSION]

Measures Vitrine beside the same endpoints written by hand, in alternating rounds. A run of all rows writes bench/results.md.

  --against DIR  another compiled checkout of Vitrine, which takes the place of the other servers
  --rounds N     rounds (5)
  --seconds N    how long a row is measured on a server in each round (2)
  --postgres V   a version of Debian's PostgreSQL, or the folder of its programs; else the embedded one, or BENCH_DATABASE_URL

Rows: ${NAMES.map((name) => `'${name}'`).join(' ')}
`;
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    against: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    postgres: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const { against } = values;
const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
const isWanted = ({ name }: Row): boolean => positionals.length === 0 || positionals.includes(name);
const rows = ROWS.filter(isWanted);
const pairs = against ? [] : PAIRS.filter(({ row }) => isWanted(row));
if (values.help || !(rounds > 0) || !(seconds > 0) || !positionals.every((name) => NAMES.includes(name))) {
  process.stdout.write(USAGE);
  process.exit(values.help ? 0 : 1);
}
const loadBefore = loadavg()[0] ?? NaN;
const say = (text: string): void => void process.stderr.write(`${text}\n`);

const VITRINE = 'Vitrine';
const BEFORE = 'before';
const FASTIFY = 'Fastify';
/** Serves only writes, with the duties that Vitrine has. */
const DUTIES = 'Fastify, same duties';
const STARTS = 5;
/** How many requests of a row are compared. */
const COMPARED = 5;

interface Program extends Omit<ServiceOptions, 'databaseUrl'> {
  readonly name: string;
  readonly readyPath: string;
}

/** A server of the comparison. */
interface Server extends Program {
  readonly service: Service;
  /** Milliseconds of each start. */
  readonly starts: readonly number[];
  /** Megabytes: after the start, and after the load. */
  readonly memory: number[];
}

const serves = ({ name }: Server, row: Row): boolean => name !== DUTIES || /^PO?[SU]T/.test(row.name);

/** Compiles a server that is written here, so that it starts and fits in memory like the compiled Vitrine. */
async function compile(file: string, directory: string): Promise<readonly string[]> {
  const source = await readFile(new URL(`${file}.ts`, import.meta.url), 'utf8');
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 };
  const target = join(directory, `${file}.mjs`);
  await writeFile(target, ts.transpileModule(source, { compilerOptions }).outputText);
  return [target];
}

async function programs(directory: string): Promise<Program[]> {
  const vitrine = { name: VITRINE, readyPath: '/api/' };
  if (against) return [vitrine, { ...vitrine, name: BEFORE, program: [programOf(against), 'serve'] }];
  await symlink(resolve('node_modules'), join(directory, 'node_modules'), 'junction');
  const fastify = await compile('fastify', directory);
  const readyPath = `${BASE}1/`;
  return [
    vitrine,
    { name: DUTIES, program: fastify, readyPath: '/healthz', settings: { DUTIES: '1' } },
    { name: FASTIFY, program: fastify, readyPath },
    { name: 'bare', program: await compile('bare', directory), readyPath },
  ];
}

async function startServer(program: Program, databaseUrl: string): Promise<Server> {
  const service = await createService({ ...program, databaseUrl });
  const starts: number[] = [];
  for (let count = 0; count < STARTS; count += 1) {
    interruption.signal.throwIfAborted();
    if (count > 0) await service.stop();
    starts.push(await service.start());
  }
  return { ...program, service, starts, memory: [] };
}

/** What must be the same on every server; of a new record not its key and its time. */
async function comparable({ service }: Server, shape: Shape): Promise<string> {
  const answer = await askOnce(service.port, prepare(shape)(), { keepsBody: true });
  const text = answer.text
    .replace(/[\d-]+ [\d:]+"}$/, '')
    .replace(shape.method === 'POST' ? /"id":\d+/ : '', '');
  return `${answer.status} ${headerOf(answer, 'content-type')}\n${shape.method === 'POST' ? text : answer.text}`;
}

/** Stops where two servers do not give the same answer to the same request. */
async function compare(all: readonly Server[]): Promise<void> {
  for (const row of ROWS) {
    const servers = all.filter((server) => serves(server, row));
    for (const shape of row.requests(0, '').slice(0, COMPARED)) {
      const answers = await Promise.all(servers.map((server) => comparable(server, shape)));
      assert.match(answers[0] ?? '', new RegExp(`^${row.status} `));
      for (const [index, answer] of answers.entries())
        assert.equal(answer, answers[0], `${servers[index]?.name} answers otherwise: ${row.name}`);
    }
  }
}

/** Credentials are checked, other owners' records are refused, a change gives the record a new ETag, and the history has it. */
async function checkDuties({ name, service }: Server, { sql }: Database): Promise<void> {
  const put = async (id: number, content: string, as = 'user1') =>
    askOnce(service.port, prepare({ ...writing('PUT', 1, `${BASE}${id}/`, { content }), as })());
  const entries = async (): Promise<number> => {
    const [row] = await sql<{ count: number }[]>`select count(*)::int as count from vitrine_history`;
    return row?.count ?? NaN;
  };
  assert.equal((await put(1, 'a', 'nobody:')).status, 401, `${name} needs no credentials`);
  assert.equal((await put(1, 'a', 'user1:wrong')).status, 401, `${name} accepts a wrong password`);
  assert.equal((await put(2, 'a')).status, 403, `${name} changes the record of another owner`);
  const before = await entries();
  const tags = [await put(1 + USERS, 'a'), await put(1 + USERS, 'b')].map((answer) =>
    headerOf(answer, 'etag'),
  );
  assert.ok(tags[0] && tags[1] && tags[0] !== tags[1], `${name} has no ETag`);
  assert.equal((await entries()) - before, 2, `${name} has no history`);
}

/** Each round runs every row on every server; who comes first goes round too. */
async function measureRows(database: Database, servers: readonly Server[]): Promise<Measurement[]> {
  const measurements: Measurement[] = [];
  for (let round = -1; round < rounds; round += 1) {
    say(round < 0 ? 'warming up ...' : `round ${round + 1} of ${rounds} ...`);
    for (const [index, row] of rows.entries()) {
      for (let turn = 0; turn < servers.length; turn += 1) {
        const server = servers[(round + 1 + index + turn) % servers.length]!;
        if (!serves(server, row)) continue;
        const { service, name } = server;
        const measured = await measure(database, row, service, name, round < 0 ? seconds / 2 : seconds);
        if (round >= 0) measurements.push(measured);
      }
    }
    await removeMessages(database.sql, MESSAGES);
  }
  return measurements;
}

/** Measures the rows on Vitrine and on the other servers. */
async function measureServers(database: Database, directory: string): Promise<[Measurement[], Server[]]> {
  const servers: Server[] = [];
  try {
    for (const program of await programs(directory)) servers.push(await startServer(program, database.url));
    const noteMemory = async (): Promise<void> => {
      await sleep(3000); // long enough for the garbage of what went before to be collected
      for (const { service, memory } of servers) memory.push(await service.memory());
    };
    await noteMemory();
    await compare(servers);
    for (const server of servers)
      if ([VITRINE, DUTIES].includes(server.name)) await checkDuties(server, database);
    const measurements = await measureRows(database, servers);
    await noteMemory();
    return [measurements, servers];
  } finally {
    for (const { service } of servers) await service.stop();
  }
}

/** Measures Vitrine beside itself. Each round runs both rows of every pair; which one comes first alternates. */
async function measurePairs(database: Database, directory: string): Promise<Measurement[]> {
  const registry = join(directory, 'registry.mjs');
  await writeFile(registry, `export default ${JSON.stringify(PAIR_REGISTRY)};\n`);
  const service = await createService({ databaseUrl: database.url, settings: { RESOURCES: registry } });
  const measurements: Measurement[] = [];
  try {
    await service.start();
    for (const statement of PAIR_TABLES) await database.sql.unsafe(statement);
    for (let round = -1; round < rounds; round += 1) {
      for (const [index, { row, base }] of pairs.entries()) {
        for (const one of (round + index) % 2 === 0 ? [row, base] : [base, row]) {
          const measured = await measure(database, one, service, VITRINE, round < 0 ? seconds / 2 : seconds);
          if (round >= 0) measurements.push(measured);
        }
      }
      await removeMessages(database.sql, MESSAGES);
    }
    return measurements;
  } finally {
    await service.stop();
  }
}

/** The median of the ratios of each round. */
const ratio = (
  measured: readonly Measurement[],
  base: readonly Measurement[],
  work = 1,
  key: 'rate' | 'cpu' = 'rate',
): string =>
  base.length === 0
    ? ''
    : median(measured.map((one, round) => (one[key] * work) / (base[round]?.[key] ?? NaN))).toFixed(2);

/** The rates of all servers, with their ratios to those that they are compared with. */
function rateTable(measurements: readonly Measurement[], servers: readonly Server[]): string {
  const yardsticks = against ? [BEFORE] : [FASTIFY, DUTIES];
  const of = (row: Row, server: string): Measurement[] =>
    measurements.filter((one) => one.row === row.name && one.server === server);
  const body = rows.flatMap((row) =>
    servers.flatMap((server) => {
      const measured = of(row, server.name);
      const ratios = yardsticks.map((name) => ratio(measured, of(row, name)));
      // Other work on the machine disturbs processor times less than rates.
      if (against) ratios.push(ratio(measured, of(row, BEFORE), 1, 'cpu'));
      return measured.length === 0 ? [] : [[row.name, server.name, ...cellsOf(measured), ...ratios]];
    }),
  );
  const titles = [...yardsticks.map((name) => `to ${name}`), ...(against ? ['server µs, to before'] : [])];
  return markdown(['row', 'server', ...HEAD, ...titles], body, 2);
}

const startTable = (servers: readonly Server[]): string =>
  markdown(
    ['server', 'first answer', 'start ms', 'idle MB', 'MB after the load'],
    servers.map(({ name, readyPath, starts, memory }) => [
      name,
      `\`${readyPath}\``,
      whole(median(starts)),
      ...memory.map(whole),
    ]),
    2,
  );

/** Both rows of each pair, and the ratio of their rates; for a POST of many records, of the rates of records. */
function pairTable(measurements: readonly Measurement[]): string {
  const of = ({ name }: Row): Measurement[] => measurements.filter((one) => one.row === name);
  const body = pairs.flatMap(({ row, base, work, goal }) => [
    [base.name, '', ...cellsOf(of(base)), '1.00'],
    [row.name, goal, ...cellsOf(of(row)), ratio(of(row), of(base), work)],
  ]);
  return markdown(['row', 'goal', ...HEAD, 'ratio'], body, 2);
}

/** The numbers, and all that is needed to judge them and to have them again. */
const report = (tables: readonly string[], generator: number, postgres: string): string => `# Benchmark

Vitrine beside the same endpoints written by hand: with Fastify and postgres.js as one would write them for production, and with
bare \`node:http\` and postgres.js as the limit of what this runtime and driver give. A second Fastify serves POST and PUT with the
duties that Vitrine has.

${tables[0]}

Medians of ${rounds} rounds of ${seconds} s for each row and server, the servers taking turns within a round. "to …" is the
median of the ratios within each round. "server µs" and "PostgreSQL µs" are the processor time that one request takes, of the server's
process and of its PostgreSQL sessions; other work on the machine disturbs them less than the rates. The load generator itself took ${whole(generator)} µs for each request.

${tables[1]}

The start is the median time from the spawn to the first 200 on a database that is ready. Memory is resident memory of the
process, idle: first after the start, then after all of the load.

## Vitrine beside itself

${tables[2]}

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

- ${machine(postgres, ['fastify', 'postgres', '@node-rs/argon2'])}
- load average before the run: ${loadBefore.toFixed(1)} (a machine with other work to do gives noisy numbers)

\`npm run bench\` writes this file. See *Benchmarks* in CONTRIBUTING.md.
`;

const directory = await mkdtemp(join(tmpdir(), 'vitrine-bench-'));
try {
  const server = await openServer(directory, { postgres: values.postgres });
  const database = await createDatabase(server.url);
  try {
    say('filling the database ...');
    await addUser(['user1'], PASSWORD, { DATABASE_URL: database.url });
    await addMessages(database.sql, 0, MESSAGES);
    const [compared, servers] = rows.length > 0 ? await measureServers(database, directory) : [[], []];
    const ofPairs = pairs.length > 0 ? await measurePairs(database, directory) : [];
    const tables = [rateTable(compared, servers), startTable(servers), pairTable(ofPairs)];
    const hasRows = [rows.length > 0, rows.length > 0, pairs.length > 0];
    process.stdout.write(`${tables.filter((_, index) => hasRows[index]).join('\n\n')}\n`);
    const generator = medianOf(compared, 'generatorCpu');
    if (positionals.length === 0 && !against)
      await writeFile(new URL('results.md', import.meta.url), report(tables, generator, database.version));
  } finally {
    await database.drop();
    await server.close();
  }
} finally {
  endGenerator();
  await rm(directory, { recursive: true, force: true });
}
