import type { AccessSettings } from '../access/rights.ts';
import type { Settings } from '../../config.ts';
import { buildModels } from '../../db/schema/build-models.ts';
import { isTable, type Catalog } from '../../db/schema/catalog.ts';
import { readTables } from '../../db/schema/catalog-reads.ts';
import type { Database } from '../../db/connection/database.ts';
import type { Statement } from '../../db/rows.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import type { Model } from '../../db/schema/model.ts';
import { ENGINE, OUTPUT_SETTINGS, requirePostgres } from '../../db/schema/engine.ts';
import type { Privilege } from '../../db/schema/missing-privileges.ts';
import { differences } from '../../db/schema/schema-differences.ts';
import {
  missingSchema,
  SCHEMA_LOCK,
  SHORT_LOCK_TIMEOUT,
  type SchemaChange,
} from '../../db/schema/missing-schema.ts';
import {
  isConnectionError,
  isDatabaseError,
  isTemporarilyUnavailable,
} from '../../db/connection/database-errors.ts';
import { SAVEPOINT } from '../../db/connection/transactions.ts';
import { StartError, startError, type Fault } from '../../errors.ts';
import { ADDED_COLUMNS, HISTORY, SYSTEM_TABLES } from '../definition/system-tables.ts';
import {
  allowedActions,
  apiPrivileges,
  mayAdminsAdd,
  REVOKE_HISTORY_CHANGES,
  MAY_CHANGE_HISTORY,
  systemPrivileges,
} from '../access/privileges.ts';
import { METHODS, type Resource } from '../definition/resource.ts';
import { ADMIN } from '../access/access.ts';
import { createViews, hasLogins, type Views } from '../access/resource-view.ts';
// Compares the database with the registry at the start, and creates what is missing.

/** The database's catalog, and the models of the registry and of the system tables, completed from it. */
export interface Schema {
  readonly catalog: Catalog;
  readonly models: ReadonlyMap<string, Model>;
  /** The system tables that do not exist, or that the service's role may not use. */
  readonly missing: readonly string[];
}

const tablesOf = (definitions: readonly Resource[]): string[] => definitions.map(tableOf);

/** @throws StartError for an engine that cannot be used, and when the database's encoding or settings would change values on output */
export async function requireUsableDatabase(database: Database): Promise<void> {
  requirePostgres(await database.run(ENGINE, 'read'));
  const { encoding, isRounded, lacksNulls } = await database.run(OUTPUT_SETTINGS, 'read');
  if (encoding === 'SQL_ASCII')
    throw new StartError(
      'The database has the encoding SQL_ASCII, whose strings are arbitrary bytes and not always valid UTF-8. Create a database with the encoding UTF8.',
    );
  if (isRounded)
    throw new StartError(
      'The setting extra_float_digits of the database is below 1, which truncates floating-point numbers. Reset it for the database and the role.',
    );
  if (lacksNulls)
    throw new StartError(
      'The setting array_nulls of the database is off, so that NULL in a list would become the text "NULL". Reset it for the database and the role.',
    );
}

/** Runs a statement that reads the catalog of many tables. */
export const runOnCatalog = <T>(database: Database, statement: Statement<T>): Promise<T> =>
  database.transaction(({ run }) => run(statement), 'catalog');

/** Reads the catalog of the tables with these names. */
export const readTablesOf = (database: Database, names: readonly string[]): Promise<Catalog> =>
  database.transaction(({ run }) => readTables(run, names), 'catalog');

/** @throws StartError as `requireUsableDatabase` does */
export async function readCatalog(database: Database, resources: readonly Resource[]): Promise<Catalog> {
  await requireUsableDatabase(database);
  return readTablesOf(database, tablesOf([...resources, ...SYSTEM_TABLES]));
}

/** A statement that creates a missing part of the schema has failed. */
class SchemaNotApplied extends StartError {}

/** Another transaction holds a lock on a table that must change. A retry may succeed. */
export class SchemaLocked extends SchemaNotApplied {}

const LOCK_NOT_AVAILABLE = '55P03';

const INSUFFICIENT_PRIVILEGE = '42501';

/** The table did not exist when the catalog was read, so an earlier statement of this run has created it. */
const DUPLICATE_TABLE = '42P07';

