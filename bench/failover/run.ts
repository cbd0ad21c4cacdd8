// Kills the primary of a replicated PostgreSQL under load: npm run failover. See --help.
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  clear,
  COLUMNS,
  createLedger,
  noCounts,
  populate,
  read,
  settle,
  slowDown,
  verify,
  type Counts,
} from '../ledger.ts';
import { until } from '../processes.ts';
import { createService, type Service } from '../service.ts';
import { machine, markdown, median, sum, whole } from '../table.ts';
import { Session, startLoad } from '../writers.ts';
import { createEnsemble, DEATHS, ROUTES, type Death, type Ensemble, type Route } from './ensemble.ts';

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

/** How many violations of a round are printed. */
const SHOWN = 10;
/** Milliseconds of load before the primary is killed, and after all clients can write again. */
const AROUND = 1000;
const PATHS = [
  '/api/entry/?limit=20&ordering=-id',
  '/api/counter/1/',
  '/api/entry/?number__gt=500000000&limit=5',
  '/api/entry/?limit=20&ordering=-id',
];
/** Statuses that are no errors: after a repeated write, 412 or 404 means that the first one was made. */
const EXPECTED = /^(200|201|404|412|429|503)$/;
const say = (text: string): void => void process.stderr.write(`${text}\n`);

interface Round {
  readonly name: string;
  readonly counts: Counts;
  /** Answers with each status, of writes and reads. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Seconds from the kill until the first success of a write that was sent after it. */
  readonly first: number;
  readonly violations: readonly string[];
}

/** Kills the primary under load, and compares the answers that clients got with the records of the next primary. */
async function runRound(
  ensemble: Ensemble,
  service: Service,
  name: string,
  death: Death,
  mark: string,
): Promise<Round> {
  const { sql } = ensemble;
  await ensemble.healthy();
  await clear(sql);
  const ledger = createLedger(mark);
  const ports = [service.port];
  const load = startLoad({ ports }, ledger);
  const statuses: Record<string, number> = {};
  const count = (status: string): void => void (statuses[status] = (statuses[status] ?? 0) + 1);
  let isOver = false;
  const readers = PATHS.map(async (path) => {
    const session = new Session(ports);
    while (!isOver) {
      const { status, reason } = await session.send({ method: 'GET', path });
      count(reason ?? String(status));
      if (status !== 200) await sleep(40);
    }
    session.close();
  });
  await load.recovered();
  await sleep(AROUND);
  const started = performance.now();
  await ensemble.kill(death);
  const { operations } = ledger;
  const from = operations.length;
  await until('a write', () => operations.slice(from).some(({ belief }) => belief === 'made'), 120);
  const first = (performance.now() - started) / 1000;
  const { all } = await load.recovered();
  await sleep(AROUND);
  isOver = true;
  await Promise.all([load.stop(), ...readers]);
  ensemble.revive();
  await settle(sql, service);
  const { counts, violations } = verify(ledger, await read(sql), new Set(['busy', 'lost']));
  for (const { answer, failure } of operations) if (failure !== 'left') count(answer.split(' ', 1)[0] ?? '');
  const unexpected = Object.keys(statuses).filter((status) => !EXPECTED.test(status));
  return {
    name,
    counts,
    statuses,
    first,
    violations: [
      ...(all === undefined ? ['unexpected: not every client can write again'] : []),
      ...unexpected.map((status) => `unexpected: status ${status}`),
      ...violations,
    ],
  };
}

/** Runs the rounds of one route to the database. */
async function runRoute(ensemble: Ensemble, route: Route, share: number): Promise<Round[]> {
  const settings = { RESOURCES: resolve('bench/ledger-registry.mjs') };
  const service = await createService({ databaseUrl: ensemble.url(route), settings });
  const rounds: Round[] = [];
  try {
    await service.start();
    if (route === ROUTES[0]) await populate(ensemble.sql);
    if (route === ROUTES[0]) await slowDown(ensemble.sql);
    for (let index = 0; index < share; index += 1) {
      const death = DEATHS[index % DEATHS.length]!;
      const name = `${route}; ${death}`;
      const round = await runRound(ensemble, service, name, death, `${route.length}${index}`);
      say(`${name}: ${round.first.toFixed(1)} s ${JSON.stringify(round.statuses)}`);
      for (const text of round.violations.slice(0, SHOWN)) say(`  ${text}`);
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

/** One row for each route and each kind of death, and the sum. */
function table(rounds: readonly Round[]): string {
  const columns = COLUMNS.filter(([key]) => key !== 'unexpected');
  const rowOf = (name: string, of: readonly Round[]): string[] => {
    const total = noCounts();
    for (const { counts } of of) for (const [key] of columns) total[key] += counts[key];
    const answers = (isMeant: (status: string) => boolean): string =>
      whole(sum(of.flatMap(({ statuses }) => Object.entries(statuses).filter(([one]) => isMeant(one)).map(([, n]) => n)))); // prettier-ignore
    const firsts = of.map(({ first }) => first);
    return [
      name,
      String(of.length),
      ...columns.map(([key]) => whole(total[key])),
      ...['503', '429'].map((status) => answers((one) => one === status)),
      answers((one) => !EXPECTED.test(one)),
      median(firsts).toFixed(1),
      Math.max(...firsts).toFixed(1),
    ];
  };
  const names = [...new Set(rounds.map(({ name }) => name))];
  const body = names.map((name) => rowOf(name, rounds.filter((round) => round.name === name))); // prettier-ignore
  const titles = ['503', '429', 'other errors', 'first success s: median', 'longest'];
  const head = ['route; killed', 'kills', ...columns.map(([, title]) => title), ...titles];
  return markdown(head, [...body, rowOf('all', rounds)], 1);
}

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

\`npm run failover\` writes this file. See [Contributing](../CONTRIBUTING.md#failover).
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
    const text = table(rounds);
    process.stdout.write(`${values.json ? JSON.stringify(rounds, null, 2) : text}\n`);
    if (kills >= 20)
      await writeFile(new URL('../failover.md', import.meta.url), report(text, values.postgres));
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
