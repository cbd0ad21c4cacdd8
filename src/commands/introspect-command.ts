// `vitrine introspect`: prints a registry for the tables and views of an existing database.
import type { CatalogTable } from '../db/schema/catalog.ts';
import type { Database } from '../db/connection/database.ts';
import { isDatabaseError } from '../db/connection/database-errors.ts';
import { hasNullStatement, relationsStatement, SCHEMAS, type Relation } from '../db/schema/relations.ts';
import { StartError } from '../errors.ts';
import { introspect, hasServableName, tableName } from './introspect/introspection.ts';
import { definitionOf, printRegistry } from './introspect/print-registry.ts';
import { readTablesOf, requireUsableDatabase, runOnCatalog } from '../resources/setup/schema-setup.ts';
import { servableIntrospection } from './introspect/partial-introspection.ts';
import {
  refuseArguments,
  parse,
  requireDatabaseUrl,
  printMessage,
  UsageError,
  withDatabase,
  type Io,
} from './command.ts';
import { checkUserModel, otherUserModel } from '../resources/check/check-across-resources.ts';
import type { Resource } from '../resources/definition/resource.ts';

/** The user model of a service without the setting USER_MODEL. */
const USER_MODEL = 'user';

/**
 * Why the service cannot use a table named `user` for its users. Undefined if it can, or if there is no such table.
 * @param names the tables that were read, also those that are not served
 */
export function userRemark(resources: readonly Resource[], names: readonly string[]): string | undefined {
  const isServed = resources.some(({ model }) => model === USER_MODEL);
  if (!isServed && !names.includes(USER_MODEL)) return undefined;
  if (!isServed)
    return `${USER_MODEL} cannot be the user model, because it is not served. ${otherUserModel(USER_MODEL)}.`;
  const faults = checkUserModel(resources, '', USER_MODEL).map(({ key, text }) => `${key} ${text}`);
  return faults.length === 0 ? undefined : `${USER_MODEL} cannot be the user model: ${faults.join('; ')}.`;
}

const HELP = `
Usage: vitrine introspect [--schema NAME]... [--table NAME]... [--read LEVEL] > resources.mjs

Prints a registry for the tables and views of the database in DATABASE_URL: everyone may read them, or with --read
only users or admins, and no one may write. Where nothing proves which columns identify a row, it prints primaryKey: false, and a comment with a likely key.
Changes nothing in the database.

Options
  --schema NAME  the schema to read (default: public); may be repeated
  --table NAME   only this table; may be repeated
  --read LEVEL   who may read them: user or admin; adds a user model if there is no table user
  --typescript   print TypeScript that checks itself: resources.ts
  --help         show this help
`;

const OPTIONS = {
  schema: { type: 'string', multiple: true },
  table: { type: 'string', multiple: true },
  read: { type: 'string' },
  typescript: { type: 'boolean' },
} as const;

const READ_LEVELS = ['user', 'admin'] as const;

/** SQLSTATEs of a materialized view that has no data, is being refreshed, is slow, or may not be read by its owner. */
const UNANSWERED = /^(55000|55P03|57014|42501)$/;

const listed = (schemas: readonly string[]): string =>
  `${schemas.length === 1 ? 'schema' : 'schemas'} ${schemas.join(', ')}`;

/** @throws StartError when a schema or one of the tables does not exist, or the schemas have no tables */
async function readRelations(
  database: Database,
  schemas: readonly string[],
  tables: readonly string[],
): Promise<{ relations: Relation[]; unread: string[] }> {
  const relations = await runOnCatalog(database, relationsStatement(schemas, tables));
  const present = await database.run(SCHEMAS, 'read');
  const missing = schemas.filter((schema) => !present.some(({ name }) => name === schema));
  const isEmpty = relations.length === 0 && tables.length === 0;
  if (missing.length > 0 || isEmpty) {
    const others = present.filter(({ name }) => !schemas.includes(name)).map(({ name }) => name);
    const problem =
      missing.length > 0
        ? `There is no schema ${missing.join(', ')}.`
        : `The ${listed(schemas)} ${schemas.length === 1 ? 'has' : 'have'} no tables.`;
    throw new StartError(
      `${problem} ${others.length === 0 ? 'The database has no other schema.' : `Other schemas: ${others.join(', ')}.`}`,
    );
  }
  const lost = tables.filter((table) => !relations.some(({ name }) => name === table));
  if (lost.length > 0)
    throw new StartError(`There is no table ${lost.join(', ')} in the ${listed(schemas)}.`);
  const unread = present.filter(({ name, hasTables }) => hasTables && !schemas.includes(name));
  return { relations, unread: unread.map(({ name }) => name) };
}

