// ETags, and the request headers that compare them.

/** The strong ETag of a row's version (RFC 9110, section 8.8.3). */
export const entityTag = (version: string): string => `"${version}"`;

const TAG = /(W\/)?"([^"]*)"/g;

/** The versions that `If-Match` lists, or undefined when any version matches. Weak tags never match. */
export function parseIfMatch(header: string | undefined): readonly string[] | undefined {
  if (header === undefined || header.trim() === '*') return undefined;
  return [...header.matchAll(TAG)].flatMap(([, weak, version]) => (weak ? [] : [version ?? '']));
}

/** Whether `If-None-Match` lists the version, so that the response can be 304. */
export function isNotModified(header: string | undefined, version: string): boolean {
  if (header === undefined) return false;
  return header.trim() === '*' || [...header.matchAll(TAG)].some(([, , known]) => known === version);
}
