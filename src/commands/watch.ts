// `vitrine serve --watch`: starts the service again when a file in the folder of the registry changes.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StartError } from '../errors.ts';
import { printMessage, type Io } from './command.ts';

/** The folder of the shipped registry. */
const SHIPPED = fileURLToPath(new URL('../resources/', import.meta.url));
/** Files that a registry can consist of. */
const WATCHED = /\.(?:[cm]?[jt]s|json)$/;
/** Milliseconds after a change, in which an editor may write the rest of its files. */
const DELAY = 100;

/** Milliseconds that the service may take to end. */
const MAX_STOP = 20_000;
/** Set for a service that must end with the process that watches it. */
export const WATCHED_BY_PARENT = 'VITRINE_WATCHED';

const isRunning = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode === null && signalCode === null;

/** Ends the service with a signal, and kills it if it still runs after `MAX_STOP`. */
function stop(service: ChildProcess, signal: NodeJS.Signals): void {
  service.kill(signal);
  const timer = setTimeout(() => service.kill('SIGKILL'), MAX_STOP).unref();
  service.once('exit', () => clearTimeout(timer));
}

/**
 * Runs the service in a process of its own until a signal ends it. A service that cannot start is started again after the next
 * change.
 * @param program the path of `vitrine`
 * @returns the exit code of the service
 * @throws StartError if the folder cannot be watched
 */
export async function serveWatching(program: string, io: Io): Promise<number> {
  const registry = io.env['RESOURCES'] ?? '';
  const folder = registry === '' ? SHIPPED : dirname(resolve(registry));
  const start = (): ChildProcess =>
    fork(program, ['serve'], { env: { ...io.env, [WATCHED_BY_PARENT]: '1' } });
  let service = start();
  let delay: NodeJS.Timeout | undefined;
  let isRestarting = false;
  const end = new AbortController();

  async function restart(file: string): Promise<void> {
    if (isRestarting) return; // the service that starts next reads this change, too
    isRestarting = true;
    printMessage(io, `${file} has changed: restarting`);
    const ended = isRunning(service) ? once(service, 'exit') : undefined;
    stop(service, 'SIGTERM');
    await ended;
    isRestarting = false;
    if (!end.signal.aborted) service = start();
  }

  try {
    watch(folder, { signal: end.signal }, (_, file) => {
      if (file === null || !WATCHED.test(file)) return;
      clearTimeout(delay);
      delay = setTimeout(() => void restart(file), DELAY);
    });
  } catch (error) {
    service.kill();
    throw new StartError(`${folder} cannot be watched: ${(error as Error).message}`);
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    const earlyListeners = process.listeners(signal); // from bin/vitrine.js
    process.on(signal, () => {
      clearTimeout(delay);
      end.abort();
      stop(service, signal);
    });
    for (const listener of earlyListeners) process.off(signal, listener);
  }
  if (!end.signal.aborted) await once(end.signal, 'abort');
  if (isRunning(service)) await once(service, 'exit');
  return service.exitCode ?? 0;
}
