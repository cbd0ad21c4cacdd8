// The secret that all processes on one database share.
import { createHash, randomBytes } from 'node:crypto';
import type { Database } from '../../db/connection/database.ts';
import { isReadOnlyError, isTemporarilyUnavailable } from '../../db/connection/database-errors.ts';
import { IDENTITY } from '../../db/schema/engine.ts';
import { addSecretStatement, secretStatement } from '../../query/statements/system-statements.ts';
import { SECRET } from '../definition/system-tables.ts';

const BYTES = 32;
/** The row of the secret. */
const NAME = 'key';

const READ = secretStatement(SECRET.model, NAME);

async function stored(database: Database): Promise<string | null> {
  const existing = await database.run(READ, 'read');
  if (existing !== null) return existing;
  const made = randomBytes(BYTES).toString('base64');
  // Another process may have been first.
  await database.run(addSecretStatement(SECRET.model, NAME, made), 'write');
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

export interface Secret {
  readonly secret: Buffer;
  /** Whether it is from the table, so that other users of the database cluster cannot know it. */
  readonly isStored: boolean;
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
): Promise<Secret> {
  const own = hasTable ? await stored(database).catch(nullIfReadOnly) : null;
  const secret = own ?? (await database.run(IDENTITY, 'read').catch(nullIfRefused));
  return {
    secret: secret === null ? fallback : createHash('sha256').update(secret).digest(),
    isStored: own !== null,
  };
}
