import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import postgres from 'postgres';
import { startEmbedded } from '../src/db/connection/embedded.ts';
import { privateMemory, processorTime } from './processes.ts';
import { LARGE } from './pairs.ts';
import { MESSAGES, USERS } from './rows.ts';

export interface BenchDatabase {
  readonly url: string;
  /** The server's version. */
  readonly version: string;
  /** Fills the tables that Vitrine has made, with the password hash of `user1`, who is there already. */
  readonly fill: () => Promise<void>;
  /** Fills the tables of `registry.ts`, and the large one only if it is needed. */
  readonly fillPairs: (withLarge: boolean) => Promise<void>;
  /** Runs SQL, and returns the rows of a single query. */
  readonly query: <T extends object = object>(text: string) => Promise<readonly T[]>;
  /** Takes away what a round has added and left behind. */
  readonly restore: () => Promise<void>;
  /** Processor time of all sessions so far, microseconds; NaN for a server on another machine. */
  readonly cpu: () => Promise<number>;
  /** Megabytes of private memory of all sessions. */
  readonly memory: () => Promise<number>;
  readonly drop: () => Promise<void>;
}

/**
 * A database of its own on the server of BENCH_DATABASE_URL, else on an embedded one with PostgreSQL's own settings.
 * @param settings of the embedded server that are different
 */
export async function createDatabase(
  directory: string,
  settings: readonly string[] = [],
): Promise<BenchDatabase> {
  const given = process.env['BENCH_DATABASE_URL'];
  const embedded = given ? undefined : await startEmbedded(join(directory, 'postgres'), settings);
  const url = new URL(given ?? embedded?.url ?? '');
  const server = postgres(url.href, { max: 1, onnotice: () => undefined });
  const name = `vitrine_bench_${randomBytes(4).toString('hex')}`;
  await server.unsafe(`create database ${name} template template0 encoding 'UTF8'`);
  url.pathname = `/${name}`;
  const sql = postgres(url.href, { max: 1, onnotice: () => undefined });
  const [row] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
  const sumOf = async (valueOf: (pid: number) => Promise<number>): Promise<number> => {
    const sessions = await sql<{ pid: number }[]>`
      select pid from pg_stat_activity where datname = ${name} and pid <> pg_backend_pid()`;
    const values = await Promise.all(sessions.map(({ pid }) => valueOf(pid)));
    return values.reduce((sum, value) => sum + value, 0);
  };
  return {
    url: url.href,
    version: row?.version ?? '',
    async fill() {
      await sql`
        insert into "user" (username, password, email)
        select 'user' || n, password, 'user' || n || '@example.org'
        from "user", generate_series(2, ${USERS}::int) n order by n`;
      await sql`
        insert into message (id, user_id, content, pub_date)
        select n, 1 + (n - 1) % ${USERS}::int,
          'Message ' || n || ': what people write to each other is mostly about as long as this is.',
          timestamp '2024-01-01' + n * interval '1 minute'
        from generate_series(1, ${MESSAGES}::int) n`;
      await sql`select setval(pg_get_serial_sequence('message', 'id'), ${MESSAGES}::int)`;
      // It would strike one server's run and spare another's; `restore` does its work between the rounds.
      await sql`alter table message set (autovacuum_enabled = false)`;
      await sql`vacuum (analyze)`;
    },
    async fillPairs(withLarge) {
      for (const table of ['single', 'several'])
        await sql`
          insert into ${sql(table)} (user_id, number, content, pub_date)
          select user_id, 1 + (n - 1) % ${MESSAGES / USERS}::int, content, pub_date
          from (select 1 + (n - 1) / ${MESSAGES / USERS}::int as user_id, n,
            'Entry ' || n || ': what people write to each other is mostly about as long as this is.' as content,
            timestamp '2024-01-01' + n * interval '1 minute' as pub_date
            from generate_series(1, ${MESSAGES}::int) n) entries`;
      if (withLarge) await sql`insert into large (number) select n from generate_series(1, ${LARGE}::int) n`;
      await sql`vacuum (analyze)`;
    },
    query: <T extends object>(text: string) => sql.unsafe<T[]>(text),
    async restore() {
      await sql`delete from message where id > ${MESSAGES}::int`;
      await sql`vacuum (analyze) message`;
    },
    cpu: () => sumOf((pid) => processorTime(pid, 'postgres')),
    memory: () => sumOf(privateMemory),
    async drop() {
      await sql.end();
      await server.unsafe(`drop database if exists ${name} with (force)`);
      await server.end();
      await embedded?.stop();
    },
  };
}
