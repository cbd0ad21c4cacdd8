import type { Settings } from '../../config.ts';
import { buildModels } from '../../db/schema/build-models.ts';
import { catalogStatement, parseCatalog, type Catalog } from '../../db/schema/catalog.ts';
import { text, type Database } from '../../db/connection/database.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import type { Model } from '../../db/schema/model.ts';
import { differences, type Privilege } from '../../db/schema/schema-differences.ts';
import { missingSchema } from '../../db/schema/missing-schema.ts';
import { isDatabaseError } from '../../db/connection/database-errors.ts';
import { StartError, startError } from '../../errors.ts';
import { SYSTEM_TABLES } from '../definition/system-tables.ts';
import { apiPrivileges, APPEND_ONLY, MAY_GIVE_UP, systemPrivileges } from './privileges.ts';
import type { Resource } from '../definition/resource.ts';
import { hasLogins, serveResources, type ServedResources } from './served-resource.ts';

/** What the database holds, and the models of the registry and of the service itself as it has them. */
export interface Schema {
  readonly catalog: Catalog;
  readonly models: ReadonlyMap<string, Model>;
  /** The service's own tables that are not there, or that its role may not use. */
  readonly missing: readonly string[];
}

const tablesOf = (definitions: readonly Resource[]): string[] => definitions.map(tableOf);

/** @throws StartError where the database does not give away what it holds as it is */
export async function requireFidelity(database: Database): Promise<void> {
  const query = "select getdatabaseencoding(), current_setting('extra_float_digits')::int < 1";
  const [row] = await database.run({ text: query, values: [] }, 'read');
  const [encoding, isRounded] = (row ?? []).map(text);
  if (encoding === 'SQL_ASCII')
    throw new StartError(
      'The database has the encoding SQL_ASCII, whose texts may be any bytes, and cannot be served as UTF-8. Make one with the encoding UTF8.',
    );
  if (isRounded === 't')
    throw new StartError(
      'The database has the setting extra_float_digits below 1, which cuts digits off floats. Reset it for the database and the role.',
    );
}

/** @throws StartError for a database that cannot be served */
export async function readCatalog(database: Database, resources: readonly Resource[]): Promise<Catalog> {
  await requireFidelity(database);
  const [row] = await database.run(catalogStatement(tablesOf([...resources, ...SYSTEM_TABLES])), 'read');
  return parseCatalog(text(row?.[0]) ?? '[]');
}

/** Processes that start together change the schema one after the other. */
const TAKE_TURNS = "select pg_advisory_xact_lock(hashtext('vitrine schema'))";

/**
 * From then on it does not wait for a table that somebody reads: whoever comes after us would have to wait behind us. Less than
 * the five seconds after which those give up.
 */
const LET_THROUGH = "set local lock_timeout = '3s'";

/** A statement that would make what is missing has failed. */
class NotApplied extends StartError {}

/** Somebody else holds a lock on a table that is to be changed: another try may do. */
export class SchemaLocked extends NotApplied {}

const LOCK_NOT_AVAILABLE = '55P03';

/** Insufficient privilege. */
const NOT_ALLOWED = '42501';

/** A table of this name is there already: it was not a moment ago, so that it is one of those that are being made. */
const SAME_TABLE = '42P07';

function notApplied(error: unknown, statement: string): StartError {
  if (isDatabaseError(error) && error.code === LOCK_NOT_AVAILABLE)
    return new SchemaLocked(
      `The schema cannot be applied, since others use the table and hold a lock on it:\n  ${statement}`,
    );
  const isSame = isDatabaseError(error) && error.code === SAME_TABLE;
  const reason = isSame ? 'two resources name the same table' : (error as Error).message;
  return new NotApplied(`The schema cannot be applied: ${reason}\n  ${statement}`);
}

/**
 * Creates what is missing, all of it or, where the database would not fit the registry all the same, nothing. Processes that
 * start together take turns, so each thing is created once.
 * @param definitions those of the registry, and of the service's own tables those that it needs
 * @returns the statements that were run
 * @throws StartError; SchemaLocked where another try may do
 */