/**
 * Adds the keys of a materialized view: the columns of its unique indexes. It cannot have a constraint that keeps NULL out, so
 * they must have no NULL now.
 */
async function withProvenKeys(
  relation: Relation,
  found: CatalogTable | undefined,
  database: Database,
): Promise<Relation> {
  if (!relation.isReadable || !found || relation.kind !== 'm') return relation;
  const keys: (readonly string[])[] = [];
  for (const { unique, partial, fields } of found.indexes) {
    if (!unique || partial) continue;
    const isNull = await hasNull(found, fields, database);
    if (isNull === undefined) return { ...relation, isUnanswered: true };
    if (!isNull) keys.push(fields);
  }
  return { ...relation, keys };
}

/** Whether a row has NULL in one of the fields; undefined if the view cannot be read now. */
const hasNull = (
  { name }: CatalogTable,
  fields: readonly string[],
  database: Database,
): Promise<boolean | undefined> =>
  runOnCatalog(database, hasNullStatement(name, fields)).catch((error: unknown) => {
    if (isDatabaseError(error) && UNANSWERED.test(error.code)) return undefined;
    throw error;
  });

/** `vitrine introspect`: prints a registry for an existing database. */
export async function introspectCommand(args: readonly string[], io: Io): Promise<void> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return;
  refuseArguments(parsed.positionals);
  const { schema = ['public'], table = [], typescript } = parsed.values;
  const read = READ_LEVELS.find((level) => level === parsed.values.read);
  if (read !== parsed.values.read) throw new UsageError('--read takes user or admin');
  const schemas = [...new Set(schema)];
  const url = requireDatabaseUrl('introspect', io);
  const { resources, notes, remarks, hasUserTable } = await withDatabase(url, async (database) => {
    await requireUsableDatabase(database);
    const { relations, unread } = await readRelations(database, schemas, table);
    const names = relations.filter(hasServableName).map(tableName);
    const catalog = await readTablesOf(database, names);
    const keyed: Relation[] = [];
    for (const relation of relations)
      keyed.push(await withProvenKeys(relation, catalog.get(tableName(relation)), database));
    const { remarks, ...found } = servableIntrospection(introspect(keyed, catalog), catalog);
    const others =
      unread.length > 0 && table.length === 0 ? [`Not read: the ${listed(unread)} (--schema NAME).`] : [];
    const tables = relations.map(tableName);
    const users = userRemark(
      found.resources.map((one) => definitionOf(one)),
      tables,
    );
    return {
      ...found,
      remarks: [...remarks, ...(users === undefined ? [] : [users]), ...others],
      hasUserTable: tables.includes(USER_MODEL) || found.resources.some(({ model }) => model === USER_MODEL),
    };
  });
  if (resources.length === 0) {
    const reasons = notes.map((note) => `\n  - ${note}`).join('');
    throw new StartError(`No table of the ${listed(schemas)} can be served:${reasons}`);
  }
  const withUsers = read !== undefined && !hasUserTable;
  io.stdout.write(
    printRegistry({ resources, notes, remarks }, { isTypeScript: typescript, read, withUsers }),
  );
  const secrets = resources.flatMap(({ model, secrets: names }) => names.map((name) => `${model}.${name}`));
  if (secrets.length > 0)
    printMessage(io, `excluded, because the names suggest secrets: ${secrets.join(', ')}`);
  const skipped = notes.length > 0 ? `, skipped: ${notes.length} (the file says why)` : '';
  const keyless = resources.filter(({ primaryKey }) => primaryKey === false).length;
  const unkeyed = keyless > 0 ? `, without a key: ${keyless} (the file says why)` : '';
  printMessage(io, `tables served: ${resources.length}${unkeyed}${skipped}`);
}
