// Reads that have been fast share connections, until one of them is slow.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase, type Database } from '../../src/db/connection/database.ts';
import type { Statement } from '../../src/db/rows.ts';
import { Exclusions } from '../../src/db/exclusions.ts';
import { SERVICE, type Requester } from '../../src/db/scheduling/requester.ts';
import { eventually } from '../http/expect.ts';
import { serverUrl } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const client = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'user' });
const ada = client('ada');
const bob = client('bob');
/** Seconds for which a read runs that is slow. */
const SLOW = '0.2';

/** A page that takes as long as its value says. The number makes its shape different. */
const page = (shape: number, seconds = '0'): Statement<string> => ({
  text: `select '${shape}:' || $1::text, pg_sleep($1::text::float8)::text`,
  values: [seconds],
  isPage: true,
  isPlain: true,
  decode: ([row]) => String(row?.[0]),
});

describe('reads that have been fast so far', () => {
  let database: Database;
  before(() => (database = openDatabase(serverUrl())));
  after(() => database.close());

  /** Runs reads at once. @returns how many of them were sent over the shared connections */
  async function shared(requester: Requester, ...pages: Statement<string>[]): Promise<number> {
    const count = (): number => database.pools().brief.durations.counts.reduce((sum, one) => sum + one, 0);
    const earlier = count();
    const answers = await Promise.all(pages.map((one) => database.for(requester).run(one, 'read')));
    assert.deepEqual(
      answers,
      pages.map(({ text, values }) => `${/'(\d+):'/.exec(text)?.[1]}:${values[0]}`),
    );
    return count() - earlier;
  }

  const learn = async (shape: number): Promise<void> => {
    await eventually(async () => (await shared(ada, page(shape))) === 1, 'a read that shares a connection');
  };

  test('share connections', async () => {
    await learn(1);
    assert.equal(await shared(ada, ...Array.from({ length: 10 }, () => page(1))), 10);
  });

  test('are answered on other connections when they are slow, and those beside them are answered, too', async () => {
    await learn(2);
    await learn(3);
    const carol = client('carol');
    await shared(carol, page(2));
    await sleep(1_100); // Until then several clients are present, and on a slow machine these reads have a weight.
    assert.ok((await shared(carol, page(2), page(2, SLOW), page(3), page(2), page(3))) >= 3);
  });

  test('that are heavy let others of their client start when they end', async () => {
    const dave = client('dave');
    await learn(7);
    // Their mean rises, so that a few of them weigh as much as a client may have.
    for (let runs = 0; runs < 40; runs += 1) await shared(ada, page(7, '0.008'));
    // None of them waits until it is refused.
    await Promise.all([
      shared(bob, page(8)),
      ...Array.from({ length: 12 }, () => database.for(dave).run(page(7, '0.008'), 'read')),
    ]);
  });

  test('no longer share connections when one of their shape was slow, or of their client', async () => {
    await learn(4);
    await learn(5);
    assert.equal(await shared(bob, page(4, SLOW)), 1); // It was canceled there.
    assert.equal(await shared(ada, page(4)), 0);
    assert.equal(await shared(bob, page(5)), 0);
    assert.equal(await shared(ada, page(5)), 1);
  });

  test('share no connections while they are not known', async () => {
    assert.equal(await shared(ada, page(6)), 0);
  });
});

describe('what delays others', () => {
  test('is excluded for longer each time, and good events shorten the next time', (context) => {
    let now = 0;
    context.mock.method(performance, 'now', () => now);
    const exclusions = new Exclusions<string>();
    /** Seconds until the key is no longer excluded. */
    const excludedFor = (key: string): number => {
      const from = now;
      while (exclusions.isExcluded(key)) now += 1_000;
      return (now - from) / 1_000;
    };
    const times = Array.from({ length: 12 }, () => {
      exclusions.noteDelay('mallory');
      return excludedFor('mallory');
    });
    assert.deepEqual(times.slice(0, 4), [2, 4, 8, 16]);
    assert.deepEqual(times.slice(-2), [600, 600]);
    assert.equal(excludedFor('ada'), 0);
    for (let index = 0; index < 12 * 500; index += 1) exclusions.noteSuccess('mallory');
    exclusions.noteDelay('mallory');
    assert.ok(excludedFor('mallory') <= 4);
  });

  test('is remembered for a bounded number of keys', () => {
    const exclusions = new Exclusions<number>();
    for (let key = 0; key <= 1_000; key += 1) exclusions.noteDelay(key);
    assert.equal(exclusions.isExcluded(0), false);
    assert.equal(exclusions.isExcluded(1_000), true);
  });
});
