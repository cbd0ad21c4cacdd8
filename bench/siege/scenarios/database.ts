// What reaches PostgreSQL: prepared statements, locks, a database that does not answer, counts.
import { setTimeout as sleep } from 'node:timers/promises';
import { PASSWORD } from '../../rows.ts';
import { attemptLogin, openBrowser } from '../../../test/admin/support.ts';
import { startProxy } from '../../../test/process/proxy.ts';
import { askOnce, encode, openConnection } from '../connection.ts';
import { heavyPath } from '../heavy.ts';
import { atLeast, atMost, holds, type Scenario } from '../scenario.ts';
import { running } from '../stage.ts';
import { startTap } from '../tap.ts';

const CLIENT = { 'X-Forwarded-For': '203.0.113.1' };

/** Filters that each make another statement, and match one record at most. */
function variedFilters(): string[] {
  const texts = ['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'like', 'ilike'];
  const times = ['eq', 'ne', 'lt', 'lte', 'gt', 'gte'];
  const paths = texts.flatMap((text) =>
    times.flatMap((time) =>
      times.map((key) => `id=1&content__${text}=a&pub_date__${time}=2024-01-01&user__${key}=1`),
    ),
  );
  return paths.slice(0, 260);
}

/** How often a filter is repeated, and how many connections of the service may have to prepare it. */
const REPEATS = 100;
const MOST_CONNECTIONS = 20;

const prepared: Scenario = {
  name: 'prepared',
  title: '260 varied filters, then one that is asked often',
  async run({ service, world }) {
    const tap = await startTap(world.url);
    try {
      const { port } = await service({ databaseUrl: tap.url });
      const connection = openConnection(port);
      const ask = (query: string): Promise<unknown> =>
        connection.ask(encode({ path: `/api/message/?${query}`, headers: CLIENT }));
      for (const query of [...variedFilters(), ...variedFilters()]) await ask(query);
      const before = tap.parsed();
      for (let n = 0; n < REPEATS; n += 1) await ask(`user__username=user${n}`);
      connection.destroy();
      const parsed = tap.parsed() - before;
      return [
        atMost('count', 'times that PostgreSQL parses it', MOST_CONNECTIONS, parsed, '', `of ${REPEATS}`),
      ];
    } finally {
      tap.close();
    }
  },
};

const lockedSession: Scenario = {
  name: 'locked-session',
  title: 'a logout while the row of the session is locked',
  async run({ service, world }) {
    const { port } = await service();
    const base = `http://127.0.0.1:${port}`;
    const browser = openBrowser({ base });
    const { status: loggedIn } = await attemptLogin({ base }, 'ada', PASSWORD, browser);
    if (loggedIn !== 303) throw new Error(`the login was answered with ${loggedIn}`);
    await browser.get('/admin/-/account/');
    const cookies = new Map(browser.cookies);
    let isLocked = true;
    let logoutTime = NaN;
    let inTime = 0;
    await world.sql.begin(async (sql) => {
      await sql`select 1 from vitrine_session for update`;
      const started = performance.now();
      const logout = browser.post('/admin/-/logout/').then(() => {
        logoutTime = performance.now() - started;
        if (isLocked) inTime += 1;
      });
      logout.catch(() => undefined);
      await sleep(100);
      for (let read = 1; read <= 8; read += 1)
        void askOnce(port, { path: `/api/message/${read}/` }).then(
          () => (inTime += isLocked ? 1 : 0),
          () => undefined,
        );
      await sleep(4000);
    });
    isLocked = false;
    for (let tries = 0; tries < 60 && !(logoutTime > 0); tries += 1) await sleep(100);
    for (const [name, value] of cookies) browser.cookies.set(name, value);
    const { status } = await browser.get('/admin/');
    return [
      atLeast('count', 'a logout and 8 reads that are answered meanwhile', 9, inTime),
      atMost('time', 'logout', 1000, logoutTime, 'ms'),
      holds('the old session is over', status === 303, `status ${status}`),
    ];
  },
};

const frozenDatabase: Scenario = {
  name: 'frozen-database',
  title: '/readyz while the database does not answer',
  async run({ service, world }) {
    const proxy = await startProxy(world.url);
    try {
      const { port } = await service({ databaseUrl: proxy.url });
      proxy.swallow();
      const times: number[] = [];
      const statuses: number[] = [];
      for (let round = 0; round < 3; round += 1) {
        const answer = await askOnce(port, { path: '/readyz' }, 12_000).catch(() => undefined);
        times.push(answer?.time ?? 12_000);
        statuses.push(answer?.status ?? 0);
      }
      return [
        atMost('time', 'slowest of 3 answers', 1000, Math.max(...times), 'ms'),
        holds(
          'each is 503',
          statuses.every((status) => status === 503),
          statuses.join(', '),
        ),
        atMost('count', 'answers after more than 3 s', 0, times.filter((time) => time > 3000).length),
      ];
    } finally {
      await proxy.close();
    }
  },
};

const count: Scenario = {
  name: 'count',
  title: 'a heavy filter with count=exact',
  async run(stage) {
    const { port } = await stage.service();
    const connection = openConnection(port);
    connection
      .ask(encode({ path: heavyPath(1), headers: { ...CLIENT, Prefer: 'count=exact' } }))
      .catch(() => undefined);
    let most = 0;
    for (let look = 0; look < 40; look += 1) {
      most = Math.max(most, await running(stage));
      await sleep(25);
    }
    connection.destroy();
    return [atMost('count', 'statements that run at once', 1, most)];
  },
};

export const database: readonly Scenario[] = [prepared, lockedSession, frozenDatabase, count];
