// Small doors, each of which was open once.
import { setTimeout as sleep } from 'node:timers/promises';
import { askOnce, encode, openConnection } from '../connection.ts';
import { atMost, holds, type Scenario } from '../scenario.ts';

const CLIENT = { 'X-Forwarded-For': '203.0.113.1' };

const redirect: Scenario = {
  name: 'redirect',
  title: 'a long address of the admin area without a login',
  async run({ service }) {
    const { port } = await service();
    const path = `/admin/message/?content__like=${'x'.repeat(7500)}`;
    const { head, status } = await askOnce(port, { path, headers: CLIENT });
    // nginx reads the head of an answer into 4 KB.
    return [atMost('count', 'head of the answer', 4000, head.length, 'bytes', `status ${status}`)];
  },
};

/** Texts that a spreadsheet may take for a formula. */
const FORMULAS = [
  '=1+1',
  '+1+1',
  '-1+1',
  '@SUM(1)',
  '\t=1',
  '\u00a0=1',
  '\ufeff=1',
  '\u200b=1',
  ' \u200b\u00a0@a',
  '＝1',
  '＋1',
  '－1',
  '＠a',
  '\u3000=1',
];

const csvGuard: Scenario = {
  name: 'csv-guard',
  title: 'texts in CSV that a spreadsheet takes for formulas',
  async run({ service, world: { sql } }) {
    await sql`delete from value where id > 1`;
    await sql`insert into value ${sql(FORMULAS.map((string) => ({ string })))}`;
    const { port } = await service();
    const response = await fetch(`http://127.0.0.1:${port}/api/value/?limit=1000`, {
      headers: { Accept: 'text/csv' },
    });
    const page = Buffer.from(await response.arrayBuffer()).toString();
    await sql`delete from value where id > 1`;
    const unguarded = FORMULAS.filter((text) => !page.includes(`"'${text}"`));
    return [
      holds('the page is CSV', response.status === 200, `status ${response.status}`),
      atMost(
        'count',
        'texts without a guard',
        0,
        unguarded.length,
        '',
        unguarded.length > 0
          ? unguarded.map((text) => JSON.stringify(text)).join(' ')
          : `of ${FORMULAS.length}`,
      ),
    ];
  },
};

const upgrade: Scenario = {
  name: 'upgrade',
  title: 'a request in the same packet as an Upgrade',
  async run({ service }) {
    const { port } = await service();
    const { socket, destroy } = openConnection(port);
    const first = encode({ path: '/healthz', headers: { Connection: 'Upgrade', Upgrade: 'websocket' } });
    let received = '';
    let isClosed = false;
    socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
    socket.on('close', () => (isClosed = true));
    socket.write(Buffer.concat([first, encode({ path: '/healthz' })]));
    const answers = (): number => received.split('HTTP/1.1 ').length - 1;
    for (let tries = 0; tries < 30 && answers() < 2 && !isClosed; tries += 1) await sleep(100);
    const isProper = answers() === 2 || (isClosed && answers() === 1);
    destroy();
    return [holds('both are answered, or the connection is closed', isProper, `${answers()} answers`)];
  },
};

const mappedAddresses: Scenario = {
  name: 'mapped-addresses',
  title: 'IPv4 addresses written as IPv6 in hexadecimal',
  async run({ service }) {
    const { port } = await service();
    const guess = async (address: string, n: number): Promise<number> => {
      const Authorization = `Basic ${Buffer.from(`user${800 + n}:wrong`).toString('base64')}`;
      return (
        await askOnce(port, { path: '/api/diary/', headers: { Authorization, 'X-Forwarded-For': address } })
      ).status;
    };
    for (let n = 0; n < 12; n += 1) await guess('::ffff:cb00:71c8', n);
    const [other, same] = [await guess('::ffff:cb00:71c9', 12), await guess('203.0.113.200', 13)];
    return [
      holds('another address is not throttled', other === 401, `status ${other}`),
      holds('the same address in decimal is', same === 429, `status ${same}`),
    ];
  },
};

export const details: readonly Scenario[] = [redirect, csvGuard, upgrade, mappedAddresses];
