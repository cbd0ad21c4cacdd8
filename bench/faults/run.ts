// Causes faults under load and checks what is left: npm run faults. See --help.
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../src/db/connection/embedded.ts';
import { createCluster } from './cluster.ts';
import { isIsolated, runIsolated } from './isolation.ts';
import { FAULTS } from './kinds/index.ts';
import { createNetwork } from './network.ts';
import { parseOptions, type Options } from './options.ts';
import { report, table, type Results } from './report.ts';
import { runRound, type Round } from './round.ts';
import { createService } from './service.ts';
import { populate, type Stage } from './stage.ts';

/** How many violations of a round are printed. */
const SHOWN = 10;
const say = (text: string): void => void process.stderr.write(`${text}\n`);

async function runAll(stage: Stage, { faults, rounds, seconds }: Options): Promise<Round[]> {
  const done: Round[] = [];
  for (const fault of faults) {
    if (fault.obstacle?.() !== undefined) continue;
    for (let index = 0; index < Math.max(rounds, fault.variants.length); index += 1) {
      const variant = fault.variants[index % fault.variants.length];
      if (!variant) continue;
      say(`${fault.name}: ${variant.name} ...`);
      const round = await runRound(stage, fault, variant, seconds, `${done.length}`);
      for (const text of round.violations.slice(0, SHOWN)) say(`  ${text}`);
      if (round.violations.length > SHOWN) say(`  and ${round.violations.length - SHOWN} more`);
      done.push(round);
    }
  }
  return done;
}

/** Ends the run after Ctrl-C; what it has started is stopped all the same. */
const interrupted = new Promise<never>((_, reject) => {
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.once(signal, () => reject(new Error(`ended by ${signal}`)));
});
interrupted.catch(() => undefined);

/** Makes the cluster and the service, and runs the rounds. */
async function run(options: Options, directory: string): Promise<Results> {
  const cluster = await createCluster(join(directory, 'postgres'), options.hasReplica);
  try {
    const network = await createNetwork(cluster);
    const log = join(directory, 'service.log');
    const settings = {
      WORKERS: String(options.workers),
      ...(cluster.replicaUrl === undefined ? {} : { DATABASE_READ_URL: cluster.replicaUrl }),
    };
    const [port, metricsPort] = [await freePort(), await freePort()];
    const serviceOptions = { port, metricsPort, databaseUrl: network.url, log, settings };
    const service = createService(serviceOptions);
    try {
      await service.start();
      await populate(cluster);
      const stage = { cluster, network, service, serviceOptions };
      const rounds = await Promise.race([runAll(stage, options), interrupted]);
      const skipped = options.faults.flatMap(({ name, obstacle }) => {
        const reason = obstacle?.();
        return reason === undefined ? [] : [{ fault: name, reason }];
      });
      return { rounds, skipped, postgres: cluster.version, network: network.kind, seconds: options.seconds };
    } catch (error) {
      say(await readFile(log, 'utf8').then((text) => text.slice(-2000), String));
      throw error;
    } finally {
      await service.close();
      await network.close();
    }
  } finally {
    await cluster.close();
  }
}

/** Gives the exit code. */
async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2), FAULTS);
  if (typeof options === 'string') {
    process.stdout.write(options);
    return 0;
  }
  const code = await runIsolated();
  if (code !== undefined) return code;
  if (!isIsolated()) say('no network namespace here: a proxy loses the packets');
  const directory = await mkdtemp(join(tmpdir(), 'vitrine-faults-'));
  await chmod(directory, 0o755); // PostgreSQL runs as another user when this is root
  try {
    await mkdir(join(directory, 'postgres'));
    await chmod(join(directory, 'postgres'), 0o755);
    const results = await run(options, directory);
    const text = options.isJson ? JSON.stringify(results, null, 2) : table(results, !options.isShort);
    process.stdout.write(`${text}\n`);
    if (options.isFull) await writeFile(new URL('../faults.md', import.meta.url), report(results));
    return results.rounds.some(({ violations }) => violations.length > 0) ? 1 : 0;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

// Clients of a round that was interrupted would keep the process.
process.exit(
  await main().catch((error: unknown) => {
    say(String((error as Error).stack ?? error));
    return 1;
  }),
);
