import type { Parsed } from '../db/column-type.ts';
import { text, type Database } from '../db/connection.ts';
import { compile, join, raw, sql, table, value, type Fragment, type Statement } from '../db/fragment.ts';
import { findColumn, reference, typed, type Column, type Model } from '../db/model.ts';
import { duplicated, isDatabaseError, noSuchText, reasonOf } from '../db/sqlstate.ts';
import { StartError } from '../errors.ts';
import type { Recording } from '../query/history.ts';
import { insertStatement, updateStatement, type Change } from '../query/write.ts';
import { checkKey, parseMember } from './body.ts';
import { DUPLICATE } from './conflicts.ts';
import { memberOf } from './members.ts';
import { MAX_PASSWORD, type Passwords } from './passwords.ts';
import { isSuppressed } from './verdict.ts';

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
  readonly claim: (user: User) => Fragment;
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
}

const ROOT = 't';
const SUPPRESSED = 'A rule of the database does not allow this.';

/** A column of the user model, which the registry's check has found to be there. */
function required(model: Model, name: string): Column {
  const column = findColumn(model, name);
  if (!column) throw new Error(`the user model has no column ${name}`);
  return column;
}

/** @param recording where changes are written down, if anywhere */
export function createUsers(
  database: Database,
  model: Model,
  passwords: Passwords,
  recording?: Recording,
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

  async function hashed(plain: string): Promise<Change> {
    const bytes = Buffer.byteLength(plain);
    if (bytes < 1 || bytes > MAX_PASSWORD) throw new StartError('A password has 1 to 1,024 bytes.');
    if (plain.includes('\0')) throw new StartError('A password must not contain a NUL character.');
    return { column: password, value: null, hash: await passwords.hash(plain) };
  }

  function changeOf(column: Column, value: string): Change {
    const member = memberOf(column, value);
    const parsed: Parsed = 'fault' in member ? { fault: member.fault } : parseMember(member, column);
    const { value: given = '', fault } =
      column === model.primaryKey && parsed.fault === undefined ? checkKey(parsed.value, column) : parsed;
    if (fault !== undefined) throw new StartError(`${nameOf(column)} ${fault}.`);
    return { column, value: given };
  }

  return {
    find: async (wanted) => (await select({ text: byName, values: [wanted] }).catch(noSuchText))[0],
    claim: (user) => {
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
      changes.set(password, await hashed(plain));
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
          'work',
        );
        if (!row) throw new StartError(SUPPRESSED);
      } catch (error) {
        if (!isDatabaseError(error) || error.code !== DUPLICATE) throw error;
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
        updateStatement(model, [model.primaryKey], user.id, [await hashed(plain)], [], {}, recording),
        'work',
      );
      if (isSuppressed(row)) throw new StartError(SUPPRESSED);
    },
  };
}
