import { serverUrl, type Sql } from './support.ts';

/** A server of postgres_fdw that leads back to the database of the test, or to another database of its server. */
export async function createLoopback(
  sql: Sql,
  name = 'loopback',
  port?: string,
  database?: string,
): Promise<void> {
  const url = new URL(serverUrl());
  const [row] = await sql<{ name: string }[]>`select current_database() as name`;
  const host = decodeURIComponent(url.hostname);
  await sql.unsafe(`
    create extension if not exists postgres_fdw;
    create server ${name} foreign data wrapper postgres_fdw
      options (host '${host}', port '${port ?? (url.port || '5432')}', dbname '${database ?? row?.name}');
    create user mapping for current_user server ${name}
      options (user '${decodeURIComponent(url.username)}', password '${decodeURIComponent(url.password)}');
  `);
}
