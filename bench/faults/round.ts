import { setTimeout as sleep } from 'node:timers/promises';
import { createLedger, type Failure, type Ledger } from './ledger.ts';
import { startLoad } from './load.ts';
import { AUTHORIZATION, clear, read, settle, type Fault, type Stage, type Variant } from './stage.ts';
import { noCounts, verify, type Counts } from './verify.ts';

/** Milliseconds of load before the fault, and after the recovery. */
const BEFORE = 500;
const AFTER = 300;

export interface Round {
  readonly fault: string;
  readonly variant: string;
  readonly counts: Counts;
  /** Seconds from the end of the fault to the first acknowledged write, and until every client had one. */
  readonly first: number;
  readonly all: number | undefined;
  readonly violations: readonly string[];
}

/** Before a fault every client has to succeed. */
function disturbances({ operations }: Ledger, from: number): string[] {
  const failed = operations
    .slice(from)
    .filter(({ failure }) => failure && failure !== 'conflict' && failure !== 'left');
  return failed.map(
    ({ token, answer }) => `unexpected: before the fault ${token} was answered with ${answer}`,
  );
}

/** One round: load, fault, recovery, load, verification. */
export async function runRound(
  stage: Stage,
  fault: Fault,
  variant: Variant,
  seconds: number,
  mark: string,
): Promise<Round> {
  const violations: string[] = [];
  await variant.prepare?.(stage);
  try {
    await clear(stage.cluster);
    const ledger = createLedger(mark);
    const load = startLoad(stage.service.base, AUTHORIZATION, ledger);
    // The service may still be busy with what the last round has left behind.
    await load.recovered();
    const calm = ledger.operations.length;
    await sleep(BEFORE);
    violations.push(...disturbances(ledger, calm));
    const hits = await variant.strike(stage, variant.seconds ?? seconds, ledger);
    if (hits === 0) violations.push('unexpected: the fault did not strike');
    const { first, all } = await load.recovered();
    if (all === undefined) violations.push('unexpected: not every client can write again');
    await sleep(AFTER);
    await load.stop();
    await settle(stage, variant);
    const allowed: ReadonlySet<Failure> = new Set(variant.allows);
    const verdict = verify(ledger, await read(stage.cluster), allowed);
    violations.push(...verdict.violations);
    const counts = { ...noCounts(), ...verdict.counts };
    counts.unexpected = violations.filter((text) => text.startsWith('unexpected: ')).length;
    return { fault: fault.name, variant: variant.name, counts, first, all, violations };
  } finally {
    await variant.restore?.(stage);
  }
}
