import type { Sql } from '../support.ts';

/**
 * The rows of each table as one text, to compare before and after. The column `seen` of sessions is left out, because any
 * request may update it.
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
