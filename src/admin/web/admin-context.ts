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

/** What the pages of the admin area work with, for one request. */
export interface AdminContext {
  readonly settings: Settings;
  readonly resources: AdminResources;
  /** The API's own operations, by the rules of the admin area. */
  readonly operations: Operations;
  /** The same operations in a transaction. */
  readonly operationsOn: (database: Pick<Database, 'run'>) => Operations;
  readonly browsing: Browsing;
  readonly bulk: Bulk;
  readonly authentication: Authentication;
  readonly passwords: Passwords;
  readonly sessions: Sessions;
  readonly parking: Parking;
  /** The log of changes, as a resource like any other. */
  readonly history: AdminResource;
  /** The log of one resource's changes alone, in which an index finds those of a record. */
  readonly historyOf: (resource: AdminResource) => AdminResource;
  /** What the resource file adds to the start page. */
  readonly panels: Panels;
  /** For what is no operation of its own: transactions and cursors. */
  readonly database: Database;
  readonly logger: Logger;
}
