import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { appendFile, chown, mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { findBinaries, freePort, serverOwner, type Binaries } from '../../src/db/connection/embedded.ts';
import { ended, hasEnded, until } from './processes.ts';

const run = promisify(execFile);

/** The harness connects to this address, the service to the other one, whose packets alone can be dropped. */
const OURS = '127.0.0.1';
export const SERVICE_SIDE = '127.0.0.2';
export const MAX_CONNECTIONS = 60;
export const ROLE = 'vitrine';
const DATABASE = 'vitrine';

/** A PostgreSQL server that may be killed. */
export interface Cluster {
  readonly port: number;
  readonly version: string;
  readonly directory: string;
  /** The address that the service gets. */
  readonly url: string;
  /** The address of the standby for the service, if there is one. It is always reachable. */
  readonly replicaUrl: string | undefined;
  /** A superuser's connections to the service's database; they reconnect after a restart. */
  readonly sql: postgres.Sql;
  /** Opens further connections, as the service's role. */
  readonly openClient: (connections: number) => postgres.Sql;
  /** Lets the server's user write to the directory. */
  readonly give: (path: string) => Promise<void>;
  readonly isRunning: () => boolean;
  /** Starts the server, after a crash as often as it takes, and waits until it takes connections. */
  readonly start: () => Promise<void>;
  readonly stop: (mode: 'fast' | 'immediate') => Promise<void>;
  /** Sends a signal to the postmaster, or to it and all its processes. */
  readonly signal: (signal: NodeJS.Signals, everything?: boolean) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** The processes that a process has started. */
export async function childrenOf(pid: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const parents = await Promise.all(
    pids.map(async (one) => {
      const stat = await readFile(`/proc/${one}/stat`, 'utf8').catch(() => '');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    }),
  );
  return pids.filter((_, index) => parents[index] === pid);
}

async function findPrograms(): Promise<Pick<Binaries, 'initdb' | 'postgres'>> {
  const given = process.env['FAULTS_POSTGRES_BIN'];
  return given ? { initdb: join(given, 'initdb'), postgres: join(given, 'postgres') } : findBinaries();
}

/** Makes a cluster with PostgreSQL's own settings, `fsync` included, and starts it. @param hasStandby whether it has a standby */
export async function createCluster(directory: string, hasStandby = false): Promise<Cluster> {
  const programs = await findPrograms();
  const owner = await serverOwner();
  const data = join(directory, 'data');
  const give = async (path: string): Promise<void> => {
    if (owner) await chown(path, owner.uid, owner.gid);
  };
  const password = randomBytes(12).toString('hex');
  const passwordFile = join(directory, 'password');
  await mkdir(data, { recursive: true, mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  for (const path of [data, passwordFile]) await give(path);
  const flags = ['--username=postgres', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C'];
  await run(programs.initdb, [`--pgdata=${data}`, `--pwfile=${passwordFile}`, ...flags], {
    ...owner,
    cwd: '/',
  });
  const port = await freePort();
  const settings = {
    port,
    listen_addresses: `${OURS},${SERVICE_SIDE}`,
    unix_socket_directories: '',
    max_connections: MAX_CONNECTIONS,
    deadlock_timeout: '100ms',
    wal_keep_size: '256MB', // for a standby
    max_wal_size: '64MB',
    min_wal_size: '32MB',
  };
  const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const log = await open(join(directory, 'postgres.log'), 'a');
  const address = (role: string, host: string, name: string): string =>
    `postgres://${role}:${password}@${host}:${port}/${name}`;
  const connect = (url: string, max: number): postgres.Sql =>
    postgres(url, {
      max,
      onnotice: () => undefined,
      connect_timeout: 5,
      backoff: () => 0.1,
      max_lifetime: null,
      // A standby that is missing makes the service wait, and not the harness.
      connection: { synchronous_commit: 'local' },
    });
  let postmaster: ChildProcess | undefined;
  let standby: ChildProcess | undefined;
  const isRunning = (): boolean => postmaster !== undefined && !hasEnded(postmaster);

  async function start(): Promise<void> {
    await until('PostgreSQL to take connections', async () => {
      // Children of a killed postmaster take a moment to notice, and keep the next one from starting until then.
      if (!isRunning())
        postmaster = spawn(programs.postgres, ['-D', data, ...words], {
          ...owner,
          cwd: '/',
          stdio: ['ignore', log.fd, log.fd],
        });
      const probe = connect(address('postgres', OURS, 'postgres'), 1);
      try {
        return (await probe`select 1`).length === 1;
      } finally {
        await probe.end({ timeout: 0 });
      }
    });
  }

  /** A session may have ended since the list was made. */
  function send(pid: number, name: NodeJS.Signals): void {
    try {
      process.kill(pid, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  async function signal(name: NodeJS.Signals, everything = false): Promise<void> {
    const pid = postmaster?.pid;
    if (pid === undefined || !isRunning()) return;
    const children = everything ? await childrenOf(pid) : [];
    for (const one of [pid, ...children]) send(one, name);
  }

  async function stop(mode: 'fast' | 'immediate'): Promise<void> {
    if (!postmaster) return;
    await signal(mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await ended(postmaster);
  }

  /** Copies the stopped server, and starts the copy as its standby. Gives its port. */
  async function startStandby(): Promise<number> {
    const folder = join(directory, 'standby');
    const standbyPort = await freePort();
    await run('cp', ['-a', data, folder]);
    const source = `host=${OURS} port=${port} user=postgres password=${password}`;
    await appendFile(join(folder, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
    await writeFile(join(folder, 'standby.signal'), '');
    await give(join(folder, 'standby.signal'));
    const own = [
      '-c',
      `port=${standbyPort}`,
      '-c',
      `listen_addresses=${OURS}`,
      '-c',
      'wal_retrieve_retry_interval=100ms',
    ];
    standby = spawn(programs.postgres, ['-D', folder, ...words, ...own], {
      ...owner,
      cwd: '/',
      stdio: ['ignore', log.fd, log.fd],
    });
    return standbyPort;
  }

  await start();
  const first = connect(address('postgres', OURS, 'postgres'), 1);
  await first.unsafe(`create role ${ROLE} login password '${password}'`);
  await first.unsafe(`create database ${DATABASE} owner ${ROLE}`);
  const [row] = await first<{ version: string }[]>`select current_setting('server_version') as version`;
  await first.end();
  let replicaUrl: string | undefined;
  if (hasStandby) {
    await stop('fast');
    const standbyPort = await startStandby();
    await start();
    replicaUrl = `postgres://${ROLE}:${password}@${OURS}:${standbyPort}/${DATABASE}`;
  }
  const sql = connect(address('postgres', OURS, DATABASE), 4);
  return {
    port,
    version: row?.version ?? '',
    directory,
    url: address(ROLE, SERVICE_SIDE, DATABASE),
    replicaUrl,
    sql,
    openClient: (connections) => connect(address(ROLE, OURS, DATABASE), connections),
    give,
    isRunning,
    start,
    stop,
    signal,
    close: async () => {
      await sql.end({ timeout: 1 });
      await signal('SIGCONT', true);
      await stop('immediate');
      standby?.kill('SIGQUIT');
      if (standby) await ended(standby);
      await log.close();
    },
  };
}
