// Attacks a compiled service and holds it to its limits: npm run siege -- [--short] [--json] [--part 1/2] [--workers N]
// [--replica] [name of an attack ...].
// BENCH_DATABASE_URL names a server; else an embedded one is started.
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { watchHost } from './host.ts';
import { HEAD, isHeld, lines, report, summary, type Result } from './report.ts';
import type { Scenario } from './scenario.ts';
import { admins } from './scenarios/admins.ts';
import { bodies } from './scenarios/bodies.ts';
import { database } from './scenarios/database.ts';
import { details } from './scenarios/details.ts';
import { disclosure } from './scenarios/disclosure.ts';
import { fairness } from './scenarios/fairness.ts';
import { guessing } from './scenarios/guessing.ts';
import { logins } from './scenarios/logins.ts';
import { neighbors } from './scenarios/neighbors.ts';
import { pages } from './scenarios/pages.ts';
import { parsing } from './scenarios/parsing.ts';
import { connections } from './scenarios/connections.ts';
import { heavyStatements } from './scenarios/heavy-statements.ts';
import { repeatedWork } from './scenarios/repeated-work.ts';
import { transport } from './scenarios/transport.ts';
import { createStage, type Stage, type StageOptions } from './stage.ts';
import { createReplication, type Replication } from '../replicas/replication.ts';
import { until } from '../faults/processes.ts';
import { createWorld, type World } from './world.ts';

const SCENARIOS: readonly Scenario[] = [
  ...fairness,
  ...neighbors,
  ...logins,
  ...guessing,
  ...parsing,
  ...pages,
  ...bodies,
  ...repeatedWork,
  ...heavyStatements,
  ...connections,
  ...transport,
  ...disclosure,
  ...database,
  ...details,
  ...admins,
];
/** How often a scenario that is over a limit is tried: the speed of a shared machine can change between two measurements. */
const TRIES = 3;
/** Seconds after which a scenario counts as failed. */
const LIMIT = 120;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    short: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    workers: { type: 'string', default: '1' },
    replica: { type: 'boolean', default: false },
    part: { type: 'string', default: '1/1' },
  },
});
const unknown = positionals.filter((name) => !SCENARIOS.some((scenario) => scenario.name === name));
if (unknown.length > 0) {
  const names = SCENARIOS.map(({ name }) => name).join(', ');
  throw new Error(`no attack is named ${unknown.join(', ')}; there are ${names}`);
}
/** `--part 2/3` performs every third attack, from the second on. */
const [part = NaN, parts = NaN] = values.part.split('/').map(Number);
if (![part, parts].every(Number.isInteger) || part < 1 || part > parts)
  throw new Error('--part must be two numbers such as 1/2');
const chosen = SCENARIOS.filter(({ name }, index) =>
  positionals.length === 0 ? index % parts === part - 1 : positionals.includes(name),
);
const isShort = values.short;

/** Ctrl-C ends the run; the database and every process are still cleaned up. */
const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => interruption.abort());

const say = (text: string): void => void process.stderr.write(`${text}\n`);
const print = (text: string): void => void (values.json || process.stdout.write(`${text}\n`));

async function perform(scenario: Scenario, stage: Stage, tries: number): Promise<Result> {
  const stolen = watchHost();
  const limit = new AbortController();
  const signal = AbortSignal.any([limit.signal, interruption.signal]);
  try {
    const late = sleep(LIMIT * 1000, undefined, { signal }).then(() => {
      throw new Error(`did not end within ${LIMIT} s`);
    });
    const rows = await Promise.race([scenario.run(stage), late]);
    return { scenario, rows, stolen: stolen(), tries };
  } catch (error) {
    return { scenario, rows: [], fault: (error as Error).message, stolen: stolen(), tries };
  } finally {
    limit.abort();
    await stage.clear();
  }
}

async function siege(options: Omit<StageOptions, 'isShort'>): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const line of HEAD) print(line);
  for (const scenario of chosen) {
    if (interruption.signal.aborted) break;
    let result: Result;
    for (let tries = 1; ; tries += 1) {
      const started = performance.now();
      result = await perform(scenario, createStage({ ...options, isShort }), tries);
      const share = (100 * result.stolen).toFixed(0);
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      say(`${scenario.name}: ${seconds} s, ${share} % of the processor time taken by the host`);
      for (const line of lines(result, isShort)) print(line);
      const isOver = !isHeld(result, isShort);
      if (!isOver || tries === TRIES || interruption.signal.aborted) break;
      say(`${scenario.name}: once more`);
    }
    results.push(result);
  }
  return results;
}

/** The address of the siege's database on the standby, once it is there. */
async function replicaOf(world: World, { primary, standbys: [standby] }: Replication): Promise<string> {
  await until('the standby', async () => {
    const [row] = await primary.sql`
      select bool_and(replay_lsn >= pg_current_wal_lsn()) as done from pg_stat_replication`;
    return row?.['done'] === true;
  });
  const url = new URL(standby?.superuserUrl ?? '');
  url.pathname = new URL(world.url).pathname;
  return url.href;
}

const directory = await mkdtemp(join(tmpdir(), 'vitrine-siege-'));
let replication: Replication | undefined;
await chmod(directory, 0o755); // the embedded server runs as another user when this is root
try {
  for (const name of ['package.json', 'node_modules']) await symlink(resolve(name), join(directory, name));
  // Attackers that run TypeScript through tsx would be slower than the service.
  const flags = ['-p', '.', '--noEmit', 'false', '--noCheck', '--rootDir', '.', '--outDir', directory];
  await promisify(execFile)(join('node_modules', '.bin', 'tsc'), flags);
  const programs = join(directory, 'bench/siege');
  if (values.replica) {
    await mkdir(join(directory, 'servers'));
    replication = await createReplication(join(directory, 'servers'), 1);
    process.env['BENCH_DATABASE_URL'] = replication.primary.superuserUrl;
  }
  say('filling the database ...');
  const world = await createWorld(directory, join(programs, 'registry.js'));
  try {
    const settings = {
      WORKERS: values.workers,
      ...(replication ? { DATABASE_READ_URL: await replicaOf(world, replication) } : {}),
    };
    const results = await siege({ world, programs, settings });
    print('');
    // Last, so that it is there where only the end of a long output is kept.
    for (const result of results.filter((one) => !isHeld(one, isShort)))
      for (const line of lines(result, isShort)) print(line);
    print(`${summary(results, isShort)}.`);
    if (values.json) process.stdout.write(`${JSON.stringify(results, undefined, 2)}\n`);
    const isPlain = values.workers === '1' && !values.replica && parts === 1;
    const isWhole = isPlain && positionals.length === 0 && !isShort && !interruption.signal.aborted;
    if (isWhole) await writeFile(new URL('../siege.md', import.meta.url), report(results, world.version));
    if (!results.every((result) => isHeld(result, isShort))) process.exitCode = 1;
  } finally {
    await world.drop();
  }
} finally {
  await replication?.close();
  await rm(directory, { recursive: true, force: true });
}
// A scenario that did not end may still wait for something.
process.exit();
