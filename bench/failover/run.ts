// Kills the primary of a replicated PostgreSQL under load: npm run failover. See --help.
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { populate, slowDown } from '../ledger.ts';
import { exitWith, runRound, say, table, type Column, type Round } from '../rounds.ts';
import { createService } from '../service.ts';
import { machine, median, sum, whole } from '../table.ts';
import { createEnsemble, DEATHS, ROUTES, type Ensemble, type Route } from './ensemble.ts';

const USAGE = `Usage: npm run failover -- [--kills N] [--nodes N] [--postgres VERSION] [--json]

Runs PostgreSQL with Patroni, etcd, HAProxy and PgBouncer, and the compiled service with writers and readers. Kills the primary
again and again, and checks that no acknowledged write is lost. Exit code 1 if one is. With 20 kills or more it writes the table
to bench/failover.md.

  --kills N     how often the primary is killed (20)
  --nodes N     servers: 2 or 3 (3)
  --postgres V  a version of Debian's PostgreSQL, or the folder of its programs (15)
  --json        prints the result as JSON

Debian has what it needs: apt-get install postgresql patroni etcd-server haproxy pgbouncer
`;
const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '20' },
    nodes: { type: 'string', default: '3' },
    postgres: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const [kills, nodes] = [Number(values.kills), Number(values.nodes)];

const PATHS = [
  '/api/entry/?limit=20&ordering=-id',
  '/api/counter/1/',
  '/api/entry/?number__gt=500000000&limit=5',
];
/** Statuses that are no errors: after a repeated write, 412 or 404 means that the first one was made. */
const EXPECTED = /^(200|201|404|412|429|503)$/;

/** Runs the rounds of one route to the database. */
async function runRoute(ensemble: Ensemble, route: Route, share: number): Promise<Round[]> {
  const { sql } = ensemble;
  const settings = { RESOURCES: resolve('bench/ledger-registry.mjs') };
  const service = await createService({ databaseUrl: ensemble.url(route), settings });
  const rounds: Round[] = [];
  try {
    await service.start();
    if (route === ROUTES[0]) await populate(sql).then(() => slowDown(sql));
    for (let index = 0; index < share; index += 1) {
      const death = DEATHS[index % DEATHS.length]!;
      await ensemble.healthy();
      const round = await runRound({
        sql,
        service,
        name: `${route}; ${death}`,
        mark: `${route.length}${index}`,
        allows: ['busy', 'lost'],
        reach: { paths: PATHS, patience: 120 },
        strike: () => ensemble.kill(death).then(() => 1),
        after: () => Promise.resolve(ensemble.revive()),
      });
      say(`  ${round.first.toFixed(1)} s ${JSON.stringify(round.statuses)}`);
      rounds.push(round);
    }
    return rounds;
  } catch (error) {
    say(service.log());
    throw error;
  } finally {
    await service.kill();
  }
}

const answers = (rounds: readonly Round[], isMeant: (status: string) => boolean): number =>
  sum(
    rounds.flatMap(({ statuses }) =>
      Object.entries(statuses).map(([status, count]) => (isMeant(status) ? count : 0)),
    ),
  );
const others = (rounds: readonly Round[]): number => answers(rounds, (status) => !EXPECTED.test(status));
const MORE: readonly Column[] = [
  ['503', (of) => whole(answers(of, (status) => status === '503'))],
  ['429', (of) => whole(answers(of, (status) => status === '429'))],
  ['other errors', (of) => whole(others(of))],
  ['first success s: median', (of) => median(of.map(({ first }) => first)).toFixed(1)],
  ['longest', (of) => Math.max(...of.map(({ first }) => first)).toFixed(1)],
];

/** The text of bench/failover.md. */
const report = (text: string, postgres: string): string => `# Failover

PostgreSQL on ${nodes} nodes under Patroni (\`synchronous_mode\`, \`ttl\` 5 s, \`loop_wait\` 1 s, \`retry_timeout\` 2 s, \`primary_start_timeout\` 0) with etcd. The primary is killed with \`kill -9\` while clients write and read through the compiled service. Patroni makes a standby the primary. The service is not restarted.
Clients record every write that they send and each answer. After each kill this is compared with the tables and the history of the new primary.

${text}

- Routes: an address with all nodes and \`target_session_attrs=read-write\`; HAProxy, which asks Patroni for the primary every 0.5 s; PgBouncer in transaction mode in front of HAProxy.
- Lost, torn, doubled, history, wrong 503: see [Faults](faults.md). Each has to be 0.
- 429: all clients log in as one user, whose statements wait for each other while the database does not answer. It means "not made".
- Other errors: answers to writes and reads other than 200, 201, 429, 503, and the 412 and 404 of writes that are repeated with \`If-Match\`.
- Times are from the kill to the first success of a write that was sent after it. Most of it is Patroni's time to choose a new primary.
- ${machine(postgres)}, everything on one machine.

\`npm run failover\` writes this file. See [Contributing](../CONTRIBUTING.md#measuring-and-attacking).
`;

/** Gives the exit code. */
async function main(): Promise<number> {
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  if (!Number.isInteger(kills) || kills < 1 || ![2, 3].includes(nodes)) throw new Error(USAGE);
  const directory = await mkdtemp(join(tmpdir(), 'vitrine-failover-'));
  await chmod(directory, 0o755); // PostgreSQL runs as another user when this is root
  try {
    const ensemble = await createEnsemble(directory, nodes, values.postgres);
    const rounds: Round[] = [];
    try {
      for (const [index, route] of ROUTES.entries()) {
        const share = Math.floor((kills + ROUTES.length - 1 - index) / ROUTES.length);
        if (share > 0) rounds.push(...(await runRoute(ensemble, route, share)));
      }
    } finally {
      await ensemble.close();
    }
    const text = table('route; killed', rounds, MORE);
    process.stdout.write(`${values.json ? JSON.stringify(rounds, null, 2) : text}\n`);
    if (kills >= 20)
      await writeFile(new URL('../failover.md', import.meta.url), report(text, values.postgres));
    return others(rounds) > 0 || rounds.some(({ violations }) => violations.length > 0) ? 1 : 0;
  } catch (error) {
    say((await readFile(join(directory, 'ensemble.log'), 'utf8').catch(() => '')).slice(-3000));
    throw error;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

await exitWith(main());
