import type { Settings } from '../../config.ts';
import { text, type Database } from '../../db/connection/database.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import { databaseInfoStatement, type DatabaseInfo } from '../../db/schema/relations.ts';
import { serveForAdmin, type AdminResources } from '../../resources/serve/admin-resource.ts';
import { accessMatrix, type ResourceAccess } from './access-matrix.ts';
import { HISTORY } from '../../resources/definition/system-tables.ts';
import type { Resource } from '../../resources/definition/resource.ts';
import { compareSchema, readCatalog } from '../../resources/serve/schema-setup.ts';
import { hasLogins } from '../../resources/serve/served-resource.ts';
import { warningsOf, type Warning } from './risk-warnings.ts';

/** What is wrong, and where: with it the service does not start. */
export interface Fault {
  readonly kind: 'settings' | 'registry' | 'database';
  readonly text: string;
}

/** What `vitrine check` has to say. */
export interface RegistryReport {
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
): Promise<RegistryReport> {
  const catalog = await readCatalog(database, resources);
  const { schema, served, definitions, faults } = compareSchema(resources, catalog, settings);
  const [row] = await database.run(databaseInfoStatement(definitions.map(tableOf)), 'read');
  const surroundings = JSON.parse(text(row?.[0]) ?? '{}') as DatabaseInfo;
  const hasAdminArea = hasLogins(resources, settings) && schema.missing.length === 0;
  const people: AdminResources = hasAdminArea
    ? serveForAdmin([...resources, HISTORY], schema.models, settings, catalog)
    : new Map();
  const circumstances = { settings, resources, served, people, schema, surroundings, isEmbedded };
  return {
    errors: faults.map((fault) => ({ kind: 'database', text: fault })),
    warnings: warningsOf(circumstances),
    matrix: accessMatrix(served, people),
  };
}
