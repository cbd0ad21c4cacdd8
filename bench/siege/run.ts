// Attacks a compiled service, serves honest crowds, and holds it to its limits: npm run siege. See --help.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { askOnce, PASSWORD, prepare, type Request } from '../client.ts';
import { addMessages, MESSAGES, OWNED, removeMessages, USERS } from '../messages.ts';
import { createCluster, createDatabase, openServer, sessions, type Database } from '../postgres.ts';
import { processorTime, residentMemory, until } from '../processes.ts';
import { addUser, createService, type Service, type Settings } from '../service.ts';
import { machine, markdown, quantile, short } from '../table.ts';
import type { AttackReport, Job, LoadReport, Measured } from '../worker.ts';
import { ATTACKS, times, type Attack, type Limits } from './attacks.ts';
import { CROWDED, CROWDS } from './crowds.ts';
import { live, rowsOf, type Lived, type Row } from './people.ts';
import { hostileTexts } from './texts.ts';

const TEXTS = 'texts';
const NAMES = [...ATTACKS.map(([name]) => name), TEXTS, ...CROWDS.map(([name]) => name)];
const USAGE = `Usage: npm run siege -- [NAME...] [--seconds N] [--tries N] [--workers N] [--replica] [--postgres VERSION]

Runs attacks and honest crowds against a fresh, compiled service each, and measures what an honest client notices. Exit code 1 if
a value exceeds its limit. A run of all of them also writes bench/siege.md.

  --seconds N   how long an attack is measured, where it does not say so itself (12)
  --tries N     how often an attack that exceeds a limit is tried, as the speed of a shared machine changes (3)
  --workers N   processes of the service (1)
  --replica     a standby answers reads
  --postgres V  a version of Debian's PostgreSQL, or the folder of its programs; else the embedded one, or BENCH_DATABASE_URL

Names: ${NAMES.join(', ')}
`;
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '12' },
    tries: { type: 'string', default: '3' },
    workers: { type: 'string', default: '1' },
    replica: { type: 'boolean', default: false },
    postgres: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const isWanted = (name: string): boolean => positionals.length === 0 || positionals.includes(name);
if (values.help || !positionals.every((name) => NAMES.includes(name))) {
  process.stdout.write(USAGE);
  process.exit(values.help ? 0 : 1);
}

/** Seconds of the reference. */
const REFERENCE = 3;
/** Limits of all: megabytes, and milliseconds until the slowest refusal (`MAX_WAIT` of costly reads, and a little). */
const ALL: Limits = { memory: 300, refusal: 12_000 };
const HONEST = '198.51.100.10';
const NEIGHBOR = '198.51.100.20';
const REGISTRY = resolve('bench/siege/registry.mjs');
const GAUGE = resolve('bench/siege/gauge.mjs');

const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** Without a value (NaN) the limit is not kept. */
const isKept = ({ isLeast, limit, value }: Row): boolean => (isLeast ? value >= limit : value <= limit);

/** All that is measured under an attack. */
interface Siege {
  readonly reference?: Probed | undefined;
  readonly during?: Probed | undefined;
  readonly readRate?: number;
  readonly watched: Watched;
  readonly reports: readonly AttackReport[];
  /** Of the service, at the end: the age of the oldest in milliseconds. */
  readonly snapshots?: { readonly oldest: number; readonly count: number };
  /** Milliseconds of the longest statement, of one that runs alone, and the most at once. */
  readonly statements?: { readonly longest: number; readonly alone: number; readonly atOnce: number };
}

const refusals = ({ reports }: Siege): number[] => reports.flatMap((report) => report.refusals);
const largest = ({ reports }: Siege): number => Math.max(...reports.map((report) => report.largest)) / 1000;
const ratio = (siege: Siege, of: (probed: Probed) => number): number =>
  siege.during && siege.reference ? of(siege.during) / of(siege.reference) : NaN;

