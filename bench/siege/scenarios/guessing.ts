// Guessing passwords and names, and logging in without end.
import { hash } from '@node-rs/argon2';
import { setTimeout as sleep } from 'node:timers/promises';
import { PASSWORD } from '../../rows.ts';
import { attemptLogin, openBrowser } from '../../../test/admin/support.ts';
import { addresses } from '../besiege.ts';
import { askOnce, type Answer } from '../connection.ts';
import { basic, logIn, type Timed } from '../log-in.ts';
import { atMost, holds, median, type Scenario } from '../scenario.ts';

/** What a guesser can learn from an answer: all of it but the time of day and of the throttle. */
const learned = ({ status, head, size }: Answer): string =>
  `${status} ${size} ${head.replace(/^(date|retry-after|set-cookie|etag):.*$/gim, '')}`.replace(/\s+/g, ' ');

/** Writes as a user; without the record's content, so the answer tells about the credentials alone. */
const write = (port: number, address: string, name: string, password: string): Promise<Timed> =>
  askOnce(port, {
    method: 'PUT',
    path: '/api/message/7/',
    headers: {
      'X-Forwarded-For': address,
      Authorization: basic(name, password),
      'Content-Type': 'application/json',
    },
    body: '{}',
  });

async function throttle(port: number, address: string, name: string): Promise<number> {
  let status = 0;
  for (let guess = 0; guess < 14; guess += 1)
    ({ status } = await logIn(port, address, name, `wrong ${guess}`));
  return status;
}

const guesses: Scenario = {
  name: 'guesses',
  title: 'a throttled address guesses while the user is at work',
  async run(stage) {
    const { port } = await stage.service();
    const base = `http://127.0.0.1:${port}`;
    const [work, guesser, form] = ['198.51.100.10', '203.0.113.1', '203.0.113.2'];
    let locked = 0;
    const atWork = async (): Promise<void> => {
      if ((await logIn(port, work, 'user7')).status !== 200) locked += 1;
    };
    await atWork();
    const throttled = await throttle(port, guesser, 'user7');
    await atWork();
    const wrong = [
      await logIn(port, guesser, 'user7', 'wrong'),
      await write(port, guesser, 'user7', 'wrong'),
    ];
    const right = [await logIn(port, guesser, 'user7'), await write(port, guesser, 'user7', PASSWORD)];
    const differing = right.filter(
      (answer, index) => learned(answer) !== learned(wrong[index] ?? answer),
    ).length;

    const { status: admitted } = await attemptLogin({ base }, 'ada', PASSWORD, openBrowser({ base }), {
      'x-forwarded-for': work,
    });
    const tries: number[] = [];
    for (let guess = 0; guess < 13; guess += 1)
      tries.push(
        (await attemptLogin({ base }, 'ada', `wrong ${guess}`, undefined, { 'x-forwarded-for': form }))
          .status,
      );
    const byForm = await attemptLogin({ base }, 'ada', PASSWORD, undefined, { 'x-forwarded-for': form });

    for (const address of addresses(60)) await logIn(port, address, 'user7', 'wrong');
    const fresh = await logIn(port, '203.0.113.77', 'user7');
    await atWork();
    return [
      holds('wrong guesses end in 429', throttled === 429 && tries.at(-1) === 429),
      atMost('count', 'right guesses with another answer than wrong ones', 0, differing, '', 'API'),
      holds(
        'the admin form refuses the right password alike',
        byForm.status === tries.at(-1),
        `${byForm.status}, wrong ${tries.at(-1)}`,
      ),
      holds('guesses from everywhere count for the name', fresh.status === 429, `status ${fresh.status}`),
      atMost('count', 'requests refused to the client at work', 0, locked + (admitted === 303 ? 0 : 1)),
    ];
  },
};

