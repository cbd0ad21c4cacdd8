// Measures how costs grow with rows, models, columns, connections and processes: npm run bench:scale. See --help.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { message, user } from '../../src/resources/registry.ts';
import { askOnce, PASSWORD } from '../client.ts';
import { endGenerator, HEAD, interruption, measure, medianOf, type Measurement } from '../measure.ts';
import { addMessages, OWNED, removeMessages } from '../messages.ts';
import { createDatabase, openServer, type Database } from '../postgres.ts';
import { watchPeak } from '../processes.ts';
import { BASE, byId, FIRST_PAGE, numbers, POST, PUT, reading, writing, type Row } from '../rows.ts';
import { addUser, withService, type Settings } from '../service.ts';
import { machine, markdown, whole } from '../table.ts';

/** One thing that grows. */
interface Growth {
  readonly title: string;
  /** What is measured, in sentences. */
  readonly text: string;
  readonly sizes: readonly number[];
  readonly shortSizes: readonly number[];
  readonly registry: (size: number) => readonly object[];
  /** SQL, or a function, that fills the tables up to a size; they hold the one before. */
  readonly fill: (database: Database, size: number, before: number) => Promise<unknown>;
  readonly rows: (size: number, first: number) => readonly Row[];
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

/** Messages of the measurements whose tables do not grow. */
const SIZE = short ? 1000 : 100_000;
const EXPORTED = short ? 10_000 : 500_000;
const WRITERS = 16;
const COLUMN = { type: 'string' };
const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

const messages = async ({ sql }: Database, size: number, before: number): Promise<void> => {
  if (size > before) await addMessages(sql, before, size);
};

/** Requests of records that are chosen at random, of models that are. */
function records(
  path: (n: number) => string,
  count: number,
  fields: (n: number, connection: number) => object,
): Row[] {
  const ids = (connection: number): number[] => numbers(connection + 1000, count);
  const write = (method: 'POST' | 'PUT', status: number, pathOf: (n: number, id: number) => string): Row => ({
    name: method,
    status,
    requests: (connection) =>
      ids(connection).map((id, n) =>
        writing(
          method,
          1 + (connection % WRITERS),
          pathOf(numbers(connection, 1e6)[n]!, id),
          fields(n, connection),
        ),
      ),
  });
  const model = (connection: number, n: number): number => numbers(connection, 1e6)[n]!;
  return [
    reading('by id', (connection) => ids(connection).map((id, n) => `${path(model(connection, n))}${id}/`)),
    reading('first page', (connection) => ids(connection).map((_, n) => path(model(connection, n)))),
    write('POST', 201, (n) => path(n)),
    write('PUT', 200, (n, id) => `${path(n)}${id}/`),
  ];
}

const GROWTHS: Readonly<Record<string, Growth>> = {
  rows: {
    title: 'Rows of a table',
    text: `One table of messages, ${OWNED} of each user, in a database that grows. 16 connections read random records and pages of 20 records, and write with credentials and history. The 8,000 records of a measurement are in PostgreSQL's cache after the warm-up.`,
    sizes: [10_000, 100_000, 1_000_000, 10_000_000],
    shortSizes: [1000, 10_000],
    registry: () => [user, message],
    fill: messages,
    rows: (size, first) => [
      byId(size),
      FIRST_PAGE,
      {
        name: 'page by cursor, in the middle',
        status: 200,
        linkOn: `${BASE}?id__gt=${size / 2}`,
        requests: (_, link) => [{ path: link, headers: { Prefer: 'paging=cursor' } }],
      },
      reading('by foreign key', (connection) =>
        numbers(connection, size / OWNED).map((id) => `${BASE}?user=${id}`),
      ),
      POST,
      {
        ...PUT,
        requests: (connection) =>
          times(OWNED, (n) =>
            writing('PUT', 1 + connection, `${BASE}${1 + connection + n * (first / OWNED)}/`, {
              content: `Edited {n} over connection ${connection}`,
            }),
          ),
      },
    ],
  },
  models: {
    title: 'Models',
    text: 'A generated registry: the users, and models with 4 columns and 100 records each. 16 connections go to random models, and write with credentials and history.',
    sizes: [1, 10, 100, 1000],
    shortSizes: [1, 10],
    registry: (size) => [
      user,
      ...times(size, (n) => ({
        model: `model_${n}`,
        columns: {
          name: COLUMN,
          number: { type: 'integer', index: true },
          note: { type: 'text' },
          created: { type: 'datetime', default: 'now' },
        },
        access: 'user',
      })),
    ],
    fill: ({ sql }, size, before) =>
      sql.unsafe(`do $$ begin for n in ${before}..${size - 1} loop execute format(
        'insert into model_%s (name, number, note) select ''Name '' || n, n, ''a note'' from generate_series(1, 100) n', n);
      end loop; end $$`),
    rows: (size) =>
      records((n) => `/api/model_${n % size}/`, 100, (n, connection) => ({
        name: `Written ${n} over ${connection}`,
        number: n,
        note: 'a note',
      })), // prettier-ignore
  },
  columns: {
    title: 'Columns of a model',
    text: 'Models of string columns, each with 10,000 records and about 20 characters in each column. 16 connections; POST and PUT send every column.',
    sizes: [1, 2, 4, 8, 16, 32, 64],
    shortSizes: [1, 8],
    registry: (size) => [
      user,
      {
        model: `width_${size}`,
        columns: Object.fromEntries(times(size, (n) => [`column_${n}`, COLUMN])),
        access: 'user',
      },
    ],
    fill: ({ sql }, size) =>
      sql.unsafe(`insert into width_${size} (${times(size, (n) => `column_${n}`).join()})
        select ${times(size, (n) => `'value ' || n || ' column_${n}'`).join()} from generate_series(1, 10000) n`),
    rows: (size) =>
      records(() => `/api/width_${size}/`, 10_000, (n, connection) =>
        Object.fromEntries(times(size, (column) => [`column_${column}`, `written ${n} over ${connection}`])),
      ), // prettier-ignore
  },
  connections: {
    title: 'Connections',
    text: `Each connection sends its next request as soon as the last one is answered, so the latency grows with the number of connections that wait for the same processors. Flat "server µs" mean that waiting costs nothing. One table of ${whole(SIZE)} messages; POST with credentials and history.`,
    sizes: [1, 4, 16, 64, 256, 1000, 2000],
    shortSizes: [1, 64],
    registry: () => [user, message],
    fill: (database, _, before) => messages(database, SIZE, before === 0 ? 0 : SIZE),
    rows: (size) =>
      [byId(SIZE), FIRST_PAGE, POST].map((row) => ({
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
    registry: () => [user, message],
    fill: (database, _, before) => messages(database, SIZE, before === 0 ? 0 : SIZE),
    rows: () => [byId(SIZE), FIRST_PAGE, POST].map((row) => ({ ...row, connections: 64 })),
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
async function measureRow(run: () => Promise<Measurement>): Promise<readonly string[]> {
  const measured: Measurement[] = [];
  try {
    for (let round = -1; round < rounds; round += 1) {
      const one = await run();
      if (round >= 0) measured.push(one);
    }
  } catch (error) {
    if (interruption.signal.aborted) throw error;
    return [(error as Error).message];
  }
  const middle = (key: 'rate' | 'p50' | 'p99' | 'cpu' | 'databaseCpu'): number => medianOf(measured, key);
  return [
    whole(middle('rate')),
    middle('p50').toFixed(2),
    middle('p99').toFixed(2),
    whole(middle('cpu')),
    whole(middle('databaseCpu')),
  ];
}

async function withDatabase<T>(work: (database: Database) => Promise<T>): Promise<T> {
  const database = await createDatabase(server.url);
  return work(database).finally(() => database.drop());
}

/** Writes a registry, and creates its tables and its users. Gives the settings. */
async function prepareTables({ url, sql }: Database, resources: readonly object[]): Promise<Settings> {
  const settings = { DATABASE_URL: url, RESOURCES: join(directory, 'registry.mjs') };
  await writeFile(settings.RESOURCES, `export default ${JSON.stringify(resources)};\n`);
  const [known] = await sql`select to_regclass('"user"') as found`;
  if (known?.['found'] === null) await addUser(['user1'], PASSWORD, settings);
  return settings;
}

/** The section of one thing that grows. */
async function grow(name: string, growth: Growth): Promise<string> {
  say(`${growth.title} ...`);
  const body: (readonly string[])[] = [];
  const facts: (readonly string[])[] = [];
  const sizes = short ? growth.shortSizes : growth.sizes;
  await withDatabase(async (database) => {
    let before = 0;
    for (const size of sizes) {
      const settings = await prepareTables(database, growth.registry(size));
      const options = { databaseUrl: database.url, settings: { ...settings, ...growth.settings?.(size) } };
      await withService(options, () => Promise.resolve()); // creates the tables
      await growth.fill(database, size, before);
      if (before === 0) await addWriters(database);
      await database.sql.unsafe('vacuum (analyze)');
      await withService(options, async (service, start) => {
        await sleep(short ? 0 : 3000); // long enough for the garbage of the start to be collected
        const idle = await service.memory();
        for (const row of growth.rows(size, sizes[0]!)) {
          say(`  ${whole(size)}: ${row.name}`);
          const cells = await measureRow(() => measure(database, row, service, name, seconds));
          body.push([row.name, whole(size), ...cells]);
        }
        const memory = [await service.memory(), await database.memory()];
        facts.push([whole(size), whole(start), whole(idle), ...memory.map(whole)]);
      });
      if (name in { rows: 0, connections: 0, workers: 0 })
        await removeMessages(database.sql, name === 'rows' ? size : SIZE);
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

/** The users that write, where the tables have no messages. */
const addWriters = ({ sql }: Database): Promise<unknown> =>
  sql.unsafe(`insert into "user" (username, password, email)
    select 'user' || n, password, '' from "user", generate_series(2, ${WRITERS}) n where username = 'user1'
    on conflict do nothing`);

const NDJSON = { Accept: 'application/x-ndjson' };
/** The goal for the extra memory of an export, megabytes. */
const GOAL = 50;

/** All messages as one response: what the process takes at its peak, beyond what it takes before. */
async function measureExports(): Promise<string> {
  say('Exports ...');
  const body: string[][] = [];
  await withDatabase(async (database) => {
    const settings = await prepareTables(database, [user, message]);
    await messages(database, EXPORTED, 0);
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

How the cost of a request grows with rows, models, columns, connections and processes. Each rate, latency and processor time is the median of ${rounds} rounds of ${seconds} s after a warm-up; times of starts, memory and exports are single readings. "server µs" and "PostgreSQL µs" are the processor time of one request, of the service and of its PostgreSQL sessions; other work on the machine disturbs them less than the rates and latencies. "sessions MB" is the private memory of PostgreSQL's sessions, most of it prepared statements.

${sections.join('\n\n')}

## The machine

- ${machine(postgres)}. The load generator, the service and PostgreSQL share it.
- load average before the run: ${loadBefore.toFixed(1)} (a machine with other work to do gives noisy numbers)

\`npm run bench:scale\` took ${Math.ceil((performance.now() - started) / 60_000)} minutes and about 5 GB of disk space, and writes this page. See [Contributing](../CONTRIBUTING.md#benchmarks).
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
