// Loads parts of a page without which the page is still of use.
import { isClientGone } from '../../db/lanes/requester.ts';
import { Problem } from '../../errors.ts';
import { withTimeout } from '../web/panel-data.ts';
import type { AdminContext } from '../web/admin-context.ts';

/** Timeout for each optional part of a page (milliseconds). The page is sent without parts that take longer. */
export const PART_TIMEOUT = 3_000;

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
