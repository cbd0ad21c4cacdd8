// Clients that write a record and read it at once, while others read, and while the standbys lag, pause and restart.
import { hash } from '@node-rs/argon2';
import { Agent, request as send } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../src/db/connection/embedded.ts';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import type { Replication } from './replication.ts';

const RESOURCES = [
  {
    model: 'user',
    columns: {
      username: { type: 'string', unique: true },
      password: { type: 'password' },
      active: { type: 'boolean', default: true },
      admin: { type: 'boolean', default: false },
    },
    exclude: ['password'],
  },
  { model: 'counter', columns: { value: { type: 'integer' } }, access: 'user' },
] satisfies Resource[];

const basic = (client: number): string =>
  `Basic ${Buffer.from(`client-${client}:password`).toString('base64')}`;

export interface PairOptions {
  readonly pairs: number;
  readonly clients: number;
  /** Whether a standby pauses and restarts again and again. */
  readonly hasFaults: boolean;
}

export interface PairCounts {
  readonly pairs: number;
  /** Reads with the position of the write that did not show it. */
  readonly stale: number;
  readonly failed: number;
  /** Requests that were refused with 429 or 503 because the machine is busy. */
  readonly refused: number;
  /** The statuses of failed requests, and how many had each. */
  readonly failures: Readonly<Record<string, number>>;
  /** Reads with a position that a standby has answered. */
  readonly onStandby: number;
  /** Reads without the position, right after the write, and how many did not show it. */
  readonly control: number;
  readonly controlStale: number;
  /** Reads of others, and how many of them a standby has answered. */
  readonly others: number;
  readonly othersOnStandby: number;
  readonly pauses: number;
  readonly restarts: number;
  readonly seconds: number;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly position: string | undefined;
}

/** Each client has an address and a connection to each service. */
function createSender(client: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const fetchText = (
    url: string,
    options: { method?: string; headers?: Record<string, string>; body?: string } = {},
  ): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const { method = 'GET', headers = {}, body } = options;
      const sent = { 'X-Forwarded-For': `10.0.${client >> 8}.${client & 255}`, ...headers };
      const outgoing = send(url, { method, headers: sent, agent }, (incoming) => {
        let text = '';
        incoming.setEncoding('utf8');
        incoming.on('data', (chunk: string) => (text += chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const position = incoming.headers['vitrine-position'];
          resolve({
            status: incoming.statusCode ?? 0,
            text,
            position: typeof position === 'string' ? position : undefined,
          });
        });
      });
      outgoing.on('error', reject);
      outgoing.end(body);
    });
  return { fetchText, close: () => agent.destroy() };
}

/** The reads that the standbys of a service have answered. @param port that of its metrics */
async function standbyReads(port = 0): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return [...text.matchAll(/^vitrine_replica_reads_total\S* (\d+)/gm)].reduce(
    (sum, [, digits]) => sum + Number(digits),
    0,
  );
}

/** The value of the record, by its key, by a filter, or as a stream. A client may have only one stream. */
async function readValue(
  { fetchText }: ReturnType<typeof createSender>,
  base: string,
  id: number,
  turn: number,
  headers: Record<string, string>,
  mayStream = false,
): Promise<number | string> {
  const paths = [`/${id}/`, `/?id=${id}`, `/?value__gte=0&ordering=-value&id=${id}`];
  const isStream = turn % 50 === 49 && mayStream;
  const accept: Record<string, string> = isStream ? { Accept: 'application/x-ndjson' } : {};
  const path = isStream ? `/?id=${id}` : paths[turn % paths.length];
  const { status, text } = await fetchText(`${base}/api/counter${path}`, {
    headers: { ...headers, ...accept },
  });
  const digits = /"value": ?(\d+)/.exec(text)?.[1];
  return status === 200 && digits !== undefined ? Number(digits) : `${status} ${text.slice(0, 200)}`;
}

