// Replaces the new passwords of a write by their hashes.
import type { Requester } from '../../db/lanes/requester.ts';
import type { Change } from '../../query/statements/change.ts';
import { saltedDigest, type HashTurn, type Passwords } from '../passwords/password-hashing.ts';
import type { ServedResource } from '../serve/served-resource.ts';

/** The client that waits for a write. */
export type WaitingClient = Pick<Requester, 'onGone' | 'key' | 'clientKind' | 'workInTurns'>;

/** The form of password hashes, those of other systems included: `$argon2id$…`, `$2b$…`. */
const HASH = /^\$[a-z0-9-]+\$/;

const hasPassword = (changes: readonly Change[]): boolean => changes.some(({ column }) => column.isPassword);

/**
 * Hashes the passwords among the changes of one write. A client that disconnects leaves the queue.
 * @param resource whose record is changed; undefined for a new record
 */
export function hashChanges(
  changes: readonly Change[],
  passwords: Passwords,
  client: WaitingClient,
  resource?: ServedResource,
): Promise<readonly Change[]> | readonly Change[] {
  if (!hasPassword(changes)) return changes;
  return hashMany([changes], passwords, client, resource).then(([hashed = []]) => hashed);
}

/** Hashes the passwords of several writes, one after the other. A client that disconnects leaves the queue. */
export async function hashMany(
  records: readonly (readonly Change[])[],
  passwords: Passwords,
  client: WaitingClient,
  resource?: ServedResource,
): Promise<Change[][]> {
  if (!records.some(hasPassword)) return records.map((changes) => [...changes]);
  const hashed: Change[][] = [];
  for (const changes of records)
    hashed.push(await hashAll(changes, passwords, { client, lane: 'others' }, resource));
  return hashed;
}

function hashAll(
  changes: readonly Change[],
  passwords: Passwords,
  turn: HashTurn,
  resource?: ServedResource,
): Promise<Change[]> {
  return Promise.all(
    changes.map(async (change) => {
      const { column, value } = change;
      if (!column.isPassword || value === null) return change;
      // A stored hash sent back changes nothing. For a hidden column only text in the form of a hash can be one.
      const mayBeStored = resource && (resource.output.includes(column) || HASH.test(value));
      return {
        column,
        value: mayBeStored ? saltedDigest(value) : null,
        hash: await passwords.hash(value, turn),
      };
    }),
  );
}
