// The path under which the service is mounted (`BASE_PATH`): removed from requests, and added to every URL in responses.
import { StartError } from '../../errors.ts';

let basePath = '';
/** Number of open services in this process. */
let openServices = 0;

/**
 * Sets the base path, which all services of a process share.
 * @returns a function to call when the service is closed
 * @throws StartError if an open service of this process has another base path
 */
export function useBasePath(path: string): () => void {
  if (openServices > 0 && path !== basePath)
    throw new StartError(
      `All services of a process have the same basePath: "${path}" differs from "${basePath}".`,
    );
  basePath = path;
  openServices += 1;
  let isOver = false;
  return () => {
    if (!isOver) openServices -= 1;
    isOver = true;
  };
}

/** A path of the service as responses and links contain it. */
export const withBasePath = (path: string): string => basePath + path;

/** The path of a request without the base path; `''`, which no route has, for a path outside of it. */
export function withoutBasePath(address: string): string {
  if (basePath === '') return address;
  if (address === basePath) return '/';
  return address.startsWith(`${basePath}/`) ? address.slice(basePath.length) : '';
}

/** A record's key as a segment of a URL path. A comma stays as it is where nothing else is encoded, so that `12,34` is legible. */
export function keySegment(id: string): string {
  const legible = encodeURIComponent(id).replaceAll('%2C', ',');
  return legible.includes('%') ? encodeURIComponent(id) : legible;
}

/**
 * The key in a segment of a URL path: the percent-encoded `id`. A key of several columns is itself percent-encoded text, so it is
 * also accepted without a second encoding.
 * @param isComposite whether the key has several columns
 * @returns undefined for invalid percent-encoding
 */
export function keyOfSegment(segment: string, isComposite: boolean): string | undefined {
  if (isComposite && segment.includes(',')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
