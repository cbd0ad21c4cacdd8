// A replicated PostgreSQL as it is run in production: Patroni with etcd, HAProxy, and PgBouncer in transaction mode.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, open, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import postgres from 'postgres';
import { freePort, serverOwner } from '../../src/db/connection/embedded.ts';
import { childrenOf } from '../faults/cluster.ts';
import { ended, hasEnded, until } from '../faults/processes.ts';

const HOST = '127.0.0.1';
const DATABASE = 'vitrine';
const BINARIES = process.env['FAILOVER_POSTGRES_BIN'] ?? '/usr/lib/postgresql/15/bin';
/** Debian has HAProxy and PgBouncer where only root looks. */
const PATH = [process.env['PATH'], '/usr/sbin'].join(delimiter);

/** How the service reaches the database. */
export const ROUTES = ['several servers', 'HAProxy', 'HAProxy and PgBouncer'] as const;
export type Route = (typeof ROUTES)[number];

/** What dies with the primary. */
export const DEATHS = ['PostgreSQL', 'PostgreSQL and Patroni'] as const;
export type Death = (typeof DEATHS)[number];

interface Member {
  readonly name: string;
  readonly role: string;
  readonly state: string;
}

const isLeader = ({ role }: Member): boolean => /^(leader|master)$/.test(role);

interface Node {
  readonly name: string;
  readonly port: number;
  readonly api: number;
  readonly data: string;
  readonly config: string;
  patroni: ChildProcess;
}

export interface Ensemble {
  /** A superuser's connections to the primary. */
  readonly sql: postgres.Sql;
  /** The address for the service. */
  readonly url: (route: Route) => string;
  /** Waits until there is a primary, and each other node follows it, one of them synchronously. */
  readonly healthy: () => Promise<void>;
  /** Kills the primary with SIGKILL. Gives its name. */
  readonly kill: (death: Death) => Promise<string>;
  /** Starts each Patroni that has died. */
  readonly revive: () => void;
  readonly close: () => Promise<void>;
}