/** What each limit is about. */
const MEASURES: readonly (readonly [keyof Limits, what: string, unit: string, (siege: Siege) => number])[] = [
  ['read', 'by-id p99', '×', (siege) => ratio(siege, ({ reads }) => reads.p99)],
  ['readRate', 'reads per second', '×', ({ during, readRate = NaN }) => during!.reads.rate / readRate],
  ['write', 'median write', 'ms', ({ during }) => during!.writes.p50],
  ['failures', 'writes that failed', '%', ({ during }) => 100 * during!.writes.failures],
  // Some writes may get a connection at once and others wait for long, which the median does not show.
  ['writeRate', 'writes per second', '×', (siege) => ratio(siege, ({ writes }) => writes.rate)],
  ['hold', 'event loop held', 'ms', ({ watched }) => watched.hold],
  ['memory', 'memory', 'MB', ({ watched }) => watched.memory],
  ['refusal', 'slowest refusal', 'ms', (siege) => Math.max(0, ...refusals(siege))],
  ['refusals', 'refusals, 95 % within', 'ms', (siege) => quantile(refusals(siege), 0.95)],
  ['largest', 'largest answer', 'KB', largest],
  ['snapshot', 'oldest snapshot', 'ms', ({ snapshots: one }) => one!.oldest],
  ['snapshots', 'snapshots of a process', '', ({ snapshots: one }) => one!.count / Number(values.workers)],
  ['statement', 'longest statement', '×', ({ statements: one }) => one!.longest / one!.alone],
  ['atOnce', 'such statements at once', '', ({ statements: one }) => one!.atOnce],
];
const LEAST: readonly (keyof Limits)[] = ['readRate', 'writeRate'];

const limitRows = (limits: Limits, siege: Siege): Row[] =>
  MEASURES.flatMap(([key, what, unit, value]) => {
    const limit = limits[key];
    return limit === undefined
      ? []
      : [{ what, limit, unit, value: value(siege), isLeast: LEAST.includes(key) }];
  });

/** What a run has: its database, its settings, and processes that send requests. */
interface World {
  readonly database: Database;
  readonly settings: Settings;
  readonly directory: string;
}

async function createWorld(serverUrl: string, directory: string, settings: Settings): Promise<World> {
  const database = await createDatabase(serverUrl);
  const { sql, url } = database;
  const registry = { DATABASE_URL: url, RESOURCES: REGISTRY };
  await sql`create extension citext`;
  await sql`create table folded (id integer generated by default as identity primary key, body citext, tags citext[])`;
  await addUser(['user1'], PASSWORD, registry);
  await addMessages(sql, 0, MESSAGES);
  await sql`insert into document (body) select repeat('0123456789abcdef', 65536) from generate_series(1, 640)`;
  await sql`insert into measure (station, day) values (1, '2026-01-01')`;
  await sql`insert into diary (entry) select repeat('a line ', 200) from generate_series(1, 1200)`;
  const columns = times(80, (n) => `column${n}`);
  const made = columns.map((_, n) => (n < 60 ? `now() - n * interval '1 day'` : 'random() * n'));
  await sql.unsafe(
    `insert into report (${columns.join()}) select ${made.join()} from generate_series(1, 1200) n`,
  );
  await sql`insert into value (string) values ('a')`;
  return { database, settings, directory };
}

