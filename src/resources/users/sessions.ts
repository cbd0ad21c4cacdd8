// Login sessions of the admin area. They are in the database, so that several processes share them.
import { createHash, randomBytes } from 'node:crypto';
import type { Database } from '../../db/connection/database.ts';
import { isDatabaseError } from '../../db/connection/database-errors.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import type { Fragment } from '../../db/fragment.ts';
import { SERVICE, type Requester } from '../../db/lanes/requester.ts';
import type { Statement } from '../../db/rows.ts';
import type { Model } from '../../db/schema/model.ts';
import { unavailable } from '../../errors.ts';
import { sessionStatements, type NewSession } from '../../query/statements/credential-statements.ts';
import { messageOf } from '../../messages.ts';
import type { Caller } from '../access/access.ts';
import type { UserFacts } from '../../query/statements/user-statements.ts';

/** Milliseconds. A login deletes expired sessions when the last cleanup is longer ago. */
const PRUNE_INTERVAL = 60_000;

/** How many submitted forms a session remembers. Duplicates come soon after the first, for example by a double click. */
const MAX_COMPLETED = 20;
/** SQLSTATE of a wait for a lock that took longer than `lock_timeout`. */
const LOCK_NOT_AVAILABLE = '55P03';

type CompletedForms = readonly (readonly [form: string, result: string])[];

/** What the database stores of the token of a session. */
export const sessionDigest = (token: string): string => createHash('sha256').update(token).digest('hex');

export type Sessions = ReturnType<typeof createSessions>;

type Run = <T>(statement: Statement<T>) => Promise<T>;

/**
 * @param sessions the table of sessions
 * @param users the user model, whose `username`, `password`, `active` and `admin` are there
 * @param factors the table of second factors, if there is one
 */
export function createSessions(
  database: Database,
  sessions: Model,
  users: Model,
  factors: Model | undefined,
  facts: UserFacts,
) {
  const statements = sessionStatements(sessions, users, factors, facts);
  const read: Run = (statement) => database.run(statement, 'quick');
  /** Not `quick`: a commit may have to wait, and would delay the short reads of all clients. */
  const writer =
    (requester: Requester): Run =>
    (statement) =>
      database.for(requester).run(statement, 'write');
  const write = writer(SERVICE);

  /** Reads the submitted forms of a session. */
  const readCompleted = async ({ run }: Transaction, hash: string, isLocked = false) =>
    JSON.parse((await run(statements.done(hash, isLocked))) || '[]') as CompletedForms;

  /** Waits for other transactions that process the same form. A lock of the session would delay its other forms behind a long import. */
  const lockForm = ({ run }: Transaction, hash: string, form: string): Promise<void> =>
    run(statements.lockForm(hash, form)).catch((error: unknown) => {
      if (!isDatabaseError(error) || error.code !== LOCK_NOT_AVAILABLE) throw error;
      throw unavailable(messageOf('formBusy'));
    });

  /** Ends a session permanently, even while another transaction has locked its row. */
  async function end(token: string): Promise<void> {
    await write(statements.end(sessionDigest(token)));
  }

  /** Digests of the tokens whose use is being recorded. */
  const recorded = new Set<string>();
  /** Records the use of a session, one write at a time. No request waits for it; a later one repeats it if it fails. */
  async function recordUse(hash: string): Promise<void> {
    recorded.add(hash);
    await write(statements.recordUse(hash)).catch(() => undefined);
    recorded.delete(hash);
  }

  let prunedAt = 0;
  /** Ends expired sessions, and those of users who changed their password, are inactive or are no longer admins. */
  async function prune(): Promise<void> {
    prunedAt = Date.now();
    await write(statements.endInvalid());
    await write(statements.deleteOldTombstones());
  }

  return {
    /**
     * Looks up whether a form was already submitted. Locks the form until the transaction ends, so that the second of two concurrent
     * submissions sees the result of the first.
     * @param form the submit-once token of the form
     * @returns the noted result, if any
     * @throws Problem 503 if another submission takes long
     */
    async submittedResult(
      transaction: Transaction,
      token: string,
      form: string,
    ): Promise<string | undefined> {
      const hash = sessionDigest(token);
      await lockForm(transaction, hash, form);
      return (await readCompleted(transaction, hash)).find(([completed]) => completed === form)?.[1];
    },

    /** Notes the result of a form, at the end of the transaction that carries it out: it locks the session's row. */
    async noteResult(transaction: Transaction, token: string, form: string, result: string): Promise<void> {
      const hash = sessionDigest(token);
      const earlier = await readCompleted(transaction, hash, true);
      const done = [[form, result], ...earlier].slice(0, MAX_COMPLETED);
      await transaction.run(statements.setDone(hash, JSON.stringify(done)));
    },

    /**
     * Starts a session, and ends the user's least recently used ones beyond the limit.
     * @returns the token, of which the database stores only a hash; undefined when the precondition fails
     */
    async open(session: NewSession, requester: Requester): Promise<string | undefined> {
      const { id } = session;
      const writeFor = writer(requester);
      const token = randomBytes(32).toString('base64url');
      const hash = sessionDigest(token);
      // A failed cleanup must not fail the login: the next login repeats it.
      if (prunedAt + PRUNE_INTERVAL <= Date.now()) await prune().catch(() => undefined);
      if (!(await writeFor(statements.add(hash, session)))) return undefined;
      const trim = async (): Promise<void> => {
        await writeFor(statements.endBeyond(id, hash));
        await writeFor(statements.deleteTombstonesBeyond(id));
      };
      await trim().catch(() => undefined);
      return token;
    },

    /** The admin of a session; undefined once it has ended. A password change, deactivation or demotion ends it permanently. */
    async find(token: string): Promise<Caller | undefined> {
      const hash = sessionDigest(token);
      const found = await read(statements.find(hash));
      if (!found) {
        // Otherwise the session would become valid again, for example when the user is reactivated. An unknown token writes nothing.
        if (await read(statements.isStored(hash))) await end(token);
        return undefined;
      }
      const { isSeenLongAgo, ...caller } = found;
      if (isSeenLongAgo && !recorded.has(hash)) void recordUse(hash);
      return caller;
    },

    /**
     * The valid sessions of a user: the current one first, then by last use. Times are in UTC.
     * @param token of the current session, if there is one
     */
    list: ({ id }: Pick<Caller, 'id'>, token = '') => read(statements.list(id, sessionDigest(token))),

    /** An SQL condition: the session is valid, and its user may still do the same. */
    precondition: (token: string, caller: Caller): Fragment =>
      statements.precondition(sessionDigest(token), caller),

    end,
    prune,

    /** The key of the user whose session this was; undefined unless it ended within the last 3 days. */
    endedUser: async (token: string): Promise<string | undefined> =>
      (await read(statements.endedUser(sessionDigest(token)))) ?? undefined,

    /** Ends the other sessions of the user, or all of them. @returns how many of them were valid */
    endOthers: ({ id }: Pick<Caller, 'id'>, token = ''): Promise<number> =>
      write(statements.endOthers(id, sessionDigest(token))),
  };
}
