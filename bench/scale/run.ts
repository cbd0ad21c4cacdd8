// Measures how costs grow with rows, models, connections and processes: npm run bench:scale. See --help.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Sql } from 'postgres';
import { message, user } from '../../src/resources/registry.ts';
import { askOnce, PASSWORD } from '../client.ts';
import { endGenerator, HEAD, interruption, measure, cellsOf, type Measurement } from '../measure.ts';
import { addMessages, OWNED, removeMessages } from '../messages.ts';
import { createDatabase, openServer, type Database } from '../postgres.ts';
import { watchPeak } from '../processes.ts';
import { BASE, byId, FIRST_PAGE, numbers, POST, reading, writing, type Row } from '../rows.ts';
import { addUser, withService, type Service, type Settings } from '../service.ts';
import { machine, markdown, whole } from '../table.ts';

/** One thing that grows. */
interface Growth {
  readonly title: string;
  /** What is measured, in sentences. */
  readonly text: string;
  readonly sizes: readonly number[];
  readonly shortSizes: readonly number[];
  readonly registry?: (size: number) => readonly object[];
  /** Fills the tables up to a size. They hold what belongs to the one before. */
  readonly fill: (sql: Sql, size: number, before: number) => Promise<unknown>;
  readonly rows: (size: number) => readonly Row[];
  readonly settings?: (size: number) => Settings;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    short: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
  },
});
const { short } = values;
const rounds = Number(values.rounds ?? (short ? 1 : 3));
const seconds = Number(values.seconds ?? (short ? 0.3 : 2));
const loadBefore = loadavg()[0] ?? NaN;
const started = performance.now();
const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** Messages where the table does not grow, and of an export. */
const [SIZE, EXPORTED] = short ? [5000, 10_000] : [100_000, 500_000];
const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));
const fixed = (sql: Sql, _: number, before: number): Promise<unknown> =>
  before === 0 ? addMessages(sql, 0, SIZE) : removeMessages(sql, SIZE);

/** Many connections write as a few users. */
const COMMON = [byId(SIZE), FIRST_PAGE, { ...POST, requests: (c: number) => POST.requests(c % 16, '') }];

const GROWTHS: Readonly<Record<string, Growth>> = {
  rows: {
    title: 'Rows of a table',
    text: `One table of messages, ${OWNED} of each user, in a database that grows. 16 connections read random records and pages of 20 records, and create records with credentials and history. The 8,000 records of a measurement are in PostgreSQL's cache after the warm-up.`,
    sizes: [10_000, 100_000, 1_000_000, 10_000_000],
    shortSizes: [1000, 10_000],
    fill: (sql, size, before) => removeMessages(sql, before).then(() => addMessages(sql, before, size)),
    rows: (size) => [
      byId(size),
      FIRST_PAGE,
      {
        name: 'page by cursor, in the middle',
        status: 200,
        linkOn: `${BASE}?id__gt=${size / 2}`,
        requests: (_, link) => [{ path: link, headers: { Prefer: 'paging=cursor' } }],
      },
      reading('by foreign key', (c) => numbers(c, size / OWNED).map((id) => `${BASE}?user=${id}`)),
      POST,
    ],
  },
  models: {
    title: 'Models',
    text: 'A generated registry: the users, and models with 3 columns and 100 records each. 16 connections go to random models, and write with credentials and history.',
    sizes: [1, 10, 100, 1000],
    shortSizes: [1, 10],
    registry: (size) =>
      times(size, (n) => ({
        model: `model_${n}`,
        columns: {
          name: { type: 'string' },
          number: { type: 'integer', index: true },
          note: { type: 'text' },
        },
        access: 'user',
      })),
    fill: (sql, size, before) =>
      sql.unsafe(`do $$ begin for n in ${before}..${size - 1} loop execute format(
        'insert into model_%s (name, number, note) select ''Name'', n, ''a note'' from generate_series(1, 100) n', n);
      end loop; end $$`),
    rows: (size) => {
      const path = (c: number, n: number): string => `/api/model_${numbers(c, size)[n]! - 1}/`;
      const record = (c: number): readonly string[] => numbers(c, 100).map((id, n) => `${path(c, n)}${id}/`);
      const list = (c: number): readonly string[] => numbers(c, 100).map((_, n) => path(c, n));
      const fields = { name: 'written {n}', number: 1, note: 'a note' };
      const write = (method: 'POST' | 'PUT', status: number, paths: typeof list): Row => ({
        name: method,
        status,
        requests: (c) => paths(c).map((one) => writing(method, 1 + c, one, fields)),
      });
      return [
        reading('by id', record),
        reading('first page', list),
        write('POST', 201, list),
        write('PUT', 200, record),
      ];
    },
  },
  connections: {
    title: 'Connections',
    text: `Each connection sends its next request as soon as the last one is answered, so the latency grows with the number of connections that wait for the same processors. Flat "server µs" mean that waiting costs nothing. One table of ${whole(SIZE)} messages; POST with credentials and history.`,
    sizes: [1, 4, 16, 64, 256, 1000, 2000],
    shortSizes: [1, 64],
    fill: fixed,
    rows: (size) =>
      COMMON.map((row) => ({
        ...row,
        connections: size,
        requests: (connection, link) => row.requests(connection, link).slice(0, Math.ceil(16_000 / size)),
      })),
  },
  workers: {
    title: 'Workers',
    text: '`WORKERS` processes serve one port over 64 connections. The load generator, PostgreSQL and the workers share the processors of the machine, so workers beyond the free processors make each request dearer and add nothing. "server µs" and the memory are sums over all processes of the service.',
    sizes: [1, 2, 4],
    shortSizes: [1, 2],
    fill: fixed,
    rows: () => COMMON.map((row) => ({ ...row, connections: 64 })),
    settings: (size) => ({ WORKERS: String(size) }),
  },
};
const EXPORTS = 'exports';
const NAMES = [...Object.keys(GROWTHS), EXPORTS];
const unknown = positionals.filter((name) => !NAMES.includes(name));
if (unknown.length > 0 || !(rounds > 0) || !(seconds > 0))
  throw new Error(`npm run bench:scale -- [${NAMES.join('] [')}] [--short] [--rounds N] [--seconds N]`);
