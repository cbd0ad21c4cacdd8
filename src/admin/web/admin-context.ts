// The services that every page of the admin area gets.
import type { Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import type { Authentication } from '../../http/auth/authentication.ts';
import type { Logger } from '../../http/observability/logger.ts';
import type { AdminResource, AdminResources } from '../../resources/serve/admin-resource.ts';
import type { Browsing } from '../../resources/records/browsing.ts';
import type { Bulk } from '../../resources/records/bulk-operations.ts';
import type { Operations } from '../../resources/records/operations.ts';
import type { Panels } from '../../resources/definition/panel.ts';
import type { Passwords } from '../../resources/passwords/password-hashing.ts';
import type { Sessions } from '../../resources/users/sessions.ts';
import type { Parking } from './parked-forms.ts';

/** The services for one request. */
export interface AdminContext {
  readonly settings: Settings;
  readonly resources: AdminResources;
  /** The operations of the API, with the access rules of the admin area. */
  readonly operations: Operations;
  /** The same operations on another connection, such as a transaction. */
  readonly operationsOn: (database: Pick<Database, 'run'>) => Operations;
  readonly browsing: Browsing;
  readonly bulk: Bulk;
  readonly authentication: Authentication;
  readonly passwords: Passwords;
  readonly sessions: Sessions;
  readonly parking: Parking;
  /** The history of all changes, as a resource. */
  readonly history: AdminResource;
  /** The history of one resource. Its queries use the index on model and record. */
  readonly historyOf: (resource: AdminResource) => AdminResource;
  /** The panels that the registry adds to the start page. */
  readonly panels: Panels;
  /** For transactions and cursors, which the operations do not cover. */
  readonly database: Database;
  readonly logger: Logger;
}
