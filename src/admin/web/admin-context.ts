// What every page of the admin area works with: the services, the request and its admin.
import type { Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import type { Lane } from '../../db/lanes/lane.ts';
import type { Authentication } from '../../http/auth/authentication.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import type { Logger } from '../../http/observability/logger.ts';
import type { AdminView, AdminViews } from '../../resources/access/admin-view.ts';
import type { AccessSettings } from '../../resources/access/rights.ts';
import type { Browsing } from '../../resources/records/admin-listing.ts';
import type { Bulk } from '../../resources/records/bulk-operations.ts';
import type { Operations } from '../../resources/records/operations.ts';
import type { Panels } from './panel-data.ts';
import type { Access, Caller } from '../../resources/access/access.ts';
import type { ResourceView, Views } from '../../resources/access/resource-view.ts';
import type { EventFacts, EventName, RecordEvent } from '../../resources/users/events.ts';
import type { PasswordLinks } from '../../resources/users/password-links.ts';
import type { SavedViews } from '../../resources/users/saved-views.ts';
import type { Sessions } from '../../resources/users/sessions.ts';
import type { Tokens } from '../../resources/users/tokens.ts';
import type { Users } from '../../resources/users/users.ts';
import type { SecondFactors } from '../../resources/users/second-factor.ts';
import type { PendingLogin, SignedTexts } from './signed-text.ts';
import type { UnsavedForms } from './unsaved-form.ts';

/** The services for one request. */
export interface Services {
  readonly settings: Settings & Pick<AccessSettings, 'roles'>;
  /** What the caller may see. */
  readonly resources: AdminViews;
  /** The users as admins see them, in the API if the admin area does not show them: for everyone's own account. */
  readonly users: ResourceView;
  /** The operations of the API, with the access rules of the admin area. */
  readonly operations: Operations;
  /** Runs operations and other statements in one transaction. */
  readonly inTransaction: <T>(
    work: (operations: Operations, transaction: Transaction) => Promise<T>,
  ) => Promise<T>;
  readonly browsing: Browsing;
  readonly bulk: Bulk;
  readonly authentication: Authentication;
  readonly sessions: Sessions;
  /** Undefined if the database has no table for them. */
  readonly tokens: Tokens | undefined;
  /** Undefined if the database has no table for them. */
  readonly savedViews: SavedViews | undefined;
  /** Undefined if the database has no secret for them. */
  readonly passwordLinks: PasswordLinks | undefined;
  /** The users as authentication finds them. */
  readonly accounts: Users;
  /** What an access sees in the API. */
  readonly views: Views;
  /** What an access sees in the admin area. */
  readonly resourcesOf: (access: Access) => AdminViews;
  /** The roles whose users may enter, besides admins. */
  readonly admitted: readonly string[];
  readonly unsavedForms: UnsavedForms;
  /** Undefined if the database has no table for them. */
  readonly secondFactors: SecondFactors | undefined;
  readonly pendingLogins: SignedTexts<PendingLogin>;
  /** The history of all changes, as a resource. */
  readonly history: AdminView;
  /** The history of one resource. Its queries use the index on model and record. */
  readonly historyOf: (resource: AdminView) => AdminView;
  /** The panels that the registry adds to the start page. */
  readonly panels: Panels;
  /** Limits how many files are imported at once. */
  readonly imports: Lane;
  /** For cursors, which the operations do not cover. */
  readonly database: Database;
  readonly logger: Logger;
  readonly recordEvent: RecordEvent;
}

/** @param access of the caller */
export type ServicesFor = (request: ApiRequest, access: Access) => Services;

/** What a request without a session needs: to log in, and to show a form again after that. */
export type LoginServices = Pick<
  Services,
  | 'settings'
  | 'resources'
  | 'authentication'
  | 'sessions'
  | 'admitted'
  | 'unsavedForms'
  | 'secondFactors'
  | 'pendingLogins'
  | 'recordEvent'
  | 'tokens'
>;

/** A message about the last action, shown once on the next page. */
export interface Flash {
  readonly kind: 'done' | 'failed';
  readonly text: string;
  /** A link to the record in question. */
  readonly href?: string | undefined;
  /** A link to the page that undoes what was done. */
  readonly undo?: string | undefined;
}

/** A request of an admin who is logged in, with the services that answer it. */
export interface AdminContext extends Services {
  readonly request: ApiRequest;
  readonly caller: Caller;
  /** The session's token. */
  readonly token: string;
  /** The token that every form carries; see `hasValidCsrf`. */
  readonly csrf: string;
  readonly flash: Flash | undefined;
  /** Records an event that the caller causes with this request; see `RecordEvent`. */
  readonly report: (
    name: EventName,
    detail?: EventFacts['detail'],
    transaction?: Transaction,
  ) => Promise<void>;
}

/** A request for a page of one resource. */
export interface ResourceContext extends AdminContext {
  readonly resource: AdminView;
}

/** A request for a page of one record. */
export interface RecordContext extends ResourceContext {
  /** The key in the address, decoded. */
  readonly id: string;
}
