import { catalogStatement, parseCatalog } from '../db/schema/catalog.ts';
import { text, type Database } from '../db/connection/database.ts';
import { relationsStatement, SCHEMAS, type Relation } from '../db/schema/relations.ts';
import { StartError } from '../errors.ts';
import { introspect as read, isNameable, tableName } from './introspect/introspection.ts';
import { printRegistry } from './introspect/print-registry.ts';
import { requireLosslessSettings } from '../resources/serve/schema-setup.ts';
import { soundIntrospection } from './introspect/partial-introspection.ts';
import { noWords, parse, requireDatabaseUrl, tell, withDatabase } from './command.ts';

const HELP = `
Usage: vitrine introspect [--schema NAME] [--table NAME]... > resources.mjs

Prints a registry that serves the tables of a database as they are: everyone may read, nobody may write.
The database is the one that DATABASE_URL names. It is not changed.

Options
  --schema NAME  the schema that is read (public)
  --table NAME   only this table; may be given again
  --help         show this
`;

const OPTIONS = { schema: { type: 'string' }, table: { type: 'string', multiple: true } } as const;

async function readRelations(
  database: Database,
  schema: string,
  tables: readonly string[],
): Promise<Relation[]> {
  const [row] = await database.run(relationsStatement(schema, tables), 'read');
  const relations = JSON.parse(text(row?.[0]) ?? '[]') as Relation[];
  if (relations.length === 0 && tables.length === 0) {
    const [found] = await database.run(SCHEMAS, 'read');
    const schemas = JSON.parse(text(found?.[0]) ?? '[]') as string[];
    const others = schemas.filter((name) => name !== schema).join(', ');
    const problem = schemas.includes(schema)
      ? `The schema ${schema} has no tables.`
      : `There is no schema ${schema}.`;
    throw new StartError(`${problem} ${others === '' ? 'There is no other.' : `There are: ${others}.`}`);
  }
  const missing = tables.filter((table) => !relations.some(({ name }) => name === table));
  if (missing.length > 0)
    throw new StartError(`There is no table ${missing.join(', ')} in the schema ${schema}.`);
  return relations;
}

/** `vitrine introspect`: a registry for a database that was there before. */
export async function introspectCommand(words: readonly string[]): Promise<void> {
  const given = parse(words, OPTIONS, HELP);
  if (!given) return;
  noWords(given.positionals);
  const { schema = 'public', table = [] } = given.values;
  const { resources, notes } = await withDatabase(requireDatabaseUrl('introspect'), async (database) => {
    await requireLosslessSettings(database);
    const relations = await readRelations(database, schema, table);
    const names = relations.filter(isNameable).map(tableName);
    const [row] = await database.run(catalogStatement(names), 'read');
    const catalog = parseCatalog(text(row?.[0]) ?? '[]');
    return soundIntrospection(read(relations, catalog), catalog);
  });
  if (resources.length === 0) {
    const reasons = notes.map((note) => `\n  - ${note}`).join('');
    throw new StartError(`No table of the schema ${schema} can be served:${reasons}`);
  }
  process.stdout.write(printRegistry({ resources, notes }));
  const secrets = resources.flatMap(({ model, secrets: names }) => names.map((name) => `${model}.${name}`));
  if (secrets.length > 0) tell(`called like secrets, and excluded: ${secrets.join(', ')}`);
  const others = notes.length > 0 ? `, ${notes.length} not: the file says why` : '';
  tell(`tables served: ${resources.length}${others}`);
}
