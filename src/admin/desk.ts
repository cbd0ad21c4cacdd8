import type { Settings } from '../config.ts';
import type { Database } from '../db/connection.ts';
import type { Authentication } from '../http/authentication.ts';
import type { Logger } from '../http/logger.ts';
import type { AdminResource, AdminResources } from '../resources/admin.ts';
import type { Browsing } from '../resources/browse.ts';
import type { Bulk } from '../resources/bulk.ts';
import type { Operations } from '../resources/operations.ts';
import type { Panels } from '../resources/panel.ts';
import type { Passwords } from '../resources/passwords.ts';
import type { Sessions } from '../resources/sessions.ts';

/** What the pages of the admin area work with. */
export interface Desk {
  readonly settings: Settings;
  readonly resources: AdminResources;
  /** The API's own operations, by the rules of the admin area. */
  readonly operations: Operations;
  readonly browsing: Browsing;
  readonly bulk: Bulk;
  readonly authentication: Authentication;
  readonly passwords: Passwords;
  readonly sessions: Sessions;
  /** The log of changes, as a resource like any other. */
  readonly history: AdminResource;
  /** What the resource file adds to the start page. */
  readonly panels: Panels;
  /** For what is no operation of its own: transactions and cursors. */
  readonly database: Database;
  readonly logger: Logger;
}
