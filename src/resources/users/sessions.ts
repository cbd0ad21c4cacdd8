// Login sessions of the admin area. They are in the database, so that several processes share them.
import { createHash, randomBytes } from 'node:crypto';
import type { Database } from '../../db/connection/database.ts';
import { isDatabaseError } from '../../db/connection/database-errors.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import { EMPTY, identifier, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import { type RawRow, type Statement, createStatement, isTrue, text } from '../../db/rows.ts';
import { reference, type Model } from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../../query/source.ts';
import { SERVICE, type Requester } from '../../db/lanes/requester.ts';
import { unavailable } from '../../errors.ts';
import type { Caller } from '../access/resource-view.ts';
import { requiredColumn } from './users.ts';

/** A session expires after this time without a request, and after this time since the login. */
const IDLE_TIMEOUT = "interval '12 hours'";
const MAX_AGE = "interval '14 days'";
/** How precisely `seen` is kept, so that not every request writes to the database. */
const SEEN_PRECISION = "interval '5 minutes'";

/** Limits for one user. Beyond them the oldest sessions end, and the oldest tombstones are deleted. */
const MAX_SESSIONS = 50;
const MAX_TOMBSTONES = 200;
/** Milliseconds. A login deletes expired sessions when the last cleanup is longer ago. */
const PRUNE_INTERVAL = 60_000;

/** How long a tombstone is kept, so that a form sent after a weekend can still be resumed. */
const TOMBSTONE_LIFE = "interval '3 days'";
/** The keys of tombstones start with this. The keys of sessions are hexadecimal digits. */
const TOMBSTONE_PREFIX = "'ended '";

/** How many submitted forms a session remembers. Duplicates come soon after the first, for example by a double click. */
const MAX_COMPLETED = 20;
/** SQLSTATE of a wait for a lock that took longer than `lock_timeout`. */
const LOCK_NOT_AVAILABLE = '55P03';

type CompletedForms = readonly (readonly [form: string, result: string])[];

const digest = (token: string): string => createHash('sha256').update(token).digest('hex');

const NOW = raw("(now() at time zone 'UTC')");

/** SQL for whether `s.user_key` can be cast to a type of keys. Any text can be cast to the types that are missing here. */
const INTEGER = raw(
  "case when s.user_key ~ '^-?[0-9]{1,19}$' then s.user_key::numeric between -9223372036854775808 and 9223372036854775807 end",
);
const CASTABLE: Readonly<Record<string, Fragment>> = {
  int2: INTEGER,
  int4: INTEGER,
  int8: INTEGER,
  uuid: raw("s.user_key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"),
};
const TEXTUAL = /^(?:text|varchar|bpchar)$|(?:^|\.)citext$/;

/**
 * The condition that a session `s` belongs to a user. The key is compared in its own type where that is safe, so that PostgreSQL
 * uses the index: sessions may be older than the type of the key.
 */
function isOfUser(userKey: Fragment, castType: string): Fragment {
  if (TEXTUAL.test(castType)) return sql`${userKey} = s.user_key::${raw(castType)}`;
  const isCastable = CASTABLE[castType];
  if (!isCastable) return sql`${userKey}::text = s.user_key`;
  // An integer may be out of the range of its type, but not of the largest one, which the index compares as well.
  const type = raw(castType === 'uuid' ? 'uuid' : 'int8');
  return sql`${userKey} = case when ${isCastable} then s.user_key::${type} end`;
}

export type Sessions = ReturnType<typeof createSessions>;

interface NewSession {
  readonly caller: Caller;
  /** Holds while the user's row is the one whose password was verified. */
  readonly precondition: Fragment;
  readonly address: string;
  /** What the browser calls itself. */
  readonly agent: string;
  readonly requester: Requester;
}

type Run = <T>(query: Fragment, decode: Statement<T>['decode']) => Promise<T>;

/**
 * @param sessions the table of sessions
 * @param users the user model, whose `username`, `password`, `active` and `admin` are there
 */
