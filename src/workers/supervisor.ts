// `vitrine serve` with WORKERS: starts several processes over one port, replaces those that crash, and reloads them one by one.
import cluster from 'node:cluster';
import { randomBytes } from 'node:crypto';
import type { Settings } from '../config.ts';
import type { EmbeddedDatabase } from '../db/connection/embedded.ts';
import { StartError } from '../errors.ts';
import type { Logger } from '../http/observability/logger.ts';
import { processMetrics, restartMetric } from '../http/observability/metrics.ts';
import { MetricsText } from '../http/observability/metrics-exposition.ts';
import { createWorkerHub } from './worker-hub.ts';
import { startWorker, type Ending, type Worker } from './worker.ts';

/** Milliseconds before a crashed process is replaced: doubled with each crash in a row. */
const FIRST_DELAY = 250;
const MAX_DELAY = 30_000;
/** Milliseconds of service after which a crash is no longer one in a row. */
const STABLE_AFTER = 60_000;
/** Lets Node.js start other programs under its permission model. Only this process needs it. */
const MAY_FORK = '--allow-child-process';

interface SupervisorOptions {
  readonly settings: Settings;
  /** The path of `vitrine`. */
  readonly program: string;
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
  current: Worker | undefined;
  /** Crashes in a row. */
  crashes: number;
  timer: NodeJS.Timeout | undefined;
}

/** @throws StartError if this process cannot start others */
function assertMayFork(): void {
  if (cluster.isWorker)
    throw new StartError(
      'WORKERS must be 1 in a process that another program has started as one of several, such as PM2 in cluster mode. Use the fork mode of PM2.',
    );
  const { permission } = process as { permission?: { has: (scope: string) => boolean } };
  if (permission && !permission.has('child'))
    throw new StartError(
      `WORKERS needs the flag ${MAY_FORK} of Node.js. bin/confined adds it if the variable WORKERS is set in the environment, not in .env or a file.`,
    );
}

/**
 * Serves with several processes until a signal ends them.
 * @returns the exit code
 * @throws StartError
 */
