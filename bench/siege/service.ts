// The compiled service in a process of its own, watched from outside.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, dirname, resolve } from 'node:path';
import { readFile, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../src/db/connection/embedded.ts';
import { residentMemory } from '../processes.ts';
import { childrenOf } from '../faults/cluster.ts';
import { askOnce } from './connection.ts';

export interface ServiceOptions {
  readonly databaseUrl: string;
  readonly registry: string;
  /** The compiled gauge. */
  readonly gauge: string;
  readonly flags?: readonly string[];
  readonly settings?: Readonly<Record<string, string>>;
}

/** What was seen of the process in some time. */
export interface Watched {
  /** The longest that the event loop was held, milliseconds of processor time. */
  readonly hold: number;
  /** The most resident memory of a process, megabytes. */
  readonly memory: number;
  readonly seconds: number;
}

export interface Service {
  readonly port: number;
  readonly isAlive: () => boolean;
  /** Bytes of the longest line that it has logged. */
  readonly longestLine: () => number;
  /** Begins to watch; the function that it gives ends that. */
  readonly watch: () => () => Promise<Watched>;
  readonly stop: () => Promise<void>;
}

const SAMPLE = 100;
const START_LIMIT = 20_000;
/** Milliseconds after which a hold that goes on is long enough to be reported. */
const HOLD_LIMIT = 15_000;
/** How much of what the service logs is kept. */
const MOST_LOG = 4000;

/** Starts the service behind one trusted proxy, and waits until it answers. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { databaseUrl, registry, gauge, flags = [], settings = {} } = options;
  const port = await freePort();
  const hasWorkers = (settings['WORKERS'] ?? '1') !== '1';
  const holdsFile = join(dirname(gauge), `holds-${port}`);
  const child = spawn(process.execPath, ['--import', gauge, ...flags, resolve('dist/main.js'), 'serve'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      LOG_LEVEL: 'error',
      LOG_FORMAT: 'json',
      DATABASE_URL: databaseUrl,
      RESOURCES: registry,
      TRUST_PROXY: '1',
      PORT: String(port),
      SIEGE_HOLDS: holdsFile,
      ...settings,
    },
  });
  let isAlive = true;
  const ended = once(child, 'exit').then(() => (isAlive = false));
  // It says so once all its processes serve: one alone would take all connections.
  let isListening = false;
  child.stdout?.on('data', (chunk: Buffer) => (isListening ||= chunk.includes('listening on')));
  let log = '';
  let line = 0;
  let longestLine = 0;
  child.stderr?.on('data', (chunk: Buffer) => {
    log = (log + chunk.toString()).slice(-MOST_LOG);
    for (let at = 0; at < chunk.length;) {
      const end = chunk.indexOf('\n', at);
      line += (end < 0 ? chunk.length : end) - at;
      longestLine = Math.max(longestLine, line);
      if (end < 0) break;
      line = 0;
      at = end + 1;
    }
  });
  const readHolds = async (): Promise<{ readonly at: number; readonly busy: number }[]> =>
    (await readFile(holdsFile, 'utf8')).split('\n').map((line) => {
      const [at = 0, busy = 0] = line.split(' ').map(Number);
      return { at, busy };
    });

  const stop = async (): Promise<void> => {
    // An attacked service may be in no state to end well.
    const workers = hasWorkers ? await childrenOf(child.pid ?? 0) : [];
    child.kill('SIGKILL');
    for (const pid of workers) process.kill(pid, 'SIGKILL');
    await ended;
    await rm(holdsFile, { force: true });
  };
  const started = Date.now();
  for (;;) {
    if (isListening) {
      const ready = await askOnce(port, { path: '/readyz' }, 1000).catch(() => undefined);
      if (ready?.status === 200) break;
    }
    if (!isAlive || Date.now() - started > START_LIMIT) {
      await stop();
      throw new Error(`The service does not start:\n${log}`);
    }
    await sleep(20);
  }
  return {
    port,
    isAlive: () => isAlive,
    longestLine: () => longestLine,
    watch() {
      const from = Date.now();
      let memory = 0;
      const { pid = 0 } = child;
      const sample = async (): Promise<void> => {
        // A search through all processes, as in `childrenOf`, would slow down the service.
        const workers = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
        for (const one of [pid, ...workers.split(' ').filter(Boolean).map(Number)])
          memory = Math.max(memory, (await residentMemory(one)) || 0);
      };
      void sample();
      const timer = setInterval(() => void sample(), SAMPLE).unref();
      return async () => {
        // A hold is reported when it is over, and the answer shows that.
        const asked = Date.now();
        const isFree = await askOnce(port, { path: '/healthz' }, HOLD_LIMIT).then(
          () => true,
          () => false,
        );
        await sleep(SAMPLE);
        clearInterval(timer);
        const seen = (await readHolds()).filter(({ at }) => at >= from).map(({ busy }) => busy);
        if (!isFree && isAlive) seen.push(Date.now() - asked);
        return { hold: Math.max(0, ...seen), memory, seconds: (asked - from) / 1000 };
      };
    },
    stop,
  };
}
