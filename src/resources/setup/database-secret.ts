// The secret that all processes on one database share.
import { createHash, randomBytes } from 'node:crypto';
import type { Database } from '../../db/connection/database.ts';
import { isReadOnlyError, isTemporarilyUnavailable } from '../../db/connection/database-errors.ts';
import { sql, value } from '../../db/fragment.ts';
import { createStatement, oneCell, text } from '../../db/rows.ts';
import { writtenTable } from '../../query/source.ts';
import { SECRET } from '../definition/system-tables.ts';

const BYTES = 32;
/** The row of the secret. */
const NAME = 'key';

const TABLE = writtenTable({ table: SECRET.model });
const READ = createStatement(sql`select value from ${TABLE} where name = ${value(NAME)}`, oneCell(text));

/** The identity of the cluster and of the database in it. Replicas have the same. */
const IDENTITY = createStatement(
  sql`select system_identifier || '/' || oid from pg_control_system(), pg_database
  where datname = current_database()`,
  oneCell(text),
);

async function stored(database: Database): Promise<string | null> {
  const existing = await database.run(READ, 'read');
  if (existing !== null) return existing;
  const made = value(randomBytes(BYTES).toString('base64'));
  const insert = sql`insert into ${TABLE} (name, value) values (${value(NAME)}, ${made}) on conflict do nothing`;
  // Another process may have been first.
  await database.run(
    createStatement(insert, () => undefined),
    'write',
  );
  return database.run(READ, 'read');
}

function nullIfReadOnly(error: unknown): null {
  if (error instanceof Error && isReadOnlyError(error)) return null;
  throw error;
}

/** The start waits for a database that is away, and asks it again. */
function nullIfRefused(error: unknown): null {
  if (isTemporarilyUnavailable(error)) throw error;
  return null;
}

/**
 * Reads the secret, and creates it the first time. Without the table, and on a replica without a secret, it is derived from the
 * identity of the database.
 * @param hasTable whether the service can use the table of secrets
 * @param fallback the secret if the service may not read the identity either
 */
export async function readSecret(
  database: Database,
  hasTable: boolean,
  fallback: Buffer = randomBytes(BYTES),
): Promise<Buffer> {
  const own = hasTable ? await stored(database).catch(nullIfReadOnly) : null;
  const secret = own ?? (await database.run(IDENTITY, 'read').catch(nullIfRefused));
  return secret === null ? fallback : createHash('sha256').update(secret).digest();
}
