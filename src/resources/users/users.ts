// The rows of the user model: lookup for authentication, and changes by the command line.
import type { Parsed } from '../../db/types/column-type.ts';
import type { Database } from '../../db/connection/database.ts';
import { SERVICE } from '../../db/lanes/requester.ts';
import type { Fragment } from '../../db/fragment.ts';
import type { Statement } from '../../db/rows.ts';
import { findColumn, requiredColumn, type Column, type Model } from '../../db/schema/model.ts';
import {
  DatabaseFault,
  duplicateColumns,
  isDatabaseError,
  undefinedIfUnencodable,
  reasonOf,
} from '../../db/connection/database-errors.ts';
import { StartError } from '../../errors.ts';
import type { Recording } from '../../query/statements/history-sql.ts';
import { isRolledBack } from '../../query/statements/check-statements.ts';
import { userStatements, type User } from '../../query/statements/user-statements.ts';
import { compileWrite, createWriteTarget } from '../../query/statements/write.ts';
import type { Change } from '../../query/statements/write-plan.ts';
import { checkKey, parseField } from '../records/checked-body.ts';
import { rowsOf } from '../records/create-records.ts';
import { locateError, suppressed, UNIQUE_VIOLATION } from '../records/explain.ts';
import { jsonFieldOf } from '../records/json-fields.ts';
import { passwordFault } from '../passwords/password-rules.ts';
import type { Passwords } from '../passwords/password-hashing.ts';
import { textOf } from '../../messages.ts';

interface UsersOptions {
  /** Records changes in the history, when there is one. */
  readonly recording?: Recording | undefined;
  readonly sessions?: Model | undefined;
  /** The minimum length of a password, in characters. */
  readonly minPassword: number;
}

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