const endSessions = ({ database: { sql } }: World): Promise<unknown> =>
  sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'vitrine'`;

/** Takes away what an attack has left. */
async function restore(world: World, messages: number): Promise<void> {
  const { sql } = world.database;
  await endSessions(world);
  await sql`drop function if exists slow cascade`;
  await sql`truncate value, folded, vitrine_history restart identity`;
  await sql`insert into value (string) values ('a')`;
  await sql`delete from diary where id > 1200`;
  await sql`delete from document where id > 640`;
  await sql`delete from measure where station > 1`;
  await removeMessages(sql, messages);
}

const workers: ChildProcess[] = [];
/** Seconds after which a process that was asked to stop is killed. */
const MAX_STOP = 5;

/** Gives a job to a process of its own. @returns ends it */
function start<Report>(job: Job): {
  readonly report: Promise<Report>;
  readonly stop: () => Promise<Report | undefined>;
} {
  const worker = workers.pop() ?? fork(new URL('../worker.ts', import.meta.url));
  const report = once(worker, 'message').then(([message]) => {
    workers.push(worker);
    return message as Report;
  });
  worker.send(job);
  return {
    report,
    stop: async () => {
      worker.send('stop');
      const late = sleep(MAX_STOP * 1000, undefined, { ref: false });
      const done = await Promise.race([report, late]);
      if (!done) worker.kill('SIGKILL');
      return done;
    },
  };
}

interface Probed {
  readonly reads: Measured;
  readonly writes: Measured;
}

/** The honest client: it reads records by id over 8 connections, and edits records of its own over 4. */
async function probe({ port }: Service, seconds: number, parts = 1): Promise<Probed> {
  const headers = { 'X-Forwarded-For': HONEST };
  const reads = times(8, () =>
    times(500, () => ({ path: `/api/message/${1 + Math.floor(Math.random() * MESSAGES)}/`, headers })),
  );
  const writes = times(4, (user) =>
    times(OWNED, (n) => ({
      method: 'PUT',
      path: `/api/message/${1 + user + n * USERS}/`,
      as: `user${1 + user}`,
      headers,
      body: '{"content":"Written {n} in the siege"}',
    })),
  );
  const groups = [
    { requests: reads, status: 200, parts },
    { requests: writes, status: 200, pause: 30 },
  ];
  const { report } = start<LoadReport>({ kind: 'load', port, seconds, groups });
  const [first, second] = (await report).groups;
  return { reads: first!, writes: second! };
}

/** A service behind one trusted proxy, which reports how long its event loop was held. */
async function startService({ database, settings, directory }: World, more: Settings = {}): Promise<Service> {
  const service = await createService({
    databaseUrl: database.url,
    flags: ['--import', GAUGE],
    settings: {
      LOG_LEVEL: 'error',
      RESOURCES: REGISTRY,
      TRUST_PROXY: '1',
      SIEGE_HOLDS: join(directory, 'holds'),
      ...settings,
      ...more,
    },
  });
  await service.start();
  return service;
}

interface Watched {
  /** The longest that the event loop was held, milliseconds of processor time. */
  readonly hold: number;
  /** The most resident memory of a process, megabytes. */
  readonly memory: number;
}

/** Begins to watch a service. @returns ends it */
function watch(service: Service, { directory }: World): () => Promise<Watched> {
  const from = Date.now();
  const pid = service.pid();
  let memory = 0;
  const sample = async (): Promise<void> => {
    // A search through all processes would slow down the service.
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
    for (const one of [pid, ...children.split(' ').filter(Boolean).map(Number)])
      memory = Math.max(memory, (await residentMemory(one)) || 0);
  };
  void sample();
  const timer = setInterval(() => void sample(), 100);
  return async () => {
    // A hold is reported when it is over, and the answer shows that.
    const asked = Date.now();
    const isFree = await askOnce(service.port, { path: '/healthz' }).then(() => true, () => false); // prettier-ignore
    await sleep(100);
    clearInterval(timer);
    const lines = (await readFile(join(directory, 'holds'), 'utf8'))
      .split('\n')
      .map((line) => line.split(' '));
    const holds = lines.filter(([at]) => Number(at) >= from).map(([, busy]) => Number(busy));
    return { hold: Math.max(0, ...holds, isFree ? 0 : Date.now() - asked), memory };
  };
}

/** Milliseconds of a statement that counts. */
const LONG_STATEMENT = 30;

/** Looks at all statements of the service: how long they occupy PostgreSQL, and how many at once. @returns ends it */
function watchStatements({ database: { sql } }: World): () => Promise<{ longest: number; atOnce: number }> {
  /** Of each backend: its statement, and its processor time when that began, or less. */
  const seen = new Map<number, { readonly begun: string; readonly from: number; readonly last: number }>();
  let [longest, atOnce, isOver] = [0, 0, false];
  const look = async (): Promise<void> => {
    const rows = await sql<{ pid: number; begun: string; ms: number; active: boolean }[]>`
      select pid, query_start::text as begun, state = 'active' as active,
        (extract(epoch from clock_timestamp() - query_start) * 1000)::float8 as ms
      from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' and query_start is not null`;
    let count = 0;
    for (const { pid, begun, ms, active } of rows) {
      const busy = (await processorTime(pid, 'postgres')) / 1000;
      const before = seen.get(pid);
      // What the backend did between two looks counts as part of the later statement.
      const from = before?.begun === begun ? before.from : (before?.last ?? 0);
      seen.set(pid, { begun, from, last: busy });
      // Processor time, as others may only wait for a processor.
      const took = active ? Math.min(Number.isNaN(busy) ? ms : busy - from, ms) : 0;
      longest = Math.max(longest, took);
      if (took > LONG_STATEMENT) count += 1;
    }
    atOnce = Math.max(atOnce, count);
  };
  const looks = (async () => {
    for (; !isOver; await sleep(50)) await look();
  })();
  return async () => {
    isOver = true;
    await looks;
    return { longest: longest < LONG_STATEMENT ? 0 : longest, atOnce };
  };
}

