// A primary and its standbys, as real servers with streaming replication, in a folder.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { appendFile, chmod, chown, mkdir, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { findBinaries, freePort, serverOwner, type Binaries } from '../../src/db/connection/embedded.ts';
import { ended, hasEnded, until } from '../faults/processes.ts';

const run = promisify(execFile);

const HOST = '127.0.0.1';
const NAME = 'vitrine';
/** PostgreSQL of Debian, which is preferred to the embedded one. */
const DEBIAN = '/usr/lib/postgresql/15/bin';

export interface Server {
  /** For the service, whose role owns the database and nothing else. */
  readonly url: string;
  /** For a superuser. */
  readonly superuserUrl: string;
  /** The superuser's connections. They reconnect after a restart. */
  readonly sql: postgres.Sql;
  /** Opens a connection to the service's database, as its role. */
  readonly open: () => postgres.Sql;
  readonly start: () => Promise<void>;
  readonly stop: (mode?: 'fast' | 'immediate') => Promise<void>;
  /** Stops and continues the server and all its processes. */
  readonly freeze: (isFrozen: boolean) => Promise<void>;
}

export interface Replication {
  readonly primary: Server;
  readonly standbys: readonly Server[];
  readonly close: () => Promise<void>;
}

async function findPrograms(): Promise<Pick<Binaries, 'initdb' | 'postgres'>> {
  const given = process.env['FAULTS_POSTGRES_BIN'] ?? (existsSync(DEBIAN) ? DEBIAN : undefined);
  return given ? { initdb: join(given, 'initdb'), postgres: join(given, 'postgres') } : findBinaries();
}

/**
 * Makes the servers and starts them.
 * @param directory an empty folder
 * @param count of standbys
 */
export async function createReplication(directory: string, count: number): Promise<Replication> {
  const programs = await findPrograms();
  const owner = await serverOwner();
  const password = randomBytes(12).toString('hex');
  const passwordFile = join(directory, 'password');
  const give = async (path: string): Promise<void> => {
    if (owner) await chown(path, owner.uid, owner.gid);
  };
  const folderOf = (index: number): string => join(directory, `server-${index}`);
  const ports: number[] = [];
  while (ports.length <= count) ports.push(await freePort());

  function createServer(index: number): Server {
    const folder = folderOf(index);
    const port = ports[index] ?? 0;
    const settings = {
      port,
      listen_addresses: HOST,
      unix_socket_directories: '',
      fsync: 'off',
      wal_level: 'replica',
      max_connections: 150,
    };
    const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const address = (role: string, name: string): string =>
      `postgres://${role}:${password}@${HOST}:${port}/${name}`;
    let postmaster: ChildProcess | undefined;
    const sql = postgres(address('postgres', 'postgres'), {
      max: 2,
      onnotice: () => undefined,
      backoff: () => 0.1,
      max_lifetime: null,
    });

    return {
      url: address(NAME, NAME),
      superuserUrl: address('postgres', 'postgres'),
      sql,
      open: () => postgres(address(NAME, NAME), { max: 1, onnotice: () => undefined }),
      start: async () => {
        const log = await open(join(directory, `server-${index}.log`), 'a');
        await until(`the server ${index}`, async () => {
          if (!postmaster || hasEnded(postmaster))
            postmaster = spawn(programs.postgres, ['-D', folder, ...words], {
              ...owner,
              cwd: '/',
              stdio: ['ignore', log.fd, log.fd],
              detached: true, // so that the whole group can be stopped
            });
          const probe = postgres(address('postgres', 'postgres'), { max: 1, connect_timeout: 5 });
          try {
            return (await probe`select 1`).length === 1;
          } finally {
            await probe.end({ timeout: 0 });
          }
        });
        await log.close();
      },
      stop: async (mode = 'immediate') => {
        if (!postmaster || hasEnded(postmaster)) return;
        postmaster.kill('SIGCONT');
        postmaster.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
        await ended(postmaster);
      },
      freeze: async (isFrozen) => {
        const pid = postmaster?.pid ?? 0;
        const { stdout } = await run('ps', ['-o', 'pid=', '--ppid', String(pid)]);
        for (const one of [pid, ...stdout.split('\n').filter(Boolean).map(Number)])
          process.kill(one, isFrozen ? 'SIGSTOP' : 'SIGCONT');
      },
    };
  }

  await chmod(directory, 0o755);
  await give(directory);
  await writeFile(passwordFile, password, { mode: 0o600 });
  await give(passwordFile);
  await mkdir(folderOf(0), { mode: 0o700 });
  await give(folderOf(0));
  const flags = ['--username=postgres', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C'];
  await run(programs.initdb, [`--pgdata=${folderOf(0)}`, `--pwfile=${passwordFile}`, ...flags], {
    ...owner,
    cwd: '/',
  });
  const [primary, ...standbys] = ports.map((_, index) => createServer(index)) as [Server, ...Server[]];
  await primary.start();
  await primary.sql.unsafe(`create role ${NAME} login password '${password}'`);
  await primary.sql.unsafe(`create database ${NAME} owner ${NAME}`);
  await primary.stop('fast');
  for (let index = 1; index <= count; index += 1) {
    // A copy of a stopped server, because not every distribution has pg_basebackup.
    await run('cp', ['-a', folderOf(0), folderOf(index)]);
    await writeFile(join(folderOf(index), 'standby.signal'), '');
    const source = `host=${HOST} port=${ports[0]} user=postgres password=${password}`;
    await appendFile(join(folderOf(index), 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
    await give(join(folderOf(index), 'standby.signal'));
  }
  const servers = [primary, ...standbys];
  for (const server of servers) await server.start();
  return {
    primary,
    standbys,
    close: async () => {
      for (const { sql } of servers) await sql.end({ timeout: 1 });
      for (const server of servers.reverse()) {
        await server.freeze(false).catch(() => undefined);
        await server.stop();
      }
    },
  };
}
