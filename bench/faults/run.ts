// Causes faults under load and checks what is left: npm run faults. See --help.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { populate, slowDown } from '../ledger.ts';
import { createCluster } from '../postgres.ts';
import { exitWith, runRound, say, table, type Column, type Round } from '../rounds.ts';
import { createService } from '../service.ts';
import { machine } from '../table.ts';
import { FAULTS, MAX_CONNECTIONS, type Fault, type Stage } from './kinds.ts';
import { createNetwork, isIsolated, runIsolated } from './network.ts';

const USAGE = `Usage: npm run faults -- [FAULT...] [--rounds N] [--seconds N] [--workers N] [--replica] [--postgres VERSION] [--short] [--json]

Runs the service under load, causes faults, and checks that no acknowledged write is lost. Without the name of a fault it runs
all of them, and writes the table to bench/faults.md. Exit code 1 where an invariant does not hold.

  --rounds N    rounds of each fault (3)
  --seconds N   how long a fault lasts (2)
  --workers N   processes of the service (1)
  --replica     a standby answers reads
  --postgres V  a version of Debian's PostgreSQL, or the folder of its programs; else the embedded one
  --short       one round of the faults that are quick to cause; prints counts only
  --json        prints the result as JSON

Faults: ${FAULTS.map(({ name }) => name).join(', ')}
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    workers: { type: 'string', default: '1' },
    replica: { type: 'boolean', default: false },
    postgres: { type: 'string' },
    short: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const rounds = Number(values.rounds ?? (values.short ? 1 : 3));
const seconds = Number(values.seconds ?? (values.short ? 1 : 2));

async function runAll(stage: Stage, faults: readonly Fault[]): Promise<Round[]> {
  const { sql, service } = stage;
  const done: Round[] = [];
  for (const { name: fault, variants, obstacle } of faults) {
    if (obstacle?.() !== undefined) continue;
    for (let index = 0; index < Math.max(rounds, variants.length); index += 1) {
      const { name, allows, leavesStatements, prepare, restore, ...variant } =
        variants[index % variants.length]!;
      await prepare?.(stage);
      try {
        const round = await runRound({
          sql,
          service,
          name: `${fault}: ${name}`,
          mark: String(done.length),
          allows,
          strike: (ledger) => variant.strike(stage, variant.seconds ?? seconds, ledger),
          // A packet that was lost may still arrive. The end of the session makes sure that it does not.
          after: async () =>
            leavesStatements &&
            (await sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'vitrine'`),
        });
        done.push(round);
      } finally {
        await restore?.(stage);
      }
    }
  }
  return done;
}

const longest = (times: readonly (number | undefined)[]): string =>
  times.every((time) => time !== undefined && time >= 0)
    ? Math.max(...(times as number[])).toFixed(1)
    : 'never';
const TIMES: readonly Column[] = [
  ['first success s', (of) => longest(of.map(({ first }) => first))],
  ['all clients s', (of) => longest(of.map(({ all }) => all))],
];

/** The file that is kept in the repository. */
const report = (text: string, postgres: string, network: string): string => `# Faults

A compiled service under load on a PostgreSQL of its own, which has \`fsync\` on. Clients record every write that they send and its answer.
After each round the harness compares this with the tables and the history.

${text}

| column | meaning |
| --- | --- |
| acknowledged | writes with a success: each has to be there exactly once, with the values that were sent |
| unknown | writes whose client closed its connection, lost it, or got the 503 that says that the outcome is not known: made completely, or not at all |
| lost | acknowledged writes that are not there |
| torn | records that no single write can have left like this |
| doubled | writes that were made more than once |
| history | entries of the history that are missing, superfluous, wrong or out of order |
| wrong 503 | errors that mean "not made" for a write that was made, and "not known" where the fault leaves no doubt |
| unexpected | answers that the fault does not explain, or that belong to another request |
| first success, all clients | seconds from the end of the fault until the first write succeeds, and until each of the clients that stay has had a success; the longest of the rounds |

- Eight clients create, change, read back and delete records of their own. Four clients increment two shared counters with \`If-Match\`. Four clients create, change and delete records, and send each write with an \`Idempotency-Key\` until it succeeds. Three clients close their connections in the middle of their writes, in every round.
- After an unknown outcome of a write with \`If-Match\`, the client sends it again and relies on the 412, as [Writing](../docs/writing.md#when-the-answer-is-lost) says.
- A trigger makes each write last some milliseconds, so that faults strike in the middle of it.
- A fault lasts ${seconds} s where its name does not say otherwise. Packets get lost in a ${network}.
- ${machine(postgres)}.

\`npm run faults\` writes this file. See [Contributing](../CONTRIBUTING.md#measuring-and-attacking).
`;

/** Ends the run after Ctrl-C; what it has started is stopped all the same. */
const interrupted = new Promise<never>((_, reject) => {
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.once(signal, () => reject(new Error(`ended by ${signal}`)));
});
interrupted.catch(() => undefined);

/** Makes the cluster and the service, and runs the rounds. Gives the exit code. */
async function run(faults: readonly Fault[], directory: string): Promise<number> {
  const cluster = await createCluster(directory, {
    standbys: values.replica ? 1 : 0,
    postgres: values.postgres,
    settings: {
      max_connections: MAX_CONNECTIONS,
      deadlock_timeout: '100ms',
      wal_keep_size: '256MB', // for the standby
      max_wal_size: '64MB',
      min_wal_size: '32MB',
    },
  });
  const { primary, standbys } = cluster;
  try {
    const network = await createNetwork(primary);
    const settings = {
      RESOURCES: resolve('bench/ledger-registry.mjs'),
      WORKERS: values.workers,
      ...(values.replica && { DATABASE_READ_URL: standbys[0]!.url }),
    };
    const service = await createService({ databaseUrl: network.url, settings });
    try {
      await service.start();
      await populate(primary.sql);
      await slowDown(primary.sql);
      const stage = { cluster, server: primary, sql: primary.sql, network, service };
      const all = await Promise.race([runAll(stage, faults), interrupted]);
      const skipped = faults.flatMap(({ name, obstacle }) => {
        const reason = obstacle?.();
        return reason === undefined ? [] : [`${name}: not run, ${reason}`];
      });
      const text = [table('fault', all, values.short ? [] : TIMES), ...skipped].join('\n\n');
      process.stdout.write(`${values.json ? JSON.stringify({ rounds: all, skipped }, null, 2) : text}\n`);
      const isFull = process.argv.length === 2;
      if (isFull)
        await writeFile(
          new URL('../faults.md', import.meta.url),
          report(text, cluster.version, network.kind),
        );
      return all.some(({ violations }) => violations.length > 0) ? 1 : 0;
    } catch (error) {
      say(service.log());
      throw error;
    } finally {
      await service.kill();
      await network.close();
    }
  } finally {
    await cluster.close();
  }
}

/** Gives the exit code. */
async function main(): Promise<number> {
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const unknown = positionals.filter((name) => !FAULTS.some((fault) => fault.name === name));
  if (unknown.length > 0 || !(rounds > 0) || !(seconds > 0)) throw new Error(USAGE);
  const code = await runIsolated();
  if (code !== undefined) return code;
  if (!isIsolated()) say('no network namespace here: a proxy loses the packets');
  const directory = await mkdtemp(join(tmpdir(), 'vitrine-faults-'));
  try {
    const isChosen = ({ name, isShort }: Fault): boolean =>
      positionals.length > 0 ? positionals.includes(name) : isShort || !values.short;
    return await run(FAULTS.filter(isChosen), directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

await exitWith(main());
