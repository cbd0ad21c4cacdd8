import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Problem } from '../../src/errors.ts';
import { createPasswords } from '../../src/resources/passwords.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, cheapHash, startService, type Answer } from '../support.ts';
import { assertProblem, eventually } from './expect.ts';

describe('too many verifications at once', () => {
  test('get 503 with Retry-After, and the service is well afterwards', async () => {
    const service = await startService([user, note]);
    try {
      const stored = await hash('right', { memoryCost: 16_384, timeCost: 1, parallelism: 1 });
      await service.sql`insert into "user" (username, password, email) select 'u' || i, ${stored}, '' from generate_series(0, 1999) i`;
      const write = (index: number): Promise<Answer> =>
        service.request('/api/note/', {
          method: 'POST',
          headers: { authorization: basic(`u${index}`, 'right') },
          body: { message: 'x' },
        });
      /** Two hundred users; while none can be looked up they all wait, and then come to be verified together. */
      const flood = async (from: number): Promise<Answer[]> => {
        const { answers } = await service.sql.begin(async (transaction) => {
          await transaction`lock table "user" in access exclusive mode`;
          const all = Promise.all(Array.from({ length: 200 }, (_, index) => write(from + index)));
          await new Promise((resolve) => setTimeout(resolve, 300));
          return { answers: all };
        });
        return answers;
      };
      let busy: Answer[] = [];
      for (let from = 0; from < 1800 && busy.length === 0; from += 200) {
        const answers = await flood(from);
        busy = answers.filter(({ status }) => status === 503);
        assert.ok(answers.some(({ status }) => status === 201));
        assert.ok(answers.every(({ status }) => status === 201 || status === 503));
      }
      assert.ok(busy.length > 0);
      for (const answer of busy) {
        assertProblem(answer, 503);
        assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
      }
      assert.equal((await write(1999)).status, 201);
    } finally {
      await service.close();
    }
  });

  test('are not kept up by new passwords whose clients are gone', async () => {
    const WAITING = 40;
    const GONE = 8;
    const service = await startService([user]);
    try {
      await service.addUser('ada', { admin: true });
      const create = (name: string, signal?: AbortSignal): Promise<Response> =>
        fetch(`${service.base}/api/user/`, {
          method: 'POST',
          headers: { authorization: basic('ada'), 'content-type': 'application/json' },
          body: JSON.stringify({ username: name, password: `a password of ${name}`, email: 'x@example.org' }),
          ...(signal && { signal }),
        });
      assert.equal((await create('first')).status, 201);
      const answered = (status: number): number =>
        service.lines.filter((line) => line['status'] === status).length - (status === 201 ? 1 : 0);
      const waiting = Promise.all(Array.from({ length: WAITING }, (_, index) => create(`stays${index}`)));
      const leave = new AbortController();
      const gone = Array.from({ length: GONE }, (_, index) => create(`goes${index}`, leave.signal));
      await eventually(async () => {
        const { text } = await service.request('/metrics');
        const inFlight = Number(/^vitrine_http_requests_in_flight (\d+)$/m.exec(text)?.[1]) - 1;
        const done = service.lines.filter(({ path }) => path === '/api/user/').length - 1;
        return inFlight + done >= WAITING + GONE;
      }, 'all of them');
      leave.abort();
      const left = (await Promise.allSettled(gone)).filter(({ status }) => status === 'rejected').length;
      // Some may have had their turn at that very moment.
      await eventually(() => answered(499) >= left / 2, 'the end of those whose clients are gone');
      assert.ok(answered(201) < WAITING, 'they do not wait for their turns');
      assert.ok((await waiting).every(({ status }) => status === 201 || status === 503));
    } finally {
      await service.close();
    }
  });

  test('never run more than a few hashes', async () => {
    const passwords = createPasswords();
    const stored = await cheapHash('right');
    let running = 0;
    let most = 0;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 300 }, async (_, index) => {
        let admitted = false;
        const admit = (): void => {
          admitted = true;
          running += 1;
          most = Math.max(most, running);
        };
        try {
          return await passwords.verify(stored, index % 2 === 0 ? 'right' : 'wrong', { admit });
        } finally {
          if (admitted) running -= 1;
        }
      }),
    );
    assert.ok(most >= 1 && most <= 4, `${most} at once`);
    outcomes.forEach((outcome, index) => {
      if (outcome.status === 'fulfilled') assert.equal(outcome.value, index % 2 === 0);
      else assert.ok(outcome.reason instanceof Problem && outcome.reason.status === 503);
    });
    assert.ok(outcomes.some(({ status }) => status === 'fulfilled'));
    assert.ok(outcomes.some(({ status }) => status === 'rejected'));
    assert.equal(await passwords.verify(stored, 'right'), true);
  });
});