export async function superviseWorkers(options: SupervisorOptions): Promise<number> {
  const { settings, program, passed, logger } = options;
  assertMayFork();
  // The processes accept connections themselves, so a busy one takes fewer, and those that wait are served when one ends. Otherwise,
  // this process would hand a process the next connection only once it has accepted the last one.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  cluster.setupPrimary({
    exec: program,
    args: ['serve'],
    execArgv: process.execArgv.filter((flag) => flag !== MAY_FORK),
  });
  const secret = randomBytes(32).toString('base64');
  const places = Array.from({ length: settings.workers }, (_, index): Place => ({
    number: index + 1,
    current: undefined,
    crashes: 0,
    timer: undefined,
  }));
  const running = new Set<Worker>();
  const stopping = new AbortController();
  let embedded: EmbeddedDatabase | undefined;
  let restarts = 0;
  let isStarted = false;
  let reloading: Promise<void> | undefined;
  let mustReloadAgain = false;
  /** The new process of a reload, until it serves. */
  let next: Worker | undefined;
  /** Ends the service with this exit code. */
  let end: (code: number) => void;

  function ownMetrics(): string {
    const output = new MetricsText();
    output.add(restartMetric(restarts), ...processMetrics());
    return output.text;
  }
  const hub = createWorkerHub(settings, () => [...running], ownMetrics);

  function start({ number }: Place, leads: boolean): Worker {
    const worker = startWorker(
      {
        number,
        leads,
        processes: settings.workers,
        embeddedUrl: embedded?.url,
        isInitial: leads && !isStarted,
        passed,
        secret,
      },
      hub.inform,
      hub.receive,
    );
    running.add(worker);
    void worker.ended.then((ending) => {
      running.delete(worker);
      hub.forget(worker);
      if (reportLostSocket(worker)) return end(1);
      const place = places[number - 1];
      if (isStarted && !stopping.signal.aborted && place?.current === worker) replace(place, worker, ending);
    });
    return worker;
  }

  /**
   * Logs and returns whether the passed socket is unusable. Node.js closes it in this process when no other process listens on it, so that only the
   * program that passed it can pass it again.
   */
  function reportLostSocket(ended: Worker): boolean {
    if (passed === undefined || stopping.signal.aborted || ended.readyAt() === undefined) return false;
    if ([...running].some(({ isServing }) => isServing())) return false;
    const message =
      'no process listens on the passed socket any longer, and Node.js cannot listen on it again; ending with exit code 1, to be started again';
    logger.error({ message });
    return true;
  }

  /** Starts another process for one that has ended unexpectedly. */
  function replace(place: Place, { readyAt }: Worker, { reason }: Ending): void {
    const since = readyAt();
    if (since !== undefined && performance.now() - since >= STABLE_AFTER) place.crashes = 0;
    const delay = Math.min(MAX_DELAY, FIRST_DELAY * 2 ** place.crashes);
    place.crashes += 1;
    const message = `process ${place.number} has ended unexpectedly (${reason}); starting another in ${delay / 1000} s`;
    logger.error({ message });
    place.timer = setTimeout(() => {
      restarts += 1;
      place.current = start(place, false);
    }, delay);
  }

  /**
   * Starts all processes, one after the other.
   * @returns the ending of a process that ended before it served; undefined if all serve
   * @throws StartError if one of them could not be started
   */
  async function startAll(): Promise<Ending | undefined> {
    let text: string | undefined;
    for (const place of places) {
      if (stopping.signal.aborted) return undefined;
      place.current = start(place, place.number === 1);
      const readyText = await place.current.ready;
      if (readyText === undefined) {
        const ending = await place.current.ended;
        if (ending.wasStarted) return ending;
        throw new StartError(`Process ${place.number} of WORKERS ${ending.reason}.`);
      }
      text ??= readyText;
    }
    if (stopping.signal.aborted) return undefined;
    isStarted = true;
    // One that has served may have crashed while the others started.
    for (const place of places)
      if (place.current && !running.has(place.current))
        replace(place, place.current, await place.current.ended);
    if (!stopping.signal.aborted) options.onReady(text ?? '');
    return undefined;
  }

  /** @param replaced receives the places that have a new process */
  async function reloadAll(replaced: Set<Place>): Promise<void> {
    for (const place of places) {
      if (stopping.signal.aborted) return;
      const fresh = (next = start(place, place.number === 1));
      await fresh.ready;
      next = undefined;
      if (stopping.signal.aborted) return;
      if (!fresh.isServing()) {
        const { reason } = await fresh.ended;
        if (mustReloadAgain) return; // it was stopped for that
        const result =
          replaced.size === 0
            ? 'not reloaded'
            : `not reloaded completely: ${replaced.size} of ${places.length} processes were replaced, the others keep what they had read; reload again`;
        return logger.error({ message: `${result}: the new process has ended (${reason})` });
      }
      clearTimeout(place.timer);
      const previous = place.current;
      place.current = fresh;
      place.crashes = 0;
      replaced.add(place);
      if (previous && running.has(previous)) await previous.stop();
    }
    logger.info({ message: 'reloaded' });
  }

  async function reload(): Promise<void> {
    if (!isStarted || reloading) {
      mustReloadAgain = true; // what starts now may have read the old settings
      if (reloading) logger.info({ message: 'SIGHUP: reloading again' });
      void next?.stop(); // with the old settings, it may wait for its database without end
      next = undefined;
      return;
    }
    logger.info({ message: 'SIGHUP: reloading one process after the other' });
    const replaced = new Set<Place>();
    do {
      mustReloadAgain = false;
      reloading = reloadAll(replaced);
      await reloading;
    } while (mustReloadAgain && !stopping.signal.aborted);
    reloading = undefined;
  }

  async function stopAll(): Promise<void> {
    stopping.abort();
    for (const { timer } of places) clearTimeout(timer);
    await Promise.all([...running].map((worker) => worker.stop()));
  }

  const ended = new Promise<number>((resolve) => {
    end = (code) => {
      stopping.abort();
      resolve(code);
    };
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
  });

  try {
    embedded = await options.openEmbedded?.();
    const failed = await Promise.race([ended, startAll()]);
    if (typeof failed === 'object' && !stopping.signal.aborted) return failed.code || 1;
    if (mustReloadAgain) void reload();
    return await ended;
  } catch (error) {
    if (!stopping.signal.aborted) throw error;
    return 0; // the signal has ended the start of the embedded database, too
  } finally {
    await stopAll();
    await embedded?.stop();
    logger.flush();
  }
}
