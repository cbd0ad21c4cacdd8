// Statements on what opens an account: sessions of the admin area, tokens of the API, and second factors.
import {
  compile,
  EMPTY,
  identifier,
  join,
  raw,
  sql,
  value,
  valueList,
  type Fragment,
} from '../../db/fragment.ts';
import {
  createStatement,
  fixedStatement as fixed,
  hasRows,
  isTrue,
  nothing,
  number,
  oneCell,
  text,
  type RawRow,
  type Statement,
} from '../../db/rows.ts';
import { reference, requiredColumn, type Model } from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../source.ts';
import { NOW } from './system-statements.ts';
import { mayEnterSql, rolesAndValues, type RolesAndValues, type UserFacts } from './user-statements.ts';

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
function isOfUser(userKey: Fragment, castType: string): Fragment {
  if (TEXTUAL.test(castType)) return sql`${userKey} = s.user_key::${raw(castType)}`;
  const isCastable = CASTABLE[castType];
  if (!isCastable) return sql`${userKey}::text = s.user_key`;
  // An integer may be out of the range of its type, but not of the largest one, which the index compares as well.
  const type = raw(castType === 'uuid' ? 'uuid' : 'int8');
  return sql`${userKey} = case when ${isCastable} then s.user_key::${type} end`;
}

/** The users `u` to whom the rows `s` of a table of credentials belong, and what is read of them. */
function ownersOf(table: Model, users: Model, facts: UserFacts) {
  const column = (name: string): Fragment => reference('u', requiredColumn(users, name));
  const [stored, rows] = [writtenTable(table), allRows(users, 'u')];
  const key = reference('u', users.primaryKey);
  const isOwner = isOfUser(key, users.primaryKey.castType);
  const isAdmin = sql`coalesce(${column('admin')}, false)`;
  const further = rolesAndValues(users, facts, 'u');
  return {
    ...{ column, stored, rows, key, isOwner, both: sql`${stored} s join ${rows} on ${isOwner}` },
    /** The last cells of a row, which `read` reads. */
    cells: sql`${key}::text, ${column('username')}::text, ${isAdmin}${further.cell}`,
    read: ([id, name, admin, cell]: RawRow) => ({
      id: text(id) ?? '',
      name: text(name) ?? '',
      admin: isTrue(admin),
      ...further.read(cell),
    }),
    /** Conditions: the user may still do the same. */
    isSame: ({ admin, facts: known }: { readonly admin: boolean; readonly facts?: string | undefined }) => [
      sql`${isAdmin} = ${raw(String(admin))}`,
      ...further.isSame(known),
    ],
  };
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
  const owners = ownersOf(sessions, users, facts);
  const { column, stored: sessionTable, rows: userRows, key: userKey, both: sessionsWithUsers } = owners;
  const passwordMark = sql`encode(sha256(convert_to(${column('password')}, 'UTF8')), 'hex')`;
  const isFresh = sql`s.created > ${NOW} - ${raw(MAX_AGE)} and s.seen > ${NOW} - ${raw(IDLE_TIMEOUT)}`;
  const isSeenLongAgo = sql`s.seen < ${NOW} - ${raw(SEEN_PRECISION)}`;
  const isTombstone = sql`s.token_hash like ${raw(TOMBSTONE_PREFIX)} || '%'`;
  const hasTombstone = sql`exists (select from ${sessionTable} e where e.token_hash = ${raw(TOMBSTONE_PREFIX)} || s.token_hash)`;
  /** A tombstone whose session is deleted. Other tombstones are still needed to end a session whose row was locked. */
  const isOrphan = sql`${isTombstone} and not exists (select from ${sessionTable} e where e.token_hash = substr(s.token_hash, length(${raw(TOMBSTONE_PREFIX)}::text) + 1))`;
  const isValid = sql`${isFresh} and ${column('active')} and ${mayEnterSql(users, facts, 'u')} and s.password_mark = ${passwordMark} and not ${hasTombstone}`;
  // NULL for a user without a second factor.
  const isConfirmed = factors
    ? sql`(select coalesce(f.session = s.token_hash and f.confirmed > ${NOW} - ${CONFIRMED_LIFE}, false) from ${allRows(factors, 'f')} where f.user_key = ${userKey}::text)`
    : raw('null');
  const isOne = (hash: string): Fragment => sql`s.token_hash = ${value(hash)}`;

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
    const ended = sql`select s.token_hash, s.user_key, coalesce(${isValid}, false) as valid from ${sessionTable} s left join ${userRows} on ${owners.isOwner} where not ${isTombstone} and ${condition}`;
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
        sql`insert into ${sessionTable} (token_hash, user_key, password_mark, address, agent) select ${values} from ${userRows} where ${userKey} = ${value(id)}::${raw(users.primaryKey.castType)} and ${precondition} returning true`,
        hasRows,
      );
    },
    /** The user of a valid session, and whether its last use must be recorded. */
    find: (hash: string) =>
      read(
        sql`select ${isSeenLongAgo}, ${isConfirmed}, ${owners.cells} from ${sessionsWithUsers} where ${isOne(hash)} and ${isValid}`,
        ([row]) => {
          if (!row) return undefined;
          const [isLongAgo, isConfirmedCell, ...user] = row;
          const secondFactor: 'confirmed' | 'due' = isTrue(isConfirmedCell) ? 'confirmed' : 'due';
          return {
            ...owners.read(user),
            isSeenLongAgo: isTrue(isLongAgo),
            ...(isConfirmedCell && { secondFactor }),
          };
        },
      ),
    isStored: (hash: string): Statement<boolean> =>
      read(sql`select from ${sessionTable} s where ${isOne(hash)}`, hasRows),
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
    precondition: (hash: string, user: Parameters<typeof owners.isSame>[0]): Fragment =>
      sql`exists (select from ${sessionsWithUsers} where ${join([isOne(hash), isValid, ...owners.isSame(user)], ' and ')})`,
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

