import { cpus, type } from 'node:os';
import type { Round } from './round.ts';
import { noCounts, type Counts } from './verify.ts';

export interface Results {
  readonly rounds: readonly Round[];
  /** Faults that this system does not permit, with the reason. */
  readonly skipped: readonly { readonly fault: string; readonly reason: string }[];
  /** The version of the server. */
  readonly postgres: string;
  /** How packets get lost. */
  readonly network: string;
  readonly seconds: number;
}

const HEAD = [
  'fault',
  'rounds',
  'acknowledged',
  'unknown, made',
  'unknown, not made',
  'lost',
  'torn',
  'doubled',
  'history',
  'wrong 503',
  'unexpected',
];
const TIMES = ['first success s', 'all clients s'];
const COLUMNS: readonly (keyof Counts)[] = [
  'acknowledged',
  'unknownMade',
  'unknownNotMade',
  'lost',
  'torn',
  'doubled',
  'history',
  'wrong503',
  'unexpected',
];

const sum = (rounds: readonly Round[]): Counts => {
  const total = noCounts();
  for (const { counts } of rounds) for (const key of COLUMNS) total[key] += counts[key];
  return total;
};

const longest = (times: readonly (number | undefined)[]): string =>
  times.some((time) => time === undefined || Number.isNaN(time))
    ? 'never'
    : Math.max(...(times as number[])).toFixed(1);

/** A table, its first column aligned to the left. */
export function markdown(head: readonly string[], body: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) =>
    Math.max(...[head, ...body].map((cells) => cells[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (cells[column] ?? '')[column === 0 ? 'padEnd' : 'padStart'](width)).join(' | ')} |`;
  const rule = widths.map((width, column) =>
    column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  return [line(head), line(rule), ...body.map(line)].join('\n');
}

/** The table: one row for each way in which a fault strikes, and the sum. @param hasTimes whether it shows times */
export function table({ rounds, skipped }: Results, hasTimes: boolean): string {
  const rowOf = (name: string, of: readonly Round[], isSum = false): string[] => {
    const counts = sum(of);
    const times = [longest(of.map(({ first }) => first)), longest(of.map(({ all }) => all))];
    return [
      name,
      String(of.length),
      ...COLUMNS.map((column) => counts[column].toLocaleString('en')),
      ...(hasTimes ? (isSum ? ['', ''] : times) : []),
    ];
  };
  const names = [...new Set(rounds.map(({ fault, variant }) => `${fault}: ${variant}`))];
  const body = names.map((name) =>
    rowOf(
      name,
      rounds.filter(({ fault, variant }) => `${fault}: ${variant}` === name),
    ),
  );
  const head = hasTimes ? [...HEAD, ...TIMES] : HEAD;
  const lines = markdown(head, [...body, rowOf('all', rounds, true)]);
  return [lines, ...skipped.map(({ fault, reason }) => `\n${fault}: not run, ${reason}`)].join('\n');
}

/** The file that is kept in the repository. */
export const report = (results: Results): string => `# Faults

A compiled service under load on a PostgreSQL of its own, which has \`fsync\` on. Clients record every write that they send and what they are told of it.
After each round the harness compares this with the tables and the history.

${table(results, true)}

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

- Eight clients create, change, read back and delete records of their own. Four clients increment two shared counters with \`If-Match\`. Three clients close their connections in the middle of their writes, in every round.
- After an unknown outcome of a write with \`If-Match\`, the client sends it again and relies on the 412, as [Writing](../docs/writing.md#when-the-answer-is-lost) says.
- A trigger makes each write last some milliseconds, so that faults strike in the middle of it.
- A fault lasts ${results.seconds} s where its name does not say otherwise. Packets get lost in a ${results.network}.
- PostgreSQL ${results.postgres}, Node ${process.versions.node}, ${type()}, ${cpus().length} cores.

\`npm run faults\` writes this file. See [Contributing](../CONTRIBUTING.md#faults).
`;
