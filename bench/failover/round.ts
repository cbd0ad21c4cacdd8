import { setTimeout as sleep } from 'node:timers/promises';
import { openConnection } from '../faults/connection.ts';
import { createLedger, type Ledger } from '../faults/ledger.ts';
import { startLoad } from '../faults/load.ts';
import { until } from '../faults/processes.ts';
import type { Service } from '../faults/service.ts';
import { AUTHORIZATION, clear, read, settle } from '../faults/stage.ts';
import { verify, type Counts } from '../faults/verify.ts';
import type { Death, Ensemble, Route } from './ensemble.ts';
import { EXPECTED } from './report.ts';

/** Milliseconds of load before the primary is killed, and after all clients can write again. */
const BEFORE = 1000;
const AFTER = 1000;
const READERS = 4;
const PATHS = [
  '/api/entry/?limit=20&ordering=-id',
  '/api/counter/1/',
  '/api/entry/?number__gt=500000000&limit=5',
];

export interface Round {
  readonly route: Route;
  readonly death: Death;
  readonly counts: Counts;
  /** Answers with each status, of writes and reads. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Seconds from the kill until the first success of a write that was sent after it, and until every client had one. */
  readonly first: number;
  readonly all: number | undefined;
  readonly violations: readonly string[];
}

type Statuses = Record<string, number>;
const count = (statuses: Statuses, status: string): void => {
  statuses[status] = (statuses[status] ?? 0) + 1;
};

/** Reads without end. */
function startReaders(base: string, statuses: Statuses): { readonly stop: () => Promise<void> } {
  let isOver = false;
  const readOn = async (path: string): Promise<void> => {
    const connection = openConnection(base, AUTHORIZATION);
    while (!isOver) {
      const answer = await connection.send({ method: 'GET', path });
      count(statuses, 'reason' in answer ? answer.reason : String(answer.status));
      if (answer.status !== 200) await sleep(40);
    }
    connection.close();
  };
  const running = Array.from({ length: READERS }, (_, index) => readOn(PATHS[index % PATHS.length] ?? ''));
  return {
    stop: async () => {
      isOver = true;
      await Promise.all(running);
    },
  };
}

/** Waits for the success of a write that was sent from now on. Gives the seconds. */
async function firstSuccess({ operations }: Ledger, started: number): Promise<number> {
  const from = operations.length;
  await until('a write', () => operations.slice(from).some(({ belief }) => belief === 'made'), 120);
  return (performance.now() - started) / 1000;
}

/** Kills the primary under load, and compares the answers that clients got with the records of the next primary. */
export async function runRound(
  ensemble: Ensemble,
  service: Service,
  { route, death, mark }: { readonly route: Route; readonly death: Death; readonly mark: string },
): Promise<Round> {
  await ensemble.healthy();
  await clear(ensemble);
  const ledger = createLedger(mark);
  const statuses: Statuses = {};
  const load = startLoad(service.base, AUTHORIZATION, ledger);
  const readers = startReaders(service.base, statuses);
  const violations: string[] = [];
  await load.recovered();
  await sleep(BEFORE);
  const started = performance.now();
  await ensemble.kill(death);
  const first = await firstSuccess(ledger, started);
  const until = performance.now();
  const { all } = await load.recovered();
  if (all === undefined) violations.push('unexpected: not every client can write again');
  await sleep(AFTER);
  await Promise.all([load.stop(), readers.stop()]);
  ensemble.revive();
  await settle({ cluster: ensemble, service }, {});
  const verdict = verify(ledger, await read(ensemble), new Set(['busy', 'lost']));
  for (const { answer, failure } of ledger.operations)
    if (failure !== 'left') count(statuses, answer.split(' ', 1)[0] ?? '');
  for (const status of Object.keys(statuses))
    if (!EXPECTED.test(status)) violations.push(`unexpected: status ${status}`);
  return {
    route,
    death,
    counts: verdict.counts,
    statuses,
    first,
    all: all === undefined ? undefined : (until - started) / 1000 + all,
    violations: [...violations, ...verdict.violations],
  };
}
