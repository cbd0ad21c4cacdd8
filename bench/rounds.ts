// Rounds under load: a fault strikes while clients write, and their answers are compared with what is left.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import {
  clear,
  COLUMNS,
  createLedger,
  read,
  settle,
  verify,
  type Counts,
  type Failure,
  type Ledger,
} from './ledger.ts';
import type { Service } from './service.ts';
import { markdown, sum, whole } from './table.ts';
import { startLoad, type Reach } from './writers.ts';

/** Milliseconds of load before and after what happens. */
const AROUND = 500;
/** How many violations of a round are printed. */
const SHOWN = 10;
export const say = (text: string): void => void process.stderr.write(`${text}\n`);

export interface Round {
  readonly name: string;
  readonly counts: Counts;
  /** How many writes and reads had each status, or reason for no answer. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Seconds until the first success of a write that was sent after it, and until every client had one. */
  readonly first: number;
  readonly all: number | undefined;
  readonly violations: readonly string[];
}

export interface RoundOptions {
  readonly sql: Sql;
  readonly service: Service;
  readonly name: string;
  /** Distinguishes the writes of this round from all others. */
  readonly mark: string;
  readonly allows: readonly Failure[];
  readonly reach?: Partial<Reach>;
  /** Causes a fault, and ends it. @returns how often it has struck */
  readonly strike: (ledger: Ledger) => Promise<number>;
  /** Before the verification. */
  readonly after?: () => Promise<unknown>;
}

const statusesOf = ({ operations, failedReads, reads }: Ledger): Record<string, number> => {
  const statuses: Record<string, number> = { 200: reads };
  const answers = operations.filter(({ failure }) => failure !== 'left').map(({ answer }) => answer);
  for (const text of [...answers, ...failedReads]) {
    const [status = ''] = text.split(' ', 1);
    statuses[status] = (statuses[status] ?? 0) + 1;
  }
  return statuses;
};

/** One round: load, fault, recovery, load, verification. Prints the violations. */
export async function runRound({
  sql,
  service,
  name,
  mark,
  allows,
  reach,
  strike,
  after,
}: RoundOptions): Promise<Round> {
  say(`${name} ...`);
  await clear(sql);
  const violations: string[] = [];
  const ledger = createLedger(mark);
  const load = startLoad({ ports: [service.port], ...reach }, ledger);
  // The service may still be busy with what the last round has left behind.
  await load.recovered();
  const calm = ledger.operations.length;
  await sleep(AROUND);
  for (const { failure, token, answer } of ledger.operations.slice(calm))
    if (failure && failure !== 'conflict' && failure !== 'left')
      violations.push(`unexpected: before the fault ${token} was answered with ${answer}`);
  if ((await strike(ledger)) === 0) violations.push('unexpected: the fault did not strike');
  const { first, all } = await load.recovered();
  if (all === undefined) violations.push('unexpected: not every client can write again');
  await sleep(AROUND);
  await load.stop();
  await after?.();
  await settle(sql, service);
  const verdict = verify(ledger, await read(sql), new Set(allows));
  violations.push(...verdict.violations);
  for (const text of violations.slice(0, SHOWN)) say(`  ${text}`);
  if (violations.length > SHOWN) say(`  and ${violations.length - SHOWN} more`);
  const unexpected = violations.filter((text) => text.startsWith('unexpected: ')).length;
  const counts = { ...verdict.counts, unexpected };
  return { name, counts, statuses: statusesOf(ledger), first, all, violations };
}

/** A further column of the table. */
export type Column = readonly [title: string, cell: (rounds: readonly Round[]) => string];

/** The table: one row for each name, and the sum. */
export function table(title: string, rounds: readonly Round[], more: readonly Column[]): string {
  const rowOf = (name: string, of: readonly Round[]): string[] => [
    name,
    String(of.length),
    ...COLUMNS.map(([key]) => whole(sum(of.map(({ counts }) => counts[key])))),
    ...more.map(([, cell]) => cell(of)),
  ];
  const names = [...new Set(rounds.map(({ name }) => name))];
  const body = names.map((name) => rowOf(name, rounds.filter((round) => round.name === name))); // prettier-ignore
  const head = [title, 'rounds', ...COLUMNS.map(([, one]) => one), ...more.map(([one]) => one)];
  return markdown(head, [...body, rowOf('all', rounds)], 1);
}

/** Runs a program whose clients may still wait when it ends. */
export async function exitWith(main: Promise<number>): Promise<never> {
  const code = await main.catch((error: unknown) => {
    say(String((error as Error).stack ?? error));
    return 1;
  });
  process.exit(code);
}
