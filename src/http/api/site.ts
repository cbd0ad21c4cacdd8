import type { ServedResources } from '../../resources/serve/served-resource.ts';
import type { Api } from './api.ts';
import type { Authentication } from '../auth/authentication.ts';
import type { Area } from '../message/message.ts';
import type { ApiPages } from './api-pages.ts';

/** What there is once the database has been read. */
export interface Site {
  readonly resources: ServedResources;
  readonly api: Api;
  /** The API as pages for people. */
  readonly pages: ApiPages;
  /** Undefined for a service without users. */
  readonly authentication: Authentication | undefined;
  /** What stands under `/admin/`; undefined for a service without users. */
  readonly admin: Area | undefined;
  /** Whether the database answers. */
  readonly isReady: () => Promise<boolean>;
}