export function createUsers(
  database: Database,
  model: Model,
  passwords: Passwords,
  { recording, sessions, minPassword }: UsersOptions,
) {
  const username = requiredColumn(model, 'username');
  const password = requiredColumn(model, 'password');
  const active = requiredColumn(model, 'active');
  const admin = requiredColumn(model, 'admin');
  const statements = userStatements(model, sessions);
  const formatted = [model.primaryKey];
  const writes = createWriteTarget({ model, formatted, owner: undefined, recording });
  const notForSet = new Map([
    [username, 'the NAME argument sets the user name'],
    [active, 'new users are always active'],
    [admin, 'use --admin instead'],
  ]);
  const nameOf = (column: Column): string => (column === model.primaryKey ? 'id' : column.name);

  /** The user whose name is equal to the text, or else to one of its normal forms. */
  async function find(wanted: string): Promise<User | undefined> {
    const found = spellingsOf(wanted).map((spelling) =>
      database.run(statements.named(spelling), 'quick').catch(undefinedIfUnencodable),
    );
    return (await Promise.all(found)).flatMap((users) => users ?? [])[0];
  }

  /** @throws StartError when a trigger cancels the write */
  const runUncanceled = <T>(statement: Statement<T>): Promise<T> =>
    database.run(statement, 'write').catch((error: unknown) => {
      throw isDatabaseError(error) && isRolledBack(error) ? new StartError(suppressed().message) : error;
    });

  async function hashed(plain: string, name: string): Promise<Change> {
    if (plain.includes('\0')) throw new StartError('The password must not contain a NUL character.');
    const fault = passwordFault(plain, password, { name, minPassword });
    if (fault !== undefined) throw new StartError(`The password ${textOf(fault)}.`);
    return { column: password, value: null, hash: await passwords.hash(plain) };
  }

  /** A further column from the command line. */
  async function changeFrom(column: Column, value: string): Promise<Change> {
    if (!column.isPassword) return changeOf(column, value);
    const fault = passwordFault(value, column, { minPassword });
    if (fault !== undefined) throw new StartError(`${column.name} ${textOf(fault)}.`);
    return { column, value: null, hash: await passwords.hash(value) };
  }

  function changeOf(column: Column, value: string): Change {
    const field = jsonFieldOf(column, value);
    const parsed: Parsed = 'fault' in field ? { fault: field.fault } : parseField(field, column);
    const { value: given = '', fault } =
      column === model.primaryKey && parsed.fault === undefined ? checkKey(parsed.value, column) : parsed;
    if (fault !== undefined) throw new StartError(`${nameOf(column)} ${textOf(fault)}.`);
    return { column, value: given };
  }

  return {
    find,

    /** An SQL condition: the user's row exists and is unchanged. */
    precondition: (user: User): Fragment => statements.precondition(user),

    list: (): Promise<User[]> => database.run(statements.all(), 'quick'),

    /**
     * Creates an active user. Required text columns without a value become empty, and a text primary key becomes the name.
     * @param values further columns by name, as text
     * @throws StartError for an invalid name, password or column, or when the name is taken
     */
    async add(
      wanted: string,
      plain: string,
      makeAdmin: boolean,
      values: ReadonlyMap<string, string> = new Map(),
    ): Promise<void> {
      // In Basic authentication the first colon ends the name.
      if (wanted === '' || /[:\0]/.test(wanted))
        throw new StartError(
          `The user name must not be empty, and must not contain a colon or a NUL character (got ${JSON.stringify(wanted)}).`,
        );
      if (await find(wanted)) throw new StartError(`A user with this ${nameOf(username)} already exists.`);
      const changes = new Map<Column, Change>();
      for (const column of model.columns) {
        const isText = column.type.sized && !column.references && !column.choices;
        if (isText && !column.nullable && !column.hasDefault) changes.set(column, { column, value: '' });
      }
      for (const [key, value] of values) {
        const column = findColumn(model, key);
        if (!column || column === password || (column === model.primaryKey && column.hasDefault))
          throw new StartError(`The user model has no column ${key} that --set can fill.`);
        const reason = notForSet.get(column);
        if (reason !== undefined) throw new StartError(`--set ${key}: ${reason}.`);
        changes.set(column, await changeFrom(column, value));
      }
      changes.set(username, changeOf(username, wanted));
      changes.set(active, { column: active, value: 'true' });
      changes.set(admin, { column: admin, value: String(makeAdmin) });
      changes.set(password, await hashed(plain, wanted));
      // A text primary key that the database does not generate gets the name.
      if (!model.primaryKey.hasDefault && model.primaryKey.type.sized && !changes.has(model.primaryKey))
        changes.set(model.primaryKey, changeOf(model.primaryKey, wanted));
      const missing = [model.primaryKey, ...model.columns].filter(
        (column) => !column.nullable && !column.hasDefault && !column.generated && !changes.has(column),
      );
      if (missing.length > 0)
        throw new StartError(
          `The user model requires ${missing.map(nameOf).join(', ')}: add --set COLUMN=VALUE for each.`,
        );
      const records = [[...changes.values()]];
      try {
        const rows = await rowsOf(records, model, SERVICE.workInTurns());
        const insert = { kind: 'insert', rows, references: [], returning: 'keys', author: null } as const;
        await runUncanceled(compileWrite(writes, insert));
      } catch (cause) {
        const attempt = { resource: { model, recording }, kind: 'insert', records } as const;
        const error = await locateError(cause, attempt, database);
        if (error instanceof DatabaseFault) throw new StartError(`The database failed: ${error.message}.`);
        if (!isDatabaseError(error) || error.code !== UNIQUE_VIOLATION) throw error;
        const taken = duplicateColumns(model, error).map(nameOf).join(', ');
        throw new StartError(
          taken === ''
            ? `A value is already in use: ${reasonOf(error)}`
            : `A user with this ${taken} already exists.`,
        );
      }
    },

    /** @throws StartError when the user does not exist or cannot be changed, or the password is invalid */
    async setPassword(wanted: string, plain: string): Promise<void> {
      const user = await find(wanted);
      if (!user) throw new StartError(`There is no user ${wanted}.`);
      const changes = [await hashed(plain, user.name)];
      const rows = { id: user.id };
      const update = { kind: 'update', rows, changes, checks: [], author: null } as const;
      const { isFound } = await runUncanceled(compileWrite(writes, update));
      if (!isFound)
        throw new StartError(
          `The password of ${wanted} was not changed: the user has been deleted, or a policy of the database does not allow it.`,
        );
    },

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
