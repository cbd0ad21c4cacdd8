import type { RecordPage } from '../../resources/records/listing.ts';
import type { ServedResource } from '../../resources/serve/served-resource.ts';
import { MEDIA_TYPES } from './negotiation.ts';
import type { Reply } from '../message/message.ts';
import { linkHeader, pageLinks } from './page-links.ts';

/** A page as CSV. Rows have no place for what JSON says of the page, so its neighbours stand in a header. */
export function csvReply(
  resource: ServedResource,
  page: RecordPage,
  extra: Readonly<Record<string, string>>,
): Reply {
  const names = resource.output.map(({ key }) => key).join(); // names of the registry need no quotes
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

/** Records as lines of JSON, sent as they are read. */
export const streamReply = (lines: AsyncIterable<Buffer>): Reply => ({
  status: 200,
  headers: { 'Content-Type': MEDIA_TYPES.ndjson },
  body: lines,
});
