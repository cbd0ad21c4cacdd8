import type { Sql } from '../support.ts';

/**
 * All rows of all tables as one text for each, for comparing before and after; of sessions not when they were last used, which
 * any request may note.
 */
export async function snapshot(sql: Sql): Promise<Record<string, string>> {
  const tables = await sql<{ name: string }[]>`select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r' order by relname`;
  const rows: Record<string, string> = {};
  for (const { name } of tables) {
    const [row] = await sql<{ text: string }[]>`
      select coalesce(string_agg(text, E'\n' order by text), '') as text
      from (select (to_jsonb(t) - 'seen')::text as text from ${sql(name)} t) lines`;
    rows[name] = row?.text ?? '';
  }
  return rows;
}
