// The rows of the user model, for authentication.
import type { Database } from '../../db/connection/database.ts';
import { undefinedIfUnencodable } from '../../db/connection/database-errors.ts';
import type { Fragment } from '../../db/fragment.ts';
import type { Model } from '../../db/schema/model.ts';
import { userStatements, type User, type UserFacts } from '../../query/statements/user-statements.ts';

/** Longer names are not normalized, because long runs of combining marks take quadratic time (characters). */
const MAX_NORMALIZED = 256;

/** A name as it was typed, and the other forms in which other keyboards and programs may have stored it. */
const spellingsOf = (name: string): readonly string[] => [
  ...new Set([
    name,
    ...(name.length > MAX_NORMALIZED
      ? []
      : ['NFKC', 'NFC', 'NFD', 'NFKD'].map((form) => name.normalize(form))),
  ]),
];

export type Users = ReturnType<typeof createUsers>;

/** @param sessions the table of sessions, if there is one @param factors that of second factors */
export function createUsers(
  database: Database,
  model: Model,
  sessions: Model | undefined,
  factors: Model | undefined,
  facts: UserFacts,
) {
  const statements = userStatements(model, sessions, factors, facts);

  /** The user whose name is equal to the text, or else to one of its normal forms. */
  async function find(wanted: string): Promise<User | undefined> {
    const found = spellingsOf(wanted).map((spelling) =>
      database.run(statements.named(spelling), 'quick').catch(undefinedIfUnencodable),
    );
    return (await Promise.all(found)).flatMap((users) => users ?? [])[0];
  }

  return {
    find,

    /** An SQL condition: the user's row exists and is unchanged. */
    precondition: (user: User): Fragment => statements.precondition(user),

    withKey: async (id: string): Promise<User | undefined> =>
      (await database.run(statements.withKey(id), 'quick'))[0],

    list: (): Promise<User[]> => database.run(statements.all(), 'quick'),

    /** Whether any user may open the admin area. */
    hasAdmin: (): Promise<boolean> => database.run(statements.hasAdmin(), 'read'),

    /**
     * Replaces the stored hash by a new hash of the same password, unless it has changed meanwhile. The user's sessions stay valid,
     * and the history does not record the change.
     * @returns whether it was replaced
     */
    rehash: async (user: User, hash: string): Promise<boolean> =>
      (await database.run(statements.rehash(user, hash), 'write')) === 1,
  };
}
