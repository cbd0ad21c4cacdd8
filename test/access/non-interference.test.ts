// Non-interference: what a caller may not see has no effect on what the caller gets, whatever the caller asks for.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { EVENT } from '../../src/resources/definition/system-tables.ts';
import { logIn, type Browser } from '../admin/support.ts';
import { basic, request } from '../support.ts';
import { CASES, requestsOf, startPair, type Asked, type Case, type Pair, type Surface } from './clubhouse.ts';
import { after, before, describe, test } from 'node:test';

/** How many requests are compared in total. A long run has 200,000, with a seed that no run has had. */
const TOTAL = Number(process.env['NON_INTERFERENCE'] ?? '1400');
const PER_CASE = Math.ceil(TOTAL / CASES.length);
/** The requests with the same two databases. */
const PER_ROUND = 50;
const ROUNDS = Math.ceil(PER_CASE / PER_ROUND);
/** Another seed asks for other things. */
const SEED = Number(process.env['NON_INTERFERENCE_SEED'] ?? '0');
/** How often the times of each door are compared; a run that measures has 40. Other tests at the same time make it useless. */
const TIMES = Number(process.env['NON_INTERFERENCE_TIMES'] ?? '0');
/** The requests of a door each time. */
const TIMED = 15;

/** Doors whose work may depend on hidden records. No record has the key 110 as long as the databases are alike. */
const DOORS: Readonly<Record<Surface, readonly string[]>> = {
  api: [
    '/api/item/',
    '/api/item/?owner__username=paul&ordering=team__name',
    '/api/item/7/',
    '/api/item/110/',
    '/api/-/changes/',
  ],
  admin: [
    '/admin/item/?_search=ape',
    '/admin/item/110/',
    '/admin/item/-/export.csv',
    '/admin/vitrine_history/',
  ],
};

const median = (list: readonly number[]): number =>
  list.toSorted((one, other) => one - other)[Math.floor(list.length / 2)] ?? NaN;

/** The statistic of Mann, Whitney and Wilcoxon, normally distributed if both lists come from one distribution. */
function rankSum(one: readonly number[], other: readonly number[]): number {
  const [n, m] = [one.length, other.length];
  const wins = one.flatMap((a) => other.map((b): number => (a > b ? 1 : a < b ? 0 : 0.5)));
  const sum = wins.reduce((a, b) => a + b, 0);
  return (sum - (n * m) / 2) / Math.sqrt((n * m * (n + m + 1)) / 12);
}

