// Checks the addresses of DATABASE_READ_URL as a start does.
import { randomBytes } from 'node:crypto';
import type { Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { openReplicas } from '../../db/replicas/replicas.ts';
import { StartError } from '../../errors.ts';

/**
 * @param primary the database of DATABASE_URL
 * @returns the error that would stop a start. A server that cannot be reached does not stop it.
 */
export async function checkReadAddresses(
  primary: Database,
  { databaseReadUrl, maxLag, slowTimeout }: Settings,
): Promise<StartError | undefined> {
  try {
    const replicas = await openReplicas({
      urls: databaseReadUrl,
      maxLag,
      slowTimeout: slowTimeout * 1000,
      primary,
      secret: randomBytes(32), // there are no writes whose positions it would sign
      report: () => undefined,
    });
    await replicas.close();
    return undefined;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    const faults = error.faults.map((fault) => `DATABASE_READ_URL: ${fault}`);
    return new StartError(error.message, faults);
  }
}
