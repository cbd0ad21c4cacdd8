// Keeping others from logging in, and guessing from many addresses.
import { setTimeout as sleep } from 'node:timers/promises';
import { addresses, besiege, readRow } from '../besiege.ts';
import type { Flood } from '../jobs.ts';
import { logIn, type Timed } from '../log-in.ts';
import { atMost, type Scenario } from '../scenario.ts';
import type { Stage } from '../stage.ts';

/** Tries over many connections, each from the next address and with the next name. */
const flood = (port: number, from: readonly string[], more: Partial<Flood> = {}): Flood => ({
  kind: 'flood',
  port,
  connections: 200,
  addresses: from,
  requests: [{ path: '/api/diary/', headers: { Authorization: 'Basic user{n}:wrong {n}' } }],
  pause: 100,
  ...more,
});

interface Logins {
  readonly failed: number;
  readonly count: number;
  /** Milliseconds. */
  readonly times: readonly number[];
}

/** Logs in four times a second, as other users each time, which takes a hash. */
async function keepLoggingIn(seconds: number, next: (n: number) => Promise<Timed>): Promise<Logins> {
  const until = performance.now() + seconds * 1000;
  const times: number[] = [];
  let failed = 0;
  for (let n = 0; performance.now() < until; n += 1) {
    const started = performance.now();
    const answer = await next(n).catch(() => undefined);
    times.push(performance.now() - started);
    if (answer?.status !== 200) failed += 1;
    await sleep(250);
  }
  return { failed, count: times.length, times };
}

const share = ({ failed, count }: Logins): number => (100 * failed) / count;

const loginFlood: Scenario = {
  name: 'login-flood',
  title: 'argon2 flood: 200 parallel logins from 4,000 addresses',
  async run(stage) {
    const known = '198.51.100.20';
    let logins: Promise<Logins[]> | undefined;
    const siege = await besiege(stage, (port) => {
      logins = (async () => {
        // From here on the address and these names have logged in.
        for (let n = 0; n < 8; n += 1) await logIn(port, known, `user${500 + n}`);
        await sleep(2500);
        const seconds = stage.either(10, 2.5);
        return Promise.all([
          keepLoggingIn(seconds, (n) => logIn(port, known, `user${600 + n}`)),
          keepLoggingIn(seconds, (n) => logIn(port, `198.51.100.${30 + n}`, `user${500 + (n % 8)}`)),
        ]);
      })();
      return [flood(port, addresses(4000))];
    });
    const [sameAddress, sameName] = (await logins) ?? [];
    if (!sameAddress || !sameName) throw new Error('nobody logged in');
    return [
      readRow(siege, 5),
      atMost(
        'count',
        'new logins refused, address known',
        0,
        share(sameAddress),
        '%',
        `of ${sameAddress.count}`,
      ),
      atMost('time', 'slowest of them', 1000, Math.max(...sameAddress.times), 'ms'),
      atMost('count', 'new logins refused, name known', 0, share(sameName), '%', `of ${sameName.count}`),
      atMost('time', 'slowest of them', 1000, Math.max(...sameName.times), 'ms'),
    ];
  },
};

const network = (block: number, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `2001:db8:${block.toString(16)}:${n.toString(16)}::1`);

/** How many guesses the service has checked: all that it did not refuse. */
async function checkedGuesses(
  stage: Stage,
  port: number,
  from: readonly string[],
  most: number,
): Promise<number> {
  const attack = await stage.attack(flood(port, from, { connections: 4, pause: 0, most }));
  await attack.finished(30);
  return (await attack.stop()).statuses['401'] ?? 0;
}

const networks: Scenario = {
  name: 'networks',
  title: 'guesses from 60 addresses of one /56',
  async run(stage) {
    const { port } = await stage.service();
    const small = await checkedGuesses(stage, port, network(1, 60), stage.either(660, 180));
    // Eight /56 of one /48.
    const blocks = Array.from(
      { length: 64 },
      (_, n) => `2001:db8:2:${(256 * (n >> 3) + (n & 7)).toString(16)}::1`,
    );
    const large = await checkedGuesses(stage, port, blocks, stage.either(640, 300));
    const attack = await stage.attack(flood(port, network(3, 60)));
    // Until the throttle ends it, which takes a second or two, the network fills the queue.
    await sleep(200);
    const others = await keepLoggingIn(stage.either(8, 3), (n) =>
      logIn(port, `198.51.100.${30 + n}`, `user${700 + n}`),
    );
    await attack.stop();
    return [
      atMost('count', 'guesses checked for one /56', 30, small, '', `of ${stage.either(660, 180)}`),
      atMost('count', 'guesses checked for one /48', 100, large, '', `of ${stage.either(640, 300)}`),
      atMost(
        'count',
        'new logins of others refused during 200 parallel guesses',
        5,
        share(others),
        '%',
        `of ${others.count}`,
      ),
    ];
  },
};

export const logins: readonly Scenario[] = [loginFlood, networks];
