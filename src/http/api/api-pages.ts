// The type of the HTML pages of the API. `admin/api-browser` makes them, from which `http` must not import.
import type { RecordPage } from '../../resources/records/api-listing.ts';
import type { ResourceView } from '../../resources/access/resource-view.ts';
import type { ApiRequest, Area, Reply } from '../message/message.ts';

/** HTML pages of the API for browsers. Access is checked before a page is made. */
export interface ApiPages extends Pick<Area, 'problem'> {
  readonly home: () => Reply;
  /** @param json the list of resources */
  readonly index: (request: ApiRequest, json: string) => Reply;
  readonly collection: (request: ApiRequest, resource: ResourceView, page: RecordPage) => Promise<Reply>;
  readonly record: (request: ApiRequest, resource: ResourceView, record: Buffer) => Promise<Reply>;
  /** A static file of the pages. @throws Problem 404 */
  readonly asset: (path: string) => Reply;
  /**
   * Whether a path is that of a file of these pages or of the admin area. Such files are served under overload, and RATE_LIMIT
   * does not count them: they cost little, and a page that was served is unusable without them.
   */
  readonly isAsset: (path: string) => boolean;
}