export async function applySchema(
  database: Database,
  definitions: readonly Resource[],
  settings: Settings,
): Promise<readonly string[]> {
  try {
    return await applyMissing(database, definitions, settings);
  } catch (error) {
    if (!(error instanceof NotApplied) || error instanceof SchemaLocked) throw error;
    // What failed may well have failed for one of the differences, and all of them are told at once.
    const theirs = definitions.filter((definition) => !SYSTEM_TABLES.includes(definition));
    const others = await checkSchema(database, theirs, settings).then(
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
): Promise<readonly string[]> {
  return database.transaction(async (run) => {
    await run(TAKE_TURNS);
    await run(LET_THROUGH);
    const { text: query, values } = catalogStatement(tablesOf([...definitions, ...SYSTEM_TABLES]));
    const read = async (): Promise<Catalog> => parseCatalog(text((await run(query, values))[0]?.[0]) ?? '[]');
    const catalog = await read();
    const theirs = definitions.filter((definition) => !SYSTEM_TABLES.includes(definition));
    const done: string[] = [];
    const apply = async (statement: string): Promise<void> => {
      try {
        await run(statement);
      } catch (error) {
        if (isDatabaseError(error) && error.code === NOT_ALLOWED) throw error;
        throw notApplied(error, statement);
      }
      done.push(statement);
    };
    for (const statement of missingSchema(theirs, catalog)) {
      await apply(statement).catch((error: unknown) => {
        throw error instanceof StartError ? error : notApplied(error, statement);
      });
    }
    // A role that may not create tables can still serve those that are there; the comparison says what it lacks.
    await run('savepoint own');
    const before = done.length;
    try {
      const own = missingSchema(
        SYSTEM_TABLES.filter((definition) => definitions.includes(definition)),
        catalog,
      );
      for (const statement of own) await apply(statement);
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      await run('rollback to savepoint own');
      done.length = before;
    }
    compare(theirs, await read(), settings);
    return done;
  }, 'schema');
}

/**
 * Gives up the right to change the history where the service's role still has it, or has it again (see MAY_GIVE_UP).
 * @returns the statement that was run, if any
 */
export async function sealHistory(database: Database): Promise<readonly string[]> {
  const [row] = await database.run({ text: MAY_GIVE_UP, values: [] }, 'read');
  if (text(row?.[0]) !== 't') return [];
  return database.transaction(async (run) => {
    await run(TAKE_TURNS);
    const [still] = await run(MAY_GIVE_UP);
    if (text(still?.[0]) !== 't') return [];
    await run(APPEND_ONLY);
    return [APPEND_ONLY];
  }, 'schema');
}

/** Whether one of the service's own tables is there, and open to its role. */
function mayUse(definition: Resource, catalog: Catalog): boolean {
  const found = catalog.get(tableOf(definition));
  return found !== undefined && systemPrivileges(definition).every((one) => found.privileges.includes(one));
}

/** What a database has of a registry, and each way in which it does not fit it. */
export interface SchemaComparison {
  readonly schema: Schema;
  readonly served: ServedResources;
  /** Those of the registry, and of the service's own tables those that it uses. */
  readonly definitions: readonly Resource[];
  readonly faults: readonly string[];
}

export function compareSchema(
  resources: readonly Resource[],
  catalog: Catalog,
  settings: Settings,
): SchemaComparison {
  // Where nobody can log in nothing is written down: tables of these names are somebody else's.
  const needed = hasLogins(resources, settings) ? SYSTEM_TABLES : [];
  const own = needed.filter((definition) => mayUse(definition, catalog));
  const definitions = [...resources, ...own];
  const models = buildModels(definitions, catalog);
  const served = serveResources(resources, models, settings);
  const privileges = new Map<string, readonly Privilege[]>([
    ...[...served.values()].map((resource) => [resource.name, apiPrivileges(resource)] as const),
    ...own.map((definition) => [definition.model, systemPrivileges(definition)] as const),
  ]);
  const missing = needed.filter((definition) => !own.includes(definition)).map(tableOf);
  const faults = differences(definitions, catalog, privileges);
  return { schema: { catalog, models, missing }, served, definitions, faults };
}

/** @throws StartError that lists every difference */
function compare(resources: readonly Resource[], catalog: Catalog, settings: Settings): Schema {
  const { schema, faults } = compareSchema(resources, catalog, settings);
  if (faults.length > 0) throw startError('The database does not fit the registry', faults);
  return schema;
}

/**
 * Compares the registry with the database without changing anything.
 * @throws StartError that lists every difference
 */
export async function checkSchema(
  database: Database,
  resources: readonly Resource[],
  settings: Settings,
): Promise<Schema> {
  return compare(resources, await readCatalog(database, resources), settings);
}
