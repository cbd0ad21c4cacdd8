// Honest crowds: people who do what people do, and must all be answered.
import { setTimeout as sleep } from 'node:timers/promises';
import { headerOf, openConnection, prepare, type Answer, type Shape } from '../client.ts';
import { addresses, times } from './attacks.ts';

/** Rows of the table of messages while crowds are served. */
export const CROWDED = 1_500_000;

export interface People {
  readonly count: number;
  /** Each of them sends these in turn, so many in all. */
  readonly requests: readonly Shape[];
  readonly each: number;
  /** One address of all of them; else each has one. */
  readonly from?: string | undefined;
  /** Milliseconds between two requests. */
  readonly pause?: number;
  /** Whether they wait as `Retry-After` says and ask again; else a refusal counts at once. */
  readonly areObedient?: boolean;
  /** Bytes per second that they read for so many seconds, before they read at full speed. */
  readonly rate?: number | undefined;
  readonly slowFor?: number;
}

export interface Crowd {
  readonly name: string;
  readonly title: string;
  readonly people: People;
  /** Others meanwhile, who are not looked at. */
  readonly beside?: People;
  /** How often every connection to PostgreSQL is ended meanwhile. */
  readonly disconnects?: number;
  readonly limits: {
    /** The slowest answer: milliseconds, and as a multiple of the median one. */
    readonly slowest?: number;
    readonly steady?: number;
    /** The median as a multiple of that of the same people from addresses of their own. */
    readonly sameAsApart?: number;
    /** By-id p99 of another client as a multiple of the reference. */
    readonly read?: number;
    /** Refusals of one request before its success. */
    readonly refusals?: number;
  };
}

const OFFICE = '198.51.100.40';
const list = (query: string): Shape => ({ path: `/api/message/?${query}` });
/** About a second, and some seconds. */
const SEARCH = list('content__like=%25e%25a%25zz{n}%25');
const LONG_SEARCH = list('content__ilike=%25e%25a%25zz{n}%25&id__lte=1100000');
const DASHBOARD = times(12, (n) => ({ ...list(`user=${n + 1}&content__ilike=%25${n}%25`), as: 'user9' }));
const KEYS_AND_FILTERS = times(40, (n) =>
  n % 2 === 0 ? { path: `/api/message/${1 + n * 997}/` } : list(`user=${1 + n * 97}`),
);

export const CROWDS: readonly Crowd[] = [
  {
    name: 'reader',
    title: 'one reader, one search of about 1 s after the other',
    people: { count: 1, requests: [SEARCH], each: 20 },
    limits: { steady: 2 },
  },
  {
    name: 'office-searches',
    title: '8 people behind one address, 6 searches of about 1 s each',
    people: { count: 8, requests: [SEARCH], each: 6, from: OFFICE },
    limits: { read: 5, slowest: 60_000 },
  },
  {
    name: 'crawler',
    title: 'a crawler with 16 connections over deep pages',
    people: { count: 16, requests: times(350, (n) => list(`page=${1 + n * 200}`)), each: 22, from: OFFICE },
    limits: {},
  },
  {
    name: 'dashboard',
    title: 'a dashboard that opens 12 filtered lists at once, every 10 s, as a user',
    people: { count: 12, requests: DASHBOARD, each: 3, from: OFFICE, pause: 10_000 },
    limits: {},
  },
  {
    name: 'office',
    title: '200 people behind one address, by key and by simple filters',
    people: { count: 200, requests: KEYS_AND_FILTERS, each: 40, from: OFFICE, pause: 50 },
    limits: { sameAsApart: 1.3 },
  },
  {
    name: 'obedient',
    title: 'a client that obeys Retry-After, with searches of some seconds while others search',
    people: {
      count: 1,
      requests: [LONG_SEARCH],
      each: 7,
      areObedient: true,
    },
    beside: { count: 3, requests: [SEARCH], each: 20 },
    limits: { refusals: 1 },
  },
  {
    name: 'lost-connections',
    title: 'readers while every connection to PostgreSQL is ended ten times',
    people: { count: 16, requests: KEYS_AND_FILTERS, each: 600, pause: 5 },
    disconnects: 10,
    limits: {},
  },
  {
    name: 'slow-line',
    title: 'a stream of 50 MB over a line of 32 KB/s that becomes faster after 100 s',
    people: {
      count: 1,
      requests: [{ ...list('id__lte=350000'), headers: { Accept: 'application/x-ndjson' } }],
      each: 1,
      rate: 32_768,
      slowFor: 100,
    },
    limits: {},
  },
];

export interface Lived {
  /** Milliseconds of each answer. */
  readonly times: readonly number[];
  /** The statuses of other answers than 200, and why there was none. */
  readonly failures: readonly string[];
  /** The most refusals of one request before its success. */
  readonly refusals: number;
}

/** Lets people live. */
export async function live(port: number, people: People): Promise<Lived> {
  const { count, requests, each, from, pause = 0, areObedient = false, rate, slowFor = 0 } = people;
  const own = addresses(count);
  const taken: number[] = [];
  const failures: string[] = [];
  let most = 0;
  const person = async (index: number): Promise<void> => {
    const connection = openConnection(port);
    const ask = async (shape: Shape): Promise<Answer | string> => {
      const bytes = prepare(shape)(from ?? own[index]!);
      return connection.ask(bytes, { rate, slowFor }).catch((error: Error) => error.message);
    };
    for (let turn = 0; turn < each; turn += 1) {
      const started = performance.now();
      const shape = requests[(index + turn * count) % requests.length]!;
      let answer = await ask(shape);
      for (
        let refusals = 1;
        typeof answer === 'object' && areObedient && answer.status !== 200;
        refusals += 1
      ) {
        most = Math.max(most, refusals);
        const wait = Number(headerOf(answer, 'retry-after'));
        if (refusals > 20 || !(wait > 0)) break;
        await sleep(wait * 1000);
        answer = await ask(shape);
      }
      taken.push(performance.now() - started);
      if (typeof answer === 'string') failures.push(answer);
      else if (answer.status !== 200) failures.push(String(answer.status));
      await sleep(pause);
    }
    connection.close();
  };
  await Promise.all(times(count, person));
  return { times: taken, failures, refusals: most };
}
