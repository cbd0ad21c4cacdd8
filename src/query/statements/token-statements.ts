// Statements on the tokens of the API.
import { compile, EMPTY, join, raw, sql, value, valueList, type Fragment } from '../../db/fragment.ts';
import { createStatement, isTrue, text, type RawRow, type Statement } from '../../db/rows.ts';
import { reference, requiredColumn, type Model } from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../source.ts';
import { isOfUser, NOW, nothing } from './system-statements.ts';
import { rolesAndValues, type RolesAndValues, type UserFacts } from './user-statements.ts';

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

/**
 * @param tokens the table of tokens
 * @param users the user model, whose `username`, `active` and `admin` are there
 */
export function tokenStatements(tokens: Model, users: Model, facts: UserFacts) {
  const column = (name: string): Fragment => reference('u', requiredColumn(users, name));
  const table = writtenTable(tokens);
  const userKey = reference('u', users.primaryKey);
  const name = sql`${column('username')}::text`;
  const isAdmin = sql`coalesce(${column('admin')}, false)`;
  const further = rolesAndValues(users, facts, 'u');
  const isValid = sql`${column('active')} and (s.expires is null or s.expires > ${NOW})`;
  const ofUser = isOfUser(userKey, users.primaryKey.castType);
  const userRows = allRows(users, 'u');
  const withUsers = sql`${table} s join ${userRows} on ${ofUser}`;

  const found = sql`s.id::text, ${userKey}::text, ${name}, ${isAdmin}, s.models, s.methods, coalesce(s.used >= ${TODAY}, false)${further.cell}`;
  const byHash = compile(
    sql`select ${found} from ${withUsers} where s.secret_hash = ${value('')} and ${isValid}`,
  ).text;
  const byHashes = compile(
    sql`select wanted.position, ${found} from unnest($1::text[]) with ordinality wanted (hash, position) join ${table} s on s.secret_hash = wanted.hash join ${userRows} on ${ofUser} where ${isValid}`,
  ).text;
  const readUser = ([row]: readonly RawRow[]): TokenUser | undefined =>
    row && {
      token: text(row[0]) ?? '',
      id: text(row[1]) ?? '',
      name: text(row[2]) ?? '',
      admin: isTrue(row[3]),
      models: text(row[4]),
      methods: text(row[5]),
      isUsedToday: isTrue(row[6]),
      ...further.read(row[7]),
    };

  const fixed = <T>(query: Fragment, decode: Statement<T>['decode']): Statement<T> => ({
    ...createStatement(query, decode),
    fixed: true,
  });

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
        sql`${isAdmin} = ${raw(String(user.admin))}`,
        ...further.isSame(user.facts),
      ];
      return sql`exists (select from ${withUsers} where ${join(conditions, ' and ')})`;
    },

    /** Records the day of the last use. It returns false if another request or process has recorded it meanwhile. */
    recordUse: (hash: string): Statement<boolean> =>
      fixed(
        sql`update ${table} set used = ${TODAY} where id in (select s.id from ${table} s where s.secret_hash = ${value(hash)} and s.used is distinct from ${TODAY} for update skip locked) returning true`,
        (rows) => rows.length > 0,
      ),

    /** Adds a token of an active user, who may have at most so many. It returns its key. */
    add(userId: string, hash: string, { label, models, methods, expires }: NewToken, max: number) {
      const own = sql`(select count(*) from ${table} s where s.user_key = ${value(userId)})`;
      const values = sql`${userKey}::text, ${value(hash)}, ${value(label)}, ${value(models)}, ${value(methods)}, ${value(expires)}::timestamp`;
      return fixed(
        sql`insert into ${table} (user_key, secret_hash, label, models, methods, expires) select ${values} from ${userRows} where ${userKey}::text = ${value(userId)} and ${column('active')} and ${own} < ${raw(String(max))} returning id::text`,
        ([row]) => text(row?.[0]) ?? undefined,
      );
    },

    /** The latest tokens, at most so many. @param userId undefined for those of all users */
    list(userId: string | undefined, max: number): Statement<ListedToken[]> {
      const ofOne = userId === undefined ? raw('true') : sql`s.user_key = ${value(userId)}`;
      return fixed(
        sql`select s.id::text, s.user_key, ${name}, s.label, s.models, s.methods, s.created::text, s.expires::text, s.used::text, coalesce(${isValid}, false) from ${table} s left join ${userRows} on ${ofUser} where ${ofOne} order by s.id desc limit ${raw(String(max))}`,
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

    /** It returns whether there was such a token. @param userId undefined for a token of any user */
    revoke: (id: string, userId: string | undefined): Statement<boolean> =>
      fixed(
        sql`delete from ${table} where id = ${value(id)}::bigint${userId === undefined ? EMPTY : sql` and user_key = ${value(userId)}`} returning true`,
        (rows) => rows.length > 0,
      ),

    /** Deletes all tokens of a user. */
    revokeAll: (userId: string): Statement<void> =>
      fixed(sql`delete from ${table} where user_key = ${value(userId)}`, nothing),

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
        sql`delete from ${table} where id in (select s.id from ${table} s left join ${userRows} on ${ofUser} where s.expires < ${NOW} - ${EXPIRED_LIFE}${isOrphan})`,
        nothing,
      );
    },
  };
}
