import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { setImmediate as turn } from 'node:timers/promises';
import { Admission } from '../../src/http/load/admission.ts';
import type { AdmissionRequest } from '../../src/http/load/request-queue.ts';
import { ClientGone } from '../../src/db/scheduling/requester.ts';
import { Problem } from '../../src/errors.ts';
import { describe, test } from 'node:test';

describe('admission', () => {
  const requestOf = (network: string): AdmissionRequest => ({
    network,
    countedFor: undefined,
    uncharged: 0,
    wasCharged: false,
  });
  const enter = (admission: Admission, network: string): Promise<void> | undefined =>
    admission.enter(requestOf(network), performance.now());

  test('leaves most slots to other clients while they are present', async () => {
    const admission = new Admission();
    const own: AdmissionRequest[] = [];
    for (let count = 0; count < 40; count += 1) {
      const one = requestOf('ada');
      own.push(one);
      assert.equal(admission.enter(one, performance.now()), undefined, 'a single client may have all slots');
      await turn();
    }
    assert.equal(enter(admission, 'bob'), undefined);
    await turn();
    let isAdmitted = false;
    void enter(admission, 'ada')?.then(() => (isAdmitted = true));
    void enter(admission, 'bob');
    await turn();
    assert.equal(isAdmitted, false, 'it has its share');
    for (const one of own) admission.leave(one);
    for (let turns = 0; turns < 3; turns += 1) await turn();
    assert.equal(isAdmitted, true);
  });

  test('starts no queued request in an iteration that is left to new connections', async () => {
    let isHeld = true;
    const admission = new Admission({ decideHold: () => isHeld });
    let started = 0;
    for (let count = 0; count < 20; count += 1)
      void Promise.resolve(enter(admission, 'ada')).then(() => (started += 1));
    for (let turns = 0; turns < 5; turns += 1) await turn();
    assert.equal(started, 16, 'those of the first iteration');
    isHeld = false;
    await turn();
    await turn();
    assert.equal(started, 20);
  });

  test('pauses longer after heavy work if there are as many processes as processors', async () => {
    const [tasks, work] = [6, 10];
    const admission = new Admission(undefined, Math.max(2, availableParallelism()));
    const present = setInterval(() => {
      const request = requestOf('bob');
      void Promise.resolve(admission.enter(request, performance.now())).then(() => admission.leave(request));
    }, 1);
    const started: number[] = [];
    await Promise.all(
      Array.from({ length: tasks }, async () => {
        await admission.heavyTurn({ key: 'ada', network: 'ada' });
        started.push(performance.now());
        while (performance.now() - (started.at(-1) ?? 0) < work);
      }),
    );
    clearInterval(present);
    // The first pauses may be missing, because the other client is not noted yet.
    const gaps = started.slice(2).map((time, index) => time - (started[index + 1] ?? 0));
    assert.ok(Math.min(...gaps) >= 4 * work - 2, String(gaps));
  });

  test('lets a client have few waiting requests while others are present, even if these do not wait', async () => {
    const admission = new Admission();
    for (let count = 0; count < 40; count += 1) {
      assert.equal(enter(admission, 'crowd'), undefined);
      await turn();
    }
    const present = requestOf('bob');
    assert.equal(admission.enter(present, performance.now()), undefined);
    admission.leave(present);
    let refused = 0;
    for (let count = 0; count < 200; count += 1) {
      try {
        void enter(admission, 'crowd');
      } catch (error) {
        assert.ok(error instanceof Problem && error.status === 429);
        refused += 1;
      }
    }
    assert.deepEqual([admission.waiting, refused], [128, 72]);
  });

  test('of a full queue gives a client without requests the place of the client with the most', async () => {
    const admission = new Admission();
    for (let count = 0; count < 64; count += 1) {
      await admission.enter(requestOf('first'), performance.now());
      await turn();
    }
    const outcomes = new Map<string, unknown>();
    const ask = (name: string): void =>
      void enter(admission, name.split(' ')[0] ?? '')?.then(
        () => outcomes.set(name, 'started'),
        (error: unknown) => outcomes.set(name, error instanceof Problem ? error.status : error),
      );
    for (let request = 0; request < 125; request += 1)
      for (let network = 0; network < 32; network += 1) ask(`${network} ${request}`);
    assert.equal(admission.waiting, 4_000);
    ask('visitor 0');
    await turn();
    assert.deepEqual([...outcomes.values()], [429], 'of the 32 networks one is refused');
    assert.equal(admission.waiting, 4_000);
  });

  test('starts the requests of a client that used much time one at a time, and those of others at once', async () => {
    const admission = new Admission();
    admission.charge('ada', 500);
    const order: string[] = [];
    const all = ['ada', 'ada', 'ada', 'bob', 'bob', 'bob'].map(async (name) => {
      await enter(admission, name);
      order.push(name);
    });
    await Promise.all(all);
    assert.deepEqual(order, ['bob', 'bob', 'bob', 'ada', 'ada', 'ada']);
  });

  /** How many of five requests of a client start within two turns. */
  async function startedOfFive(admission: Admission, network: string, now: number): Promise<number> {
    let started = 0;
    const all = Array.from({ length: 5 }, async () => {
      await admission.enter(requestOf(network), now);
      started += 1;
    });
    for (let turns = 0; turns < 2; turns += 1) await turn();
    const counted = started;
    await Promise.all(all);
    return counted;
  }

  test('starts the requests of a client that used much time together once it has been alone for a second', async () => {
    const admission = new Admission();
    admission.charge('ada', 2_000);
    const now = performance.now();
    assert.equal(await startedOfFive(admission, 'ada', now), 1);
    assert.equal(await startedOfFive(admission, 'ada', now + 1_500), 5);
    await admission.enter(requestOf('bob'), now + 1_600);
    assert.ok((await startedOfFive(admission, 'ada', now + 1_700)) <= 1, 'another client is present');
  });

  test('starts the requests of a client that used much time one at a time while another one works in slots', async () => {
    const admission = new Admission();
    admission.charge('ada', 2_000);
    const now = performance.now();
    await admission.enter(requestOf('ada'), now);
    await admission.heavyTurn({ key: 'user 2', network: 'bob' });
    await turn();
    assert.ok((await startedOfFive(admission, 'ada', now + 1_500)) <= 1);
  });

  test('starts few of many requests of a client that used much time before those of one that comes later', async () => {
    const admission = new Admission();
    admission.charge('ada', 2_000);
    const now = performance.now();
    await admission.enter(requestOf('ada'), now);
    let started = 0;
    let isOver = false;
    const all = Array.from({ length: 1_000 }, async () => {
      const request = requestOf('ada');
      await admission.enter(request, now + 1_500);
      started += 1;
      if (!isOver) admission.charge('ada', 4);
      admission.leave(request);
    });
    const ended = Promise.allSettled(all);
    await turn();
    for (let count = 0; count < 40; count += 1) {
      const request = requestOf('bob');
      await admission.enter(request, now + 1_500);
      admission.leave(request);
      await turn();
    }
    isOver = true;
    assert.ok(started < 200, `${started} requests`);
    await ended;
  });

  describe('charges a client once', () => {
    /** An admission, and how often the client is charged. */
    const spied = () => {
      const admission = new Admission();
      admission.charge('ada', 2_000);
      const charges: number[] = [];
      const charge = admission.charge.bind(admission);
      admission.charge = (key, milliseconds) => {
        if (key === 'ada') charges.push(milliseconds);
        charge(key, milliseconds);
      };
      return { admission, charges };
    };
    const work = (admission: Admission, request: AdmissionRequest): void => {
      const until = performance.now() + 5;
      while (performance.now() < until);
      admission.chargeWork(request, 5);
    };

    test('for work in a turn', async () => {
      const { admission, charges } = spied();
      const request = requestOf('ada');
      await admission.enter(request, performance.now());
      work(admission, request);
      await turn();
      assert.equal(charges.length, 1);
      work(admission, request);
      assert.equal(charges.length, 2, 'the turn is over');
    });

    test('for a request that has to wait again after its turn', async () => {
      const { admission, charges } = spied();
      // All of them start in the iteration of the event loop in which the turn begins.
      for (let count = 0; count < 33; count += 1) void enter(admission, `client ${count}`);
      const request = requestOf('ada');
      await admission.enter(request, performance.now());
      work(admission, request);
      await turn();
      assert.equal(charges.length, 1);
    });
  });

  for (const [pieces, isFirst] of [
    [1, true],
    [5, false],
  ] as const)
    test(`counts the work of a request together, here ${pieces} of 0.1 ms, as much time of its client`, async () => {
      const admission = new Admission();
      for (let count = 0; count < 400; count += 1) {
        const request = requestOf('ada');
        for (let piece = 0; piece < pieces; piece += 1) admission.chargeWork(request, 0.1);
        admission.end(request);
      }
      admission.charge('eve', 500); // so that the process counts as busy
      const order: string[] = [];
      const all = ['ada', 'bob'].map(async (name) => {
        await enter(admission, name);
        order.push(name);
      });
      await Promise.all(all);
      assert.equal(order[0] === 'ada', isFirst);
    });

  test('lets a client with short requests wait for few costly ones, however many addresses send these', async () => {
    const admission = new Admission();
    let isOver = false;
    let started = 0;
    const flood = async (network: string): Promise<void> => {
      while (!isOver) {
        const request = requestOf(network);
        await admission.enter(request, performance.now());
        started += 1;
        admission.charge(network, 2);
        admission.leave(request);
      }
    };
    const floods = Array.from({ length: 40 }, (_, index) => flood(`10.0.${index}.1`));
    for (let turns = 0; turns < 10; turns += 1) await turn();
    const before: number[] = [];
    for (let visit = 0; visit < 20; visit += 1) {
      const request = requestOf('visitor');
      const startedBefore = started;
      await admission.enter(request, performance.now());
      before.push(started - startedBefore);
      admission.leave(request);
      await turn();
    }
    isOver = true;
    await Promise.all(floods);
    const mean = before.reduce((sum, one) => sum + one, 0) / before.length;
    assert.ok(mean <= 10, `after ${before.join(', ')} costly requests`);
  });

  test('gives clients equal time for heavy work, with turns of the event loop in between', async () => {
    const admission = new Admission();
    const order: string[] = [];
    let turns = 0;
    let latest = -Infinity;
    const all = ['ada', 'ada', 'ada', 'bob'].map(async (name) => {
      await admission.heavyTurn({ key: name, network: name });
      assert.ok(turns - latest > 1);
      latest = turns;
      order.push(name);
    });
    let isOver = false;
    void Promise.all(all).finally(() => (isOver = true));
    for (; !isOver; turns += 1) await turn();
    await Promise.all(all);
    assert.ok(order.indexOf('bob') <= 2, order.join());
  });

  test('lets go of heavy work whose client has disconnected', async () => {
    const admission = new Admission();
    let leave = (): void => assert.fail('nobody listens');
    let isListening = true;
    const onGone = (callback: () => void): (() => void) => {
      leave = callback;
      return () => (isListening = false);
    };
    const done: string[] = [];
    const turn = (name: string): Promise<void> =>
      admission.heavyTurn({ key: name, network: name }).then(() => void done.push(name));
    const first = turn('ada');
    const left = admission.heavyTurn({ key: 'bob', network: 'bob', onGone }, 1_000_000);
    const last = turn('eve');
    assert.equal(admission.waiting, 3);
    leave();
    assert.equal(admission.waiting, 2);
    await assert.rejects(left, ClientGone);
    await Promise.all([first, last]);
    assert.deepEqual(done, ['ada', 'eve']);
    assert.ok(!isListening);
  });

  test('refuses late heavy work with 429 if its client waits for itself, else with 503', async () => {
    const admission = new Admission();
    const turn = (name: string): Promise<void> => admission.heavyTurn({ key: name, network: name });
    const busy = turn('mallory').then(() => {
      for (const end = performance.now() + 2_100; performance.now() < end;);
    });
    const late = ['ada', 'ada', 'ada', 'bob'].map((name) => turn(name).catch((error: unknown) => error));
    const statuses = (await Promise.all(late)).map((error) =>
      error instanceof Problem ? error.status : 200,
    );
    await busy;
    assert.deepEqual(statuses, [429, 429, 429, 503]);
  });
});
