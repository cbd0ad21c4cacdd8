// The path under which the service is mounted (`BASE_PATH`): removed from requests, and added to every address in answers.
import { StartError } from '../../errors.ts';

let basePath = '';
/** The services of this process that are not closed. */
let services = 0;

/**
 * Sets the base path of this process, which has only one, like the other variables of its environment.
 * @returns ends the use; call it when the service is closed
 * @throws StartError if an open service of this process has another base path
 */
export function useBasePath(path: string): () => void {
  if (services > 0 && path !== basePath)
    throw new StartError(
      `All services of a process have the same basePath: "${path}" differs from "${basePath}".`,
    );
  basePath = path;
  services += 1;
  let isOver = false;
  return () => {
    if (!isOver) services -= 1;
    isOver = true;
  };
}

/** The address of a path of the service, for an answer. */
export const addressOf = (path: string): string => basePath + path;

/** The path of an address without the base path; `''`, which no route has, for addresses outside it. */
export function pathOf(address: string): string {
  if (basePath === '') return address;
  if (address === basePath) return '/';
  return address.startsWith(`${basePath}/`) ? address.slice(basePath.length) : '';
}
