// What answers give away, and what an admin who has left a browser open can lose.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { PASSWORD } from '../../rows.ts';
import { fieldsOf, type Browser } from '../../../test/admin/support.ts';
import { HONEST, openAdmin } from '../log-in.ts';
import { atMost, holds, type Scenario } from '../scenario.ts';
import { ADMINS } from '../world.ts';
import type { Stage } from '../stage.ts';

interface ApiAnswer {
  readonly status: number;
  readonly text: string;
  readonly etag: string | null;
}

/** One request of a user to the API. */
async function ask(
  port: number,
  name: string,
  method: string,
  path: string,
  body?: object,
): Promise<ApiAnswer> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: {
      ...HONEST,
      Authorization: `Basic ${Buffer.from(`${name}:${PASSWORD}`).toString('base64')}`,
      ...(body && { 'Content-Type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(15_000),
  });
  return { status: response.status, text: await response.text(), etag: response.headers.get('etag') };
}

const MARK = 'zebra-crossing';
const ABSENT = 'zebra-crossinh';
const HISTORY = '/admin/vitrine_history/';

/** Other attacks may have left so many entries that a search of all of them takes too long. */
const OF_RECORD = 'model=member&record=1';

/** The pages that show what the history holds. */
async function historyPages(browser: Browser, record: string): Promise<string[]> {
  const list = await browser.get(HISTORY);
  const entries = [...list.text.matchAll(/href="(\/admin\/vitrine_history\/\d+\/)/g)].map(
    ([, path]) => path ?? '',
  );
  return [
    '/admin/',
    HISTORY,
    `${HISTORY}-/export.csv`,
    `${HISTORY}-/export.json`,
    `/admin/member/${record}/history/`,
    ...new Set(entries),
  ];
}

const history: Scenario = {
  name: 'history',
  title: 'a column that was hidden from the admin area later',
  async run({ service }) {
    const before = await service();
    await ask(before.port, 'user1', 'PUT', '/api/member/1/', { nickname: MARK });
    await ask(before.port, 'user1', 'PUT', '/api/member/1/', { nickname: 'first' });
    const { port } = await service({ settings: { SIEGE_LATER: '1' } });
    const browser = await openAdmin(port, 'ada');
    const shown: string[] = [];
    const pages = await historyPages(browser, '1');
    for (const path of pages) if ((await browser.get(path)).text.includes(MARK)) shown.push(path);
    const telling: string[] = [];
    for (const query of [
      '_search=X',
      'before__like=%25X%25',
      'after__ilike=%25X%25',
      'after__gte=%7B%22id%22%3A 1,%22nickname%22:%22X',
    ]) {
      for (const page of [HISTORY, `${HISTORY}-/export.json`]) {
        const [found, missed] = await Promise.all(
          [MARK, ABSENT].map(async (word) => {
            const { status, text } = await browser.get(`${page}?${OF_RECORD}&${query.replace('X', word)}`);
            const message = /<p class="lead">([^<]*)/.exec(text)?.[1];
            return `${status} ${message ?? withoutTokens(text.replaceAll(word, ''))}`;
          }),
        );
        if (found !== missed) telling.push(`${page}?${query} (${difference(found, missed)})`);
      }
    }
    return [
      atMost(
        'count',
        'pages and exports that show it',
        0,
        shown.length,
        '',
        shown.join(', ') || `of ${pages.length}`,
      ),
      atMost(
        'count',
        'filters and searches that tell it',
        0,
        telling.length,
        '',
        telling.join(', ') || 'of 8',
      ),
    ];
  },
};

/** Where two texts differ, with what follows there in each. */
function difference(one = '', other = ''): string {
  let at = 0;
  while (one[at] === other[at]) at += 1;
  return [one, other].map((text) => JSON.stringify(text.slice(at, at + 60))).join(' / ');
}

/** A page without what differs each time. */
const withoutTokens = (page = ''): string =>
  page.replace(/(value|nonce|id)="[^"]*"/g, '').replace(/zebra[^"&<]*/g, '');

