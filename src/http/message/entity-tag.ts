// ETags, and the request headers that compare them.
import type { IncomingHttpHeaders } from 'node:http';
import { Problem } from '../../errors.ts';
import { messageOf } from '../../messages.ts';

/** The strong ETag of a row's version (RFC 9110, section 8.8.3). */
export const entityTag = (version: string): string => `"${version}"`;

const TAG = /(W\/)?"([^"]*)"/g;

/**
 * Maximum characters of a header with versions. The service compares each of them, and many requests may do so in one iteration of
 * the event loop.
 */
const MAX_LENGTH = 2_048;

const tooLong = (name: string): Problem =>
  new Problem(431, messageOf('longHeader', { name, max: MAX_LENGTH }));
const LONG_MATCH = tooLong('If-Match');
const LONG_NONE_MATCH = tooLong('If-None-Match');

/** @throws Problem 431 if `If-Match` or `If-None-Match` is too long */
export function assertTagsFit(headers: IncomingHttpHeaders): void {
  if ((headers['if-match']?.length ?? 0) > MAX_LENGTH) throw LONG_MATCH;
  if ((headers['if-none-match']?.length ?? 0) > MAX_LENGTH) throw LONG_NONE_MATCH;
}

/** The versions that `If-Match` lists, or undefined when any version matches. Weak tags never match. */
export function parseIfMatch(header: string | undefined): readonly string[] | undefined {
  if (header === undefined || header.trim() === '*') return undefined;
  return [...header.matchAll(TAG)].flatMap(([, weak, version]) => (weak ? [] : [version ?? '']));
}

/** Whether `If-None-Match` lists the version: the response to a read is then 304, and to a write 412. */
export function noneMatchLists(header: string | undefined, version: string): boolean {
  if (header === undefined) return false;
  // Most headers do not contain the version at all.
  if (!header.includes(version)) return header.trim() === '*';
  return [...header.matchAll(TAG)].some(([, , known]) => known === version);
}