const isWanted = (name: string): boolean => positionals.length === 0 || positionals.includes(name);

/** Measures one row at one size: the medians of the rounds, or why it is left out. */
async function measureRow(database: Database, row: Row, service: Service): Promise<readonly string[]> {
  const measured: Measurement[] = [];
  try {
    for (let round = -1; round < rounds; round += 1)
      measured.push(await measure(database, row, service, row.name, seconds));
  } catch (error) {
    if (interruption.signal.aborted) throw error;
    return [(error as Error).message];
  }
  return cellsOf(measured.slice(1));
}

/** Makes a database for some work, with a user who writes. */
async function withDatabase<T>(
  work: (database: Database, settings: (more: readonly object[]) => Promise<Settings>) => Promise<T>,
): Promise<T> {
  const database = await createDatabase(server.url);
  const file = join(directory, 'registry.mjs');
  const settings = async (more: readonly object[]): Promise<Settings> => {
    await writeFile(file, `export default ${JSON.stringify([user, message, ...more])};\n`);
    return { RESOURCES: file };
  };
  try {
    await addUser(['user1'], PASSWORD, { ...(await settings([])), DATABASE_URL: database.url });
    return await work(database, settings);
  } finally {
    await database.drop();
  }
}

/** The section of one thing that grows. */
async function grow(name: string, growth: Growth): Promise<string> {
  say(`${growth.title} ...`);
  const body: (readonly string[])[] = [];
  const facts: (readonly string[])[] = [];
  await withDatabase(async (database, settingsOf) => {
    const { url, sql } = database;
    let before = 0;
    for (const size of short ? growth.shortSizes : growth.sizes) {
      const settings = { ...(await settingsOf(growth.registry?.(size) ?? [])), ...growth.settings?.(size) };
      const options = { databaseUrl: url, settings };
      await withService(options, () => Promise.resolve()); // creates the tables
      if (growth.registry && before === 0) await addMessages(sql, 0, 16 * OWNED); // for the users
      await growth.fill(sql, size, before);
      await sql.unsafe('vacuum (analyze)');
      await withService(options, async (service, start) => {
        await sleep(short ? 0 : 3000); // long enough for the garbage of the start to be collected
        const idle = await service.memory();
        for (const row of growth.rows(size)) {
          say(`  ${whole(size)}: ${row.name}`);
          body.push([row.name, whole(size), ...(await measureRow(database, row, service))]);
        }
        facts.push([size, start, idle, await service.memory(), await database.memory()].map(whole));
      });
      before = size;
    }
  });
  const sorted = [...new Set(body.map(([row]) => row))].flatMap((row) => body.filter(([one]) => one === row));
  return [
    `## ${growth.title}`,
    growth.text,
    markdown(['request', name, ...HEAD], sorted, 1),
    markdown([name, 'start ms', 'idle MB', 'MB after the load', 'sessions MB'], facts, 0),
  ].join('\n\n');
}

