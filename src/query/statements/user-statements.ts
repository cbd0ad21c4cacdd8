// Statements on the rows of the user model, apart from the writes that any model has.
import { createHash } from 'node:crypto';
import { compile, EMPTY, identifier, join, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import {
  createStatement,
  isTrue,
  number,
  oneCell,
  text,
  type RawRow,
  type Statement,
} from '../../db/rows.ts';
import { reference, requiredColumn, typed, type Column, type Model } from '../../db/schema/model.ts';
import { cast } from '../../db/types/column-types.ts';
import { ROOT } from '../plan.ts';
import { allRows, writtenTable } from '../source.ts';

export interface User {
  readonly id: string;
  readonly name: string;
  /** The stored PHC string. */
  readonly password: string;
  readonly active: boolean;
  readonly admin: boolean;
}

const readUsers = (rows: readonly RawRow[]): User[] =>
  rows.map(([id, name, password, active, admin]) => ({
    id: text(id) ?? '',
    name: text(name) ?? '',
    password: text(password) ?? '',
    active: isTrue(active),
    admin: isTrue(admin),
  }));

/** The digest of a stored hash. A session stores it, so that a password change ends the session. */
const hashDigest = (hash: string): string => createHash('sha256').update(hash).digest('hex');

export function userStatements(model: Model, sessions: Model | undefined) {
  const username = requiredColumn(model, 'username');
  const password = requiredColumn(model, 'password');
  const active = requiredColumn(model, 'active');
  const admin = requiredColumn(model, 'admin');
  const name = reference(ROOT, username);
  const flagOf = (column: Column): Fragment => sql`coalesce(${reference(ROOT, column)}, false)`;
  // NULL in `active` or `admin` counts as false.
  const userColumns = sql`${reference(ROOT, model.primaryKey)}::text, ${name}, ${reference(ROOT, password)}, ${flagOf(active)}, ${flagOf(admin)}`;
  const rows = allRows(model, ROOT);
  const selectUsers = sql`select ${userColumns} from ${rows}`;

  const isNamed = (wanted: string): Fragment => sql`${name} = ${typed(wanted, username)}`;
  const byName = compile(sql`${selectUsers} where ${isNamed('')}`).text;
  const named = sql`${name} = ${cast(raw('wanted.name'), username)}`;
  const byNames = compile(
    sql`select wanted.position, ${userColumns} from unnest($1::text[]) with ordinality wanted (name, position) join ${rows} on ${named}`,
  ).text;

  return {
    /** The users of this name: there is at most one. */
    named: (wanted: string): Statement<User[]> => ({
      ...{ text: byName, many: () => byNames, values: [wanted] },
      ...{ fixed: true, isPlain: !model.mayHideRows, decode: readUsers },
    }),

    all: (): Statement<User[]> => ({
      ...createStatement(sql`${selectUsers} order by ${name}`, readUsers),
      fixed: true,
    }),

    /** The condition that the user's row exists and is unchanged. */
    precondition(user: User): Fragment {
      const key = sql`${reference(ROOT, model.primaryKey)}::text = ${value(user.id)}`;
      const stored = sql`${reference(ROOT, password)}::text = ${value(user.password)}`;
      const hasFlag = (column: Column, flag: boolean): Fragment =>
        sql`${flagOf(column)} = ${raw(String(flag))}`;
      const flags = [hasFlag(active, user.active), hasFlag(admin, user.admin)];
      const conditions = [isNamed(user.name), key, stored, ...flags];
      return sql`exists (select from ${rows} where ${join(conditions, ' and ')})`;
    },

    /** Whether any user may open the admin area. */
    hasAdmin(): Statement<boolean> {
      const isAdmin = sql`${flagOf(active)} and ${flagOf(admin)}`;
      const query = sql`select exists (select from ${rows} where ${isAdmin})`;
      return { ...createStatement(query, oneCell(isTrue)), fixed: true };
    },

    /** Replaces a stored hash unless it has changed. It returns the number of replaced ones. */
    rehash({ id, password: present }: User, hash: string): Statement<number> {
      const key = reference(ROOT, model.primaryKey);
      const isSame = sql`${key}::text = ${value(id)} and ${reference(ROOT, password)}::text = ${value(present)}`;
      const changed = sql`changed as (update ${writtenTable(model)} ${raw(ROOT)} set ${identifier(password.field)} = ${typed(hash, password)} where ${isSame} returning ${key}::text as key, ${reference(ROOT, password)}::text = ${value(hash)} as is_stored)`;
      const marked = sessions
        ? sql`, marked as (update ${writtenTable(sessions)} s set password_mark = ${value(hashDigest(hash))} from changed where is_stored and s.user_key = changed.key and s.password_mark = ${value(hashDigest(present))})`
        : EMPTY;
      // A trigger may keep the old hash.
      const stored = sql`with ${changed}${marked} select count(*) from changed where is_stored`;
      return { ...createStatement(stored, oneCell(number)), fixed: true };
    },
  };
}
