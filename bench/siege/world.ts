// The database of the besieged service: the benchmark's 500,000 messages, and what single attacks aim at.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import postgres from 'postgres';
import { createDatabase, type BenchDatabase } from '../database.ts';
import { PASSWORD } from '../rows.ts';

export const ADMINS = ['ada', 'grace'] as const;
export const DOCUMENTS = 640;

export interface World {
  readonly url: string;
  readonly version: string;
  readonly sql: postgres.Sql;
  readonly restore: () => Promise<void>;
  readonly drop: () => Promise<void>;
}

/** Makes a user as the command line does, and the tables where they are missing. */
async function addUser(databaseUrl: string, registry: string, ...words: string[]): Promise<void> {
  const child = spawn(process.execPath, [resolve('dist/main.js'), 'user', 'add', ...words], {
    stdio: ['pipe', 'ignore', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      DATABASE_URL: databaseUrl,
      RESOURCES: registry,
      LOG_LEVEL: 'error',
    },
  });
  child.stdin?.end(PASSWORD);
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`vitrine user add ${words.join(' ')} failed`);
}

async function fillTargets(sql: postgres.Sql): Promise<void> {
  await sql`insert into value (string) values ('a')`;
  await sql`insert into document (body) select repeat('0123456789abcdef', 65536) from generate_series(1, ${DOCUMENTS}::int)`;
  await sql`insert into measure (station, day) values (1, '2026-01-01')`;
  await sql`insert into diary (entry) values ('a')`;
  await sql`insert into team (name) values ('one'), ('two'), ('three')`;
  await sql`insert into member (nickname, code) values ('first', 'code-of-first'), ('second', 'code-of-second')`;
}

/** Creates and fills the database. */
export async function createWorld(directory: string, registry: string): Promise<World> {
  const database: BenchDatabase = await createDatabase(directory);
  const sql = postgres(database.url, { max: 2, onnotice: () => undefined });
  const drop = async (): Promise<void> => {
    await sql.end({ timeout: 2 });
    await database.drop();
  };
  try {
    // The benchmark's rows belong to the first user.
    await addUser(database.url, registry, 'user1');
    await database.fill();
    for (const name of ADMINS) await addUser(database.url, registry, name, '--admin');
    await fillTargets(sql);
  } catch (error) {
    await drop();
    throw error;
  }
  return { url: database.url, version: database.version, sql, restore: database.restore, drop };
}