function notApplied(error: unknown, statement: string): Error {
  // The start waits for the database, and then compares the schema again.
  if (error instanceof Error && isConnectionError(error) && isTemporarilyUnavailable(error)) return error;
  if (isDatabaseError(error) && error.code === LOCK_NOT_AVAILABLE)
    return new SchemaLocked(
      `The schema cannot be applied, because another transaction holds a lock on the table:\n  ${statement}`,
    );
  const isSame = isDatabaseError(error) && error.code === DUPLICATE_TABLE;
  const reason = isSame ? 'two resources use the same table under different names' : (error as Error).message;
  return new SchemaNotApplied(`The schema cannot be applied: ${reason}\n  ${statement}`);
}

/** What was created, and the schema that results. */
export interface AppliedSchema {
  readonly changes: readonly SchemaChange[];
  readonly schema: Schema;
}

/**
 * Creates what is missing in one transaction. It creates nothing when the database would still not fit the registry.
 * @param definitions the registry's resources, and the system tables that it needs
 * @throws StartError; SchemaLocked when a retry may succeed
 */
export async function applySchema(
  database: Database,
  definitions: readonly Resource[],
  settings: Settings & AccessSettings,
): Promise<AppliedSchema> {
  try {
    return await applyMissing(database, definitions, settings);
  } catch (error) {
    if (!(error instanceof SchemaNotApplied) || error instanceof SchemaLocked) throw error;
    // A difference may have caused the failure, so the error lists all of them.
    const registered = definitions.filter((definition) => !SYSTEM_TABLES.includes(definition));
    const check = async (): Promise<unknown> =>
      requireSchema(registered, await readCatalog(database, registered), settings);
    const others = await check().then(
      () => '',
      (reason: unknown) => (reason instanceof StartError ? `\n${reason.message}` : ''),
    );
    throw new StartError(`${error.message}${others}`);
  }
}

async function applyMissing(
  database: Database,
  definitions: readonly Resource[],
  settings: Settings,
): Promise<AppliedSchema> {
  return database.transaction(async ({ run, send }) => {
    await send(SCHEMA_LOCK);
    await send(SHORT_LOCK_TIMEOUT);
    const names = tablesOf([...definitions, ...SYSTEM_TABLES]);
    const catalog = await readTables(run, names);
    const registered = definitions.filter((definition) => !SYSTEM_TABLES.includes(definition));
    const done: SchemaChange[] = [];
    const apply = async (change: SchemaChange): Promise<void> => {
      const { statement } = change;
      try {
        await send(statement);
      } catch (error) {
        if (isDatabaseError(error) && error.code === INSUFFICIENT_PRIVILEGE) throw error;
        throw notApplied(error, statement);
      }
      done.push(change);
    };
    for (const change of missingSchema(registered, catalog)) {
      await apply(change).catch((error: unknown) => {
        throw error instanceof StartError ? error : notApplied(error, change.statement);
      });
    }
    // A role that may not create tables can still serve existing ones. `Schema.missing` names what it lacks.
    await send(SAVEPOINT.set);
    const before = done.length;
    try {
      const changes = missingSchema(
        SYSTEM_TABLES.filter((definition) => definitions.includes(definition)),
        catalog,
      );
      for (const change of changes) await apply(change);
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      await send(SAVEPOINT.rollBack);
      done.length = before;
    }
    return { changes: done, schema: requireSchema(registered, await readTables(run, names), settings) };
  }, 'schema');
}

/**
 * Revokes the right to change the history where the service's role has it (see MAY_CHANGE_HISTORY).
 * @returns whether it had the right
 */
export async function makeHistoryAppendOnly(database: Database): Promise<boolean> {
  if (!(await database.run(MAY_CHANGE_HISTORY, 'read'))) return false;
  return database.transaction(async ({ run, send }) => {
    await send(SCHEMA_LOCK);
    if (!(await run(MAY_CHANGE_HISTORY))) return false;
    await send(REVOKE_HISTORY_CHANGES);
    return true;
  }, 'schema');
}

/** Whether a system table exists and the service's role has all privileges that it needs there. */
function mayUse(definition: Resource, catalog: Catalog): boolean {
  const found = catalog.get(tableOf(definition));
  return found !== undefined && systemPrivileges(definition).every((one) => found.privileges.includes(one));
}

/** The columns of the history that the database lacks, because an earlier version created the table. */
export function missingHistoryColumns(catalog: Catalog): string[] {
  const found = catalog.get(tableOf(HISTORY));
  return found ? ADDED_COLUMNS.filter((name) => !found.columns.some(({ field }) => field === name)) : [];
}

/** A system table as the database has it. */
function asStored(definition: Resource, catalog: Catalog): Resource {
  if (definition !== HISTORY) return definition;
  const missing = missingHistoryColumns(catalog);
  const columns = Object.entries(definition.columns).filter(([name]) => !missing.includes(name));
  return { ...definition, columns: Object.fromEntries(columns) };
}

