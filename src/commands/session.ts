import { resolve } from 'node:path';
import type { Settings } from '../config.ts';
import { startEmbedded, type EmbeddedDatabase } from '../db/connection/embedded.ts';
import { isDatabaseError, reasonOf } from '../db/connection/database-errors.ts';
import { StartError } from '../errors.ts';
import { createLogger, type Logger } from '../http/observability/logger.ts';
import { loadResources } from '../resources/load-registry.ts';
import type { Panel } from '../resources/definition/panel.ts';
import { createService, requireRegistry, type Prepared, type Service } from '../service.ts';

/** Everything that a running service works with, opened together and closed together. */
export interface Session {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly service: Service;
  readonly embedded: EmbeddedDatabase | undefined;
  readonly close: () => Promise<void>;
}

/** Milliseconds after which it is told that a registry file is still being loaded: it may wait for something. */
const LONG = 5_000;

/** @param onLoaded is told when nothing of the registry's own runs any more, and what is begun has to be ended */
export async function open(settings: Settings, onLoaded?: () => void): Promise<Session> {
  const logger = createLogger(settings.logLevel, undefined, settings.logFormat);
  const late = setTimeout(() => logger.warn({ message: 'the registry file is still being loaded' }), LONG);
  const { registry, panels } = await loadResources(settings.resources).finally(() => clearTimeout(late));
  onLoaded?.();
  const resources = requireRegistry(registry, settings, panels);
  const embedded = settings.databaseUrl === undefined ? await startEmbedded(resolve('.data')) : undefined;
  const databaseUrl = settings.databaseUrl ?? embedded?.url ?? '';
  const service = createService(settings, resources, databaseUrl, logger, panels as readonly Panel[]);
  const close = async (): Promise<void> => {
    await service.close();
    await embedded?.stop();
    logger.flush();
  };
  return { settings, logger, service, embedded, close };
}

/** What the database says of what a command has asked for, as the reason why it cannot be done. */
export const refusal = (error: unknown): unknown =>
  isDatabaseError(error) ? new StartError(`The database refuses this: ${reasonOf(error)}`) : error;

/** Runs a command on a prepared service, and leaves nothing open. */
export async function withService(
  settings: Settings,
  work: (prepared: Prepared) => Promise<void>,
): Promise<void> {
  const session = await open(settings);
  try {
    const prepared = await session.service.prepare({ waits: false });
    session.logger.flush(); // what was done to the schema is told before a command asks for anything
    await work(prepared);
  } catch (error) {
    throw refusal(error);
  } finally {
    await session.close();
  }
}
