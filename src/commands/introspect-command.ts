import { catalogStatement } from '../db/schema/catalog.ts';
import type { Database } from '../db/connection/database.ts';
import { relationsStatement, SCHEMAS, type Relation } from '../db/schema/relations.ts';
import { StartError } from '../errors.ts';
import { introspect, hasServableName, tableName } from './introspect/introspection.ts';
import { printRegistry } from './introspect/print-registry.ts';
import { requireLosslessSettings } from '../resources/serve/schema-setup.ts';
import { servableIntrospection } from './introspect/partial-introspection.ts';
import {
  refuseArguments,
  parse,
  requireDatabaseUrl,
  printMessage,
  withDatabase,
  type Io,
} from './command.ts';

const HELP = `
Usage: vitrine introspect [--schema NAME] [--table NAME]... > resources.mjs

Prints a registry for the tables of the database in DATABASE_URL: everyone may read them, and no one may write.
Changes nothing in the database.

Options
  --schema NAME  the schema to read (default: public)
  --table NAME   only this table; may be repeated
  --help         show this help
`;

const OPTIONS = { schema: { type: 'string' }, table: { type: 'string', multiple: true } } as const;

/** @throws StartError when the schema or one of the tables does not exist, or the schema has no tables */
async function readRelations(
  database: Database,
  schema: string,
  tables: readonly string[],
): Promise<Relation[]> {
  const relations = await database.run(relationsStatement(schema, tables), 'read');
  if (relations.length === 0 && tables.length === 0) {
    const schemas = await database.run(SCHEMAS, 'read');
    const others = schemas.filter((name) => name !== schema).join(', ');
    const problem = schemas.includes(schema)
      ? `The schema ${schema} has no tables.`
      : `There is no schema ${schema}.`;
    throw new StartError(
      `${problem} ${others === '' ? 'The database has no other schema.' : `Other schemas: ${others}.`}`,
    );
  }
  const missing = tables.filter((table) => !relations.some(({ name }) => name === table));
  if (missing.length > 0)
    throw new StartError(`There is no table ${missing.join(', ')} in the schema ${schema}.`);
  return relations;
}

/** `vitrine introspect`: prints a registry for an existing database. */
export async function introspectCommand(args: readonly string[], io: Io): Promise<void> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return;
  refuseArguments(parsed.positionals);
  const { schema = 'public', table = [] } = parsed.values;
  const url = requireDatabaseUrl('introspect', io);
  const { resources, notes } = await withDatabase(url, async (database) => {
    await requireLosslessSettings(database);
    const relations = await readRelations(database, schema, table);
    const names = relations.filter(hasServableName).map(tableName);
    const catalog = await database.run(catalogStatement(names), 'read');
    return servableIntrospection(introspect(relations, catalog), catalog);
  });
  if (resources.length === 0) {
    const reasons = notes.map((note) => `\n  - ${note}`).join('');
    throw new StartError(`No table of the schema ${schema} can be served:${reasons}`);
  }
  io.stdout.write(printRegistry({ resources, notes }));
  const secrets = resources.flatMap(({ model, secrets: names }) => names.map((name) => `${model}.${name}`));
  if (secrets.length > 0)
    printMessage(io, `excluded, because the names suggest secrets: ${secrets.join(', ')}`);
  const skipped = notes.length > 0 ? `, skipped: ${notes.length} (the file says why)` : '';
  printMessage(io, `tables served: ${resources.length}${skipped}`);
}
