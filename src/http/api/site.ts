// The type of the service after the database has been read.
import type { Replicas } from '../../db/replicas/replicas.ts';
import type { ResourceViews } from '../../resources/access/resource-view.ts';
import type { Api } from './api.ts';
import type { Authentication } from '../auth/authentication.ts';
import type { Area } from '../message/message.ts';
import type { ApiPages } from './api-pages.ts';

/** The parts of the service that exist once the database has been read. */
export interface Site {
  /** As a caller without credentials sees them. */
  readonly resources: ResourceViews;
  readonly api: Api;
  /** HTML pages of the API. */
  readonly pages: ApiPages;
  /** Undefined if the registry has no user model. */
  readonly authentication: Authentication | undefined;
  /** The admin area, under `/admin/`; undefined if the registry has no user model. */
  readonly admin: Area | undefined;
  /** See `Replicas`. */
  readonly positionAfter: Replicas['positionAfter'];
  /** Whether the database answers. */
  readonly isReady: () => Promise<boolean>;
  /** Whether the database connections are closed. An embedding program's server may run on. */
  readonly isClosed: () => boolean;
}