/** Measures a fresh service without an attack and under one. */
async function runAttack(world: World, [, jobs, limits, more = {}]: Attack): Promise<Row[]> {
  const { people = [], setup, alone, locks, settings, disconnects = 0, ignoresEnd = false } = more;
  const { ramp = [jobs].flat().length > 0 ? 1500 : 0, seconds = Number(values.seconds) } = more;
  const { sql } = world.database;
  if (setup) await sql.unsafe(setup);
  const started = performance.now();
  if (alone) await sql.unsafe(alone);
  const timeAlone = performance.now() - started;
  const service = await startService(world, settings);
  const locker = locks ? await sql.reserve() : undefined;
  if (locker) await locker.unsafe(`begin; ${locks}`).simple();
  try {
    const isProbed = 'read' in limits || 'readRate' in limits || 'write' in limits;
    const probeFor = async (time: number, parts = 1) => (isProbed ? probe(service, time, parts) : undefined);
    const { port } = service;
    const livedBefore: Lived[] = [];
    const livedApart: Lived[] = [];
    await probeFor(1); // verifies the writers' passwords and warms up
    for (const [index, one] of people.entries()) {
      for (const request of one.before ?? []) await askOnce(port, prepare(request)(NEIGHBOR));
      if (one.times !== undefined) livedBefore[index] = await live(port, one, REFERENCE);
      if (one.asApart !== undefined) livedApart[index] = await live(port, one, REFERENCE, true);
    }
    const reference = await probeFor(REFERENCE);
    const end = watch(service, world);
    const endStatements = alone ? watchStatements(world) : undefined;
    const attacks = [jobs].flat().map((job) => start<AttackReport>({ ...job, port, timedAfter: ramp }));
    await sleep(ramp);
    const living = Promise.all(people.map((one) => live(port, one, seconds)));
    const during = await probeFor(seconds, 3);
    for (let count = 0; count < disconnects; count += 1) await sleep(500).then(() => endSessions(world));
    const lived = await living;
    const snapshots = await snapshotsOf(world);
    const early = ignoresEnd ? await end() : undefined;
    const reports = (await Promise.all(attacks.map((attack) => attack.stop()))).filter(
      (one) => one !== undefined,
    );
    const watched = early ?? (await end());
    // The attackers have left. What PostgreSQL cannot cancel runs on.
    if (alone)
      await until(
        'the statements to end',
        async () => (await sessions(sql, "state = 'active'")).length === 0,
      );
    const found = await endStatements?.();
    const statements = found && { ...found, alone: timeAlone };
    let readRate = reference?.reads.rate ?? NaN;
    if ('readRate' in limits) {
      await sleep(1000);
      readRate = (readRate + (await probe(service, REFERENCE)).reads.rate) / 2; // the machine's speed changes
    }
    const atOnce = limits.atOnce && { atOnce: limits.atOnce * Number(values.workers) };
    const siege = {
      reference,
      during,
      readRate,
      watched,
      reports,
      snapshots,
      ...(statements && { statements }),
    };
    return [
      ...people.flatMap((one, index) => rowsOf(one, lived[index]!, livedBefore[index], livedApart[index])),
      ...limitRows({ ...ALL, ...('write' in limits && { failures: 0 }), ...limits, ...atOnce }, siege),
      ...(service.isAlive() ? [] : [{ what: 'ends of the service', limit: 0, value: 1, unit: '' }]),
    ];
  } finally {
    if (locker) await locker`rollback`;
    locker?.release();
    await service.kill();
  }
}

