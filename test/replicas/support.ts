// A primary with standbys for one test file, and services on them.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCluster, type Cluster, type Server } from '../../bench/postgres.ts';
import { createVitrine, type Resource, type VitrineOptions } from '../../src/index.ts';
import { cheapHash, metricsAddress, request, type Answer, type RequestOptions } from '../support.ts';
import { LOGIN_COLUMNS } from '../login-columns.ts';

export const RESOURCES = [
  {
    model: 'user',
    columns: LOGIN_COLUMNS,
    exclude: ['password'],
    read: 'user',
  },
  { model: 'note', columns: { text: { type: 'text' } }, access: 'user' },
] satisfies Resource[];

export interface ReplicatedService {
  readonly base: string;
  readonly lines: Record<string, unknown>[];
  readonly request: (path: string, options?: RequestOptions) => Promise<Answer>;
  /** The samples of a metric, by replica. */
  readonly metric: (name: string) => Promise<number[]>;
  readonly close: () => Promise<void>;
}

export interface ReplicatedDatabase extends Cluster {
  /** The log of the first standby. */
  readonly standbyLog: () => Promise<string>;
  readonly serve: (options?: Partial<VitrineOptions>) => Promise<ReplicatedService>;
  readonly drop: () => Promise<void>;
}

/** Changes a setting of a running server. */
export async function configure({ sql }: Server, name: string, value: string): Promise<void> {
  await sql.unsafe(`alter system set ${name} = '${value}'`);
  await sql.unsafe('select pg_reload_conf()');
}

export const pauseReplay = (server: Server): Promise<unknown> =>
  server.sql.unsafe('select pg_wal_replay_pause()');
export const resumeReplay = (server: Server): Promise<unknown> =>
  server.sql.unsafe('select pg_wal_replay_resume()');

/** @param count of standbys */
export async function createReplicatedDatabase(count: number): Promise<ReplicatedDatabase> {
  const directory = await mkdtemp(join(tmpdir(), 'vitrine-replicas-'));
  const settings = { fsync: 'off', max_connections: 150 };
  const cluster = await createCluster(directory, { standbys: count, settings });
  const { primary, standbys } = cluster;
  let hasUsers = false;

  async function serve(options: Partial<VitrineOptions> = {}): Promise<ReplicatedService> {
    const lines: Record<string, unknown>[] = [];
    const vitrine = await createVitrine({
      databaseUrl: primary.url,
      databaseReadUrl: standbys.map(({ url }) => url),
      resources: RESOURCES,
      port: 0,
      metrics: '127.0.0.1:0',
      slowTimeout: 10, // a busy machine may be slow
      log: (text) =>
        text
          .trimEnd()
          .split('\n')
          .forEach((line) => lines.push(JSON.parse(line) as Record<string, unknown>)),
      ...options,
    });
    const { url: base } = await vitrine.start();
    if (!hasUsers) {
      const sql = primary.open();
      for (const [name, isAdmin] of Object.entries({ ada: true, bob: false }))
        await sql`insert into "user" (username, password, admin)
          values (${name}, ${await cheapHash(`pw-${name}`)}, ${isAdmin})`;
      await sql.end();
      hasUsers = true;
    }
    return {
      base,
      lines,
      request: (path, given) => request(base, path, given),
      metric: async (name) => {
        const { text } = await request(await metricsAddress(lines), '');
        const samples = text.matchAll(new RegExp(`^vitrine_replica_${name}\\{.*\\} (\\S+)$`, 'gm'));
        return [...samples].map(([, value]) => Number(value));
      },
      close: () => vitrine.close(),
    };
  }

  return {
    standbyLog: () => readFile(join(directory, 'server-1.log'), 'utf8'),
    ...cluster,
    serve,
    drop: async () => {
      await cluster.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