export function createSessions(database: Database, sessions: Model, users: Model) {
  const column = (name: string): Fragment => reference('u', requiredColumn(users, name));
  const sessionTable = writtenTable(sessions);
  const userKey = reference('u', users.primaryKey);
  const passwordMark = sql`encode(sha256(convert_to(${column('password')}, 'UTF8')), 'hex')`;
  const isFresh = sql`s.created > ${NOW} - ${raw(MAX_AGE)} and s.seen > ${NOW} - ${raw(IDLE_TIMEOUT)}`;
  const isSeenLongAgo = sql`s.seen < ${NOW} - ${raw(SEEN_PRECISION)}`;
  const isTombstone = sql`s.token_hash like ${raw(TOMBSTONE_PREFIX)} || '%'`;
  const hasTombstone = sql`exists (select from ${sessionTable} e where e.token_hash = ${raw(TOMBSTONE_PREFIX)} || s.token_hash)`;
  /** A tombstone whose session is deleted. Other tombstones are still needed to end a session whose row was locked. */
  const isOrphan = sql`${isTombstone} and not exists (select from ${sessionTable} e where e.token_hash = substr(s.token_hash, length(${raw(TOMBSTONE_PREFIX)}::text) + 1))`;
  const isValid = sql`${isFresh} and ${column('active')} and ${column('admin')} and s.password_mark = ${passwordMark} and not ${hasTombstone}`;
  const ofUser = isOfUser(userKey, users.primaryKey.castType);
  const sessionsWithUsers = sql`${sessionTable} s join ${allRows(users, 'u')} on ${ofUser}`;

  const fixed = <T>(query: Fragment, decode: Statement<T>['decode']): Statement<T> => ({
    ...createStatement(query, decode),
    fixed: true,
    isPlain: !sessions.mayHideRows && !users.mayHideRows,
  });
  const run = <T>(query: Fragment, decode: Statement<T>['decode']): Promise<T> =>
    database.run(fixed(query, decode), 'quick');
  /** Not `quick`: a commit may have to wait, and would delay the short reads of all clients. */
  function writer(requester: Requester): Run {
    return (query, decode) =>
      database.for(requester).run({ ...fixed(query, decode), isPlain: false }, 'write');
  }
  /** Reads the number of sessions that were valid, of those that ended. */
  const countValid = (rows: readonly RawRow[]): number =>
    rows.filter(([wasValid]) => isTrue(wasValid)).length;
  const nothing = (): void => undefined;

  /** Reads the submitted forms of a session. */
  const readCompleted = (
    { run: runHere }: Transaction,
    token: string,
    lock = EMPTY,
  ): Promise<CompletedForms> =>
    runHere(
      createStatement(
        sql`select s.done from ${sessionTable} s where s.token_hash = ${value(digest(token))}${lock}`,
        ([row]) => JSON.parse(text(row?.[0]) || '[]') as CompletedForms,
      ),
    );

  /** Waits for other transactions that process the same form. A lock of the session would delay its other forms behind a long import. */
  async function lockForm({ run: runHere }: Transaction, token: string, form: string): Promise<void> {
    const name = value(`vitrine form ${digest(token)} ${form}`);
    const lock = sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`;
    await runHere(createStatement(lock, nothing)).catch((error: unknown) => {
      if (!isDatabaseError(error) || error.code !== LOCK_NOT_AVAILABLE) throw error;
      throw unavailable('This form is already being processed. Try again to see the result.');
    });
  }

  /** The rows that meet a condition and that no other transaction has locked. */
  const unlocked = (condition: Fragment): Fragment =>
    sql`${identifier('token_hash')} in (select s.token_hash from ${sessionTable} s where ${condition} for update skip locked)`;

  /**
   * Ends the sessions that meet a condition, and inserts a tombstone row for each. A session whose row is locked cannot be
   * deleted without waiting, but its tombstone ends it.
   * @returns how many of them were valid
   */
  function endAll(condition: Fragment, runAs = writer(SERVICE)): Promise<number> {
    const ending = sql`select s.token_hash, s.user_key, coalesce(${isValid}, false) as valid from ${sessionTable} s left join ${allRows(users, 'u')} on ${ofUser} where not ${isTombstone} and ${condition}`;
    // Sorted, so that two transactions that end the same sessions cannot deadlock.
    const tombstones = sql`insert into ${sessionTable} (token_hash, user_key, password_mark, address, agent) select ${raw(TOMBSTONE_PREFIX)} || token_hash, user_key, '', '', '' from ending order by token_hash on conflict (token_hash) do nothing`;
    const gone = sql`delete from ${sessionTable} where ${unlocked(sql`s.token_hash in (select token_hash from ending)`)}`;
    return runAs(
      sql`with ending as (${ending}), tombstones as (${tombstones}), gone as (${gone}) select valid from ending`,
      countValid,
    );
  }

  /** Ends a session permanently, even while another transaction has locked its row. */
  async function end(token: string): Promise<void> {
    await endAll(sql`s.token_hash = ${value(digest(token))}`);
  }

  /** Digests of the tokens whose use is being recorded. */
  const recorded = new Set<string>();
  /** Records the use of a session, one write at a time. No request waits for it; a later one repeats it if it fails. */
  async function recordUse(hash: string): Promise<void> {
    recorded.add(hash);
    // Another request or process may have recorded it meanwhile.
    const isDue = unlocked(sql`s.token_hash = ${value(hash)} and ${isSeenLongAgo}`);
    const update = sql`update ${sessionTable} set seen = ${NOW} where ${isDue}`;
    await writer(SERVICE)(update, nothing).catch(() => undefined);
    recorded.delete(hash);
  }

  let prunedAt = 0;
  /** Ends expired sessions, and those of users who changed their password, are inactive or are no longer admins. */
  async function prune(): Promise<void> {
    prunedAt = Date.now();
    const write = writer(SERVICE);
    await endAll(sql`(${isValid}) is not true`, write);
    const isOld = sql`${isOrphan} and s.seen < ${NOW} - ${raw(TOMBSTONE_LIFE)}`;
    await write(sql`delete from ${sessionTable} where ${unlocked(isOld)}`, nothing);
  }

  /** Ends the user's least recently used sessions beyond the limit, except the current one, and deletes old tombstones. */
  async function trim(id: string, token: string, write: Run): Promise<void> {
    const hash = value(digest(token));
    const beyond = (condition: Fragment, max: number): Fragment =>
      sql`s.token_hash in (select s.token_hash from ${sessionTable} s where s.user_key = ${value(id)} and ${condition} order by s.seen desc, s.created desc, s.token_hash offset ${raw(String(max))})`;
    const isOther = sql`not ${isTombstone} and not ${hasTombstone} and s.token_hash <> ${hash}`;
    await endAll(beyond(isOther, MAX_SESSIONS - 1), write);
    await write(
      sql`delete from ${sessionTable} where ${unlocked(beyond(isOrphan, MAX_TOMBSTONES))}`,
      nothing,
    );
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
      await lockForm(transaction, token, form);
      return (await readCompleted(transaction, token)).find(([completed]) => completed === form)?.[1];
    },

    /** Notes the result of a form, at the end of the transaction that carries it out: it locks the session's row. */
    async noteResult(transaction: Transaction, token: string, form: string, result: string): Promise<void> {
      const earlier = await readCompleted(transaction, token, raw(' for update'));
      const done = [[form, result], ...earlier].slice(0, MAX_COMPLETED);
      const hash = value(digest(token));
      const update = sql`update ${sessionTable} set done = ${value(JSON.stringify(done))} where token_hash = ${hash}`;
      await transaction.run(createStatement(update, nothing));
    },

    /**
     * Starts a session, and ends the user's least recently used ones beyond the limit.
     * @returns the token, of which the database stores only a hash; undefined when the precondition fails
     */
    async open({ caller, precondition, address, agent, requester }: NewSession): Promise<string | undefined> {
      const { id } = caller;
      const write = writer(requester);
      const token = randomBytes(32).toString('base64url');
      // A failed cleanup must not fail the login: the next login repeats it.
      if (prunedAt + PRUNE_INTERVAL <= Date.now()) await prune().catch(() => undefined);
      const values = sql`${value(digest(token))}, ${userKey}::text, ${passwordMark}, ${value(address)}, ${value(agent)}`;
      const isOpen = await write(
        sql`insert into ${sessionTable} (token_hash, user_key, password_mark, address, agent) select ${values} from ${allRows(users, 'u')} where ${userKey} = ${value(id)}::${raw(users.primaryKey.castType)} and ${precondition} returning true`,
        (rows) => rows.length > 0,
      );
      if (!isOpen) return undefined;
      await trim(id, token, write).catch(() => undefined);
      return token;
    },

    /** The admin of a session; undefined once it has ended. A password change, deactivation or demotion ends it permanently. */
    async find(token: string): Promise<Caller | undefined> {
      const hash = digest(token);
      const row = await run(
        sql`select ${userKey}::text, ${column('username')}, ${isSeenLongAgo} from ${sessionsWithUsers} where s.token_hash = ${value(hash)} and ${isValid}`,
        ([first]) => first,
      );
      if (!row) {
        // Otherwise the session would become valid again, for example when the user is reactivated. An unknown token writes nothing.
        const stored = sql`select from ${sessionTable} s where s.token_hash = ${value(hash)}`;
        if (await run(stored, (rows) => rows.length > 0)) await end(token);
        return undefined;
      }
      if (isTrue(row[2]) && !recorded.has(hash)) void recordUse(hash);
      return { id: text(row[0]) ?? '', name: text(row[1]) ?? '', admin: true };
    },

    /** The valid sessions of a user: the current one first, then by last use. Times are in UTC. */
    list({ id }: Caller, token: string) {
      const isCurrent = sql`s.token_hash = ${value(digest(token))}`;
      const seen = sql`case when ${isCurrent} then ${NOW}::timestamp(0) else s.seen end`; // It is used now.
      return run(
        sql`select s.created::text, (${seen})::text, s.address, s.agent, ${isCurrent} as is_current from ${sessionsWithUsers} where s.user_key = ${value(id)} and ${isValid} order by is_current desc, s.seen desc, s.created desc limit ${raw(String(MAX_SESSIONS))}`,
        (rows) =>
          rows.map(([created, seen, address, agent, isCurrentCell]) => ({
            created: text(created) ?? '',
            seen: text(seen) ?? '',
            address: text(address) ?? '',
            agent: text(agent) ?? '',
            isCurrent: isTrue(isCurrentCell),
          })),
      );
    },

    /** An SQL condition: the session is valid. */
    precondition: (token: string): Fragment =>
      sql`exists (select from ${sessionsWithUsers} where s.token_hash = ${value(digest(token))} and ${isValid})`,

    end,
    prune,

    /** The key of the user whose session this was; undefined unless it ended within the last 3 days. */
    endedUser(token: string): Promise<string | undefined> {
      const key = sql`${raw(TOMBSTONE_PREFIX)} || ${value(digest(token))}::text`;
      return run(
        sql`select s.user_key from ${sessionTable} s where s.token_hash = ${key} and s.seen > ${NOW} - ${raw(TOMBSTONE_LIFE)}`,
        ([row]) => text(row?.[0]) ?? undefined,
      );
    },

    /** Ends the other sessions of the user. @returns how many of them were valid */
    endOthers: ({ id }: Caller, token: string): Promise<number> =>
      endAll(sql`s.user_key = ${value(id)} and s.token_hash <> ${value(digest(token))}`),
  };
}
