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

/** The path of a request without the base path; `''`, which no route has, for a path outside of it. `*` is the whole service. */
export function withoutBasePath(address: string): string {
  if (basePath === '' || address === '*') return address;
  if (address === basePath) return '/';
  return address.startsWith(`${basePath}/`) ? address.slice(basePath.length) : '';
}
