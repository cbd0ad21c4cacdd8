/** The entity tag of a row's version. */
export const entityTag = (version: string): string => `"${version}"`;

const TAG = /(W\/)?"([^"]*)"/g;

/** The versions that `If-Match` names (weak tags never match), or undefined when any will do. */
export function parseIfMatch(header: string | undefined): readonly string[] | undefined {
  if (header === undefined || header.trim() === '*') return undefined;
  return [...header.matchAll(TAG)].flatMap(([, weak, version]) => (weak ? [] : [version ?? '']));
}

/** Whether `If-None-Match` names the version, so that 304 will do. */
export function isNotModified(header: string | undefined, version: string): boolean {
  if (header === undefined) return false;
  return header.trim() === '*' || [...header.matchAll(TAG)].some(([, , known]) => known === version);
}
