// Users as commands and the first start manage them: also adds users and sets passwords.
import type { Parsed } from '../../db/types/column-type.ts';
import type { Database } from '../../db/connection/database.ts';
import { SERVICE } from '../../db/lanes/requester.ts';
import type { Statement } from '../../db/rows.ts';
import { findColumn, requiredColumn, type Column, type Model } from '../../db/schema/model.ts';
import {
  DatabaseFault,
  duplicateColumns,
  isDatabaseError,
  reasonOf,
} from '../../db/connection/database-errors.ts';
import { StartError } from '../../errors.ts';
import type { Recording } from '../../query/statements/history-sql.ts';
import { isRolledBack } from '../../query/statements/check-statements.ts';
import { EVERY_ROW } from '../../query/source.ts';
import { compileWrite, createWriteTarget } from '../../query/statements/write.ts';
import type { Change, WriteTarget } from '../../query/statements/write-plan.ts';
import { checkKey, parseField } from './checked-body.ts';
import { rowsOf } from './create-records.ts';
import { locateError, suppressed, UNIQUE_VIOLATION } from './explain.ts';
import { jsonFieldOf } from './json-fields.ts';
import { passwordFault } from '../users/password-rules.ts';
import type { Passwords } from '../users/password-hashing.ts';
import type { Users } from '../users/users.ts';
import { textOf } from '../../messages.ts';

interface ManagementOptions {
  /** Records changes in the history, when there is one. */
  readonly recording?: Recording | undefined;
  /** The minimum length of a password, in characters. */
  readonly minPassword: number;
  readonly ownedByUser: WriteTarget['ownedByUser'];
}

export type UserManagement = ReturnType<typeof createUserManagement>;

export function createUserManagement(
  database: Database,
  users: Users,
  model: Model,
  passwords: Passwords,
  { recording, minPassword, ownedByUser }: ManagementOptions,
) {
  const username = requiredColumn(model, 'username');
  const password = requiredColumn(model, 'password');
  const active = requiredColumn(model, 'active');
  const admin = requiredColumn(model, 'admin');
  const writes = createWriteTarget({
    model,
    formatted: [model.primaryKey],
    visibility: EVERY_ROW,
    recording,
    cascades: [],
    ownedByUser,
  });
  const notForSet = new Map([
    [username, 'the NAME argument sets the user name'],
    [active, 'new users are always active'],
    [admin, 'use --admin instead'],
  ]);
  const nameOf = (column: Column): string => (column === model.primaryKey ? 'id' : column.name);

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
    ...users,

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
      if (await users.find(wanted))
        throw new StartError(`A user with this ${nameOf(username)} already exists.`);
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
      const user = await users.find(wanted);
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
  };
}
