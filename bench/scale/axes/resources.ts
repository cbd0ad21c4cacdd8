// The resources that the registries of all axes share, and their records.
import type { BenchDatabase } from '../../database.ts';
import { addFirstUser } from '../../servers.ts';
import { PASSWORD } from '../../rows.ts';

export { message as MESSAGE, user as USER } from '../../../src/resources/registry.ts';

/** Every connection of a load writes as one of these users. */
export const WRITERS = 16;

/** Creates the tables of a registry, and users up to a number. */
export async function createUsers(
  { url, query }: BenchDatabase,
  registry: string,
  count = WRITERS,
): Promise<void> {
  await addFirstUser(url, PASSWORD, { RESOURCES: registry });
  await addUsers(query, 1, count);
}

/** Adds the users after one number up to another, with the password of the first. */
export async function addUsers(query: BenchDatabase['query'], from: number, to: number): Promise<void> {
  await query(`insert into "user" (username, password, email)
    select 'user' || n, password, 'user' || n || '@example.org'
    from "user", generate_series(${from + 1}, ${to}) n where username = 'user1' order by n`);
}

/** Messages of each user. */
export const OWNED = 50;

/** Adds messages after one number up to another, to users who have none yet. Their keys are the numbers. */
export async function addMessages(query: BenchDatabase['query'], from: number, to: number): Promise<void> {
  const users = (to - from) / OWNED;
  await query(`do $$ begin
      -- Only a superuser may skip the checks of the foreign key.
      begin set local session_replication_role = replica; exception when insufficient_privilege then null; end;
      insert into message (id, user_id, content, pub_date)
      select n, ${from / OWNED} + 1 + (n - ${from} - 1) % ${users},
        'Message ' || n || ': what people write to each other is mostly about as long as this is.',
        timestamp '2024-01-01' + n * interval '1 second'
      from generate_series(${from + 1}, ${to}) n;
    end $$`);
  await query(`select setval(pg_get_serial_sequence('message', 'id'), ${to})`);
  await query('alter table message set (autovacuum_enabled = false)');
  await query('vacuum (analyze)');
}
