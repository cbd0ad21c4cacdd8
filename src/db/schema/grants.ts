// The SQL that gives a database role the privileges of the service, and that makes a table append-only for its owner.
import { quotedName, quotedTable, sql, value } from '../fragment.ts';
import { createStatement, isTrue, oneCell, type Statement } from '../rows.ts';
import type { DatabaseInfo } from './relations.ts';
import type { Privilege } from './missing-privileges.ts';

/** The schema of an unqualified table name when no database was read. */
const DEFAULT_SCHEMA = 'public';

/**
 * The SQL statements that grant a role exactly the privileges that the service needs, and revoke all others.
 * @param privileges by table
 * @param databaseInfo the schemas of the tables, types and sequences; undefined when no database was read
 */
export function grantsFor(
  role: string,
  privileges: ReadonlyMap<string, readonly Privilege[]>,
  databaseInfo: DatabaseInfo | undefined,
): string[] {
  const to = quotedName(role);
  const found = (name: string) => databaseInfo?.tables.find((one) => one.name === name);
  const schemaOf = (name: string): string => {
    const parts = name.split('.');
    return found(name)?.schema ?? (parts.length > 1 ? (parts[0] ?? DEFAULT_SCHEMA) : DEFAULT_SCHEMA);
  };
  const tables = [...privileges].map(([name, granted]) => {
    const bare = name.split('.').at(-1) ?? name;
    const qualified = quotedTable(`${schemaOf(name)}.${bare}`);
    return {
      qualified,
      granted,
      sequences: granted.includes('INSERT') ? (found(name)?.sequences ?? []) : [],
    };
  });
  const schemas = new Set(
    [...privileges.keys()].flatMap((name) => [schemaOf(name), ...(found(name)?.typeSchemas ?? [])]),
  );
  return [
    ...(databaseInfo ? [`grant connect on database ${quotedName(databaseInfo.database)} to ${to}`] : []),
    ...[...schemas].map((schema) => `grant usage on schema ${quotedName(schema)} to ${to}`),
    ...tables.flatMap(({ qualified, granted }) => [
      `revoke all on ${qualified} from ${to}`,
      `grant ${granted.join(', ').toLowerCase()} on ${qualified} to ${to}`,
    ]),
    ...[...new Set(tables.flatMap(({ sequences }) => sequences))].map(
      (sequence) => `grant usage on sequence ${sequence} to ${to}`,
    ),
  ];
}

/** The statement that creates a role, for people to complete. */
export const roleStatement = (role: string): string => `create role ${quotedName(role)} login password '...'`;

/** The statement by which the present role revokes its own right to change the rows of a table. */
export const revokeChanges = (name: string): string =>
  `revoke update, delete, truncate on ${quotedName(name)} from current_user`;

/** Whether the present role owns a table and may change its rows. */
export const mayChangeStatement = (name: string): Statement<boolean> =>
  createStatement(
    sql`select exists (select from pg_class c cross join aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
  where c.oid = to_regclass(${value(quotedName(name))}) and pg_get_userbyid(c.relowner) = current_user
    and a.grantee = c.relowner and a.privilege_type in ('UPDATE', 'DELETE', 'TRUNCATE'))`,
    oneCell(isTrue),
  );
