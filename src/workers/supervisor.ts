// `vitrine serve` with WORKERS: starts several processes over one port, replaces those that crash, and reloads them one by one.
import cluster from 'node:cluster';
import { randomBytes } from 'node:crypto';
import { fstatSync } from 'node:fs';
import type { Settings } from '../config.ts';
import { StartError } from '../errors.ts';
import type { EmbeddedDatabase } from '../processes.ts';
import type { Logger } from '../http/observability/logger.ts';
import { createHub } from './hub.ts';
import { Worker, type Ending } from './worker.ts';

/** Milliseconds before a crashed process is replaced: doubled with each crash in a row. */
const FIRST_DELAY = 250;
const MAX_DELAY = 30_000;
/** Milliseconds of service after which a crash is no longer one in a row. */
const STABLE_AFTER = 60_000;
/** Lets Node.js start other programs under its permission model. Only this process needs it. */
export const MAY_FORK = '--allow-child-process';

interface SupervisorOptions {
  readonly settings: Settings;
  /** File descriptor of the passed socket. */
  readonly passed: number | undefined;
  readonly logger: Logger;
  /** Starts the embedded database; undefined if there is another one. */
  readonly openEmbedded: (() => Promise<EmbeddedDatabase>) | undefined;
  /** Called with the text that says where the service listens, once all processes serve. */
  readonly onReady: (text: string) => void;
}

/** One of the WORKERS: its current process, and when the next one starts after a crash. */
interface Place {
  readonly number: number;
  current?: Worker;
  /** Crashes in a row. */
  crashes: number;
  timer?: NodeJS.Timeout;
}

/**
 * Serves with several processes until a signal ends them.
 * @returns the exit code
 * @throws StartError
 */
export async function superviseWorkers(options: SupervisorOptions): Promise<number> {
  const { settings, passed, logger } = options;
  // The processes accept connections themselves, so a busy one takes fewer, and those that wait are served when one ends. Otherwise,
  // this process would hand a process the next connection only once it has accepted the last one.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  // With a shared pipe, a process that ends makes those wait that write to it, until others read from it. They must not share it.
  const log = fstatSync(process.stderr.fd);
  cluster.setupPrimary({
    execArgv: process.execArgv.filter((flag) => flag !== MAY_FORK),
    stdio: ['inherit', 'inherit', log.isFIFO() || log.isSocket() ? 'pipe' : 'inherit', 'ipc'],
  });
  const secret = randomBytes(32).toString('base64');
  const places = Array.from({ length: settings.workers }, (_, at): Place => ({ number: at + 1, crashes: 0 }));
  const running = new Set<Worker>();
  const stopping = new AbortController();
  let embedded: EmbeddedDatabase | undefined;
  let restarts = 0;
  let isStarted = false;
  let isReloading = false;
  /** Whether the processes that start may have read old settings. */
  let mustReload = false;
  /** The new process of a reload, until it serves. */
  let next: Worker | undefined;
  const hub = createHub(settings, running, () => restarts);

  function start(place: Place): Worker {
    const { number } = place;
    const worker = new Worker(
      {
        number,
        processes: settings.workers,
        embeddedUrl: embedded?.url,
        isInitial: number === 1 && !isStarted,
        passed,
        secret,
      },
      hub.answer,
    );
    running.add(worker);
    void worker.ready.then(() => hub.inform(worker));
    void worker.ended.then(({ reason }) => {
      running.delete(worker);
      hub.forget(worker);
      if (stopping.signal.aborted) return;
      const isLast = worker.readyAt !== undefined && ![...running].some((one) => one.isServing);
      if (passed !== undefined && isLast) {
        const message =
          'no process listens on the passed socket any longer, and Node.js cannot listen on it again; ending with exit code 1, to be started again';
        logger.error({ message });
        return end(1);
      }
      if (place.current === worker) replace(place, worker, reason);
    });
    return worker;
  }

  /** Starts another process for one that has ended unexpectedly. */
  function replace(place: Place, { readyAt }: Worker, reason: string): void {
    if (performance.now() - (readyAt ?? Infinity) >= STABLE_AFTER) place.crashes = 0;
    const delay = Math.min(MAX_DELAY, FIRST_DELAY * 2 ** place.crashes);
    place.crashes += 1;
    const message = `process ${place.number} has ended unexpectedly (${reason}); starting another in ${delay / 1000} s`;
    logger.error({ message });
    place.timer = setTimeout(() => {
      restarts += 1;
      place.current = start(place);
    }, delay);
  }

  /** Starts a process, and then stops the one that it replaces. @returns how it ended if it never served */
  async function fill(place: Place): Promise<Ending | undefined> {
    const fresh = start(place);
    if (isStarted) next = fresh;
    const text = await fresh.ready;
    next = undefined;
    if (text === undefined) return fresh.ended;
    clearTimeout(place.timer);
    const previous = place.current;
    place.current = fresh;
    place.crashes = 0;
    await previous?.stop();
    return undefined;
  }

  /** Starts all processes, one after the other. @returns the exit code of the service */
  async function startAll(): Promise<number> {
    for (const place of places) {
      const ending = await fill(place);
      if (stopping.signal.aborted) return ended;
      if (ending && ending.code === undefined)
        throw new StartError(`Process ${place.number} of WORKERS ${ending.reason}.`);
      if (ending) return ending.code || 1;
    }
    isStarted = true;
    options.onReady((await places[0]?.current?.ready) ?? '');
    if (mustReload) void reload();
    return ended;
  }

  async function reload(): Promise<void> {
    mustReload = true;
    // With the old settings, a new process may wait for its database without end.
    if (!isStarted || isReloading) return void next?.stop();
    isReloading = true;
    while (mustReload && !stopping.signal.aborted) {
      mustReload = false;
      logger.info({ message: 'SIGHUP: reloading one process after the other' });
      await reloadAll();
    }
    isReloading = false;
  }

  async function reloadAll(): Promise<void> {
    for (const [replaced, place] of places.entries()) {
      const ending = await fill(place);
      if (stopping.signal.aborted || mustReload) return;
      if (!ending) continue;
      const message = `not reloaded: ${replaced} of ${places.length} processes were replaced, then the new process has ended (${ending.reason}); reload again`;
      return logger.error({ message });
    }
    logger.info({ message: 'reloaded' });
  }

  /** Ends the service with this exit code. */
  let end: (code: number) => void;
  const ended = new Promise<number>((resolve) => {
    end = (code) => {
      stopping.abort();
      resolve(code);
    };
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    const earlyListeners = process.listeners(signal); // from bin/vitrine.js
    process.on(signal, () => {
      // A terminal that closes ends the service.
      if (signal === 'SIGHUP' && !process.stdin.isTTY) return void reload();
      if (!stopping.signal.aborted) logger.info({ message: `${signal}: shutting down` });
      end(0);
    });
    for (const listener of earlyListeners) process.off(signal, listener);
  }

  try {
    embedded = await options.openEmbedded?.();
    return await Promise.race([ended, startAll()]);
  } catch (error) {
    if (!stopping.signal.aborted) throw error;
    return 0; // the signal has ended the start of the embedded database, too
  } finally {
    stopping.abort();
    for (const { timer } of places) clearTimeout(timer);
    await Promise.all([...running].map((worker) => worker.stop()));
    await embedded?.stop();
    logger.flush();
  }
}
