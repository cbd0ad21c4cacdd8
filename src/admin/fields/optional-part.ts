// Loads parts of a page without which the page is still of use.
import { isClientGone } from '../../db/lanes/requester.ts';
import { Problem } from '../../errors.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { withTimeout } from '../web/panel-data.ts';
import type { AdminContext } from '../web/admin-context.ts';

/** Timeout for each optional part of a page (milliseconds). The page is sent without parts that take longer. */
const PART_TIMEOUT = 3_000;

/**
 * Waits for a part of a page. If it fails, logs the reason and returns undefined.
 * @throws Problem 400 for an invalid query, which is no failure of the service; ClientGone
 */
export async function loadOptional<T>(
  { logger }: AdminContext,
  what: string,
  work: Promise<T>,
  timeout = PART_TIMEOUT,
): Promise<T | undefined> {
  try {
    return await withTimeout(timeout, work);
  } catch (error) {
    if (isClientGone(error) || (error instanceof Problem && error.errors)) throw error;
    logger.warn({ message: `a page omits ${what}: ${(error as Error).message}` });
    return undefined;
  }
}

/** How many parts are loaded at once: more would wait for one another, and too many are refused. */
const AT_ONCE = 4;

/**
 * Loads a part of a page for each resource, without those that are not loaded in time. All of them together get the time of one.
 * @param what such a part is, for the log
 */
export async function loadForEach<T>(
  context: AdminContext,
  what: string,
  resources: readonly AdminView[],
  load: (resource: AdminView) => Promise<T>,
): Promise<ReadonlyMap<AdminView, T>> {
  const loaded = new Map<AdminView, T>();
  const waiting = resources.values();
  const omitted: string[] = [];
  const until = performance.now() + PART_TIMEOUT;
  const loadNext = async (): Promise<void> => {
    for (const resource of waiting) {
      const left = Math.ceil(until - performance.now());
      if (left <= 0) {
        omitted.push(resource.name);
        continue;
      }
      const found = await loadOptional(context, `the ${what} of ${resource.name}`, load(resource), left);
      if (found) loaded.set(resource, found);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, loadNext));
  if (omitted.length > 0)
    context.logger.warn({
      message: `a page omits the ${what}s of ${omitted.join(', ')}: those of the models before took ${PART_TIMEOUT} ms`,
    });
  return loaded;
}
