// Responses for the formats of a collection other than JSON and HTML.
import type { RecordPage } from '../../resources/records/listing.ts';
import type { ServedResource } from '../../resources/serve/served-resource.ts';
import { MEDIA_TYPES } from './negotiation.ts';
import type { Reply } from '../message/message.ts';
import { linkHeader, pageLinks } from './page-links.ts';

/** A page as CSV. CSV has no place for `meta`, so a `Link` header names the next and previous pages. */
export function csvReply(
  resource: ServedResource,
  page: RecordPage,
  extra: Readonly<Record<string, string>>,
): Reply {
  const names = resource.output.map(({ key }) => key).join(); // column names never need CSV quotes
  return {
    status: 200,
    headers: {
      'Content-Type': `${MEDIA_TYPES.csv}; charset=utf-8; header=present`,
      ...linkHeader(pageLinks(resource, page)),
      ...extra,
    },
    body: Buffer.concat([Buffer.from(`${names}\r\n`), page.objects]),
  };
}

/** Records as newline-delimited JSON, sent while they are read from the database. */
export const streamReply = (lines: AsyncIterable<Buffer>): Reply => ({
  status: 200,
  headers: { 'Content-Type': MEDIA_TYPES.ndjson },
  body: lines,
});
