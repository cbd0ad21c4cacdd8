// The `Prefer` header (RFC 7240).
import type { IncomingHttpHeaders } from 'node:http';

/** A longer header is ignored: the service looks for several preferences per request, and splits it for each. */
const MAX_LENGTH = 1_024;

/** The value of a preference in lower case; undefined if the request has none. The first of repeated ones counts (section 2). */
export function preference({ prefer }: IncomingHttpHeaders, name: string): string | undefined {
  if (prefer === undefined || prefer.length > MAX_LENGTH) return undefined;
  for (const part of String(prefer).split(/[,;]/)) {
    const [key = '', value = ''] = part.split('=', 2).map((text) => text.trim());
    if (key.toLowerCase() === name) return value.replace(/^"(.*)"$/, '$1').toLowerCase();
  }
  return undefined;
}