/** The user of a valid token, and what the token may do: names separated by commas, or null for all of them. */
export interface TokenUser extends RolesAndValues {
  /** The key of the token. */
  readonly token: string;
  readonly id: string;
  readonly name: string;
  readonly admin: boolean;
  readonly models: string | null;
  readonly methods: string | null;
  /** Whether the token was used before on this day (UTC). */
  readonly isUsedToday: boolean;
}

/** A token as it is listed. Times are in UTC. */
export interface ListedToken {
  readonly id: string;
  readonly userKey: string;
  /** Null if the user has been deleted. */
  readonly user: string | null;
  readonly label: string;
  readonly models: string | null;
  readonly methods: string | null;
  readonly created: string;
  readonly expires: string | null;
  readonly used: string | null;
  readonly isValid: boolean;
}

export interface NewToken {
  readonly label: string;
  readonly models: string | null;
  readonly methods: string | null;
  /** In UTC; null for a token that does not expire. */
  readonly expires: string | null;
}

const TODAY = sql`(${NOW})::date`;

/** How long an expired token is listed. */
const EXPIRED_LIFE = raw("interval '90 days'");
/** In place of the hash of a revoked token, with its id, and how long that is kept after it was made. */
const REVOKED = "'revoked '";
const REVOKED_LIFE = raw("interval '1 hour'");
const isRevoked = sql`s.secret_hash like ${raw(REVOKED)} || '%'`;

/**
 * @param tokens the table of tokens
 * @param users the user model, whose `username`, `active` and `admin` are there
 */