/** Times of a wrong guess for a user that is there, and for one that is not, each from an address of its own. */
async function timeGuesses(port: number, count: number): Promise<[known: number[], unknown: number[]]> {
  const known: number[] = [];
  const unknown: number[] = [];
  for (let n = 0; n < count; n += 1) {
    known.push((await logIn(port, `10.9.${n}.1`, `user${900 + n}`, 'wrong')).time);
    unknown.push((await logIn(port, `10.9.${n}.2`, `nobody${n}`, 'wrong')).time);
  }
  return [known, unknown];
}

const hashes: Scenario = {
  name: 'hashes',
  title: 'users whose hashes have other parameters',
  async run({ world: { sql }, service: start, either }) {
    const [first] = await sql<{ password: string }[]>`select password from "user" where username = 'user1'`;
    const current = first?.password ?? '';
    const parameters = (text = ''): string => text.split('$').slice(0, 4).join('$');
    const old = await hash(PASSWORD, { algorithm: 2, memoryCost: 65_536, timeCost: 3, parallelism: 1 });
    await sql`update "user" set password = ${old} where username like 'user%'`;
    try {
      const { port } = await start();
      const [known, unknown] = await timeGuesses(port, either(15, 7));
      const ratio = median(known) / median(unknown);
      await logIn(port, '198.51.100.10', 'user9');
      let stored: string | undefined;
      for (let tries = 0; tries < 30 && parameters(stored) !== parameters(current); tries += 1) {
        await sleep(100);
        [stored] = (
          await sql<{ password: string }[]>`select password from "user" where username = 'user9'`
        ).map(({ password }) => password);
      }
      const note = `median ${median(known).toFixed(0)} ms, ${median(unknown).toFixed(0)} ms`;
      return [
        atMost(
          'ratio',
          'time of a guess, known and unknown name',
          1.5,
          Math.max(ratio, 1 / ratio),
          '×',
          note,
        ),
        holds('a login renews the hash', parameters(stored) === parameters(current)),
      ];
    } finally {
      await sql`update "user" set password = ${current} where username like 'user%'`;
    }
  },
};

const similarNames: Scenario = {
  name: 'similar-names',
  title: 'a user logs in from 40 networks and guesses at a user with a similar name',
  async run({ world: { sql }, service: start }) {
    await sql`insert into "user" (username, password, email, active, admin)
      select 'USER11', password, email, true, false from "user" where username = 'user11'`;
    try {
      const { port } = await start();
      const from = Array.from({ length: 40 }, (_, n) => `2001:db8:77:${(n + 1).toString(16)}::1`);
      let own = 0;
      for (const address of from) if ((await logIn(port, address, 'USER11')).status === 200) own += 1;
      let taken = 0;
      for (const address of [...from, ...from, ...from])
        if ((await logIn(port, address, 'user11', 'wrong')).status === 401) taken += 1;
      return [
        holds('the guesser has logged in from each network', own === from.length),
        atMost('count', 'guesses of 120 from one /56 that are verified', 30, taken),
      ];
    } finally {
      await sql`delete from "user" where username = 'USER11'`;
    }
  },
};

const sessions: Scenario = {
  name: 'sessions',
  title: 'an admin logs in 120 times and keeps each session',
  async run({ world: { sql }, service: start }) {
    const base = `http://127.0.0.1:${(await start()).port}`;
    let opened = 0;
    for (let n = 0; n < 120; n += 1)
      if ((await attemptLogin({ base }, 'ada', PASSWORD, openBrowser({ base }), {})).status === 303)
        opened += 1;
    const [row] = await sql<{ count: number }[]>`select count(*)::int as count from vitrine_session
      where user_key = (select id::text from "user" where username = 'ada') and token_hash not like 'ended %'`;
    return [
      holds('each login succeeds', opened === 120, `${opened} of 120`),
      atMost('count', 'sessions of the admin', 50, row?.count ?? NaN),
    ];
  },
};

export const guessing: readonly Scenario[] = [guesses, similarNames, hashes, sessions];
