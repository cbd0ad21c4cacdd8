import { identifier, table as tableName } from '../../db/fragment.ts';
import type { DatabaseInfo } from '../../db/schema/relations.ts';
import type { Privilege } from '../../db/schema/schema-differences.ts';

const quote = (name: string): string => identifier(name).text.join('');

/** The schema that an unqualified name is in, where no database was asked. */
const USUAL = 'public';

/**
 * The statements that give a role what the service does with each table, and take what else it may do with it.
 * @param privileges by table
 * @param surroundings of these tables, where there is a database: their schemas, and those of the types and the sequences of their
 * columns
 */
export function grantsFor(
  role: string,
  privileges: ReadonlyMap<string, readonly Privilege[]>,
  surroundings: DatabaseInfo | undefined,
): string[] {
  const to = quote(role);
  const found = (name: string) => surroundings?.tables.find((one) => one.name === name);
  const schemaOf = (name: string): string => {
    const parts = name.split('.');
    return found(name)?.schema ?? (parts.length > 1 ? (parts[0] ?? USUAL) : USUAL);
  };
  const tables = [...privileges].map(([name, granted]) => {
    const bare = name.split('.').at(-1) ?? name;
    const qualified = tableName(`${schemaOf(name)}.${bare}`).text.join('');
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
    ...(surroundings ? [`grant connect on database ${quote(surroundings.database)} to ${to}`] : []),
    ...[...schemas].map((schema) => `grant usage on schema ${quote(schema)} to ${to}`),
    ...tables.flatMap(({ qualified, granted }) => [
      `revoke all on ${qualified} from ${to}`,
      `grant ${granted.join(', ').toLowerCase()} on ${qualified} to ${to}`,
    ]),
    ...[...new Set(tables.flatMap(({ sequences }) => sequences))].map(
      (sequence) => `grant usage on sequence ${sequence} to ${to}`,
    ),
  ];
}
