// Keeps what a statement leaves in its session from the next one. A function of the database (of a trigger, a default, a view, a
// policy) may change any setting, and a plain SET outlasts its transaction.
import type postgres from 'postgres';
import type { SESSION_SETTINGS } from '../setting-values.ts';

/** The settings that determine how PostgreSQL reads and prints values. */
export const SESSION = {
  client_encoding: 'UTF8',
  // These two determine the text of dates and times.
  TimeZone: 'UTC',
  DateStyle: 'ISO, YMD',
  // String literals in the generated SQL rely on it.
  standard_conforming_strings: 'on',
} satisfies Partial<Record<(typeof SESSION_SETTINGS)[number], string>>;

/** Not behind a pooler, whose connections began with other settings. */
export const RESET_SESSION =
  'reset session authorization; reset role; reset all; discard temp; select pg_advisory_unlock_all()';

/**
 * Restores what the statements rely on within a transaction. It keeps the limits of the transaction, and settings with which triggers
 * pass values to each other. Safe behind a pooler, because the values are those of its client.
 */
export const RESET_IN_TRANSACTION = [
  'reset session authorization',
  ...['role', 'search_path', 'row_security', 'array_nulls', 'extra_float_digits'].map(
    (name) => `reset ${name}`,
  ),
  ...Object.entries(SESSION).map(([name, value]) => `set ${name} = '${value}'`),
].join('; ');

/** The settings of which PostgreSQL reports each change. It reports `search_path` since version 18. */
const REPORTED = new Set([...Object.keys(SESSION), 'session_authorization', 'is_superuser', 'search_path']);

/** The clients whose sessions differ from how they began. */
const changed = new WeakSet<postgres.Sql>();

/** The listener for the reports of a client. */
export function watchSettings(client: () => postgres.Sql): (name: string, value: unknown) => void {
  const initial = new Map<string, unknown>();
  return (name, value) => {
    if (!REPORTED.has(name)) return;
    if (!initial.has(name)) initial.set(name, value);
    else if (initial.get(name) !== value) changed.add(client());
  };
}

/** Whether a statement has changed a reported setting of the session since it was reset. */
export const hasChangedSettings = (sql: postgres.Sql): boolean => changed.has(sql);

export const forgetChangedSettings = (sql: postgres.Sql): unknown => changed.delete(sql);

/** Who makes a request, for policies, triggers and audit tables: `current_setting('vitrine.user', true)`. */
export interface Identity {
  /** The key of the user; empty without credentials. */
  readonly user: string;
  readonly roles: readonly string[];
  /** The id of the request, as in the log. */
  readonly request: string;
}

/** Most keys, and the names of roles. */
const HARMLESS = /^[\w,-]*$/;

/** A text as an SQL literal; what could end the literal as hexadecimal digits, which take longer to read. */
export const literalOf = (text: string): string =>
  HARMLESS.test(text)
    ? `'${text}'`
    : `convert_from(decode('${Buffer.from(text).toString('hex')}', 'hex'), 'UTF8')`;

/**
 * Sets an identity until the end of the transaction, so that no later statement of the connection has it. The values are in the
 * text, to be sent with BEGIN.
 */
export function identitySql({ user, roles, request }: Identity): string {
  const settings = Object.entries({ user, roles: roles.join(), request }).map(
    ([name, value]) => `set_config('vitrine.${name}', ${literalOf(value)}, true)`,
  );
  return `select ${settings.join(', ')}`;
}
