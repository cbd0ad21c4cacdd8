// A replicated PostgreSQL as it is run in production: Patroni with etcd, HAProxy, and PgBouncer in transaction mode.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, open, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type postgres from 'postgres';
import { freePort, serverOwner } from '../../src/commands/embedded.ts';
import { binariesOf, connect, HOST, ROLE } from '../postgres.ts';
import { ended, familyOf, hasEnded, signal, until } from '../processes.ts';

/** Debian has HAProxy and PgBouncer where only root looks. */
const PATH = [process.env['PATH'], '/usr/sbin'].join(delimiter);

/** How the service reaches the database. */
export const ROUTES = ['several servers', 'HAProxy', 'HAProxy and PgBouncer'] as const;
export type Route = (typeof ROUTES)[number];

/** What dies with the primary. */
export const DEATHS = ['PostgreSQL', 'PostgreSQL and Patroni'] as const;
export type Death = (typeof DEATHS)[number];

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
  /** Kills the primary with SIGKILL. */
  readonly kill: (death: Death) => Promise<void>;
  /** Starts each Patroni that has died. */
  readonly revive: () => void;
  readonly close: () => Promise<void>;
}

/** Makes the nodes, and waits until they are in step. @param version of Debian's PostgreSQL */
export async function createEnsemble(directory: string, count: number, version: string): Promise<Ensemble> {
  const owner = await serverOwner();
  const password = randomBytes(12).toString('hex');
  const log = await open(join(directory, 'ensemble.log'), 'a');
  const children: ChildProcess[] = [];
  const start = (command: string, words: readonly string[]): ChildProcess => {
    const options = { ...owner, cwd: '/', env: { PATH, HOME: directory } };
    const child = spawn(command, words, { ...options, stdio: ['ignore', log.fd, log.fd] });
    child.on('error', () => undefined); // it is missing: `until` reports that it does not answer
    children.push(child);
    return child;
  };
  const give = async (path: string): Promise<string> => {
    if (owner) await chown(path, owner.uid, owner.gid);
    return path;
  };
  const folder = async (name: string): Promise<string> => {
    const path = join(directory, name);
    await mkdir(path);
    await chmod(path, 0o700);
    return give(path);
  };
  const configure = async (name: string, text: string): Promise<string> => {
    await writeFile(join(directory, name), text, { mode: 0o600 });
    return give(join(directory, name));
  };

  const [etcd, peer] = [`${HOST}:${await freePort()}`, `http://${HOST}:${await freePort()}`];
  const listening = { client: `http://${etcd}`, peer };
  start('etcd', [
    ...['--data-dir', await folder('etcd'), '--name', 'etcd', '--log-level', 'error'],
    ...['--listen-client-urls', listening.client, '--advertise-client-urls', listening.client],
    ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
    ...['--initial-cluster', `etcd=${peer}`],
  ]);
  await until('etcd', async () => (await fetch(`http://${etcd}/health`)).ok);

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
      etcd3: { host: etcd },
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
        pg_hba: ['replication', 'all'].map((name) => `host ${name} all ${HOST}/32 scram-sha-256`),
      },
      postgresql: {
        listen: `${HOST}:${port}`,
        connect_address: `${HOST}:${port}`,
        data_dir: data,
        bin_dir: binariesOf(version),
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

  interface Member {
    readonly name: string;
    readonly role: string;
    readonly state: string;
  }
  const members = async (): Promise<readonly Member[]> =>
    Promise.any(
      nodes.map(async ({ api }) => {
        const answer = await fetch(`http://${HOST}:${api}/cluster`, { signal: AbortSignal.timeout(2000) });
        return ((await answer.json()) as { readonly members: readonly Member[] }).members;
      }),
    );
  const isLeader = ({ role }: Member): boolean => /^(leader|master)$/.test(role);
  const primary = async (): Promise<Node> => {
    const { name } = (await members()).find(isLeader) ?? {};
    const node = nodes.find((one) => one.name === name);
    if (!node) throw new Error('there is no primary');
    return node;
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

  const [proxy, pooler] = [await freePort(), await freePort()];
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
  const users = await configure('users.txt', `"${ROLE}" "${password}"\n`);
  const pgbouncer = await configure(
    'pgbouncer.ini',
    `[databases]
${ROLE} = host=${HOST} port=${proxy} dbname=${ROLE}
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

  const address = (role: string, hosts: string, name: string, query = ''): string =>
    `postgres://${role}:${password}@${hosts}/${name}${query}`;
  let sql: postgres.Sql | undefined;
  const close = async (): Promise<void> => {
    await sql?.end({ timeout: 1 });
    for (const { patroni } of nodes) patroni.kill('SIGKILL');
    for (const { data } of nodes) await killPostgres(data);
    for (const child of children) child.kill('SIGKILL');
    await Promise.all(children.filter(({ pid }) => pid !== undefined).map(ended));
    await log.close();
  };
  try {
    await healthy();
    start('haproxy', ['-db', '-f', haproxy]);
    start('pgbouncer', [pgbouncer]);
    // HAProxy leads to any node until its first checks.
    const first = connect(address('postgres', `${HOST}:${(await primary()).port}`, 'postgres'), 1);
    await first.unsafe(`create role ${ROLE} login password '${password}'`);
    // PgBouncer drops the timeouts that the service sets.
    for (const [name, value] of Object.entries({ statement_timeout: '10s', lock_timeout: '5s' }))
      await first.unsafe(`alter role ${ROLE} set ${name} = '${value}'`);
    await first.unsafe(`create database ${ROLE} owner ${ROLE}`);
    await first.end();
    sql = connect(address('postgres', `${HOST}:${proxy}`, ROLE), 4);
  } catch (error) {
    await close();
    throw error;
  }
  const target = '?target_session_attrs=read-write';
  const all = nodes.map(({ port }) => `${HOST}:${port}`).join();
  const routes: Readonly<Record<Route, string>> = {
    'several servers': address(ROLE, all, ROLE, target),
    HAProxy: address(ROLE, `${HOST}:${proxy}`, ROLE, target),
    'HAProxy and PgBouncer': address(ROLE, `${HOST}:${pooler}`, ROLE, '?prepare=false'),
  };
  return {
    sql,
    url: (route) => routes[route],
    healthy,
    kill: async (death) => {
      const node = await primary();
      if (death === 'PostgreSQL and Patroni') node.patroni.kill('SIGKILL');
      await killPostgres(node.data);
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
  if (command.includes(data)) for (const one of await familyOf(pid)) signal(one, 'SIGKILL');
}
