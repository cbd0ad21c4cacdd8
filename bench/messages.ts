// The users and messages that the benchmark, the siege and the measurements of growth share.
import type { Sql } from 'postgres';

export const USERS = 10_000;
/** Messages of each user. */
export const OWNED = 50;
export const MESSAGES = USERS * OWNED;

/**
 * Adds messages after one number up to another, and the users who own them, with the password of the first. The keys are the
 * numbers: the messages of a user are `USERS` numbers apart if they are added at once.
 */
export async function addMessages(sql: Sql, from: number, to: number): Promise<void> {
  const [firstUser, lastUser] = [from / OWNED, to / OWNED];
  await sql.unsafe(`insert into "user" (username, password, email)
    select 'user' || n, password, 'user' || n || '@example.org'
    from "user", generate_series(${Math.max(2, firstUser + 1)}, ${lastUser}) n where username = 'user1' order by n`);
  await sql.unsafe(`do $$ begin
      -- Only a superuser may skip the checks of the foreign key.
      begin set local session_replication_role = replica; exception when insufficient_privilege then null; end;
      insert into message (id, user_id, content, pub_date)
      select n, ${firstUser + 1} + (n - ${from} - 1) % ${lastUser - firstUser},
        'Message ' || n || ': what people write to each other is mostly about as long as this is.',
        timestamp '2024-01-01' + n * interval '1 minute'
      from generate_series(${from + 1}, ${to}) n;
    end $$`);
  await removeMessages(sql, to);
}

/** Deletes the messages after a number, and tidies up what autovacuum would do at any time. */
export async function removeMessages(sql: Sql, after: number): Promise<void> {
  await sql.unsafe('alter table message set (autovacuum_enabled = false)');
  await sql.unsafe(`delete from message where id > ${after}`);
  await sql.unsafe(`select setval(pg_get_serial_sequence('message', 'id'), ${Math.max(1, after)})`);
  await sql.unsafe('vacuum (analyze)');
}