export function tokenStatements(tokens: Model, users: Model, facts: UserFacts) {
  const owners = ownersOf(tokens, users, facts);
  const { column, stored: table, rows: userRows, key: userKey, both: withUsers, isOwner } = owners;
  const name = sql`${column('username')}::text`;
  const isValid = sql`${column('active')} and (s.expires is null or s.expires > ${NOW})`;
  const found = sql`s.id::text, s.models, s.methods, coalesce(s.used >= ${TODAY}, false), ${owners.cells}`;
  const byHash = compile(
    sql`select ${found} from ${withUsers} where s.secret_hash = ${value('')} and ${isValid}`,
  ).text;
  const byHashes = compile(
    sql`select wanted.position, ${found} from unnest($1::text[]) with ordinality wanted (hash, position) join ${table} s on s.secret_hash = wanted.hash join ${userRows} on ${isOwner} where ${isValid}`,
  ).text;
  const readUser = ([row]: readonly RawRow[]): TokenUser | undefined => {
    if (!row) return undefined;
    const [token, models, methods, isUsedToday, ...user] = row;
    return {
      ...owners.read(user),
      token: text(token) ?? '',
      models: text(models),
      methods: text(methods),
      isUsedToday: isTrue(isUsedToday),
    };
  };

  return {
    /** The user of a valid token: of an active user, and not expired. */
    find: (hash: string): Statement<TokenUser | undefined> => ({
      ...{ text: byHash, many: () => byHashes, values: [hash] },
      ...{ fixed: true, isPlain: !tokens.mayHideRows && !users.mayHideRows, decode: readUser },
    }),

    /** The condition that the token is valid and its user unchanged. */
    precondition(hash: string, user: TokenUser): Fragment {
      const conditions = [
        sql`s.secret_hash = ${value(hash)}`,
        isValid,
        sql`${name} = ${value(user.name)}`,
        ...owners.isSame(user),
      ];
      return sql`exists (select from ${withUsers} where ${join(conditions, ' and ')})`;
    },

    /** Records the day of the last use. It returns false if another request or process has recorded it meanwhile. */
    recordUse: (hash: string): Statement<boolean> =>
      fixed(
        sql`update ${table} set used = ${TODAY} where id in (select s.id from ${table} s where s.secret_hash = ${value(hash)} and s.used is distinct from ${TODAY} for update skip locked) returning true`,
        hasRows,
      ),

    /**
     * Adds a token of an active user, who may have at most so many, and make so many in an hour. It returns the key, or the seconds until
     * there may be another one.
     */
    add(userId: string, hash: string, token: NewToken, max: number, maxPerHour: number) {
      const { label, models, methods, expires } = token;
      const ofUser = sql`from ${table} s where s.user_key = ${value(userId)}`;
      const latest = sql`select s.created ${ofUser} and s.created > ${NOW} - ${REVOKED_LIFE} order by s.created desc offset ${raw(String(maxPerHour - 1))} limit 1`;
      const wait = sql`(select ceil(extract(epoch from created + ${REVOKED_LIFE} - ${NOW})) from (${latest}) latest)`;
      const hasRoom = sql`(select count(*) ${ofUser} and not ${isRevoked}) < ${raw(String(max))}`;
      const values = sql`${userKey}::text, ${value(hash)}, ${value(label)}, ${value(models)}, ${value(methods)}, ${value(expires)}::timestamp`;
      const insert = sql`insert into ${table} (user_key, secret_hash, label, models, methods, expires) select ${values} from ${userRows} where ${userKey}::text = ${value(userId)} and ${column('active')} and ${hasRoom} and ${wait} is null returning id`;
      return fixed(
        sql`with made as (${insert}) select (select id::text from made), case when ${hasRoom} then ${wait}::text end`,
        ([row]) => ({ id: text(row?.[0]) ?? undefined, wait: Number(text(row?.[1]) ?? 0) }),
      );
    },

    /** The latest tokens, at most so many. @param userId undefined for those of all users */
    list(userId: string | undefined, max: number): Statement<ListedToken[]> {
      const ofOne = userId === undefined ? raw('true') : sql`s.user_key = ${value(userId)}`;
      return fixed(
        sql`select s.id::text, s.user_key, ${name}, s.label, s.models, s.methods, s.created::text, s.expires::text, s.used::text, coalesce(${isValid}, false) from ${table} s left join ${userRows} on ${isOwner} where ${ofOne} and not ${isRevoked} order by s.id desc limit ${raw(String(max))}`,
        (rows) =>
          rows.map(([id, key, user, label, models, methods, created, expires, used, valid]) => ({
            id: text(id) ?? '',
            userKey: text(key) ?? '',
            user: text(user),
            label: text(label) ?? '',
            models: text(models),
            methods: text(methods),
            created: text(created) ?? '',
            expires: text(expires),
            used: text(used),
            isValid: isTrue(valid),
          })),
      );
    },

    /**
     * Revokes a token. It is deleted an hour after it was made, since until then it counts as made. The statement returns whether there was
     * such a token. @param userId undefined for a token of any user
     */
    revoke: (id: string, userId: string | undefined): Statement<boolean> =>
      fixed(
        sql`update ${table} s set secret_hash = ${raw(REVOKED)} || s.id, expires = ${NOW} where s.id = ${value(id)}::bigint and not ${isRevoked}${userId === undefined ? EMPTY : sql` and s.user_key = ${value(userId)}`} returning true`,
        hasRows,
      ),

    /** The models in scopes of valid tokens that are none of these. */
    unknownModels: (known: readonly string[]): Statement<string[]> =>
      fixed(
        sql`select distinct model from ${withUsers} cross join unnest(string_to_array(s.models, ',')) scope (model) where ${isValid} and model <> all(${valueList(known)}) order by model`,
        (rows) => rows.map(([model]) => text(model) ?? ''),
      ),

    /** Deletes tokens that expired long ago, and those of deleted users: another user could get their key. */
    prune(): Statement<void> {
      // A policy may hide users who are there.
      const isOrphan = users.mayHideRows ? EMPTY : sql` or ${userKey} is null`;
      return fixed(
        sql`delete from ${table} where id in (select s.id from ${table} s left join ${userRows} on ${isOwner} where s.expires < ${NOW} - ${EXPIRED_LIFE} or ${isRevoked} and s.created < ${NOW} - ${REVOKED_LIFE}${isOrphan})`,
        nothing,
      );
    },
  };
}

