// The path under which the service is mounted (`BASE_PATH`): removed from requests, and added to every address in answers.
import { StartError } from '../../errors.ts';

let basePath = '';
/** The services of this process that are not closed. */
let services = 0;

/**
 * Sets the base path of this process, which has only one, like the other variables of its environment.
 * @returns a function that stops this, to be called when the service is closed
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

/** A record's key as a segment of an address. A comma stays as it is where nothing else is encoded, so that `12,34` is legible. */
export function keySegment(id: string): string {
  const legible = encodeURIComponent(id).replaceAll('%2C', ',');
  return legible.includes('%') ? encodeURIComponent(id) : legible;
}

/**
 * The key that a segment of an address names: the text of `id`, percent-encoded. The text of a key of several columns is
 * percent-encoded already and may also stand as it is.
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
