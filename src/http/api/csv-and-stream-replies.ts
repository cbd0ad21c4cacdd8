// Responses for the formats of a collection other than JSON and HTML.
import { csvHead, type RecordPage } from '../../resources/records/api-listing.ts';
import type { ResourceView } from '../../resources/access/resource-view.ts';
import { MEDIA_TYPES } from './negotiation.ts';
import { joinBody, type Reply } from '../message/message.ts';
import { linkHeader, pageLinks } from './page-links.ts';

const CSV_TYPE = `${MEDIA_TYPES.csv}; charset=utf-8; header=present`;

/** A page as CSV. CSV has no place for `meta`, so a `Link` header names the next and previous pages. */
export function csvReply(
  resource: ResourceView,
  page: RecordPage,
  extra: Readonly<Record<string, string>>,
): Reply {
  return {
    status: 200,
    headers: {
      'Content-Type': CSV_TYPE,
      ...linkHeader(pageLinks(resource, page)),
      ...extra,
    },
    body: joinBody([Buffer.from(csvHead(resource)), ...page.objects]),
  };
}

/** All records as newline-delimited JSON or CSV, sent while they are read from the database. */
export const streamReply = (format: 'ndjson' | 'csv', lines: AsyncIterable<Buffer>): Reply => ({
  status: 200,
  headers:
    format === 'csv'
      ? { 'Content-Type': CSV_TYPE, 'Preference-Applied': 'paging=none' }
      : { 'Content-Type': MEDIA_TYPES.ndjson },
  body: lines,
});
