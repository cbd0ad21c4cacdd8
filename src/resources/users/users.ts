import { createHash } from 'node:crypto';
import type { Parsed } from '../../db/types/column-type.ts';
import { text, type Database } from '../../db/connection/database.ts';
import {
  compile,
  EMPTY,
  identifier,
  join,
  raw,
  sql,
  table,
  value,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { findColumn, reference, typed, type Column, type Model } from '../../db/schema/model.ts';
import { duplicated, isDatabaseError, noSuchText, reasonOf } from '../../db/connection/database-errors.ts';
import { StartError } from '../../errors.ts';
import type { Recording } from '../../query/statements/history-sql.ts';
import type { Change } from '../../query/statements/change.ts';
import { insertStatement, updateStatement } from '../../query/statements/write-statements.ts';
import { checkKey, parseField } from '../records/checked-body.ts';
import { UNIQUE_VIOLATION } from '../records/conflicts.ts';
import { jsonFieldOf } from '../records/json-fields.ts';
import { costsOf, type UsedCosts } from '../passwords/hash-costs.ts';
import { passwordFault } from '../passwords/password-rules.ts';
import type { Passwords } from '../passwords/password-hashing.ts';
import { isSuppressed } from '../records/write-result.ts';

export interface User {
  readonly id: string;
  readonly name: string;
  /** The stored PHC string. */
  readonly password: string;
  readonly active: boolean;
  readonly admin: boolean;
}

/** The rows of the user model, for authentication and for the command line. */
export interface Users {
  readonly find: (name: string) => Promise<User | undefined>;
  /** Whether the user's row is there and still says what it said: a condition for a statement. */
  readonly precondition: (user: User) => Fragment;
  readonly list: () => Promise<User[]>;
  /**
   * Creates an active user; required texts that are not given are empty, and a text for a key is the name.
   * @param values further columns by name, as texts
   * @throws StartError that says what is wrong
   */
  readonly add: (
    name: string,
    password: string,
    admin: boolean,
    values?: ReadonlyMap<string, string>,
  ) => Promise<void>;
  /** @throws StartError when there is no such user */
  readonly setPassword: (name: string, password: string) => Promise<void>;
  /** What the hashes of some of the users cost, the most frequent costs first. */
  readonly sampleCosts: () => Promise<UsedCosts[]>;
  /**
   * Replaces the stored hash by one of the same password, unless it has been changed meanwhile. The user's sessions go on, and the
   * history does not record it.
   * @returns whether it was replaced
   */
  readonly rehash: (user: User, hash: string) => Promise<boolean>;
}

export interface UsersOptions {
  /** Where changes are recorded, if anywhere. */
  readonly recording?: Recording | undefined;
  /** The table of sessions, if there is one. */
  readonly sessions?: Model | undefined;
  /** The fewest characters of a password. */
  readonly minPassword: number;
}

/** Users whose hashes are looked at, and how many kinds of costs are told apart. */
const SAMPLE = 1000;
const MOST_COSTS = 8;

/** The hash of a stored hash by which a session knows the password it was opened with. */
const markOf = (hash: string): string => createHash('sha256').update(hash).digest('hex');

const ROOT = 't';
const SUPPRESSED = 'A rule of the database does not allow this.';

/** A column of the user model, which the registry's check has found to be there. */
function required(model: Model, name: string): Column {
  const column = findColumn(model, name);
  if (!column) throw new Error(`the user model has no column ${name}`);
  return column;
}

export function createUsers(
  database: Database,
  model: Model,
  passwords: Passwords,
  { recording, sessions, minPassword }: UsersOptions,
): Users {
  const username = required(model, 'username');
  const password = required(model, 'password');
  const active = required(model, 'active');
  const admin = required(model, 'admin');
  const givenOtherwise = new Map([
    [username, 'it is the NAME that is given'],
    [active, 'a new user is active'],
    [admin, 'an admin is made by --admin'],
  ]);
  const name = reference(ROOT, username);
  const flagOf = (column: Column): Fragment => sql`coalesce(${reference(ROOT, column)}, false)`;
  // A user whose `active` or `admin` is NULL is neither.
  const all = sql`select ${reference(ROOT, model.primaryKey)}::text, ${name}, ${reference(ROOT, password)}, ${flagOf(active)}, ${flagOf(admin)} from ${table(model.table)} ${raw(ROOT)}`;

  const isNamed = (wanted: string): Fragment => sql`${name} = ${typed(wanted, username)}`;
  const byName = compile(sql`${all} where ${isNamed('')}`).text;

  const nameOf = (column: Column): string => (column === model.primaryKey ? 'id' : column.name);

  async function select(statement: Statement): Promise<User[]> {
    const rows = await database.run({ ...statement, fixed: true }, 'quick');
    return rows.map((row) => ({
      id: text(row[0]) ?? '',
      name: text(row[1]) ?? '',
      password: text(row[2]) ?? '',
      active: text(row[3]) === 't',
      admin: text(row[4]) === 't',
    }));
  }

  async function hashed(plain: string, name: string): Promise<Change> {
    if (plain.includes('\0')) throw new StartError('A password must not contain a NUL character.');
    const fault = passwordFault(plain, password, { name, minPassword });
    if (fault !== undefined) throw new StartError(`A password ${fault}.`);
    return { column: password, value: null, hash: await passwords.hash(plain) };
  }

  function changeOf(column: Column, value: string): Change {
    const member = jsonFieldOf(column, value);
    const parsed: Parsed = 'fault' in member ? { fault: member.fault } : parseField(member, column);
    const { value: given = '', fault } =
      column === model.primaryKey && parsed.fault === undefined ? checkKey(parsed.value, column) : parsed;
    if (fault !== undefined) throw new StartError(`${nameOf(column)} ${fault}.`);
    return { column, value: given };
  }

  return {
    find: async (wanted) => (await select({ text: byName, values: [wanted] }).catch(noSuchText))[0],
    precondition: (user) => {
      const key = sql`${reference(ROOT, model.primaryKey)}::text = ${value(user.id)}`;
      const stored = sql`${reference(ROOT, password)}::text = ${value(user.password)}`;
      const isSo = (column: Column, flag: boolean): Fragment => sql`${flagOf(column)} = ${raw(String(flag))}`;
      const all = [isNamed(user.name), key, stored, isSo(active, user.active), isSo(admin, user.admin)];
      return sql`exists (select from ${table(model.table)} ${raw(ROOT)} where ${join(all, ' and ')})`;
    },
    list: () => select(compile(sql`${all} order by ${name}`)),

    async add(wanted, plain, makeAdmin, values = new Map()) {
      // In Basic credentials the first colon ends the name.
      if (wanted === '' || /[:\0]/.test(wanted))
        throw new StartError('A user name must not be empty, nor have a colon.');
      const changes = new Map<Column, Change>();
      for (const column of model.columns) {
        const isText = column.type.sized && !column.references && !column.choices;
        if (isText && !column.nullable && !column.hasDefault) changes.set(column, { column, value: '' });
      }
      for (const [key, value] of values) {
        const column = findColumn(model, key);
        if (!column || column === password || (column === model.primaryKey && column.hasDefault))
          throw new StartError(`The user model has no column ${key} to set.`);
        const otherwise = givenOtherwise.get(column);
        if (otherwise) throw new StartError(`--set ${key}: ${otherwise}.`);
        changes.set(column, changeOf(column, value));
      }
      changes.set(username, changeOf(username, wanted));
      changes.set(active, { column: active, value: 'true' });
      changes.set(admin, { column: admin, value: String(makeAdmin) });
      changes.set(password, await hashed(plain, wanted));
      // A key that the database does not make: for a text the name itself will do.
      if (!model.primaryKey.hasDefault && model.primaryKey.type.sized && !changes.has(model.primaryKey))
        changes.set(model.primaryKey, changeOf(model.primaryKey, wanted));
      const missing = [model.primaryKey, ...model.columns].filter(
        (column) => !column.nullable && !column.hasDefault && !column.generated && !changes.has(column),
      );
      if (missing.length > 0) {
        throw new StartError(
          `The user model requires ${missing.map(nameOf).join(', ')}: give --set NAME=VALUE for each.`,
        );
      }
      try {
        const [row] = await database.run(
          insertStatement(model, [model.primaryKey], [...changes.values()], [], {}, recording),
          'write',
        );
        if (!row) throw new StartError(SUPPRESSED);
      } catch (error) {
        if (!isDatabaseError(error) || error.code !== UNIQUE_VIOLATION) throw error;
        const taken = duplicated(model, error).map(nameOf).join(', ');
        throw new StartError(
          taken === ''
            ? `The database has such a value already: ${reasonOf(error)}`
            : `There is a user with this ${taken} already.`,
        );
      }
    },

    async setPassword(wanted, plain) {
      const [user] = await select({ text: byName, values: [wanted] });
      if (!user) throw new StartError(`There is no user ${wanted}.`);
      const [row] = await database.run(
        updateStatement(
          model,
          [model.primaryKey],
          user.id,
          [await hashed(plain, user.name)],
          [],
          {},
          recording,
        ),
        'write',
      );
      if (isSuppressed(row)) throw new StartError(SUPPRESSED);
    },

    async sampleCosts() {
      const stored = sql`select left(${reference(ROOT, password)}::text, 100) as p from ${table(model.table)} ${raw(ROOT)} limit ${raw(String(SAMPLE))}`;
      const start = raw("substring(p from '^[$]argon2[a-z]*[$].*[$].*[$]')");
      const statement = sql`select ${start}, count(*) from (${stored}) s where ${start} is not null group by 1 order by 2 desc limit ${raw(String(MOST_COSTS))}`;
      const rows = await database.run({ ...compile(statement), fixed: true }, 'read');
      return rows.flatMap(([start, count]) => {
        const costs = costsOf(text(start) ?? '');
        return costs ? [{ costs, users: Number(text(count)) }] : [];
      });
    },

    async rehash({ id, password: present }, hash) {
      const key = reference(ROOT, model.primaryKey);
      const isSame = sql`${key}::text = ${value(id)} and ${reference(ROOT, password)}::text = ${value(present)}`;
      const changed = sql`changed as (update ${table(model.table)} ${raw(ROOT)} set ${identifier(password.field)} = ${typed(hash, password)} where ${isSame} returning ${key}::text as key, ${reference(ROOT, password)}::text = ${value(hash)} as is_stored)`;
      const marked = sessions
        ? sql`, marked as (update ${table(sessions.table)} s set password_mark = ${value(markOf(hash))} from changed where is_stored and s.user_key = changed.key and s.password_mark = ${value(markOf(present))})`
        : EMPTY;
      // A trigger may keep the hash that was there.
      const statement = compile(sql`with ${changed}${marked} select count(*) from changed where is_stored`);
      const [row] = await database.run({ ...statement, fixed: true }, 'write');
      return text(row?.[0]) === '1';
    },
  };
}
