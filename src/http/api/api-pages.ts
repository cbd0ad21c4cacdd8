// The type of the HTML pages of the API. `admin/api-browser` makes them, from which `http` must not import.
import type { Counting, RecordPage } from '../../resources/records/api-listing.ts';
import type { Caller, ServedResource } from '../../resources/serve/served-resource.ts';
import type { ApiRequest, Area, Reply } from '../message/message.ts';

/** HTML pages of the API for browsers. Access is checked before a page is made. */
export interface ApiPages extends Pick<Area, 'problem'> {
  readonly home: () => Reply;
  readonly index: (request: ApiRequest, caller: Caller | undefined) => Reply;
  /** @param load runs a query in the API's grammar */
  readonly collection: (
    request: ApiRequest,
    resource: ServedResource,
    caller: Caller | undefined,
    load: (
      query: string,
      counting: Counting | undefined,
    ) => Promise<[page: RecordPage, reader: Caller | undefined]>,
  ) => Promise<Reply>;
  /** @param record JSON from `Listing.preview` */
  readonly record: (
    request: ApiRequest,
    resource: ServedResource,
    caller: Caller | undefined,
    record: Buffer,
  ) => Reply;
  /** The query string that returns a record's JSON to a browser, whose `Accept` asks for HTML. */
  readonly jsonQuery: string;
  /** A static file of the pages. @throws Problem 404 */
  readonly asset: (path: string) => Reply;
  /**
   * Whether a path is that of a file of these pages or of the admin area. Such files are served under overload, and RATE_LIMIT
   * does not count them: they cost little, and a page that was served is unusable without them.
   */
  readonly isAsset: (path: string) => boolean;
}
