import { cpus } from 'node:os';
import { markdown } from '../faults/report.ts';
import { DEATHS, ROUTES } from './ensemble.ts';
import type { Round } from './round.ts';

const COUNTS = [
  'acknowledged',
  'unknownMade',
  'unknownNotMade',
  'lost',
  'torn',
  'doubled',
  'history',
  'wrong503',
] as const;
const HEAD = [
  ...[
    'route; killed',
    'kills',
    'acknowledged',
    'unknown, made',
    'unknown, not made',
    'lost',
    'torn',
    'doubled',
  ],
  ...['history', 'wrong 503', '503', '429', 'other errors', 'first success s: median', 'longest'],
];
/** Statuses that are no errors: after a repeated write, 412 or 404 means that the first one was made. */
export const EXPECTED = /^(200|201|404|412|429|503)$/;

const median = (times: readonly number[]): number =>
  [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? NaN;

function rowOf(name: string, rounds: readonly Round[]): string[] {
  const sum = (of: (round: Round) => number): string =>
    rounds.reduce((total, round) => total + of(round), 0).toLocaleString('en');
  const others = ({ statuses }: Round): number =>
    Object.entries(statuses).reduce(
      (total, [status, times]) => total + (EXPECTED.test(status) ? 0 : times),
      0,
    );
  const firsts = rounds.map(({ first }) => first);
  return [
    name,
    String(rounds.length),
    ...COUNTS.map((key) => sum(({ counts }) => counts[key])),
    sum(({ statuses }) => statuses['503'] ?? 0),
    sum(({ statuses }) => statuses['429'] ?? 0),
    sum(others),
    median(firsts).toFixed(1),
    Math.max(...firsts).toFixed(1),
  ];
}

/** One row for each route and each kind of death, and the sum. */
export function table(rounds: readonly Round[]): string {
  const rows = ROUTES.flatMap((route) =>
    DEATHS.map((death) => ({
      name: `${route}; ${death}`,
      of: rounds.filter((round) => round.route === route && round.death === death),
    })),
  );
  const body = rows.filter(({ of }) => of.length > 0).map(({ name, of }) => rowOf(name, of));
  return markdown(HEAD, [...body, rowOf('all', rounds)]);
}

/** The text of bench/failover.md. */
export const report = (rounds: readonly Round[], nodes: number): string => `# Failover

PostgreSQL on ${nodes} nodes under Patroni (\`synchronous_mode\`, \`ttl\` 5 s, \`loop_wait\` 1 s, \`retry_timeout\` 2 s, \`primary_start_timeout\` 0) with etcd. The primary is killed with \`kill -9\` while clients write and read through the compiled service. Patroni makes a standby the primary. The service is not restarted.
Clients record every write that they send and each answer. After each kill this is compared with the tables and the history of the new primary.

${table(rounds)}

- Routes: an address with all nodes and \`target_session_attrs=read-write\`; HAProxy, which asks Patroni for the primary every 0.5 s; PgBouncer in transaction mode in front of HAProxy.
- Lost, torn, doubled, history, wrong 503: see [Faults](faults.md). Each has to be 0.
- 429: all clients log in as one user, whose statements wait for each other while the database does not answer. It means "not made".
- Other errors: answers to writes and reads other than 200, 201, 429, 503, and the 412 and 404 of writes that are repeated with \`If-Match\`.
- Times are from the kill to the first success of a write that was sent after it. Most of it is Patroni's time to choose a new primary.
- Node ${process.version.slice(1)}, ${cpus().length} cores, everything on one machine.

\`npm run failover\` writes this file. See [Contributing](../CONTRIBUTING.md#failover).
`;