async function snapshotsOf({ database: { sql } }: World): Promise<Siege['snapshots'] & {}> {
  const [row] = await sql<{ oldest: number; count: number }[]>`
    select coalesce(max(extract(epoch from now() - xact_start)), 0)::float * 1000 as oldest, count(*)::int
    from pg_stat_activity
    where datname = current_database() and application_name = 'vitrine' and backend_xmin is not null`;
  return row!;
}

const isAnswered = ({ port }: Service, request: Request): Promise<boolean> =>
  askOnce(port, request).then(() => true, () => false); // prettier-ignore

/** Sends every hostile text to every place. A place after which the service does not answer is frozen. */
async function runTexts(world: World): Promise<Row[]> {
  const service = await startService(world);
  const end = watch(service, world);
  let frozen: string | undefined;
  try {
    for (const [place, request] of hostileTexts()) {
      // A refused body may end in a reset.
      if ((await isAnswered(service, request)) || (await isAnswered(service, { path: '/healthz' }))) continue;
      frozen = place;
      break;
    }
    const what = `places that freeze the service (${frozen ?? 'none'})`;
    const rows = limitRows({ hold: 50, memory: 300 }, { watched: await end(), reports: [] });
    return [{ what, limit: 0, value: frozen === undefined ? 0 : 1, unit: '' }, ...rows];
  } finally {
    await service.kill();
  }
}

interface Result {
  readonly name: string;
  readonly rows: readonly Row[];
  readonly tries: number;
}
const isHeld = ({ rows }: Result): boolean => rows.length > 0 && rows.every(isKept);

const HEAD = ['attack or crowd', 'measured', 'limit', 'value', ''];
const lines = ({ name, rows, tries }: Result): string[][] =>
  rows.map((row, index) => {
    const quantity = (value: number): string =>
      `${short(value)}${row.unit === '×' ? '×' : ` ${row.unit}`}`.trim();
    const first = `${name}${tries > 1 ? `, try ${tries}` : ''}`;
    const verdict = isKept(row) ? 'ok' : '**over**';
    const bound = row.isLeast ? 'at least' : 'at most';
    return [
      index === 0 ? first : '',
      row.what,
      `${bound} ${quantity(row.limit)}`,
      quantity(row.value),
      verdict,
    ];
  });

function summary(results: readonly Result[]): string {
  const over = results.filter((result) => !isHeld(result)).map(({ name }) => name);
  return over.length === 0
    ? 'Every limit is kept.'
    : `${over.length} of ${results.length} exceed a limit: ${over.join(', ')}.`;
}

