// The SQL that gives a database role the privileges of the service, for `vitrine schema`.
import { quotedName, quotedTable } from '../fragment.ts';
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
