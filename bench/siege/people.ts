// Honest people: neighbors of an attack, and crowds that must all be answered.
import { setTimeout as sleep } from 'node:timers/promises';
import { headerOf, openConnection, prepare, type Answer, type Shape } from '../client.ts';
import { median, short } from '../table.ts';

export interface People {
  /** What they send in turn, and what they have sent before. */
  readonly requests: readonly Shape[];
  readonly before?: readonly Shape[];
  /** How many they are (1), and how many requests each of them sends; else as many as fit into the time. */
  readonly count?: number;
  readonly each?: number;
  /** Their addresses: all of them have one, or their requests take several in turn. */
  readonly from?: string | readonly string[];
  /** Milliseconds between two requests (40). */
  readonly pause?: number;
  /** Whether they wait as `Retry-After` says and ask again. */
  readonly areObedient?: boolean;
  /** Bytes per second that they read for so many seconds, before they read at full speed. */
  readonly rate?: number;
  readonly slowFor?: number;
  /** The percentage of other answers than 200 (0). */
  readonly refused?: number;
  /** Their median: as a multiple of the reference, of that of the same people from addresses of their own, or in milliseconds. */
  readonly times?: number;
  readonly asApart?: number;
  readonly median?: number;
  /** Their slowest answer, in milliseconds and as a multiple of their median. */
  readonly slowest?: number;
  readonly steady?: number;
  /** Refusals of one request before its success. */
  readonly refusals?: number;
}

/** One measured value and the limit that it must keep. */
export interface Row {
  readonly what: string;
  readonly limit: number;
  readonly value: number;
  /** Such as `ms`; `×` for a multiple. */
  readonly unit: string;
  readonly isLeast?: boolean;
}

export interface Lived {
  /** Milliseconds of each answer. */
  readonly times: number[];
  /** The statuses of other answers than 200, and why there was none. */
  readonly failures: string[];
  /** The most refusals of one request before its success. */
  refusals: number;
}

/** How long people wait who have to try again, and how often they do. */
const MAX_TRIES = 20;

/** Lets people live for some seconds, or until they have sent all. @param areApart whether each has an address of its own */
export async function live(port: number, people: People, seconds: number, areApart = false): Promise<Lived> {
  const { requests, count = 1, each, from = '198.51.100.20', pause = 40, rate, slowFor } = people;
  const lived: Lived = { times: [], failures: [], refusals: 0 };
  const prepared = requests.map(prepare);
  const until = each === undefined ? performance.now() + seconds * 1000 : Infinity;
  let sent = 0;
  const person = async (index: number): Promise<void> => {
    const connection = openConnection(port);
    const own = areApart ? [`10.${index}.0.1`] : [from].flat();
    for (let turn = 0; turn < (each ?? Infinity) && performance.now() < until; turn += 1) {
      const n = sent++;
      const ask = async (): Promise<Answer | string> =>
        connection
          .ask(prepared[n % prepared.length]!(own[n % own.length]), { rate, ...(slowFor && { slowFor }) })
          .catch((error: Error) => error.message);
      const started = performance.now();
      let answer = await ask();
      for (
        let tries = 1;
        people.areObedient && typeof answer === 'object' && answer.status !== 200;
        tries += 1
      ) {
        lived.refusals = Math.max(lived.refusals, tries);
        const wait = Number(headerOf(answer, 'retry-after'));
        if (tries === MAX_TRIES || !(wait > 0)) break;
        await sleep(wait * 1000);
        answer = await ask();
      }
      lived.times.push(performance.now() - started);
      if (typeof answer === 'string' || answer.status !== 200)
        lived.failures.push(typeof answer === 'string' ? answer : String(answer.status));
      await sleep(pause);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: count }, (_, index) => person(index)));
  return lived;
}

/** What people noticed. @param reference before an attack, @param apart from addresses of their own */
export function rowsOf(
  people: People,
  { times, failures, refusals }: Lived,
  reference?: Lived,
  apart?: Lived,
): Row[] {
  const middle = median(times);
  const slowest = Math.max(...times);
  const row = (limit: number | undefined, what: string, value: number, unit: string): Row[] =>
    limit === undefined ? [] : [{ what, limit, value, unit }];
  const before = median(reference?.times ?? []);
  const reasons = [...new Set(failures)].slice(0, 3).join(', ') || `of ${times.length}`;
  return [
    ...row(people.refused ?? 0, `not 200 for them (${reasons})`, (100 * failures.length) / times.length, '%'),
    ...row(
      people.times,
      `their median (${short(middle)} ms, reference ${short(before)})`,
      middle / before,
      '×',
    ),
    ...row(
      people.asApart,
      'their median, to that from addresses of their own',
      middle / median(apart?.times ?? []),
      '×',
    ),
    ...row(people.median, 'their median', middle, 'ms'),
    ...row(people.slowest, 'their slowest answer', slowest, 'ms'),
    ...row(people.steady, 'their slowest answer, to the median', slowest / middle, '×'),
    ...row(people.refusals, 'refusals before a success', refusals, ''),
  ];
}