/** The registry as the database can serve it, and every difference between the two. */
export interface SchemaComparison {
  readonly schema: Schema;
  readonly views: Views;
  /** The registry's resources, and the system tables that the service can use. */
  readonly definitions: readonly Resource[];
  readonly faults: readonly Fault[];
}

export function compareSchema(
  resources: readonly Resource[],
  catalog: Catalog,
  settings: Settings & AccessSettings,
): SchemaComparison {
  // A service without logins has no system tables. Tables with these names then belong to another application.
  const hasUsers = hasLogins(resources, settings);
  const needed = hasUsers ? SYSTEM_TABLES : [];
  const present = needed.filter((definition) => mayUse(definition, catalog));
  const usable = present.map((definition) => asStored(definition, catalog));
  const definitions = [...resources, ...usable];
  const models = buildModels(definitions, catalog);
  const views = createViews(resources, models, settings);
  const served = views(ADMIN);
  const privileges = new Map<string, readonly Privilege[]>([
    ...[...served.values()].map((resource) => [resource.name, apiPrivileges(resource)] as const),
    ...usable.map((definition) => [definition.model, systemPrivileges(definition)] as const),
  ]);
  const missing = needed.filter((definition) => !present.includes(definition)).map(tableOf);
  const addable = resources.filter(
    (resource) =>
      hasUsers && mayAdminsAdd(resource, served.get(resource.model), catalog.get(tableOf(resource))),
  );
  const faults = [
    ...differences(definitions, catalog, privileges, new Set(addable.map(({ model }) => model))),
    ...otherWaysToUsers(resources, catalog, settings),
  ];
  return { schema: { catalog, models, missing }, views, definitions, faults };
}

/**
 * Faults for resources through which clients could change users without the checks that protect admins: those whose writes change
 * a table that holds users. These are views of the users' table, its partitions, tables of which it is a partition, and if the
 * users are a view, the tables behind it. Further resources on the same table or view only read it.
 */
function otherWaysToUsers(
  resources: readonly Resource[],
  catalog: Catalog,
  { userModel }: Settings,
): Fault[] {
  const users = resources.find(({ model }) => model === userModel);
  const stored = users && catalog.get(tableOf(users));
  if (!stored) return [];
  const behind = new Set([stored.oid, ...stored.written]);
  return resources.flatMap((resource): Fault[] => {
    const { model, methods, admin } = resource;
    const found = catalog.get(tableOf(resource));
    if (!found || found.oid === stored.oid) return [];
    if (![found.oid, ...found.written].some((oid) => behind.has(oid))) return [];
    const reason = `a write would change users without the checks of the model ${userModel}:`;
    const refused = (methods ?? (isTable(found) ? METHODS : [])).filter((method) => method !== 'GET');
    const actions =
      admin?.hidden === true ? [] : allowedActions(resource, { isTable: isTable(found), unfilled: [] });
    const remedy = methods ? `remove ${refused.join(', ')}` : "set it to ['GET']";
    return [
      ...(refused.length > 0 ? [{ model, key: 'methods', text: `${reason} ${remedy}` }] : []),
      ...(isTable(found) && actions.length > 0
        ? [{ model, key: 'admin.allow', text: `${reason} set it to []` }]
        : []),
    ];
  });
}

const HOW_TO_CREATE =
  'A start of the service with SCHEMA=apply, the default, creates missing tables. With DATABASE_URL, `npx vitrine schema --diff` prints their SQL.';

const HOW_TO_ALTER =
  'Change the registry, or the database: with DATABASE_URL, `npx vitrine schema --diff` prints the SQL for it.';

/** The error for differences between the database and the registry. */
export function misfit(faults: readonly Fault[]): StartError {
  const { message, faults: texts } = startError('The database does not fit the registry', faults);
  // The key is empty only for a missing table.
  const hints = [
    ...(faults.some(({ key }) => key === '') ? [HOW_TO_CREATE] : []),
    ...(faults.some(({ alter }) => alter !== undefined) ? [HOW_TO_ALTER] : []),
  ];
  return new StartError([message, ...hints].join('\n'), texts);
}

/**
 * Compares the registry with the database's catalog.
 * @throws StartError that lists every difference
 */
export function requireSchema(
  resources: readonly Resource[],
  catalog: Catalog,
  settings: Settings & AccessSettings,
): Schema {
  const { schema, faults } = compareSchema(resources, catalog, settings);
  if (faults.length > 0) throw misfit(faults);
  return schema;
}
