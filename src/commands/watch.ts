// `vitrine serve --watch`: starts the service again when a script or JSON file near the registry changes, or the file .env.
import { fork, type ChildProcess } from 'node:child_process';
import { once, setMaxListeners } from 'node:events';
import { readdirSync, watch, type Dirent, type FSWatcher } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readSettings, variablesOf } from '../config.ts';
import { StartError } from '../errors.ts';
import { printMessage, type Io } from './command.ts';
import { currentVariables, ENV_FILE, INHERITED } from './env-file.ts';

/** The folder of the shipped registry. */
const SHIPPED = fileURLToPath(new URL('../resources/', import.meta.url));
/** Files that a registry can consist of. */
const WATCHED = /\.(?:[cm]?[jt]s|json)$/;
/** The maximum number of folders to watch: the registry may be in a folder with unrelated ones, such as a home folder. */
const MAX_FOLDERS = 1000;
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

/** What is in a folder; nothing if the folder cannot be read. */
function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** The subfolders that can have files of a registry. */
const subfolders = (folder: string): string[] =>
  entriesOf(folder)
    .filter((entry) => entry.isDirectory() && entry.name !== 'node_modules' && !entry.name.startsWith('.'))
    .map(({ name }) => join(folder, name));

/** The folder and all folders in it, those near it first. */
function foldersIn(folder: string): string[] {
  const found = [folder];
  for (let index = 0; index < found.length && found.length < MAX_FOLDERS; index += 1)
    found.push(...subfolders(found[index] ?? ''));
  return found.slice(0, MAX_FOLDERS);
}

/** The folder of the registry. */
function registryFolder(): string {
  const { resources } = readSettings(variablesOf('RESOURCES', currentVariables()));
  return resources === undefined ? SHIPPED : dirname(resolve(resources));
}

/**
 * Watches the folder of the registry with its subfolders, and the file .env of the current folder. The recursive watch of Node.js
 * cannot leave out folders, so it would also watch node_modules and the files of the embedded database.
 * @param onChange called with the path of a changed file
 * @throws StartError if the folder cannot be watched
 */
function watchFiles(onChange: (file: string) => void, signal: AbortSignal): void {
  const watchers = new Map<string, FSWatcher>();
  let folder = registryFolder();

  /** The last known folder if RESOURCES cannot be read, which the service reports. */
  function currentFolder(): string {
    try {
      folder = registryFolder();
    } catch {
      // a change to come may correct it
    }
    return folder;
  }

  function watchFolder(path: string): void {
    const watcher = watch(path, { signal }, (event, file) => {
      if (event === 'rename') update().forEach(reportFiles); // a folder may be new or removed
      if (file !== null && WATCHED.test(file)) report(join(path, file));
    });
    watcher.on('error', () => undefined); // the folder was removed
    watchers.set(path, watcher);
  }

  const report = (path: string): void => onChange(relative(currentFolder(), path));

  /** Reports a file of a new folder, which may be older than the watch. */
  function reportFiles(folder: string): void {
    const file = entriesOf(folder).find(({ name }) => WATCHED.test(name));
    if (file) report(join(folder, file.name));
  }

  /** @returns the folders that are new */
  function update(): string[] {
    const folders = foldersIn(currentFolder());
    for (const [path, watcher] of watchers)
      if (!folders.includes(path)) {
        watcher.close();
        watchers.delete(path);
      }
    return folders.filter((path) => {
      if (watchers.has(path)) return false;
      try {
        watchFolder(path);
        return true;
      } catch {
        return false; // it was removed, or may not be read
      }
    });
  }

  try {
    watchFolder(folder);
  } catch (error) {
    throw new StartError(`${folder} cannot be watched: ${(error as Error).message}`);
  }
  update();
  watch(process.cwd(), { signal }, (_, file) => {
    if (file !== ENV_FILE) return;
    update(); // RESOURCES may have changed
    onChange(file);
  });
}

/**
 * Runs the service in a process of its own until a signal ends it. A service that cannot start is started again after the next
 * change.
 * @param program the path of `vitrine`
 * @returns the exit code of the service
 * @throws StartError if the folder cannot be watched
 */
export async function serveWatching(program: string, io: Io): Promise<number> {
  const end = new AbortController();
  setMaxListeners(0, end.signal); // each folder listens
  const start = (): ChildProcess =>
    fork(program, ['serve'], { env: { ...INHERITED, [WATCHED_BY_PARENT]: '1' } }).once('exit', (code) => {
      if (code && !end.signal.aborted) printMessage(io, 'waiting for the next change');
    });
  let service = start();
  let delay: NodeJS.Timeout | undefined;
  let isRestarting = false;

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
    const onChange = (file: string): void => {
      clearTimeout(delay);
      delay = setTimeout(() => void restart(file), DELAY);
    };
    watchFiles(onChange, end.signal);
  } catch (error) {
    service.kill();
    throw error;
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    const earlyListeners = process.listeners(signal); // from bin/vitrine.js
    process.on(signal, () => {
      clearTimeout(delay);
      end.abort();
      stop(service, signal === 'SIGHUP' ? 'SIGTERM' : signal); // without a terminal, it ignores SIGHUP
    });
    for (const listener of earlyListeners) process.off(signal, listener);
  }
  if (!end.signal.aborted) await once(end.signal, 'abort');
  if (isRunning(service)) await once(service, 'exit');
  return service.exitCode ?? 0;
}
