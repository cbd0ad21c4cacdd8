// Statements on the second factors of users. Each names a user by the text of the key.
import { raw, sql, value, valueList, type Fragment } from '../../db/fragment.ts';
import { createStatement, number, oneCell, text, type Statement } from '../../db/rows.ts';
import { reference, type Model } from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../source.ts';
import { isOfUser, NOW, nothing } from './system-statements.ts';

/** @param factors the table of second factors */
export function secondFactorStatements(factors: Model) {
  const table = writtenTable(factors);
  const isOf = (user: string): Fragment => sql`user_key = ${value(user)}`;
  const fixed = <T>(query: Fragment, decode: Statement<T>['decode']): Statement<T> => ({
    ...createStatement(query, decode),
    fixed: true,
  });
  /** Whether the statement has changed a row. */
  const changes = (query: Fragment): Statement<boolean> =>
    fixed(sql`${query} returning true`, (rows) => rows.length > 0);

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
