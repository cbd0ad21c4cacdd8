// Runs the commands of the compiled Vitrine, and its service as a process.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../../src/db/connection/embedded.ts';

const MAIN = resolve('dist/main.js');
const START_LIMIT = 60_000;

export const USER = { name: 'jo', password: 'a password of the bench' };

/** The header that authenticates the admin. */
export const CREDENTIALS = {
  authorization: `Basic ${Buffer.from(`${USER.name}:${USER.password}`).toString('base64')}`,
};

export type Settings = Readonly<Record<string, string>>;

const environment = (settings: Settings): Settings => ({
  PATH: process.env['PATH'] ?? '',
  NODE_ENV: 'production',
  SCHEMA: 'check',
  LOG_LEVEL: 'error',
  ...settings,
});

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command, such as `introspect`. */
export async function command(words: readonly string[], settings: Settings, input?: string): Promise<Ended> {
  const options = { env: environment(settings), maxBuffer: 64 * 1024 * 1024 };
  const started = promisify(execFile)(process.execPath, [MAIN, ...words], options);
  started.child.stdin?.end(input ?? '');
  return started.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: unknown) => error as Ended,
  );
}

export interface Service {
  readonly base: string;
  /** What it logged: errors only. */
  readonly log: () => string;
  readonly stop: () => Promise<void>;
}

/** Starts the service, and waits until it is ready. @throws Error with the reason if it does not start */
export async function startService(settings: Settings): Promise<Service> {
  const port = await freePort();
  const child = spawn(process.execPath, [MAIN, 'serve'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: environment({ ...settings, PORT: String(port) }),
  });
  const ended = once(child, 'exit');
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const base = `http://127.0.0.1:${port}`;
  const stop = async (): Promise<void> => {
    child.kill();
    await ended;
  };
  for (const started = Date.now(); ; await sleep(50)) {
    const ready = await fetch(`${base}/readyz`).catch(() => undefined);
    if (ready?.status === 200) return { base, log: () => log, stop };
    if (child.exitCode === null && Date.now() - started < START_LIMIT) continue;
    await stop();
    throw new Error(`The service does not start: ${log.slice(0, 2000)}`);
  }
}
