// Non-interference: what a caller may not see has no effect on what the caller gets, whatever the caller asks for.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { logIn, type Browser } from '../admin/support.ts';
import { basic, request } from '../support.ts';
import { CASES, requestsOf, startPair, type Asked, type Case, type Pair } from './clubhouse.ts';
import { after, before, describe, test } from 'node:test';

/** How many requests are compared in total. A long run has 200,000, with a seed that no run has had. */
const TOTAL = Number(process.env['NON_INTERFERENCE'] ?? '1400');
const PER_CASE = Math.ceil(TOTAL / CASES.length);
/** The requests with the same two databases. */
const PER_ROUND = 50;
const ROUNDS = Math.ceil(PER_CASE / PER_ROUND);
/** Another seed asks for other things. */
const SEED = Number(process.env['NON_INTERFERENCE_SEED'] ?? '0');

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

const normal = (text: string, base: string): string =>
  text
    .replaceAll(new URL(base).host, 'host')
    .replaceAll(/(name="(?:_csrf|_form|_version)" value=")[^"]*/g, '$1')
    .replaceAll(/"requestId":"[^"]*"/g, '');

/** What a request gets from each of the services. */
type Ask = (asked: Asked, index: 0 | 1) => Promise<Got>;

const ofApi =
  ({ bases }: Pair, caller: string | undefined): Ask =>
  ({ method, path, headers }, index) =>
    request(bases[index], path, {
      method,
      headers: { ...headers, ...(caller !== undefined && { authorization: basic(caller) }) },
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

  async function askerFor({ caller, surface }: Case): Promise<Ask> {
    if (surface === 'api') return ofApi(pair, caller);
    const [one, other] = pair.bases;
    const name = caller ?? '';
    return ofArea([await logIn({ base: one }, name), await logIn({ base: other }, name)]);
  }

  /** @returns whether the request succeeds */
  async function compare(ask: Ask, asked: Asked): Promise<boolean> {
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
    const next = /"next":"([^"]+)"/.exec(one.text)?.[1];
    // The next page, which a cursor names.
    if (next?.includes('cursor=') && !asked.path.includes('cursor='))
      await compare(ask, { ...asked, path: next });
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
    test(`has no effect on what ${one.caller ?? 'anyone'} reads in the ${one.surface === 'api' ? 'API' : 'admin area'}`, async () => {
      await pair.differ(number, one);
      const ask = await askerFor(one);
      for (let round = 0; round < ROUNDS; round += 1) {
        const seed = number + CASES.length * round + SEED;
        await pair.differ(seed, one);
        const list = fc.sample(requestsOf(one.surface), { numRuns: PER_ROUND, seed });
        // One after the other in the admin area, because a browser sends the token of its last page.
        const atOnce = one.surface === 'api' ? 5 : 1;
        const succeeded: boolean[] = [];
        for (let from = 0; from < list.length; from += atOnce)
          succeeded.push(
            ...(await Promise.all(list.slice(from, from + atOnce).map((asked) => compare(ask, asked)))),
          );
        assert.ok(succeeded.some(Boolean), 'no request succeeds');
      }
    });
});
