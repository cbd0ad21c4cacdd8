// Statements on the service's own tables: the login sessions of the admin area, the secret, and events.
import { EMPTY, identifier, join, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import { createStatement, isTrue, oneCell, text, type RawRow, type Statement } from '../../db/rows.ts';
import { reference, requiredColumn, type Model } from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../source.ts';
import { mayEnterSql, rolesAndValues, type UserFacts } from './user-statements.ts';

export const nothing = (): void => undefined;

/** Reads a secret. */
export const secretStatement = (table: string, name: string): Statement<string | null> =>
  createStatement(
    sql`select value from ${writtenTable({ table })} where name = ${value(name)}`,
    oneCell(text),
  );

/** Stores a secret, unless there is one. */
export const addSecretStatement = (table: string, name: string, secret: string): Statement<void> =>
  createStatement(
    sql`insert into ${writtenTable({ table })} (name, value) values (${value(name)}, ${value(secret)}) on conflict do nothing`,
    nothing,
  );

/** Stores an event. @param values of `event`, `user_key`, `user_name`, `address`, `request` and `detail` */
export const eventStatement = (events: Model, values: readonly (string | null)[]): Statement<void> => ({
  ...createStatement(
    sql`insert into ${writtenTable(events)} (event, user_key, user_name, address, request, detail) values (${join(values.map(value), ', ')})`,
    nothing,
  ),
  fixed: true,
});

/** A session expires after this time without a request, and after this time since the login. */
const IDLE_TIMEOUT = "interval '12 hours'";
const MAX_AGE = "interval '14 days'";
/** How precisely `seen` is kept, so that not every request writes to the database. */
const SEEN_PRECISION = "interval '5 minutes'";

/** Limits for one user. Beyond them the oldest sessions end, and the oldest tombstones are deleted. */
const MAX_SESSIONS = 50;
const MAX_TOMBSTONES = 200;

/** How long a tombstone is kept, so that a form sent after a weekend can still be resumed. */
const TOMBSTONE_LIFE = "interval '3 days'";
/** The keys of tombstones start with this. The keys of sessions are hexadecimal digits. */
const TOMBSTONE_PREFIX = "'ended '";

export const NOW = raw("(now() at time zone 'UTC')");

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
 * The condition that a session or a token `s` belongs to a user. The key is compared in its own type where that is safe, so that
 * PostgreSQL uses the index: they may be older than the type of the key.
 */
export function isOfUser(userKey: Fragment, castType: string): Fragment {
  if (TEXTUAL.test(castType)) return sql`${userKey} = s.user_key::${raw(castType)}`;
  const isCastable = CASTABLE[castType];
  if (!isCastable) return sql`${userKey}::text = s.user_key`;
  // An integer may be out of the range of its type, but not of the largest one, which the index compares as well.
  const type = raw(castType === 'uuid' ? 'uuid' : 'int8');
  return sql`${userKey} = case when ${isCastable} then s.user_key::${type} end`;
}

/** A session that starts. */
export interface NewSession {
  /** The key of the user. */
  readonly id: string;
  /** Holds while the user's row is the one whose password was verified. */
  readonly precondition: Fragment;
  readonly address: string;
  /** What the browser calls itself. */
  readonly agent: string;
}

/** For how long a code of the second factor confirms what the session does. */
const CONFIRMED_LIFE = raw("interval '15 minutes'");

/**
 * The statements on sessions. Each names a session by the digest of its token.
 * @param sessions the table of sessions
 * @param users the user model, whose `username`, `password`, `active` and `admin` are there
 * @param factors the table of second factors, if there is one
 */
export function sessionStatements(
  sessions: Model,
  users: Model,
  factors: Model | undefined,
  facts: UserFacts,
) {
  const column = (name: string): Fragment => reference('u', requiredColumn(users, name));
  const sessionTable = writtenTable(sessions);
  const userKey = reference('u', users.primaryKey);
  const further = rolesAndValues(users, facts, 'u');
  const passwordMark = sql`encode(sha256(convert_to(${column('password')}, 'UTF8')), 'hex')`;
  const isFresh = sql`s.created > ${NOW} - ${raw(MAX_AGE)} and s.seen > ${NOW} - ${raw(IDLE_TIMEOUT)}`;
  const isSeenLongAgo = sql`s.seen < ${NOW} - ${raw(SEEN_PRECISION)}`;
  const isTombstone = sql`s.token_hash like ${raw(TOMBSTONE_PREFIX)} || '%'`;
  const hasTombstone = sql`exists (select from ${sessionTable} e where e.token_hash = ${raw(TOMBSTONE_PREFIX)} || s.token_hash)`;
  /** A tombstone whose session is deleted. Other tombstones are still needed to end a session whose row was locked. */
  const isOrphan = sql`${isTombstone} and not exists (select from ${sessionTable} e where e.token_hash = substr(s.token_hash, length(${raw(TOMBSTONE_PREFIX)}::text) + 1))`;
  const isValid = sql`${isFresh} and ${column('active')} and ${mayEnterSql(users, facts, 'u')} and s.password_mark = ${passwordMark} and not ${hasTombstone}`;
  const ofUser = isOfUser(userKey, users.primaryKey.castType);
  const sessionsWithUsers = sql`${sessionTable} s join ${allRows(users, 'u')} on ${ofUser}`;
  // NULL for a user without a second factor.
  const isConfirmed = factors
    ? sql`(select coalesce(f.session = s.token_hash and f.confirmed > ${NOW} - ${CONFIRMED_LIFE}, false) from ${allRows(factors, 'f')} where f.user_key = ${userKey}::text)`
    : raw('null');
  const isOne = (hash: string): Fragment => sql`s.token_hash = ${value(hash)}`;

  const fixed = <T>(query: Fragment, decode: Statement<T>['decode']): Statement<T> => ({
    ...createStatement(query, decode),
    fixed: true,
  });
  const read = <T>(query: Fragment, decode: Statement<T>['decode']): Statement<T> => ({
    ...fixed(query, decode),
    isPlain: ![sessions, users, factors].some((table) => table?.mayHideRows),
  });

  /** The rows that meet a condition and that no other transaction has locked. */
  const unlocked = (condition: Fragment): Fragment =>
    sql`${identifier('token_hash')} in (select s.token_hash from ${sessionTable} s where ${condition} for update skip locked)`;

  /** Reads the number of sessions that were valid, of those that ended. */
  const countValid = (rows: readonly RawRow[]): number =>
    rows.filter(([wasValid]) => isTrue(wasValid)).length;

  /**
   * Ends the sessions that meet a condition, and inserts a tombstone row for each. A session whose row is locked cannot be
   * deleted without waiting, but its tombstone ends it. The statement returns how many of them were valid.
   */
  function ending(condition: Fragment): Statement<number> {
    const ended = sql`select s.token_hash, s.user_key, coalesce(${isValid}, false) as valid from ${sessionTable} s left join ${allRows(users, 'u')} on ${ofUser} where not ${isTombstone} and ${condition}`;
    // Sorted, so that two transactions that end the same sessions cannot deadlock.
    const tombstones = sql`insert into ${sessionTable} (token_hash, user_key, password_mark, address, agent) select ${raw(TOMBSTONE_PREFIX)} || token_hash, user_key, '', '', '' from ending order by token_hash on conflict (token_hash) do nothing`;
    const gone = sql`delete from ${sessionTable} where ${unlocked(sql`s.token_hash in (select token_hash from ending)`)}`;
    return fixed(
      sql`with ending as (${ended}), tombstones as (${tombstones}), gone as (${gone}) select valid from ending`,
      countValid,
    );
  }

  /** The user's least recently used rows beyond a number, of those that meet a condition. */
  const beyond = (id: string, condition: Fragment, max: number): Fragment =>
    sql`s.token_hash in (select s.token_hash from ${sessionTable} s where s.user_key = ${value(id)} and ${condition} order by s.seen desc, s.created desc, s.token_hash offset ${raw(String(max))})`;

  return {
    /** The column `done` of a session. */
    done: (hash: string, isLocked: boolean): Statement<string | null> =>
      createStatement(
        sql`select s.done from ${sessionTable} s where ${isOne(hash)}${isLocked ? raw(' for update') : EMPTY}`,
        oneCell(text),
      ),
    setDone: (hash: string, done: string): Statement<void> =>
      createStatement(
        sql`update ${sessionTable} set done = ${value(done)} where token_hash = ${value(hash)}`,
        nothing,
      ),
    /** Waits until no other transaction processes the form. */
    lockForm: (hash: string, form: string): Statement<void> =>
      createStatement(
        sql`select pg_advisory_xact_lock(hashtextextended(${value(`vitrine form ${hash} ${form}`)}, 0))`,
        nothing,
      ),

    /** Starts a session. @returns false when the precondition fails */
    add(hash: string, { id, precondition, address, agent }: NewSession): Statement<boolean> {
      const values = sql`${value(hash)}, ${userKey}::text, ${passwordMark}, ${value(address)}, ${value(agent)}`;
      return fixed(
        sql`insert into ${sessionTable} (token_hash, user_key, password_mark, address, agent) select ${values} from ${allRows(users, 'u')} where ${userKey} = ${value(id)}::${raw(users.primaryKey.castType)} and ${precondition} returning true`,
        (rows) => rows.length > 0,
      );
    },
    /** The user of a valid session, and whether its last use must be recorded. */
    find: (hash: string) =>
      read(
        sql`select ${userKey}::text, ${column('username')}, ${isSeenLongAgo}, coalesce(${column('admin')}, false), ${isConfirmed}${further.cell} from ${sessionsWithUsers} where ${isOne(hash)} and ${isValid}`,
        ([row]) =>
          row && {
            id: text(row[0]) ?? '',
            name: text(row[1]) ?? '',
            isSeenLongAgo: isTrue(row[2]),
            admin: isTrue(row[3]),
            ...(row[4] && { secondFactor: isTrue(row[4]) ? ('confirmed' as const) : ('due' as const) }),
            ...further.read(row[5]),
          },
      ),
    isStored: (hash: string): Statement<boolean> =>
      read(sql`select from ${sessionTable} s where ${isOne(hash)}`, (rows) => rows.length > 0),
    /** Records the use of a session, unless another request or process has recorded it meanwhile. */
    recordUse: (hash: string): Statement<void> =>
      fixed(
        sql`update ${sessionTable} set seen = ${NOW} where ${unlocked(sql`${isOne(hash)} and ${isSeenLongAgo}`)}`,
        nothing,
      ),
    /** The valid sessions of a user: the current one first, then by last use. Times are in UTC. */
    list(id: string, hash: string) {
      const isCurrent = isOne(hash);
      const seen = sql`case when ${isCurrent} then ${NOW}::timestamp(0) else s.seen end`; // It is used now.
      return read(
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
    /** The condition that the session is valid, and that its user may still do the same. */
    precondition(
      hash: string,
      user: { readonly admin: boolean; readonly facts?: string | undefined },
    ): Fragment {
      const isSame = [
        sql`coalesce(${column('admin')}, false) = ${raw(String(user.admin))}`,
        ...further.isSame(user.facts),
      ];
      return sql`exists (select from ${sessionsWithUsers} where ${join([isOne(hash), isValid, ...isSame], ' and ')})`;
    },
    /** The key of the user whose session this was. */
    endedUser: (hash: string): Statement<string | null> =>
      read(
        sql`select s.user_key from ${sessionTable} s where s.token_hash = ${raw(TOMBSTONE_PREFIX)} || ${value(hash)}::text and s.seen > ${NOW} - ${raw(TOMBSTONE_LIFE)}`,
        oneCell(text),
      ),

    end: (hash: string): Statement<number> => ending(isOne(hash)),
    endOthers: (id: string, hash: string): Statement<number> =>
      ending(sql`s.user_key = ${value(id)} and s.token_hash <> ${value(hash)}`),
    endInvalid: (): Statement<number> => ending(sql`(${isValid}) is not true`),
    /** Ends the user's least recently used sessions beyond the limit, except the current one. */
    endBeyond: (id: string, hash: string): Statement<number> =>
      ending(
        beyond(
          id,
          sql`not ${isTombstone} and not ${hasTombstone} and s.token_hash <> ${value(hash)}`,
          MAX_SESSIONS - 1,
        ),
      ),
    deleteOldTombstones: (): Statement<void> =>
      fixed(
        sql`delete from ${sessionTable} where ${unlocked(sql`${isOrphan} and s.seen < ${NOW} - ${raw(TOMBSTONE_LIFE)}`)}`,
        nothing,
      ),
    deleteTombstonesBeyond: (id: string): Statement<void> =>
      fixed(
        sql`delete from ${sessionTable} where ${unlocked(beyond(id, isOrphan, MAX_TOMBSTONES))}`,
        nothing,
      ),
  };
}
