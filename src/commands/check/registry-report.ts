// The report of `vitrine check`.
import type { Settings } from '../../config.ts';
import type { Fault } from '../../errors.ts';
import type { Database } from '../../db/connection/database.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import { databaseInfoStatement } from '../../db/schema/relations.ts';
import { serveForAdmin, type AdminResources } from '../../resources/serve/admin-resource.ts';
import { accessMatrix, type ResourceAccess } from './access-matrix.ts';
import { HISTORY } from '../../resources/definition/system-tables.ts';
import type { Resource } from '../../resources/definition/resource.ts';
import { compareSchema, readCatalog } from '../../resources/serve/schema-setup.ts';
import { hasLogins } from '../../resources/serve/served-resource.ts';
import { warningsOf, type Warning } from './risk-warnings.ts';

/** What `vitrine check` finds in a valid registry. */
export interface RegistryReport {
  /** The differences to the database, with which the service does not start. */
  readonly faults: readonly Fault[];
  readonly warnings: readonly Warning[];
  readonly matrix: readonly ResourceAccess[];
}

/**
 * Checks a valid registry against its database, and changes nothing.
 * @param isEmbedded the database is the embedded one, which is for trying things out
 */
export async function examine(
  database: Database,
  resources: readonly Resource[],
  settings: Settings,
  isEmbedded: boolean,
): Promise<RegistryReport> {
  const catalog = await readCatalog(database, resources);
  const { schema, served, definitions, faults } = compareSchema(resources, catalog, settings);
  const databaseInfo = await database.run(databaseInfoStatement(definitions.map(tableOf)), 'read');
  const hasAdminArea = hasLogins(resources, settings) && schema.missing.length === 0;
  const adminResources: AdminResources = hasAdminArea
    ? serveForAdmin([...resources, HISTORY], schema.models, settings, catalog)
    : new Map();
  const warnings = warningsOf({
    settings,
    resources,
    served,
    adminResources,
    schema,
    databaseInfo,
    isEmbedded,
  });
  return { faults, warnings, matrix: accessMatrix(served, adminResources) };
}
