import type { Settings } from '../config.ts';
import { buildModels } from '../db/build-models.ts';
import { catalogStatement, parseCatalog, type Catalog } from '../db/catalog.ts';
import { text, type Database } from '../db/connection.ts';
import { tableOf } from '../db/definition.ts';
import { identifier } from '../db/fragment.ts';
import type { Model } from '../db/model.ts';
import { differences, missingSchema, type Privilege } from '../db/schema.ts';
import { StartError, startError } from '../errors.ts';
import { HISTORY, OWN } from './own.ts';
import type { Method, Resource } from './resource.ts';
import { serveResources, type ServedResource } from './served.ts';

/** What the database holds, and the models of the registry and of the service itself as it has them. */
export interface Schema {
  readonly catalog: Catalog;
  readonly models: ReadonlyMap<string, Model>;
  /** The service's own tables that are not there, or that its role may not use. */
  readonly missing: readonly string[];
}

const tablesOf = (definitions: readonly Resource[]): string[] => definitions.map(tableOf);

export async function readCatalog(database: Database, resources: readonly Resource[]): Promise<Catalog> {
  const [row] = await database.run(catalogStatement(tablesOf([...resources, ...OWN])), 'work');
  return parseCatalog(text(row?.[0]) ?? '[]');
}

/** What is written down stays: the service's own role gives up the right to change it. A superuser has every right anyway. */
const APPEND_ONLY = `revoke update, delete, truncate on ${identifier(HISTORY.model).text.join('')} from current_user`;

/**
 * Creates what is missing. Processes that start together take turns, so each thing is created once.
 * @param onStatement is told each statement that was run
 */
export async function applySchema(
  database: Database,
  definitions: readonly Resource[],
  onStatement: (statement: string) => void,
): Promise<void> {
  await database.transaction(async (run) => {
    await run("select pg_advisory_xact_lock(hashtext('vitrine schema'))");
    const { text: query, values } = catalogStatement(tablesOf(definitions));
    const [row] = await run(query, values);
    const catalog = parseCatalog(text(row?.[0]) ?? '[]');
    const makesHistory =
      definitions.some(({ model }) => model === HISTORY.model) && !catalog.has(HISTORY.model);
    for (const statement of [
      ...missingSchema(definitions, catalog),
      ...(makesHistory ? [APPEND_ONLY] : []),
    ]) {
      try {
        await run(statement);
      } catch (error) {
        throw new StartError(`The schema cannot be applied: ${(error as Error).message}\n  ${statement}`);
      }
      onStatement(statement);
    }
  }, 'schema');
}

/** What the service does with each table. A record is locked before it is deleted, which PostgreSQL counts as UPDATE. */
const NEEDS: Record<Method, readonly Privilege[]> = {
  GET: ['SELECT'],
  POST: ['SELECT', 'INSERT'],
  PUT: ['SELECT', 'UPDATE'],
  DELETE: ['SELECT', 'UPDATE', 'DELETE'],
};

function privilegesOf({ access, methods }: ServedResource): readonly Privilege[] {
  const used = [...methods].filter((method) => method === 'GET' || access !== 'default');
  return [...new Set(['SELECT' as const, ...used.flatMap((method) => NEEDS[method])])];
}

/** What the service does with its own tables: the history only grows. */
const ownPrivileges = ({ model }: Resource): readonly Privilege[] =>
  model === HISTORY.model ? NEEDS.POST : [...NEEDS.POST, ...NEEDS.DELETE];

/** Whether one of the service's own tables is there, and open to its role. */
function mayUse(definition: Resource, catalog: Catalog): boolean {
  const found = catalog.get(tableOf(definition));
  return found !== undefined && ownPrivileges(definition).every((one) => found.privileges.includes(one));
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
  const catalog = await readCatalog(database, resources);
  const own = OWN.filter((definition) => mayUse(definition, catalog));
  const definitions = [...resources, ...own];
  const models = buildModels(definitions, catalog);
  const served = serveResources(resources, models, settings);
  const privileges = new Map<string, readonly Privilege[]>(
    [...served.values()].map((resource) => [resource.name, privilegesOf(resource)]),
  );
  const faults = differences(definitions, catalog, privileges);
  if (faults.length > 0) throw startError('The database does not fit the registry', faults);
  const missing = OWN.filter((definition) => !own.includes(definition)).map(tableOf);
  return { catalog, models, missing };
}
