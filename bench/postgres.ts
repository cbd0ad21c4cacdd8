// Starts PostgreSQL: servers that may be killed, their standbys, and databases for one run.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { appendFile, chmod, chown, mkdir, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { findBinaries, freePort, serverOwner } from '../src/commands/embedded.ts';
import { ended, familyOf, hasEnded, privateMemory, processorTime, signal, until } from './processes.ts';
import { sum } from './table.ts';

const run = promisify(execFile);

/** The harness connects to the first address. A service may connect to the second, so that its packets alone can be dropped. */
export const HOST = '127.0.0.1';
export const SERVICE_SIDE = '127.0.0.2';
/** The role of the service, and its database. */
export const ROLE = 'vitrine';

export interface Server {
  readonly port: number;
  /** Its data. */
  readonly folder: string;
  /** For the service, whose role owns the database and nothing else. */
  readonly url: string;
  readonly superuserUrl: string;
  /** A superuser's connections to the service's database. They reconnect after a restart. */
  readonly sql: postgres.Sql;
  /** Opens further connections, as the service's role. */
  readonly open: (connections?: number) => postgres.Sql;
  readonly isRunning: () => boolean;
  /** Starts the server, after a crash as often as it takes, and waits until it takes connections. */
  readonly start: () => Promise<void>;
  readonly stop: (mode?: 'fast' | 'immediate') => Promise<void>;
  /** Sends a signal to the postmaster, or to it and all its processes. */
  readonly signal: (name: NodeJS.Signals, everything?: boolean) => Promise<void>;
}

