// What clients ask for in the headers `Prefer` (RFC 7240) and `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).
import type { IncomingHttpHeaders } from 'node:http';
import { Problem } from '../../errors.ts';
import { messageOf } from '../../messages.ts';

/** A longer header is ignored: the service looks for several preferences per request, and splits it for each. */
const MAX_PREFER = 1_024;

/** The value of a preference in lower case; undefined if the request has none. The first of repeated ones counts (section 2). */
export function preference({ prefer }: IncomingHttpHeaders, name: string): string | undefined {
  if (prefer === undefined || prefer.length > MAX_PREFER) return undefined;
  for (const part of String(prefer).split(/[,;]/)) {
    const [key = '', value = ''] = part.split('=', 2).map((text) => text.trim());
    if (key.toLowerCase() === name) return value.replace(/^"(.*)"$/, '$1').toLowerCase();
  }
  return undefined;
}

const MAX_KEY = 255;

/** A string of a structured field (RFC 8941, section 3.3.3). */
const QUOTED = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/;
const PRINTABLE = /^[ -~]+$/;

/** The key of a request, with or without quotes. @throws Problem 400 for one that is empty, too long or not printable ASCII */
export function idempotencyKeyOf(headers: IncomingHttpHeaders): string | undefined {
  const header = headers['idempotency-key'];
  if (header === undefined) return undefined;
  const sent = String(header);
  const key = sent.startsWith('"') ? QUOTED.exec(sent)?.[1]?.replace(/\\(.)/g, '$1') : sent;
  if (key === undefined || key.length > MAX_KEY || !PRINTABLE.test(key))
    throw new Problem(400, messageOf('badIdempotencyKey', { max: MAX_KEY }));
  return key;
}