/** Runs the pairs on three services: two for those who write, and one for the others. */
export async function runPairs(replication: Replication, options: PairOptions): Promise<PairCounts> {
  const { primary, standbys } = replication;
  const services: Vitrine[] = [];
  const bases: string[] = [];
  const metricsPorts: number[] = [];
  for (let index = 0; index < 3; index += 1) {
    const port = await freePort();
    metricsPorts.push(port);
    const vitrine = await createVitrine({
      databaseUrl: primary.url,
      databaseReadUrl: standbys.map(({ url }) => url),
      resources: RESOURCES,
      port: 0,
      metrics: `127.0.0.1:${port}`,
      logLevel: 'error',
      trustProxy: 1,
    });
    services.push(vitrine);
    bases.push((await vitrine.start()).url);
  }
  const [first = '', second = '', third = ''] = bases;
  const database = createDatabase(replication);
  const ids = await database.prepare(options.clients);
  let done = 0;
  let isOver = false;
  const failures: Record<string, number> = {};
  const fail = (reason: string): void => {
    if (/overloaded|already waiting/.test(reason)) {
      counts.refused += 1;
      return;
    }
    counts.failed += 1;
    failures[reason] = (failures[reason] ?? 0) + 1;
  };
  const counts = {
    stale: 0,
    failed: 0,
    refused: 0,
    control: 0,
    controlStale: 0,
    others: 0,
    pauses: 0,
    restarts: 0,
  };

  async function writer(id: number): Promise<void> {
    const sender = createSender(id);
    const authorization = { Authorization: basic(id) };
    for (let value = 1; done < options.pairs; value += 1) {
      done += 1;
      const [writing, reading] = value % 2 === 0 ? [first, second] : [second, first];
      const written = await sender.fetchText(`${writing}/api/counter/${id}/`, {
        method: 'PUT',
        headers: { ...authorization, 'Content-Type': 'application/json' },
        body: JSON.stringify({ value }),
      });
      if (written.status !== 200 || written.position === undefined) {
        fail(`${written.status} ${written.text.slice(0, 200)}`);
        continue;
      }
      // Some clients take their time, so that a standby may answer them.
      if (value % 4 === 0) await sleep((value * 37) % 400);
      const headers = { 'Vitrine-Position': written.position };
      const found = await readValue(sender, reading, id, value, headers, id === ids[0]);
      if (typeof found === 'string') fail(found);
      else if (found < value) counts.stale += 1;
      if (value % 10 === 0) {
        counts.control += 1;
        const shown = await readValue(sender, third, id, value, {});
        if (typeof shown === 'number' && shown < value) counts.controlStale += 1;
      }
    }
    sender.close();
  }

  /** Verifies the passwords one after the other, because many at once are refused. */
  async function logIn(): Promise<void> {
    for (const id of ids) {
      const sender = createSender(id);
      for (const base of [first, second]) {
        const headers = { Authorization: basic(id), 'Content-Type': 'application/json' };
        const body = JSON.stringify({ value: 0 });
        await sender.fetchText(`${base}/api/counter/${id}/`, { method: 'PUT', headers, body });
      }
      sender.close();
    }
  }

  async function other(turn: number): Promise<void> {
    const sender = createSender(60_000 + turn);
    for (let index = turn; !isOver; index += 1) {
      const found = await readValue(sender, third, ids[index % ids.length] ?? 0, index % 49, {});
      if (typeof found === 'string') fail(found);
      counts.others += 1;
      await sleep(2);
    }
    sender.close();
  }

  async function trouble(): Promise<void> {
    const standby = standbys.at(-1);
    if (!standby || !options.hasFaults) return;
    for (let turn = 0; !isOver; turn += 1) {
      await sleep(700);
      if (isOver) return;
      if (turn % 5 === 4) {
        counts.restarts += 1;
        await standby.stop(turn % 2 === 0 ? 'immediate' : 'fast');
        await standby.start();
      } else {
        counts.pauses += 1;
        await standby.sql`select pg_wal_replay_pause()`.catch(() => undefined);
        await sleep(300);
        await standby.sql`select pg_wal_replay_resume()`.catch(() => undefined);
      }
    }
  }

  try {
    await logIn();
    const started = performance.now();
    const disturbing = trouble();
    const others = Array.from({ length: 4 }, (_, turn) => other(turn));
    await Promise.all(ids.map(writer));
    isOver = true;
    await Promise.all([disturbing, ...others]);
    const seconds = (performance.now() - started) / 1000;
    const onStandby = (await standbyReads(metricsPorts[0])) + (await standbyReads(metricsPorts[1]));
    const othersOnStandby = await standbyReads(metricsPorts[2]);
    const { control, others: read } = counts;
    // The control reads are on the service of the others.
    return { ...counts, failures, pairs: done, onStandby, others: read + control, othersOnStandby, seconds };
  } finally {
    await database.close();
    await Promise.all(services.map((vitrine) => vitrine.close()));
  }
}

/** Makes the user and a record for each client. */
function createDatabase({ primary }: Replication) {
  const sql = primary.open();
  return {
    prepare: async (clients: number): Promise<number[]> => {
      const password = await hash('password');
      await sql`insert into "user" (username, password) select 'client-' || n, ${password} from generate_series(1, ${clients}) n`;
      const rows = await sql<{ id: number }[]>`
        insert into counter (value) select 0 from generate_series(1, ${clients}) returning id`;
      await sleep(1_000); // until the standbys have them
      return rows.map(({ id }) => Number(id));
    },
    close: () => sql.end(),
  };
}