/** @param factors the table of second factors */
export function secondFactorStatements(factors: Model) {
  const table = writtenTable(factors);
  const isOf = (user: string): Fragment => sql`user_key = ${value(user)}`;
  /** Whether the statement has changed a row. */
  const changes = (query: Fragment): Statement<boolean> => fixed(sql`${query} returning true`, hasRows);

  return {
    /** Deletes those of deleted users: another user could get their key. */
    prune: (users: Model): Statement<void> => {
      const isOwner = isOfUser(reference('u', users.primaryKey), users.primaryKey.castType);
      return fixed(
        sql`delete from ${table} s where not exists (select from ${allRows(users, 'u')} where ${isOwner})`,
        nothing,
      );
    },

    add: (user: string, secret: string, step: number, hashes: readonly string[]): Statement<boolean> =>
      changes(
        sql`insert into ${table} (user_key, secret, last_step, recovery) values (${value(user)}, ${value(secret)}, ${value(String(step))}::bigint, ${valueList(hashes)}) on conflict do nothing`,
      ),

    secret: (user: string): Statement<string | null> =>
      fixed(sql`select secret from ${table} where ${isOf(user)}`, oneCell(text)),

    /** Takes the code of a step, of which no later one was taken. Of two that are sent at once, one is taken. */
    take: (user: string, secret: string, step: number, maxFailures: number): Statement<boolean> =>
      changes(
        sql`update ${table} set last_step = ${value(String(step))}::bigint, failures = 0 where ${isOf(user)} and secret = ${value(secret)} and last_step < ${value(String(step))}::bigint and failures < ${raw(String(maxFailures))}`,
      ),
    countFailure: (user: string): Statement<void> =>
      fixed(sql`update ${table} set failures = failures + 1 where ${isOf(user)}`, nothing),

    takeRecovery: (user: string, hash: string): Statement<boolean> =>
      changes(
        sql`update ${table} set recovery = array_remove(recovery, ${value(hash)}), failures = 0 where ${isOf(user)} and ${value(hash)} = any(recovery)`,
      ),

    confirm: (user: string, session: string): Statement<void> =>
      fixed(
        sql`update ${table} set session = ${value(session)}, confirmed = ${NOW} where ${isOf(user)}`,
        nothing,
      ),

    /** The number of unused ones; undefined without a second factor. */
    recoveryCodes: (user: string): Statement<number | undefined> =>
      fixed(
        sql`select cardinality(recovery)::text from ${table} where ${isOf(user)}`,
        ([row]) => row && number(row[0]),
      ),

    remove: (user: string): Statement<boolean> => changes(sql`delete from ${table} where ${isOf(user)}`),
  };
}