export interface Cluster {
  readonly directory: string;
  readonly version: string;
  readonly primary: Server;
  readonly standbys: readonly Server[];
  /** Lets the server's user write to a path. */
  readonly give: (path: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

export interface ClusterOptions {
  readonly standbys?: number;
  /** Settings of all servers. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** A version of Debian's PostgreSQL, or the folder of the programs; else the embedded one. */
  readonly postgres?: string | undefined;
}

/** The folder of the programs of PostgreSQL. */
export const binariesOf = (version: string): string =>
  version.includes('/') ? version : `/usr/lib/postgresql/${version}/bin`;

/** Further connections of the harness. A standby that is missing makes the service wait, and not the harness. */
export const connect = (url: string, max: number): postgres.Sql =>
  postgres(url, {
    max,
    onnotice: () => undefined,
    connect_timeout: 5,
    backoff: () => 0.1,
    max_lifetime: null,
    connection: { synchronous_commit: 'local' },
  });

/** Makes a server with PostgreSQL's own settings, `fsync` included, and its standbys, and starts all of them. */
export async function createCluster(directory: string, options: ClusterOptions = {}): Promise<Cluster> {
  const { standbys: count = 0, postgres: version } = options;
  const bin = version === undefined ? undefined : binariesOf(version);
  const programs = bin
    ? { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres') }
    : await findBinaries();
  const owner = await serverOwner();
  const give = async (path: string): Promise<void> => {
    if (owner) await chown(path, owner.uid, owner.gid);
  };
  const password = randomBytes(12).toString('hex');
  const passwordFile = join(directory, 'password');

  function createServer(index: number, port: number): Server {
    const folder = join(directory, `server-${index}`);
    const settings = {
      port,
      listen_addresses: `${HOST},${SERVICE_SIDE}`,
      unix_socket_directories: '',
      wal_retrieve_retry_interval: '100ms',
      ...options.settings,
    };
    const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const address = (role: string, name: string): string =>
      `postgres://${role}:${password}@${HOST}:${port}/${name}`;
    let postmaster: ChildProcess | undefined;
    const isRunning = (): boolean => postmaster !== undefined && !hasEnded(postmaster);
    const send: Server['signal'] = async (name, everything = false) => {
      const pid = postmaster?.pid;
      if (pid === undefined || !isRunning()) return;
      for (const one of everything ? await familyOf(pid) : [pid]) signal(one, name);
    };
    return {
      port,
      folder,
      url: address(ROLE, ROLE),
      superuserUrl: address('postgres', 'postgres'),
      sql: connect(address('postgres', ROLE), 4),
      open: (connections = 1) => connect(address(ROLE, ROLE), connections),
      isRunning,
      start: async () => {
        const log = await open(join(directory, `server-${index}.log`), 'a');
        await until(`the server ${index} to take connections`, async () => {
          // Children of a killed postmaster take a moment to notice, and keep the next one from starting until then.
          if (!isRunning())
            postmaster = spawn(programs.postgres, ['-D', folder, ...words], {
              ...owner,
              cwd: '/',
              stdio: ['ignore', log.fd, log.fd],
              detached: true, // Ctrl-C ends the harness, which ends the servers
            });
          const probe = connect(address('postgres', 'postgres'), 1);
          try {
            return (await probe`select 1`).length === 1;
          } finally {
            await probe.end({ timeout: 0 });
          }
        });
        await log.close();
      },
      stop: async (mode = 'immediate') => {
        if (!postmaster) return;
        await send('SIGCONT', true);
        await send(mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
        await ended(postmaster);
      },
      signal: send,
    };
  }

  /** Copies the stopped primary, because not every distribution has pg_basebackup. */
  async function copy({ folder, port }: Server, target: string): Promise<void> {
    await run('cp', ['-a', folder, target]);
    const source = `host=${HOST} port=${port} user=postgres password=${password}`;
    await appendFile(join(target, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
    await writeFile(join(target, 'standby.signal'), '');
    await give(join(target, 'standby.signal'));
  }

  await chmod(directory, 0o755); // the servers run as another user when this is root
  await writeFile(passwordFile, password, { mode: 0o600 });
  const ports: number[] = [];
  while (ports.length <= count) ports.push(await freePort());
  const servers = ports.map((port, index) => createServer(index, port)) as [Server, ...Server[]];
  const [primary, ...standbys] = servers;
  await mkdir(primary.folder, { mode: 0o700 });
  for (const path of [directory, primary.folder, passwordFile]) await give(path);
  const flags = ['--username=postgres', '--auth=scram-sha-256', '--encoding=UTF8'];
  const locale = bin
    ? ['--locale=C.UTF-8']
    : ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const places = [`--pgdata=${primary.folder}`, `--pwfile=${passwordFile}`];
  await run(programs.initdb, [...places, ...flags, ...locale], { ...owner, cwd: '/' });
  await primary.start();
  const first = connect(primary.superuserUrl, 1);
  await first.unsafe(`create role ${ROLE} login password '${password}'`);
  await first.unsafe(`create database ${ROLE} owner ${ROLE}`);
  const [row] = await first<{ version: string }[]>`select current_setting('server_version') as version`;
  await first.end();
  if (count > 0) {
    await primary.stop('fast');
    for (const { folder } of standbys) await copy(primary, folder);
    for (const server of servers) await server.start();
  }
  return {
    directory,
    version: (row?.version ?? '').split(' ', 1)[0] ?? '',
    primary,
    standbys,
    give,
    close: async () => {
      for (const { sql } of servers) await sql.end({ timeout: 1 });
      for (const server of servers.reverse()) await server.stop();
    },
  };
}

/** A server for databases of one run: that of BENCH_DATABASE_URL, else a new one. */
export async function openServer(
  directory: string,
  options?: ClusterOptions,
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const given = process.env['BENCH_DATABASE_URL'];
  if (given && options?.postgres === undefined) return { url: given, close: () => Promise.resolve() };
  const folder = join(directory, 'postgres');
  await chmod(directory, 0o755);
  await mkdir(folder);
  const { primary, close } = await createCluster(folder, options);
  return { url: primary.superuserUrl, close };
}

export interface Database {
  readonly url: string;
  /** The server's version. */
  readonly version: string;
  readonly sql: postgres.Sql;
  /** Processor time of all sessions of others so far, microseconds; NaN for a server on another machine. */
  readonly cpu: () => Promise<number>;
  /** Megabytes of their private memory. */
  readonly memory: () => Promise<number>;
  readonly drop: () => Promise<void>;
}

/** Makes an empty database on a server. */
export async function createDatabase(serverUrl: string): Promise<Database> {
  const server = connect(serverUrl, 1);
  const name = `vitrine_bench_${randomBytes(4).toString('hex')}`;
  await server.unsafe(`create database ${name} template template0 encoding 'UTF8'`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const sql = connect(url.href, 2);
  const [row] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
  const sumOf = async (valueOf: (pid: number) => Promise<number>): Promise<number> => {
    const sessions = await sql<{ pid: number }[]>`
      select pid from pg_stat_activity where datname = ${name} and pid <> pg_backend_pid()`;
    return sum(await Promise.all(sessions.map(({ pid }) => valueOf(pid))));
  };
  return {
    url: url.href,
    version: (row?.version ?? '').split(' ', 1)[0] ?? '',
    sql,
    cpu: () => sumOf((pid) => processorTime(pid, 'postgres')),
    memory: () => sumOf(privateMemory),
    drop: async () => {
      await sql.end({ timeout: 2 });
      await server.unsafe(`drop database if exists ${name} with (force)`);
      await server.end();
    },
  };
}

/** The process ids of sessions of the service that fulfill a condition. */
export async function sessions(sql: postgres.Sql, condition = 'true'): Promise<number[]> {
  const rows = await sql.unsafe<{ pid: number }[]>(
    `select pid from pg_stat_activity where application_name = 'vitrine' and datname = current_database()
      and backend_type = 'client backend' and (${condition})`,
  );
  return rows.map(({ pid }) => pid);
}
