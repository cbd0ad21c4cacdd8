import type { Settings } from '../config.ts';
import { buildModels } from '../db/build-models.ts';
import { text, type Database } from '../db/connection.ts';
import { tableOf } from '../db/definition.ts';
import { surroundingsStatement, type Surroundings } from '../db/relations.ts';
import { differences } from '../db/differences.ts';
import { serveForAdmin, type AdminResources } from './admin.ts';
import { accessMatrix, type ResourceAccess } from './matrix.ts';
import { HISTORY, OWN } from './own.ts';
import { apiPrivileges, ownPrivileges } from './privileges.ts';
import type { Resource } from './resource.ts';
import { readCatalog } from './schema.ts';
import { hasLogins, serveResources } from './served.ts';
import { warningsOf, type Warning } from './warnings.ts';

/** What is wrong, and where: with it the service does not start. */
export interface Fault {
  readonly kind: 'settings' | 'registry' | 'database';
  readonly text: string;
}

/** What `vitrine check` has to say. */
export interface Report {
  readonly errors: readonly Fault[];
  readonly warnings: readonly Warning[];
  readonly matrix: readonly ResourceAccess[];
}

/**
 * Looks at a registry that has no faults and at its database, and changes nothing.
 * @param isEmbedded the database was made by this program, for trying things out
 */
export async function examine(
  database: Database,
  resources: readonly Resource[],
  settings: Settings,
  isEmbedded: boolean,
): Promise<Report> {
  const catalog = await readCatalog(database, resources);
  const mayUse = (own: Resource): boolean => {
    const found = catalog.get(tableOf(own));
    return found !== undefined && ownPrivileges(own).every((one) => found.privileges.includes(one));
  };
  const own = OWN.filter(mayUse);
  const missing = OWN.filter((one) => !own.includes(one)).map(tableOf);
  const definitions = [...resources, ...own];
  const models = buildModels(definitions, catalog);
  const served = serveResources(resources, models, settings);
  const privileges = new Map([
    ...[...served.values()].map((one) => [one.name, apiPrivileges(one)] as const),
    ...own.map((one) => [one.model, ownPrivileges(one)] as const),
  ]);
  const faults = differences(definitions, catalog, privileges);
  const [row] = await database.run(surroundingsStatement(definitions.map(tableOf)), 'work');
  const surroundings = JSON.parse(text(row?.[0]) ?? '{}') as Surroundings;
  const hasAdminArea = hasLogins(resources, settings) && missing.length === 0;
  const people: AdminResources = hasAdminArea
    ? serveForAdmin([...resources, HISTORY], models, settings, catalog)
    : new Map();
  const schema = { catalog, models, missing };
  const circumstances = { settings, resources, served, people, schema, surroundings, isEmbedded };
  return {
    errors: faults.map((fault) => ({ kind: 'database', text: fault })),
    warnings: warningsOf(circumstances),
    matrix: accessMatrix(served, people),
  };
}
