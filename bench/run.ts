// Measures Vitrine beside the same endpoints written by hand: npm run bench. Settings: BENCH_DATABASE_URL (a server; else
// an embedded one), BENCH_ROUNDS, BENCH_SECONDS, BENCH_ROWS (names separated by commas; else all), BENCH_AGAINST (the folder of
// another version of Vitrine, compiled, which then takes the place of the other servers).
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createDatabase, type BenchDatabase } from './database.ts';
import { checkDuties } from './duties.ts';
import { measure, type Equipment } from './measure.ts';
import { measurePairs } from './measure-pairs.ts';
import { PAIRS } from './pairs.ts';
import { BEFORE, DUTIES, report, tables, type Measurement, type ServerFacts } from './report.ts';
import { PASSWORD, ROWS, type Request } from './rows.ts';
import { setting } from './settings.ts';
import {
  addFirstUser,
  compile,
  linkPackages,
  startServer,
  VITRINE,
  type Program,
  type Server,
} from './servers.ts';

const STARTS = 5;
/** How many requests of a row are compared. */
const COMPARED = 5;

const loadBefore = loadavg()[0] ?? NaN;
const rounds = setting('BENCH_ROUNDS', 5);
const seconds = setting('BENCH_SECONDS', 2);
const wanted = process.env['BENCH_ROWS'];
const against = process.env['BENCH_AGAINST'];
// Names may have commas.
const isWanted = ({ name }: { readonly name: string }): boolean =>
  wanted === undefined || `,${wanted},`.includes(`,${name},`);
const rows = ROWS.filter(isWanted);
const pairs = against ? [] : PAIRS.filter(({ row }) => isWanted(row));
if (rows.length + pairs.length === 0)
  throw new Error(
    `BENCH_ROWS knows ${[...ROWS, ...PAIRS.map(({ row }) => row)].map(({ name }) => name).join(', ')}`,
  );

/** Ctrl-C ends the measuring; what was started and made is still stopped and dropped. */
const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => interruption.abort());

const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** What must be the same on every server; of a new record not its key and its time. */
async function ask({ port }: Server, { method, path, headers, body }: Request): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body: body ?? null });
  const text = await response.text();
  const comparable = method === 'POST' ? text.replace(/"id":\d+/, '').replace(/[\d-]+ [\d:]+"}$/, '') : text;
  return `${method} ${path} ${response.status} ${response.headers.get('content-type')}\n${comparable}`;
}

/** Stops where two servers do not give the same answer to the same request. */
async function compare(all: readonly Server[]): Promise<void> {
  for (const row of ROWS) {
    const servers = all.filter((server) => server.serves(row));
    for (const request of row.requests(0, '').slice(0, COMPARED)) {
      const answers = await Promise.all(servers.map((server) => ask(server, request)));
      assert.match(answers[0] ?? '', new RegExp(`^\\S+ \\S+ ${row.status} `));
      for (const [index, answer] of answers.entries())
        assert.equal(answer, answers[0], `${servers[index]?.name} answers otherwise: ${row.name}`);
    }
  }
}

/** Each round runs every row on every server; who comes first goes round too. */
async function measureAll(equipment: Equipment, servers: readonly Server[]): Promise<Measurement[]> {
  const measurements: Measurement[] = [];
  for (let round = -1; round < rounds; round += 1) {
    say(round < 0 ? 'warming up ...' : `round ${round + 1} of ${rounds} ...`);
    for (const [index, row] of rows.entries()) {
      for (let turn = 0; turn < servers.length; turn += 1) {
        const server = servers[(round + 1 + index + turn) % servers.length];
        if (!server?.serves(row)) continue;
        const measurement = await measure(equipment, row, server, round < 0 ? seconds / 2 : seconds);
        if (round >= 0) measurements.push(measurement);
      }
    }
    await equipment.database.restore();
  }
  return measurements;
}

async function measureStarts(program: Program, databaseUrl: string): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < STARTS; index += 1) {
    interruption.signal.throwIfAborted();
    const server = await startServer(program, databaseUrl);
    times.push(server.start);
    await server.stop();
  }
  return times;
}

async function bench(directory: string, database: BenchDatabase): Promise<void> {
  say('filling the database ...');
  await addFirstUser(database.url, PASSWORD);
  await database.fill();
  await linkPackages(directory);
  const generator = fork(new URL('load.ts', import.meta.url));
  generator.once('exit', () => interruption.abort());
  const equipment: Equipment = { generator, database, interruption: interruption.signal };
  try {
    const compared = rows.length > 0 ? await compareServers(directory, equipment) : undefined;
    const ofPairs =
      pairs.length > 0 ? await measurePairs(pairs, directory, equipment, { rounds, seconds }) : [];
    const results = { ...compared, pairs: ofPairs, rounds, seconds, postgres: database.version, loadBefore };
    process.stdout.write(`${tables(results)}\n`);
    if (!wanted && !against) await writeFile(new URL('results.md', import.meta.url), await report(results));
  } finally {
    generator.kill();
  }
}

/** Measures the rows on Vitrine and on the other servers. */
async function compareServers(
  directory: string,
  equipment: Equipment,
): Promise<{ measurements: Measurement[]; facts: ServerFacts[] }> {
  const { url } = equipment.database;
  const others = against
    ? [{ ...VITRINE, name: BEFORE, parameters: [resolve(against, 'dist/main.js'), 'serve'] }]
    : [
        await compile('Fastify', 'fastify.ts', directory),
        await compile('bare', 'bare.ts', directory),
        {
          ...(await compile(DUTIES, 'fastify-duties.ts', directory)),
          firstPath: '/healthz',
          methods: ['POST', 'PUT'],
        },
      ];
  const programs = [VITRINE, ...others];
  const servers: Server[] = [];
  const facts: (ServerFacts & { memory: number[] })[] = [];
  try {
    for (const program of programs) {
      const starts = await measureStarts(program, url);
      const server = await startServer(program, url);
      servers.push(server);
      facts.push({ server: program.name, firstPath: program.firstPath, starts, memory: [] });
    }
    const noteMemory = async (): Promise<void> => {
      // Long enough for the garbage of what went before to be collected.
      await new Promise((done) => setTimeout(done, 3000));
      for (const [index, server] of servers.entries()) facts[index]?.memory.push(await server.memory());
    };
    await noteMemory();
    await compare(servers);
    const dutiful = servers.filter(({ name }) => [VITRINE.name, DUTIES].includes(name));
    await checkDuties(dutiful, equipment.database);
    const measurements = await measureAll(equipment, servers);
    await noteMemory();
    return { measurements, facts };
  } finally {
    for (const server of servers) await server.stop();
  }
}

const directory = await mkdtemp(join(tmpdir(), 'vitrine-bench-'));
await chmod(directory, 0o755); // the embedded server runs as another user when this is root
try {
  const database = await createDatabase(directory);
  await bench(directory, database).finally(() => database.drop());
} finally {
  await rm(directory, { recursive: true, force: true });
}
