import type { RecordPage } from '../../resources/records/listing.ts';
import type { Caller, ServedResource } from '../../resources/serve/served-resource.ts';
import type { ApiRequest, Area, Reply } from '../message/message.ts';

/**
 * The API as pages that people read in a browser. Who may see what has been decided before; the pages show what they are given.
 * They stand on a floor above this one.
 */
export interface ApiPages extends Pick<Area, 'problem'> {
  readonly index: (request: ApiRequest, caller: Caller | undefined) => Reply;
  /** @param load gives the page of a query in the API's grammar */
  readonly collection: (
    request: ApiRequest,
    resource: ServedResource,
    caller: Caller | undefined,
    load: (query: string, counted: boolean) => Promise<RecordPage>,
  ) => Promise<Reply>;
  /** @param record as a listing's `preview` gives it */
  readonly record: (
    request: ApiRequest,
    resource: ServedResource,
    caller: Caller | undefined,
    record: Buffer,
  ) => Reply;
  /** The query by which a page of a record leads to its JSON, although the browser asks for HTML. */
  readonly jsonQuery: string;
  /** A file that the pages need. @throws Problem 404 */
  readonly asset: (path: string) => Reply;
}