interface Got {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The part of an answer that must not depend on what is hidden. */
function visible({ status, headers, text }: Got, base: string) {
  const shown = Object.fromEntries([...headers].filter(([name]) => !VARYING.has(name)));
  // The version of a record covers the whole row.
  if (shown['etag'] !== undefined) shown['etag'] = shown['etag'].replace(/^"\w+-/, '"version-');
  return { status, headers: shown, body: normal(text, base) };
}

const VARYING: ReadonlySet<string> = new Set(['date', 'x-request-id', 'set-cookie', 'content-length']);

const YESTERDAY = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);

const normal = (text: string, base: string): string =>
  text
    .replaceAll(new URL(base).host, 'host')
    .replaceAll(/(name="(?:_csrf|_form|_version)" value=")[^"]*/g, '$1')
    // The times of sessions and tokens.
    .replaceAll(/<time datetime="(.{10})[^>]*>[^<]*/g, (time, day: string) => (day < YESTERDAY ? time : ''))
    .replaceAll(/("created":|"expires":|"used":|"requestId":|"meta":\{"after":)"[^"]*"/g, '$1');

/** What a request gets from each of the services. */
type Ask = (asked: Asked, index: 0 | 1) => Promise<Got>;

const ofApi =
  ({ bases }: Pair, credentials: readonly [string, string] | undefined): Ask =>
  ({ method, path, headers, body }, index) =>
    request(bases[index], path, {
      method,
      headers: { ...headers, ...(credentials && { authorization: credentials[index] }) },
      body,
    });

const ofArea =
  (browsers: readonly [Browser, Browser]): Ask =>
  ({ method, path, headers, form }, index) =>
    method === 'POST' ? browsers[index].post(path, form) : browsers[index].get(path, headers);

describe('what a caller may not see', () => {
  let pair: Pair;
  before(async () => {
    pair = await startPair();
  });
  after(() => pair.close());

  async function credentialsAt(base: string, caller: string, models: Case['token']): Promise<string> {
    if (!models) return basic(caller);
    const body = { resources: models, methods: ['GET'] };
    const { json } = await request(base, '/api/-/tokens/', { method: 'POST', user: caller, body });
    return `Bearer ${json.token}`;
  }

  async function askerFor({ caller, token, surface }: Case): Promise<Ask> {
    const [one, other] = pair.bases;
    const name = caller ?? '';
    if (surface === 'api')
      return ofApi(
        pair,
        caller === undefined
          ? undefined
          : [await credentialsAt(one, name, token), await credentialsAt(other, name, token)],
      );
    return ofArea([await logIn({ base: one }, name), await logIn({ base: other }, name)]);
  }

  /** @returns whether the request succeeds */
  async function compare(ask: Ask, asked: Asked, depth = 0): Promise<boolean> {
    const [one, other] = await Promise.all([ask(asked, 0), ask(asked, 1)]);
    const context = `${asked.method} ${decodeURIComponent(asked.path)} ${JSON.stringify(asked.headers)}`;
    const { body: wanted, ...first } = visible(one, pair.bases[0]);
    const { body: found, ...second } = visible(other, pair.bases[1]);
    assert.deepEqual(second, first, context);
    if (found !== wanted) {
      const at = [...wanted].findIndex((character, index) => character !== found[index]);
      const excerpts = [wanted, found].map((text) => text.slice(Math.max(0, at - 150), at + 150));
      assert.fail(`${context}\n${excerpts.join('\n--- and ---\n')}`);
    }
    assert.ok(one.status < 500, `${context}: ${one.status} ${one.text}`);
    // The next page, the one before that, and the changes after one of the feed.
    const link = /"(?:next|previous)":"([^"]*cursor=[^"]*)"/.exec(one.text)?.[1];
    if (link && depth < 2) await compare(ask, { ...asked, path: link }, depth + 1);
    const changes = [...one.text.matchAll(/\{"id":"([^"]+)","at"/g)];
    const change = changes[Math.floor(changes.length / 2)]?.[1];
    if (change && depth === 0) await compare(ask, { ...asked, path: `${asked.path}?after=${change}` }, 1);
    const tag = one.headers.get('etag');
    if (tag !== null && asked.method === 'GET' && !asked.path.endsWith('.json')) {
      const tags = [tag, other.headers.get('etag') ?? ''] as const;
      const again = await Promise.all(
        ([0, 1] as const).map((index) =>
          ask({ ...asked, headers: { ...asked.headers, 'if-none-match': tags[index] } }, index),
        ),
      );
      assert.deepEqual(
        again.map(({ status }) => status),
        [304, 304],
        context,
      );
    }
    return one.status === 200;
  }

  for (const [number, one] of CASES.entries())
    test(`has no effect on what ${one.caller ?? 'anyone'} reads in the ${one.surface === 'api' ? 'API' : 'admin area'}${one.token ? ' with a token' : ''}`, async () => {
      await pair.differ(number, one);
      const ask = await askerFor(one);
      let hasSucceeded = false;
      for (let round = 0; round < ROUNDS; round += 1) {
        const seed = number + CASES.length * round + SEED;
        await pair.differ(seed, one);
        const all = fc.sample(requestsOf(one.surface), { numRuns: PER_ROUND, seed });
        // Admins see events, of which the services make their own.
        const list = all.filter(({ path }) => one.history !== 'all' || !path.includes(EVENT.model));
        // One after the other in the admin area, because a browser sends the token of its last page.
        const atOnce = one.surface === 'api' ? 5 : 1;
        for (let from = 0; from < list.length; from += atOnce) {
          const some = list.slice(from, from + atOnce).map((asked) => compare(ask, asked));
          const successes = await Promise.all(some);
          hasSucceeded ||= successes.includes(true);
        }
      }
      assert.ok(hasSucceeded, 'no request succeeds');
    });

  /** How much longer the second service takes, as a logarithm. */
  async function timeRatio(ask: Ask, path: string): Promise<number> {
    const times: [number[], number[]] = [[], []];
    for (let turn = 0; turn < 2 * TIMED; turn += 1) {
      const index = turn % 2 === 0 ? 0 : 1;
      const start = performance.now();
      await ask({ method: 'GET', path, headers: {} }, index);
      times[index].push(performance.now() - start);
    }
    return Math.log(median(times[1]) / median(times[0]));
  }

  // Only when asked for: it takes long, and on a busy machine it proves little.
  for (const surface of TIMES > 0 ? (['api', 'admin'] as const) : [])
    test(`has no effect on the time that cleo waits for: ${surface}`, async (t) => {
      const one = CASES.find((some) => some.caller === 'cleo' && some.surface === surface);
      assert.ok(one);
      await pair.differ(1, one);
      const ask = await askerFor(one);
      /** By door, while the databases are alike, and while they differ. */
      const ratios = DOORS[surface].map(() => [[], []] as [number[], number[]]);
      for (let turn = -2; turn < 2 * TIMES; turn += 1) {
        // Which of the two comes first changes, too.
        const differs = turn % 4 === 1 || turn % 4 === 2 ? 1 : 0;
        await pair.differ(5 * (turn >> 1) + 16, differs === 1 ? one : undefined);
        for (const [door, path] of DOORS[surface].entries()) {
          const ratio = await timeRatio(ask, path);
          if (turn >= 0) ratios[door]?.[differs].push(ratio);
        }
      }
      for (const [door, [alike, different]] of ratios.entries()) {
        const [before, after] = [alike, different].map((list) => Math.exp(median(list)).toFixed(3));
        const z = rankSum(different, alike);
        t.diagnostic(`${DOORS[surface][door]}: ${before} alike, ${after} different, z = ${z.toFixed(2)}`);
        // By chance, one door in 2,000 is above.
        assert.ok(Math.abs(z) < 3.5, DOORS[surface][door]);
      }
    });
});