/** The page of a full run. */
const report = (results: readonly Result[], postgres: string): string => `# Under siege

\`npm run siege\` writes this page. Each attack runs in processes of its own against a fresh, compiled service with ${MESSAGES.toLocaleString('en')} rows; the requests of each are in [attacks.ts](siege/attacks.ts). Meanwhile an honest client at another address reads records by id over 8 connections and edits records over 4.
The honest crowds of [crowds.ts](siege/crowds.ts), which must all be answered, have ${CROWDED.toLocaleString('en')} rows.

- "×" compares with the same client on the same service just before the attack, for rates before and after it. Values under attack are the median of three rounds.
- "event loop held" is processor time of the main thread between two turns of the loop, so waiting for a core does not count.
- "longest statement" is processor time of one process of PostgreSQL, for the same reason.
- Attackers, client, service and PostgreSQL share the cores of one machine. Its speed changes, so an attack over a limit is repeated up to twice; its row says so.

${summary(results)} ${machine(postgres)}.

${markdown(HEAD, results.flatMap(lines), 3)}
`;

/** Ctrl-C ends the run; the database and every process are still cleaned up. */
const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => interruption.abort());

async function perform(
  world: World,
  name: string,
  run: () => Promise<Row[]>,
  messages: number,
): Promise<Result[]> {
  if (!isWanted(name) || interruption.signal.aborted) return [];
  for (let tries = 1; ; tries += 1) {
    const started = performance.now();
    let rows: Row[];
    try {
      rows = await run();
    } catch (error) {
      rows = [{ what: (error as Error).message, limit: 0, value: NaN, unit: '' }];
    }
    await restore(world, messages);
    const result = { name, rows, tries };
    say(`${name}: ${((performance.now() - started) / 1000).toFixed(1)} s`);
    for (const line of lines(result)) process.stdout.write(`| ${line.join(' | ')} |\n`);
    if (isHeld(result) || tries === Number(values.tries) || interruption.signal.aborted) return [result];
  }
}

async function runAll(world: World): Promise<Result[]> {
  const results: Result[] = [];
  for (const attack of ATTACKS)
    results.push(...(await perform(world, attack[0], () => runAttack(world, attack), MESSAGES)));
  results.push(...(await perform(world, TEXTS, () => runTexts(world), MESSAGES)));
  if (CROWDS.some(([name]) => isWanted(name))) await addMessages(world.database.sql, MESSAGES, CROWDED);
  for (const crowd of CROWDS)
    results.push(...(await perform(world, crowd[0], () => runAttack(world, crowd), CROWDED)));
  return results;
}

const directory = await mkdtemp(join(tmpdir(), 'vitrine-siege-'));
let close = (): Promise<void> => Promise.resolve();
try {
  let settings: Settings = { WORKERS: values.workers };
  let serverUrl: string;
  let replica: URL | undefined;
  if (values.replica) {
    const options = { standbys: 1, postgres: values.postgres, settings: { wal_keep_size: '4GB' } };
    const cluster = await createCluster(directory, options);
    close = cluster.close;
    serverUrl = cluster.primary.superuserUrl;
    replica = new URL(cluster.standbys[0]!.superuserUrl);
  } else ({ url: serverUrl, close } = await openServer(directory, { postgres: values.postgres }));
  say('filling the database ...');
  const created = await createWorld(serverUrl, directory, settings);
  try {
    if (replica) {
      replica.pathname = new URL(created.database.url).pathname;
      settings = { ...settings, DATABASE_READ_URL: replica.href };
      await until('the standby', async () => {
        const [row] = await created.database.sql`
          select bool_and(replay_lsn >= pg_current_wal_lsn()) as done from pg_stat_replication`;
        return row?.['done'] === true;
      });
    }
    const world = { ...created, settings };
    const results = await runAll(world);
    process.stdout.write(`\n${summary(results)}\n`);
    const isWhole = process.argv.length === 2 && !interruption.signal.aborted;
    if (isWhole)
      await writeFile(new URL('../siege.md', import.meta.url), report(results, created.database.version));
    if (!results.every(isHeld)) process.exitCode = 1;
  } finally {
    await created.database.drop();
  }
} finally {
  for (const worker of workers) worker.kill();
  await close();
  await rm(directory, { recursive: true, force: true });
}
process.exit();
