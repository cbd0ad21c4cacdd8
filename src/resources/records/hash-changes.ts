// Replaces the new passwords of a write by their hashes.
import type { Requester } from '../../db/lanes/requester.ts';
import type { Change } from '../../query/statements/write-plan.ts';
import { saltedDigest, type Passwords } from '../users/password-hashing.ts';
import type { ResourceView } from '../access/resource-view.ts';

/** The client that waits for a write. */
export type WaitingClient = Pick<Requester, 'onGone' | 'key' | 'clientKind' | 'workInTurns'>;

/** The form of password hashes, those of other systems included: `$argon2id$…`, `$2b$…`. */
const HASH = /^\$[a-z0-9-]+\$/;

/**
 * Hashes the passwords of several records, one after the other. A client that disconnects leaves the queue.
 * @param resource whose record is changed; undefined for new records
 */
export async function hashChanges(
  records: readonly (readonly Change[])[],
  passwords: Passwords,
  client: WaitingClient,
  resource?: ResourceView,
): Promise<readonly (readonly Change[])[]> {
  if (!records.some((changes) => changes.some(({ column }) => column.isPassword))) return records;
  const hashOne = async (change: Change): Promise<Change> => {
    const { column, value } = change;
    if (!column.isPassword || value === null) return change;
    // A stored hash sent back changes nothing. For a hidden column only text in the form of a hash can be one.
    const mayBeStored = resource && (resource.output.includes(column) || HASH.test(value));
    const hash = await passwords.hash(value, { client, lane: 'others' });
    return { column, value: mayBeStored ? saltedDigest(value) : null, hash };
  };
  const hashed: Change[][] = [];
  for (const changes of records) hashed.push(await Promise.all(changes.map(hashOne)));
  return hashed;
}