const hidden: Scenario = {
  name: 'hidden',
  title: 'writes that ask about hidden columns and records',
  async run({ service }) {
    const { port } = await service();
    const duplicate = await ask(port, 'user1', 'POST', '/api/member/', {
      nickname: 'x',
      code: 'code-of-second',
    });
    const [there, missing] = [
      await ask(port, 'user1', 'POST', '/api/member/', { team_id: 3, unknown: 1 }),
      await ask(port, 'user1', 'POST', '/api/member/', { team_id: 999_999, unknown: 1 }),
    ];
    const { etag } = await ask(port, 'user1', 'GET', '/api/member/1/');
    const right = await ask(port, 'user1', 'PUT', '/api/member/1/', { code: 'code-of-first' });
    const wrong = await ask(port, 'user1', 'PUT', '/api/member/1/', { code: 'another code' });
    await ask(port, 'user1', 'PUT', '/api/member/1/', { code: 'code-of-first' });
    return [
      holds(
        '409 does not name a hidden column',
        duplicate.status === 409 && !/code/.test(duplicate.text),
        `status ${duplicate.status}`,
      ),
      holds(
        'a faulty body does not tell whether a hidden record exists',
        there.text === missing.text && there.status === missing.status,
      ),
      holds(
        'the ETag does not tell that a hidden value is right',
        (right.etag === etag) === (wrong.etag === right.etag),
      ),
    ];
  },
};

const hashOf = async ({ world }: Stage, name: string): Promise<string> => {
  const [row] = await world.sql<{ row: string }[]>`
    select password || active || admin as row from "user" where username = ${name}`;
  return row?.row ?? '';
};

const idOf = async ({ world }: Stage, name: string): Promise<number> =>
  (await world.sql<{ id: number }[]>`select id from "user" where username = ${name}`)[0]?.id ?? 0;

/** Puts the users back as they were. */
async function restore({ world: { sql } }: Stage): Promise<void> {
  await sql`delete from "user" where username = 'brief'`;
  await sql`
    update "user" set admin = username in ${sql(ADMINS)}, active = true,
      password = (select password from "user" where username = 'user1')
    where username in ${sql([...ADMINS, 'user8', 'user9'])}`;
}

async function addByCommand({ world, registry }: Stage, name: string, password: string): Promise<number> {
  const child = spawn(process.execPath, [resolve('dist/main.js'), 'user', 'add', name], {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { PATH: process.env['PATH'], DATABASE_URL: world.url, RESOURCES: registry, LOG_LEVEL: 'error' },
  });
  child.stdin?.end(password);
  const [code] = (await once(child, 'exit')) as [number];
  return code;
}

const NEW = 'a new and long password';

const passwords: Scenario = {
  name: 'passwords',
  title: 'passwords and powers in an open session of an admin',
  async run(stage) {
    const { port } = await stage.service();
    const browser = await openAdmin(port, 'ada');
    const [ada, grace, other] = [
      await idOf(stage, 'ada'),
      await idOf(stage, 'grace'),
      await idOf(stage, 'user8'),
    ];
    const changed: string[] = [];
    const attempt = async (what: string, name: string, act: () => Promise<unknown>): Promise<void> => {
      const before = await hashOf(stage, name);
      await act();
      if ((await hashOf(stage, name)) !== before) changed.push(what);
    };
    const set = (id: number, password: string, more = {}): Promise<unknown> =>
      browser.post(
        `/admin/user/${id}/password/`,
        { _password: password, _repeat: password, ...more },
        HONEST,
      );
    const power = async (id: number, isAdmin: boolean): Promise<void> => {
      const fields = fieldsOf(await browser.get(`/admin/user/${id}/`, HONEST));
      const sent = { ...fields, admin: String(isAdmin), _save: 'stay' };
      await browser.post(`/admin/user/${id}/`, sent, HONEST);
    };
    await attempt("an admin's power", 'grace', () => power(grace, false));
    await attempt('a user made admin', 'user8', () => power(other, true));
    await attempt("another admin's password", 'grace', () => set(grace, NEW));
    await attempt("one's own password", 'ada', () => set(ada, NEW));
    const unchecked = [...changed];
    changed.length = 0;
    const again = await openAdmin(port, 'grace').catch(() => undefined);
    if (again) {
      const short = { _password: 'x', _repeat: 'x', _current: PASSWORD };
      await attempt('a password of one character', 'user9', async () =>
        again.post(`/admin/user/${await idOf(stage, 'user9')}/password/`, short, HONEST),
      );
    }
    const code = await addByCommand(stage, 'brief', 'x');
    await restore(stage);
    return [
      atMost(
        'count',
        'changes without the current password',
        0,
        unchecked.length,
        '',
        unchecked.join(', ') || 'of 4',
      ),
      holds(
        'the admin area refuses a password of one character',
        again !== undefined && changed.length === 0,
      ),
      holds('the command refuses a password of one character', code !== 0),
    ];
  },
};

export const disclosure: readonly Scenario[] = [history, hidden, passwords];