const NDJSON = { Accept: 'application/x-ndjson' };
/** The goal for the extra memory of an export, megabytes. */
const GOAL = 50;

/** All messages as one response: what the process takes at its peak, beyond what it takes before. */
async function measureExports(): Promise<string> {
  say('Exports ...');
  const body: string[][] = [];
  await withDatabase(async (database, settingsOf) => {
    const settings = await settingsOf([]);
    await addMessages(database.sql, 0, EXPORTED);
    for (const [name, headers, rate] of [
      ['NDJSON', NDJSON, undefined],
      ['CSV', { Accept: 'text/csv', Prefer: 'paging=none' }, undefined],
      ['NDJSON, slow client (8 MiB/s)', NDJSON, 8 * 2 ** 20],
    ] as const)
      await withService({ databaseUrl: database.url, settings }, async (service) => {
        for (const time of ['first', 'again']) {
          await sleep(short ? 0 : 3000);
          const before = await service.memory();
          const peak = await watchPeak(service.pid());
          const options = { rate, patience: 600_000 };
          const answer = await askOnce(service.port, { path: BASE, headers }, options);
          if (answer.status !== 200) throw new Error(`the export is ${answer.status}`);
          const taken = [answer.size / 2 ** 20, answer.time / 1000, before, (await peak()) - before];
          body.push([name, time, ...taken.map((number) => number.toFixed(1))]);
        }
      });
  });
  return [
    '## Exports',
    `All ${whole(EXPORTED)} messages as one response. "before MB" is the resident memory of the service before the export, "extra MB" what it has more at its peak. Each format begins with a new process, and is exported twice: first on the idle process, then again. The goal is less than ${GOAL} MB extra for the second one; the first one also takes what the process keeps for later.`,
    markdown(['format', '', 'response MB', 'seconds', 'before MB', 'extra MB'], body, 2),
  ].join('\n\n');
}

/** The whole page. */
const report = (sections: readonly string[], postgres: string): string => `# Scale

How the cost of a request grows with rows, models, connections and processes. Each rate, latency and processor time is the median of ${rounds} rounds of ${seconds} s after a warm-up; times of starts, memory and exports are single readings. "server µs" and "PostgreSQL µs" are the processor time of one request, of the service and of its PostgreSQL sessions; other work on the machine disturbs them less than the rates and latencies. "sessions MB" is the private memory of PostgreSQL's sessions, most of it prepared statements.

${sections.join('\n\n')}

## The machine

- ${machine(postgres)}. The load generator, the service and PostgreSQL share it.
- load average before the run: ${loadBefore.toFixed(1)} (a machine with other work to do gives noisy numbers)

\`npm run bench:scale\` took ${Math.ceil((performance.now() - started) / 60_000)} minutes and about 5 GB of disk space, and writes this page. See [Contributing](../CONTRIBUTING.md#measuring-and-attacking).
`;

const directory = await mkdtemp(join(tmpdir(), 'vitrine-scale-'));
const server = await openServer(directory, { settings: { max_connections: 200 } });
try {
  const sections: string[] = [];
  for (const [name, growth] of Object.entries(GROWTHS))
    if (isWanted(name)) process.stdout.write(`${sections[sections.push(await grow(name, growth)) - 1]}\n\n`);
  if (isWanted(EXPORTS)) process.stdout.write(`${sections[sections.push(await measureExports()) - 1]}\n`);
  const postgres = await withDatabase(({ version }) => Promise.resolve(version));
  if (process.argv.length === 2)
    await writeFile(new URL('../scale.md', import.meta.url), report(sections, postgres));
} finally {
  endGenerator();
  await server.close();
  await rm(directory, { recursive: true, force: true });
}