/** Makes the nodes, and waits until they are in step. */
export async function createEnsemble(directory: string, count: number): Promise<Ensemble> {
  const owner = await serverOwner();
  const password = randomBytes(12).toString('hex');
  const log = await open(join(directory, 'ensemble.log'), 'a');
  const children: ChildProcess[] = [];
  const start = (command: string, words: readonly string[]): ChildProcess => {
    const child = spawn(command, words, {
      ...owner,
      cwd: '/',
      env: { PATH, HOME: directory },
      stdio: ['ignore', log.fd, log.fd],
    });
    child.on('error', () => undefined); // it is missing: `until` reports that it does not answer
    children.push(child);
    return child;
  };
  const folder = async (name: string): Promise<string> => {
    const path = join(directory, name);
    await mkdir(path);
    await chmod(path, 0o700);
    if (owner) await chown(path, owner.uid, owner.gid);
    return path;
  };
  const configure = async (name: string, text: string): Promise<string> => {
    const path = join(directory, name);
    await writeFile(path, text, { mode: 0o600 });
    if (owner) await chown(path, owner.uid, owner.gid);
    return path;
  };

  const etcd = await freePort();
  const peer = await freePort();
  start('etcd', [
    ...['--data-dir', await folder('etcd'), '--name', 'etcd', '--log-level', 'error'],
    ...[
      '--listen-client-urls',
      `http://${HOST}:${etcd}`,
      '--advertise-client-urls',
      `http://${HOST}:${etcd}`,
    ],
    ...[
      '--listen-peer-urls',
      `http://${HOST}:${peer}`,
      '--initial-advertise-peer-urls',
      `http://${HOST}:${peer}`,
    ],
    ...['--initial-cluster', `etcd=http://${HOST}:${peer}`],
  ]);
  await until('etcd', async () => (await fetch(`http://${HOST}:${etcd}/health`)).ok);

  const nodes: Node[] = [];
  for (let index = 1; index <= count; index += 1) {
    const name = `node${index}`;
    const [port, api] = [await freePort(), await freePort()];
    const home = await folder(name);
    const data = join(home, 'data');
    const settings = {
      scope: 'vitrine',
      name,
      restapi: { listen: `${HOST}:${api}`, connect_address: `${HOST}:${api}` },
      etcd3: { host: `${HOST}:${etcd}` },
      bootstrap: {
        dcs: {
          ttl: 5,
          loop_wait: 1,
          retry_timeout: 2,
          synchronous_mode: true,
          // A dead primary is replaced, and not started again.
          primary_start_timeout: 0,
          master_start_timeout: 0,
          postgresql: {
            use_pg_rewind: true,
            parameters: { max_connections: 100, wal_keep_size: '256MB', max_wal_size: '256MB' },
          },
        },
        initdb: [{ encoding: 'UTF8' }, { locale: 'C' }],
        pg_hba: [`host replication all ${HOST}/32 scram-sha-256`, `host all all ${HOST}/32 scram-sha-256`],
      },
      postgresql: {
        listen: `${HOST}:${port}`,
        connect_address: `${HOST}:${port}`,
        data_dir: data,
        bin_dir: BINARIES,
        pgpass: join(home, 'pgpass'),
        parameters: { unix_socket_directories: home },
        authentication: {
          superuser: { username: 'postgres', password },
          replication: { username: 'replicator', password },
        },
      },
    };
    const config = await configure(`${name}.yml`, JSON.stringify(settings));
    nodes.push({ name, port, api, data, config, patroni: start('patroni', [config]) });
  }

  const members = async (): Promise<readonly Member[]> => {
    const answers = nodes.map(async ({ api }) => {
      const answer = await fetch(`http://${HOST}:${api}/cluster`, { signal: AbortSignal.timeout(2000) });
      return ((await answer.json()) as { readonly members: readonly Member[] }).members;
    });
    return Promise.any(answers);
  };
  async function healthy(): Promise<void> {
    const isHealthy = async (): Promise<boolean> => {
      const all = await members();
      const hasStandby = all.some(({ role }) => role === 'sync_standby');
      const isRunning = all.every(({ state }) => /^(running|streaming)$/.test(state));
      return all.length === count && isRunning && all.some(isLeader) && hasStandby;
    };
    await until('a primary and its synchronous standby', isHealthy, 180);
  }

  const proxy = await freePort();
  const servers = nodes.map(({ name, port, api }) => `  server ${name} ${HOST}:${port} check port ${api}`);
  const haproxy = await configure(
    'haproxy.cfg',
    `global
  maxconn 500
defaults
  mode tcp
  timeout connect 2s
  timeout client 30m
  timeout server 30m
listen primary
  bind ${HOST}:${proxy}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${servers.join('\n')}
`,
  );
  const pooler = await freePort();
  const users = await configure('users.txt', `"vitrine" "${password}"\n`);
  const pgbouncer = await configure(
    'pgbouncer.ini',
    `[databases]
${DATABASE} = host=${HOST} port=${proxy} dbname=${DATABASE}
[pgbouncer]
listen_addr = ${HOST}
listen_port = ${pooler}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
pool_mode = transaction
default_pool_size = 30
max_client_conn = 200
ignore_startup_parameters = statement_timeout,lock_timeout
server_login_retry = 1
`,
  );

  const address = (role: string, hosts: string, database: string, query = ''): string =>
    `postgres://${role}:${password}@${hosts}/${database}${query}`;
  const target = '?target_session_attrs=read-write';
  const close = async (): Promise<void> => {
    await sql?.end({ timeout: 1 });
    for (const { patroni } of nodes) patroni.kill('SIGKILL');
    for (const { data } of nodes) await killPostgres(data);
    for (const child of children) child.kill('SIGKILL');
    await Promise.all(children.filter(({ pid }) => pid !== undefined).map(ended));
    await log.close();
  };
  let sql: postgres.Sql | undefined;
  try {
    await healthy();
    start('haproxy', ['-db', '-f', haproxy]);
    start('pgbouncer', [pgbouncer]);
    const options = { max: 4, onnotice: () => undefined, max_lifetime: null, backoff: () => 0.1 };
    // HAProxy leads to any node until its first checks.
    const { name: leader } = (await members()).find(isLeader) ?? {};
    const primary = nodes.find((node) => node.name === leader);
    const first = postgres(address('postgres', `${HOST}:${primary?.port}`, 'postgres'), {
      ...options,
      max: 1,
    });
    await first.unsafe(`create role vitrine login password '${password}'`);
    // PgBouncer drops the timeouts that the service sets.
    for (const [name, value] of Object.entries({ statement_timeout: '10s', lock_timeout: '5s' }))
      await first.unsafe(`alter role vitrine set ${name} = '${value}'`);
    await first.unsafe(`create database ${DATABASE} owner vitrine`);
    await first.end();
    sql = postgres(address('postgres', `${HOST}:${proxy}`, DATABASE), options);
  } catch (error) {
    await close();
    throw error;
  }
  const routes: Readonly<Record<Route, string>> = {
    'several servers': address(
      'vitrine',
      nodes.map(({ port }) => `${HOST}:${port}`).join(),
      DATABASE,
      target,
    ),
    HAProxy: address('vitrine', `${HOST}:${proxy}`, DATABASE, target),
    'HAProxy and PgBouncer': address('vitrine', `${HOST}:${pooler}`, DATABASE, '?prepare=false'),
  };
  return {
    sql,
    url: (route) => routes[route],
    healthy,
    kill: async (death) => {
      const all = await members();
      const { name } = all.find(isLeader) ?? {};
      const node = nodes.find((one) => one.name === name);
      if (!node) throw new Error('there is no primary');
      if (death === 'PostgreSQL and Patroni') node.patroni.kill('SIGKILL');
      await killPostgres(node.data);
      return node.name;
    },
    revive: () => {
      for (const node of nodes) if (hasEnded(node.patroni)) node.patroni = start('patroni', [node.config]);
    },
    close,
  };
}

/** Kills a server and all its processes. */
async function killPostgres(data: string): Promise<void> {
  const text = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number(text.split('\n', 1)[0]);
  if (!(pid > 1)) return;
  // The number of a server that is gone may belong to another process.
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  if (!command.includes(data)) return;
  for (const one of [pid, ...(await childrenOf(pid))]) {
    try {
      process.kill(one, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
