// Runs the compiled Vitrine: its commands, and its service as a process that may be killed.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { freePort } from '../src/commands/embedded.ts';
import { openConnection } from './client.ts';
import {
  ended,
  familyOf,
  hasEnded,
  processorTime,
  residentMemory,
  signal,
  sumOf,
  until,
} from './processes.ts';

export type Settings = Readonly<Record<string, string>>;

/** The program of a checkout, compiled. */
export const programOf = (checkout = '.'): string => join(resolve(checkout), 'dist/main.js');

const environment = (settings: Settings): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  NODE_ENV: 'production',
  LOG_LEVEL: 'warn',
  ...settings,
});

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command, such as `introspect`. */
export async function runCommand(
  words: readonly string[],
  settings: Settings,
  input = '',
  program = programOf(),
): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...words], { env: environment(settings) });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.on('error', () => undefined).end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code: code ?? 1, stdout, stderr };
}

/** Adds a user, and the tables where they are missing. @throws Error */
export async function addUser(
  words: readonly string[],
  password: string,
  settings: Settings,
  program?: string,
): Promise<void> {
  const { code, stderr } = await runCommand(['user', 'add', ...words], settings, password, program);
  if (code !== 0) throw new Error(`vitrine user add ${words.join(' ')} failed: ${stderr}`);
}

export interface ServiceOptions {
  readonly databaseUrl: string;
  readonly settings?: Settings;
  /** Flags of Node.js. */
  readonly flags?: readonly string[];
  /** The program and its words; else the compiled service of this checkout. */
  readonly program?: readonly string[];
  /** It is ready with the first 200 of this path; else with the line that says that it listens. */
  readonly readyPath?: string;
}

/** A service, always at the same address. */
export interface Service {
  readonly port: number;
  readonly base: string;
  /** What each process of it needs, for one that is started in another way. */
  readonly environment: NodeJS.ProcessEnv;
  readonly pid: () => number;
  /** @returns the milliseconds from the spawn until it is ready */
  readonly start: () => Promise<number>;
  readonly isAlive: () => boolean;
  /** Sends a signal to the first process. */
  readonly signal: (name: NodeJS.Signals) => void;
  /** Waits for the end of the process. Gives its exit code; undefined if a signal has ended it. */
  readonly ended: () => Promise<number | undefined>;
  /** Ends the service, which finishes its requests. */
  readonly stop: () => Promise<void>;
  /** Kills all of its processes. */
  readonly kill: () => Promise<void>;
  /** The end of what it has logged, and of its errors alone. */
  readonly log: () => string;
  readonly errors: () => string;
  /** A sample of the metrics; NaN if there is none of this name. Labels are summed up. */
  readonly metric: (name: string) => Promise<number>;
  /** Megabytes of resident memory, of the process and those that it started. */
  readonly memory: () => Promise<number>;
  /** Processor time so far of the same processes, microseconds. */
  readonly cpu: () => Promise<number>;
}

/** How much of what the service logs is kept. */
const MAX_LOG = 8000;
/** Seconds. A first start may create thousands of tables. */
const MAX_START = 180;

/** The sum of the samples of a metric in a text of `/metrics`. */
export function metricIn(text: string, name: string): number {
  const samples = [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'gm'))];
  return samples.length === 0 ? NaN : samples.reduce((all, [, value]) => all + Number(value), 0);
}

/** The status of one GET on a connection of its own, or undefined where no process listens. */
export async function statusOf(port: number, path: string): Promise<number | undefined> {
  const connection = openConnection(port);
  const answer = await connection.ask({ path, headers: { Connection: 'close' } }).catch(() => undefined);
  connection.close();
  return answer?.status;
}

/** Prepares a service at a free port; nothing is started yet. */
export async function createService(options: ServiceOptions): Promise<Service> {
  const { databaseUrl, flags = [], program = [programOf(), 'serve'], readyPath } = options;
  const [port, metricsPort] = [await freePort(), await freePort()];
  const env = environment({
    DATABASE_URL: databaseUrl,
    PORT: String(port),
    METRICS: `127.0.0.1:${metricsPort}`,
    ...options.settings,
  });
  let child: ChildProcess | undefined;
  let [log, errors] = ['', ''];
  /** What is in the log since the start: with several processes it says so once all of them serve. */
  let isListening = false;

  function spawnService(): ChildProcess {
    isListening = false;
    const started = spawn(process.execPath, [...flags, ...program], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const note = (text: string): void => {
      isListening ||= text.includes('listening on ');
      log = (log + text).slice(-MAX_LOG);
    };
    started.stdout.setEncoding('utf8').on('data', note);
    started.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-MAX_LOG);
      note(text);
    });
    return started;
  }
  const isReady = async (started: ChildProcess): Promise<boolean> => {
    if (hasEnded(started)) return true; // it is no use to wait
    return readyPath === undefined ? isListening : (await statusOf(port, readyPath)) === 200;
  };
  const service: Service = {
    port,
    base: `http://127.0.0.1:${port}`,
    environment: env,
    pid: () => child?.pid ?? 0,
    start: async () => {
      const spawned = performance.now();
      const started = (child = spawnService());
      await until('the service to be ready', () => isReady(started), MAX_START, 3);
      if (hasEnded(started)) throw new Error(`The service does not start:\n${log}`);
      return performance.now() - spawned;
    },
    isAlive: () => child !== undefined && !hasEnded(child),
    signal: (name) => void child?.kill(name),
    ended: async () => {
      if (child) await ended(child);
      return child?.exitCode ?? undefined;
    },
    stop: async () => {
      child?.kill();
      await service.ended();
    },
    kill: async () => {
      if (!child || !service.isAlive()) return;
      for (const pid of (await familyOf(service.pid())).toSorted((a, b) => a - b)) signal(pid, 'SIGKILL');
      await service.ended();
    },
    log: () => log,
    errors: () => errors,
    metric: async (name) => {
      const text = await fetch(`http://127.0.0.1:${metricsPort}/metrics`).then((answer) => answer.text());
      return metricIn(text, name);
    },
    memory: () => sumOf(service.pid(), residentMemory),
    cpu: () => sumOf(service.pid(), processorTime),
  };
  return service;
}

/** Starts a service for some work, and ends it afterwards. */
export async function withService<T>(
  options: ServiceOptions,
  work: (service: Service, start: number) => Promise<T>,
): Promise<T> {
  const service = await createService(options);
  try {
    return await work(service, await service.start());
  } finally {
    await service.kill();
  }
}
