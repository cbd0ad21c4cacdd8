// Opens and closes the service for `vitrine serve` and `vitrine user`.
import type { Settings } from '../config.ts';
import type { EmbeddedDatabase } from '../processes.ts';
import { isDatabaseError, reasonOf } from '../db/connection/database-errors.ts';
import { StartError } from '../errors.ts';
import { createLogger, type Logger } from '../http/observability/logger.ts';
import { loadRegistryFile, samplesNotice } from '../resources/load-registry.ts';
import { openEmbedded, printMessage, type Io } from './command.ts';
import { createService, requireRegistry, type Definitions, type Prepared, type Service } from '../service.ts';
import type { WorkerLink } from '../workers/worker-link.ts';

/** A service with its logger and its embedded database, if any. They are opened and closed together. */
export interface RunningService {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly service: Service;
  readonly embedded: EmbeddedDatabase | undefined;
  readonly close: () => Promise<void>;
}

/** Milliseconds. A registry file that takes longer to load may be stuck in a top-level await. */
const SLOW_LOAD = 5_000;

/**
 * Loads the registry and starts the service, with an embedded database when DATABASE_URL is not set.
 * @param onLoaded called after the registry file has run; from then on, resources must be closed before the process exits
 * @param link present in one of several processes, which use the embedded database of their parent process
 * @throws StartError
 */
export async function open(
  settings: Settings,
  onLoaded?: () => void,
  link?: WorkerLink,
): Promise<RunningService> {
  const common = link && { worker: link.start.number };
  const logger = createLogger(settings.logLevel, undefined, settings.logFormat, common);
  if (settings.resources === undefined && (!link || link.start.number === 1)) {
    // In a database of the user, the samples are rarely what was meant.
    logger[settings.databaseUrl === undefined ? 'info' : 'warn']({ message: samplesNotice() });
    logger.flush(); // before the start changes the database or fails
  }
  const slowLoad = setTimeout(
    () => logger.warn({ message: 'the registry file is still being loaded' }),
    SLOW_LOAD,
  );
  const file = await loadRegistryFile(settings.resources).finally(() => clearTimeout(slowLoad));
  onLoaded?.();
  const definitions = requireRegistry(file, settings);
  const embedded = settings.databaseUrl === undefined && !link ? await openEmbedded() : undefined;
  const databaseUrl = settings.databaseUrl ?? embedded?.url ?? link?.start.embeddedUrl;
  if (databaseUrl === undefined)
    throw new StartError('DATABASE_URL is no longer set. To use the embedded database, restart the service.');
  const service = createService(settings, definitions, databaseUrl, logger, link?.sharing);
  const close = async (): Promise<void> => {
    await service.close();
    await embedded?.stop();
    logger.flush();
  };
  return { settings, logger, service, embedded, close };
}

/**
 * Loads and checks the registry of the settings for a command, and says when that is the shipped one.
 * @throws StartError when the registry cannot be used
 */
export async function loadDefinitions(settings: Settings, io: Io): Promise<Definitions> {
  if (settings.resources === undefined) printMessage(io, samplesNotice());
  return requireRegistry(await loadRegistryFile(settings.resources), settings);
}

/** Turns a database error into a StartError with the reason. Returns other errors unchanged. */
export const refusal = (error: unknown): unknown =>
  isDatabaseError(error) ? new StartError(`The database refused the change: ${reasonOf(error)}`) : error;

/**
 * Runs a command with a prepared service, and closes it afterwards.
 * @param command for its event; undefined if it only reads
 */
export async function withService(
  settings: Settings,
  command: string | undefined,
  work: (prepared: Prepared) => Promise<void>,
): Promise<void> {
  const running = await open(settings);
  try {
    const prepared = await running.service.prepare({ waits: false });
    running.logger.flush(); // so that schema changes are logged before the command prompts
    await work(prepared);
    if (command !== undefined) await prepared.recordEvent('command', { detail: { command } });
  } catch (error) {
    throw refusal(error);
  } finally {
    await running.close();
  }
}
