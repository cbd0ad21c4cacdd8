// Kills the primary of a replicated PostgreSQL under load: npm run failover. See --help.
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { freePort } from '../../src/db/connection/embedded.ts';
import { createService } from '../faults/service.ts';
import { populate } from '../faults/stage.ts';
import { createEnsemble, DEATHS, ROUTES, type Ensemble, type Route } from './ensemble.ts';
import { report, table } from './report.ts';
import { runRound, type Round } from './round.ts';

const USAGE = `Usage: npm run failover -- [--kills N] [--nodes N] [--json]

Runs PostgreSQL with Patroni, etcd, HAProxy and PgBouncer, and the compiled service with writers and readers. Kills the primary
again and again, and checks that no acknowledged write is lost. Exit code 1 if one is. With 20 kills or more it writes the table
to bench/failover.md.

  --kills N   how often the primary is killed (20)
  --nodes N   servers: 2 or 3 (3)
  --json      prints the result as JSON
  FAILOVER_POSTGRES_BIN  environment variable: the folder of PostgreSQL's programs (/usr/lib/postgresql/15/bin)

Debian has what it needs: apt-get install postgresql patroni etcd-server haproxy pgbouncer
`;
/** How many violations of a round are printed. */
const SHOWN = 10;
const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** Runs the rounds of one route to the database. */
async function runRoute(
  ensemble: Ensemble,
  directory: string,
  route: Route,
  kills: number,
): Promise<readonly Round[]> {
  const log = join(directory, 'service.log');
  const service = createService({
    port: await freePort(),
    metricsPort: await freePort(),
    databaseUrl: ensemble.url(route),
    log,
    settings: {},
  });
  const rounds: Round[] = [];
  try {
    await service.start();
    if (route === ROUTES[0]) await populate(ensemble);
    for (let index = 0; index < kills; index += 1) {
      const death = DEATHS[index % DEATHS.length] ?? DEATHS[0];
      const round = await runRound(ensemble, service, { route, death, mark: `${route.length}${index}` });
      say(`${route}, ${death}: ${round.first.toFixed(1)} s ${JSON.stringify(round.statuses)}`);
      for (const text of round.violations.slice(0, SHOWN)) say(`  ${text}`);
      rounds.push(round);
    }
    return rounds;
  } catch (error) {
    say((await readFile(log, 'utf8')).slice(-2000));
    throw error;
  } finally {
    await service.close();
  }
}

/** Gives the exit code. */
async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      kills: { type: 'string', default: '20' },
      nodes: { type: 'string', default: '3' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const [kills, nodes] = [Number(values.kills), Number(values.nodes)];
  if (!Number.isInteger(kills) || kills < 1 || ![2, 3].includes(nodes)) throw new Error(USAGE);
  const directory = await mkdtemp(join(tmpdir(), 'vitrine-failover-'));
  await chmod(directory, 0o755); // PostgreSQL runs as another user when this is root
  try {
    const ensemble = await createEnsemble(directory, nodes);
    const rounds: Round[] = [];
    try {
      for (const [index, route] of ROUTES.entries()) {
        const share = Math.floor((kills + ROUTES.length - 1 - index) / ROUTES.length);
        if (share > 0) rounds.push(...(await runRoute(ensemble, directory, route, share)));
      }
    } finally {
      await ensemble.close();
    }
    process.stdout.write(`${values.json ? JSON.stringify(rounds, null, 2) : table(rounds)}\n`);
    if (kills >= 20) await writeFile(new URL('../failover.md', import.meta.url), report(rounds, nodes));
    return rounds.some(({ violations }) => violations.length > 0) ? 1 : 0;
  } catch (error) {
    say((await readFile(join(directory, 'ensemble.log'), 'utf8').catch(() => '')).slice(-3000));
    throw error;
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
