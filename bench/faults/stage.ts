import { hash } from '@node-rs/argon2';
import type { Cluster } from './cluster.ts';
import { COUNTERS } from './client.ts';
import type { Failure, Ledger } from './ledger.ts';
import type { Network } from './network.ts';
import { until } from './processes.ts';
import { initialCounter, USER, type HistoryEntry } from './replay.ts';
import type { Service, ServiceOptions } from './service.ts';
import type { Found, Row } from './verify.ts';

/** What a fault acts on. */
export interface Stage {
  readonly cluster: Cluster;
  readonly network: Network;
  readonly service: Service;
  readonly serviceOptions: ServiceOptions;
}

/** One way in which a fault strikes. */
export interface Variant {
  readonly name: string;
  /** The failures that this fault may cause. */
  readonly allows: readonly Failure[];
  /** How long the fault lasts, where `--seconds` does not say it. */
  readonly seconds?: number;
  /** Whether connections between the service and PostgreSQL may still hold statements after the clients have stopped. */
  readonly leavesStatements?: boolean;
  /** Before the load starts. */
  readonly prepare?: (stage: Stage) => Promise<void>;
  /**
   * Causes the fault under load, and ends it.
   * @returns how often it has struck; 0 is an error of the harness
   */
  readonly strike: (stage: Stage, seconds: number, ledger: Ledger) => Promise<number>;
  /** After the load and the verification. */
  readonly restore?: (stage: Stage) => Promise<void>;
}

export interface Fault {
  readonly name: string;
  /** Whether it is part of the short form. */
  readonly isShort: boolean;
  /** Why it cannot be caused on this system. */
  readonly obstacle?: () => string | undefined;
  /** The rounds take turns among them. */
  readonly variants: readonly Variant[];
}

export const PASSWORD = 'the password of the clients';
export const AUTHORIZATION = `Basic ${Buffer.from(`${USER}:${PASSWORD}`).toString('base64')}`;

/** The service's sessions, as a condition on `pg_stat_activity`. */
const OF_SERVICE = "application_name = 'vitrine' and datname = current_database()";

/** Where the harness reads and prepares the tables. */
type Database = Pick<Cluster, 'sql'>;

/** The process ids of the service's sessions that fulfill a condition. */
export async function sessions({ sql }: Database, condition = 'true'): Promise<number[]> {
  const rows = await sql.unsafe<{ pid: number }[]>(
    `select pid from pg_stat_activity where ${OF_SERVICE} and (${condition})`,
  );
  return rows.map(({ pid }) => pid);
}

/** Makes the clients' user, the counters, and each write slow enough to be struck in the middle. */
export async function populate({ sql }: Database): Promise<void> {
  const password = await hash(PASSWORD, { memoryCost: 8, timeCost: 1, parallelism: 1 });
  await sql`insert into "user" (username, password) values (${USER}, ${password})`;
  for (const id of COUNTERS)
    await sql`insert into counter (token, value) values (${String(initialCounter(id)['token'])}, 0)`;
  await sql.unsafe(`
    create function slow() returns trigger language plpgsql as
    $$ begin perform pg_sleep(random() * 0.006); return null; end $$`);
  for (const table of ['entry', 'counter'])
    await sql.unsafe(
      `create trigger slow after insert or update or delete on ${table} for each statement execute function slow()`,
    );
}

/** Empties the tables for the next round. */
export async function clear({ sql }: Database): Promise<void> {
  await sql`truncate entry, vitrine_history`;
  await sql`update counter set value = 0, token = 'start ' || id`;
}

/** Requests that the service works on. */
async function requestsInFlight({ service }: Pick<Stage, 'service'>): Promise<number> {
  const text = await (await fetch(service.metrics)).text();
  return Number(/^vitrine_http_requests_in_flight (\d+)$/m.exec(text)?.[1]);
}

/** How many times in a row the service must be found at rest: a request may be between two statements. */
const QUIET = 8;

/** Waits until the service has nothing to do, not even for clients that have left. */
export async function settle(
  stage: Pick<Stage, 'service'> & { readonly cluster: Database },
  { leavesStatements }: Pick<Variant, 'leavesStatements'>,
): Promise<void> {
  const { cluster } = stage;
  const isQuiet = async (): Promise<boolean> =>
    (await sessions(cluster, "state <> 'idle'")).length === 0 && (await requestsInFlight(stage)) === 0;
  await until('PostgreSQL to answer', async () => (await cluster.sql`select 1`).length === 1);
  // A packet that was lost may still arrive. The end of the session makes sure that it does not.
  if (leavesStatements)
    await cluster.sql.unsafe(`select pg_terminate_backend(pid) from pg_stat_activity where ${OF_SERVICE}`);
  let quiet = 0;
  await until('the last statements to end', async () => {
    quiet = (await isQuiet()) ? quiet + 1 : 0;
    return quiet === QUIET;
  });
}

/** Reads what the database has, past the service, in one snapshot. */
export const read = ({ sql }: Database): Promise<Found> =>
  sql.begin('isolation level repeatable read', async (snapshot) => {
    const rows = async (query: string): Promise<Row[]> =>
      (await snapshot.unsafe<Record<string, string | number>[]>(query)).map((values) => ({
        id: String(values['id']),
        values: values,
      }));
    const history = await snapshot<HistoryEntry[]>`
      select id::text, user_name as user, door, action, model, record, before, after
      from vitrine_history where model in ('entry', 'counter') order by vitrine_history.id`;
    return {
      entries: await rows('select * from entry'),
      counters: await rows('select * from counter'),
      history,
    };
  });
