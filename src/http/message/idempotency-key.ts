// The `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header).
import type { IncomingHttpHeaders } from 'node:http';
import { Problem } from '../../errors.ts';
import { messageOf } from '../../messages.ts';

const MAX_LENGTH = 255;

/** A string of a structured field (RFC 8941, section 3.3.3). */
const QUOTED = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/;
const PRINTABLE = /^[ -~]+$/;

/** The key of a request, with or without quotes. @throws Problem 400 for one that is empty, too long or not printable ASCII */
export function idempotencyKeyOf(headers: IncomingHttpHeaders): string | undefined {
  const header = headers['idempotency-key'];
  if (header === undefined) return undefined;
  const sent = String(header);
  const key = sent.startsWith('"') ? QUOTED.exec(sent)?.[1]?.replace(/\\(.)/g, '$1') : sent;
  if (key === undefined || key.length > MAX_LENGTH || !PRINTABLE.test(key))
    throw new Problem(400, messageOf('badIdempotencyKey', { max: MAX_LENGTH }));
  return key;
}
