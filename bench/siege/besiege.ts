// Measures the honest client and the service before an attack and during it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AttackReport, Job } from './jobs.ts';
import type { Probed } from './probe.ts';
import { atMost, quantile, type Row } from './scenario.ts';
import type { Service, ServiceOptions, Watched } from './service.ts';
import type { Stage } from './stage.ts';

/** What the honest client saw before the attack and during it, and what became of the service and the attackers. */
export interface Siege {
  readonly service: Service;
  readonly reference: Probed;
  readonly during: Probed;
  readonly watched: Watched;
  readonly reports: readonly (AttackReport & { readonly seconds: number })[];
}

/** Milliseconds after the attack until the second reference. */
const SETTLING = 1000;
/** Milliseconds in which an attack gets going before it is measured. */
const RAMP = { full: 1500, short: 600 };
/** Milliseconds after which a gradual attack is measured even if it has not begun. */
const MAX_BEGINNING = 30_000;

export interface SiegeOptions extends Partial<ServiceOptions> {
  /** Seconds that the attackers may go on after that, unless they have done all they were asked. */
  readonly finish?: number;
  /** Milliseconds in which the attack gets going; else RAMP. */
  readonly ramp?: number;
  /** Whether what the service does as the attackers leave counts as well; else true. */
  readonly countsEnd?: boolean;
  /** Whether rates are compared: their reference is the mean of one before and one after the attack, as the machine's speed changes. */
  readonly comparesRates?: boolean;
}

/** Measures a fresh service without an attack and under one. */
export async function besiege(
  stage: Stage,
  jobs: (port: number) => readonly Job[] | Promise<readonly Job[]>,
  {
    finish = 0,
    ramp = stage.either(RAMP.full, RAMP.short),
    countsEnd = true,
    comparesRates = false,
    ...options
  }: SiegeOptions = {},
): Promise<Siege> {
  stage.hire(0);
  const service = await stage.service(options);
  const planned = await jobs(service.port);
  stage.hire(planned.length);
  await stage.probe(service, stage.either(1, 0.3)); // verifies the writers' passwords and warms up
  const reference = await stage.probe(service, stage.either(3, 0.6));
  const watch = service.watch();
  const attacks = await Promise.all(planned.map((job) => stage.attack(job)));
  await Promise.race([Promise.all(attacks.map(({ begun }) => begun)), sleep(MAX_BEGINNING)]);
  await sleep(ramp);
  const during = await stage.probe(service, stage.either(12, 1.6), stage.either(3, 1));
  await Promise.all(attacks.map((attack) => attack.finished(finish)));
  const seen = countsEnd ? undefined : await watch();
  const reports = await Promise.all(attacks.map((attack) => attack.stop()));
  const watched = seen ?? (await watch());
  if (!comparesRates) return { service, reference, during, watched, reports };
  await sleep(SETTLING);
  const { readRate } = await stage.probe(service, stage.either(3, 1));
  const meanRate = (reference.readRate + readRate) / 2;
  return { service, reference: { ...reference, readRate: meanRate }, during, watched, reports };
}

const ms = (value: number): string => `${value.toFixed(1)} ms`;

/** By-id p99 as a multiple of the reference. */
export const readRow = ({ reference, during }: Siege, limit: number): Row =>
  atMost(
    'ratio',
    'by-id p99',
    limit,
    during.readP99 / reference.readP99,
    '×',
    `${ms(during.readP99)}, reference ${ms(reference.readP99)}`,
  );

/** The median write without an attack that the limits were set for, milliseconds. */
const USUAL_WRITE = 2.6;
/** The most times the reference that the short form allows. */
const MOST_TIMES = 30;

/** Time and failures of writes; the short form compares the time with the reference. */
export function writeRows(stage: Stage, { reference, during }: Siege, limit: number, failures = 0): Row[] {
  const { writeMedian: value, writes, writeFailures } = during;
  const what = 'median write';
  const note = `reference ${ms(reference.writeMedian)}`;
  return [
    stage.isShort
      ? atMost(
          'ratio',
          what,
          Math.min(MOST_TIMES, limit / USUAL_WRITE),
          value / reference.writeMedian,
          '×',
          `${ms(value)}, ${note}`,
        )
      : atMost('time', what, limit, value, 'ms', note),
    atMost('count', 'writes that failed', failures, 100 * writeFailures, '%', `of ${writes}`),
  ];
}

/** The longest that the event loop may be held, milliseconds, and the share of the time that the short form allows. */
const HOLD = 50;
const HOLD_SHARE = 5;
/** Seconds that a share is computed of at least. */
const LEAST = 2;

/** How long the event loop was held in one piece. */
export function holdRow(stage: Stage, { hold, seconds }: Watched, note?: string): Row {
  return stage.isShort
    ? atMost(
        'ratio',
        'event loop held, share of the time',
        HOLD_SHARE,
        hold / Math.max(seconds, LEAST) / 10,
        '%',
        note,
      )
    : atMost('time', 'event loop held', HOLD, hold, 'ms', note);
}

/** How soon attackers are refused: by this time the given part of the refusals is there. */
export function refusalRows(reports: readonly AttackReport[], limit: number, part: number): Row[] {
  const times = reports.flatMap(({ refusals }) => refusals);
  if (times.length === 0) return [];
  const what = part === 1 ? 'slowest refusal' : `refusals, ${part * 100} % within`;
  return [atMost('time', what, limit, quantile(times, part), 'ms', `of ${times.length}`)];
}

/** This many client addresses, each in a network of its own. */
export const addresses = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `10.${(n >> 8) & 255}.${n & 255}.1`);
