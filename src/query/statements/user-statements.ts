// Statements on the rows of the user model, apart from the writes that any model has.
import { createHash } from 'node:crypto';
import {
  arrayText,
  compile,
  EMPTY,
  identifier,
  join,
  literal,
  raw,
  sql,
  value,
  type Fragment,
} from '../../db/fragment.ts';
import { fixedStatement, isTrue, number, oneCell, text, type RawRow, type Statement } from '../../db/rows.ts';
import {
  findColumn,
  output,
  reference,
  requiredColumn,
  typed,
  type Column,
  type Model,
} from '../../db/schema/model.ts';
import { cast } from '../../db/types/column-types.ts';
import { ROOT } from '../plan.ts';
import { allRows, writtenTable } from '../source.ts';

/** What the rules of a registry need to know of its users, besides their names and passwords. */
export interface UserFacts {
  /** The names of the roles. Others have no effect. */
  readonly roles: ReadonlySet<string>;
  /** Those whose users may enter the admin area. */
  readonly admitted: readonly string[];
  /** The columns of the user model that rules about rows name. */
  readonly columns: readonly string[];
}

export interface RolesAndValues {
  /** In alphabetical order. */
  readonly roles: readonly string[];
  /** The columns that rules about rows name. */
  readonly values?: ReadonlyMap<string, string | null>;
  /** Both as they are stored. */
  readonly facts?: string;
}

export interface User extends RolesAndValues {
  readonly id: string;
  readonly name: string;
  /** The stored PHC string. */
  readonly password: string;
  readonly active: boolean;
  readonly admin: boolean;
  readonly hasSecondFactor: boolean;
}

/** Reads the roles of a user of this alias, and the columns that rules about rows name. */
export function rolesAndValues(model: Model, { roles, columns }: UserFacts, alias: string) {
  const role = roles.size > 0 ? findColumn(model, 'role') : undefined;
  const named = columns.flatMap((name) => findColumn(model, name) ?? []);
  const stored = [
    role ? sql`to_json(${reference(alias, role)})` : raw('null'),
    ...named.map((column) => sql`${output(alias, column)}::text`),
  ];
  const json = sql`json_build_array(${join(stored, ', ')})::text`;
  return {
    /** A further cell of the row; empty if the registry asks for nothing. */
    cell: role !== undefined || named.length > 0 ? sql`, ${json}` : EMPTY,
    /** A condition: they are still the same. */
    isSame: (facts: string | undefined): Fragment[] =>
      facts === undefined ? [] : [sql`${json} = ${value(facts)}`],
    read(cell: RawRow[number] | undefined): RolesAndValues {
      const facts = text(cell) ?? undefined;
      if (facts === undefined) return { roles: [] };
      const [names, ...values] = JSON.parse(facts) as [unknown, ...(string | null)[]];
      const isKnown = (name: unknown): name is string => typeof name === 'string' && roles.has(name);
      return {
        roles: [...new Set([names].flat().filter(isKnown))].sort(),
        values: new Map(columns.map((name, index) => [name, values[index] ?? null])),
        facts,
      };
    },
  };
}

/** Whether a user of this alias may enter the admin area. NULL counts as false. */
export function mayEnterSql(model: Model, { admitted }: UserFacts, alias: string): Fragment {
  const admin = reference(alias, requiredColumn(model, 'admin'));
  const role = admitted.length > 0 ? findColumn(model, 'role') : undefined;
  if (!role) return admin;
  const stored = reference(alias, role);
  const names = sql`${literal(arrayText(admitted))}::text[]`;
  const has = role.type.element ? sql`${stored}::text[] && ${names}` : sql`${stored}::text = any(${names})`;
  return sql`(${admin} or coalesce(${has}, false))`;
}

/** Whether the user with this key has a second factor. @param factors undefined if the database has no table for them */
const hasFactorSql = (factors: Model | undefined, userKey: Fragment): Fragment =>
  factors
    ? sql`exists (select from ${allRows(factors, 'f')} where f.user_key = ${userKey}::text)`
    : raw('false');

/** The digest of a stored hash. A session stores it, so that a password change ends the session. */
const hashDigest = (hash: string): string => createHash('sha256').update(hash).digest('hex');

export function userStatements(
  model: Model,
  sessions: Model | undefined,
  factors: Model | undefined,
  facts: UserFacts,
) {
  const username = requiredColumn(model, 'username');
  const password = requiredColumn(model, 'password');
  const active = requiredColumn(model, 'active');
  const admin = requiredColumn(model, 'admin');
  const name = reference(ROOT, username);
  const flagOf = (column: Column): Fragment => sql`coalesce(${reference(ROOT, column)}, false)`;
  const further = rolesAndValues(model, facts, ROOT);
  const hasFactor = hasFactorSql(factors, reference(ROOT, model.primaryKey));
  // NULL in `active` or `admin` counts as false.
  const userColumns = sql`${reference(ROOT, model.primaryKey)}::text, ${name}, ${reference(ROOT, password)}, ${flagOf(active)}, ${flagOf(admin)}, ${hasFactor}${further.cell}`;
  const readUsers = (found: readonly RawRow[]): User[] =>
    found.map(([id, name, password, active, admin, factor, cell]) => ({
      id: text(id) ?? '',
      name: text(name) ?? '',
      password: text(password) ?? '',
      active: isTrue(active),
      admin: isTrue(admin),
      hasSecondFactor: isTrue(factor),
      ...further.read(cell),
    }));
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
      ...{ fixed: true, isPlain: ![model, factors].some((one) => one?.mayHideRows), decode: readUsers },
    }),

    withKey: (id: string): Statement<User[]> =>
      fixedStatement(
        sql`${selectUsers} where ${reference(ROOT, model.primaryKey)} = ${value(id)}::${raw(model.primaryKey.castType)}`,
        readUsers,
      ),

    all: (): Statement<User[]> => fixedStatement(sql`${selectUsers} order by ${name}`, readUsers),

    /** The condition that the user's row exists and is unchanged. */
    precondition(user: User): Fragment {
      const key = sql`${reference(ROOT, model.primaryKey)}::text = ${value(user.id)}`;
      const stored = sql`${reference(ROOT, password)}::text = ${value(user.password)}`;
      const hasFlag = (column: Column, flag: boolean): Fragment =>
        sql`${flagOf(column)} = ${raw(String(flag))}`;
      const flags = [hasFlag(active, user.active), hasFlag(admin, user.admin)];
      const sameFactor = factors ? [sql`${hasFactor} = ${raw(String(user.hasSecondFactor))}`] : [];
      const conditions = [
        ...[isNamed(user.name), key, stored, ...flags],
        ...[...sameFactor, ...further.isSame(user.facts)],
      ];
      return sql`exists (select from ${rows} where ${join(conditions, ' and ')})`;
    },

    /** Whether any user may open the admin area. */
    hasAdmin(): Statement<boolean> {
      const isAdmin = sql`${flagOf(active)} and ${mayEnterSql(model, facts, ROOT)}`;
      return fixedStatement(sql`select exists (select from ${rows} where ${isAdmin})`, oneCell(isTrue));
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
      return fixedStatement(stored, oneCell(number));
    },
  };
}
