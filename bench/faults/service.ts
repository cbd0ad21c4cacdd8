import { spawn, type ChildProcess } from 'node:child_process';
import { openSync } from 'node:fs';
import { resolve } from 'node:path';
import { createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { ended, hasEnded, until } from './processes.ts';

const PROGRAM = resolve('dist/main.js');

/** The service as a process that may be killed, always at the same address. */
export interface Service {
  readonly base: string;
  /** The address of its metrics. */
  readonly metrics: string;
  readonly start: () => Promise<void>;
  /** Sends a signal to the process that serves. */
  readonly signal: (signal: NodeJS.Signals) => void;
  /** Waits for the end of the process. Gives its exit code, or undefined where a signal has ended it. */
  readonly ended: () => Promise<number | undefined>;
  readonly close: () => Promise<void>;
}

export interface ServiceOptions {
  readonly port: number;
  readonly metricsPort: number;
  readonly databaseUrl: string;
  /** Takes the output of all processes. */
  readonly log: string;
  readonly settings: Readonly<Record<string, string>>;
}

const environment = ({
  port,
  metricsPort,
  databaseUrl,
  settings,
}: ServiceOptions): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  NODE_ENV: 'production',
  LOG_LEVEL: 'warn',
  RESOURCES: resolve('bench/faults/registry.mjs'),
  DATABASE_URL: databaseUrl,
  PORT: String(port),
  METRICS: `127.0.0.1:${metricsPort}`,
  ...settings,
});

/** How often a process has said that it listens. */
const timesReady = async (log: string): Promise<number> =>
  ((await readFile(log, 'utf8')).match(/^listening on /gm) ?? []).length;

/** Runs `vitrine serve`; nothing is started yet. */
export function createService(options: ServiceOptions): Service {
  const output = openSync(options.log, 'a');
  let child: ChildProcess | undefined;
  const service: Service = {
    base: `http://127.0.0.1:${options.port}`,
    metrics: `http://127.0.0.1:${options.metricsPort}/metrics`,
    start: async () => {
      const known = await timesReady(options.log);
      const started = spawn(process.execPath, [PROGRAM, 'serve'], {
        stdio: ['ignore', output, output],
        env: environment(options),
      });
      child = started;
      await until('the service to listen', async () => {
        if (hasEnded(started)) throw new Error('the service has ended');
        return (await timesReady(options.log)) > known;
      });
    },
    signal: (signal) => void child?.kill(signal),
    ended: async () => {
      if (child) await ended(child);
      return child?.exitCode ?? undefined;
    },
    close: async () => {
      child?.kill('SIGCONT');
      child?.kill('SIGKILL');
      if (child) await ended(child);
    },
  };
  return service;
}

/** Services one after the other on a listening socket that outlives each of them, as systemd passes it. */
export interface Handover {
  /** Starts one more service. Gives its process id. */
  readonly launch: () => Promise<number>;
  /** Ends a service with SIGTERM. Gives its exit code. */
  readonly stop: (pid: number) => Promise<number>;
  readonly close: () => Promise<void>;
}

/** @returns undefined while the port is in use: the processes of a killed service may need a moment to close it */
async function tryToListen(port: number): Promise<Server | undefined> {
  const server = createServer().listen(port, '127.0.0.1', 4096);
  return once(server, 'listening').then(
    () => server,
    () => undefined,
  );
}

/** Opens the socket. A shell holds it, since what a shell starts inherits its open files. */
export async function createHandover(options: ServiceOptions): Promise<Handover> {
  const socket = await until('the port', () => tryToListen(options.port));
  const output = openSync(options.log, 'a');
  const shell = spawn('sh', [], {
    // Node has no public name for the descriptor of a listening socket.
    stdio: ['pipe', 'pipe', output, (socket as unknown as { _handle: { fd: number } })._handle.fd],
    env: { ...environment(options), NODE: process.execPath, PROGRAM, LOG: options.log },
    detached: true,
  });
  socket.close();
  let said = '';
  shell.stdout?.setEncoding('utf8').on('data', (text: string) => (said += text));
  let launched = 0;
  const tell = async (line: string, mark: RegExp): Promise<number> => {
    shell.stdin?.write(`${line}\n`);
    return Number(await until('the shell', () => mark.exec(said)?.[1]));
  };
  return {
    launch: async () => {
      const known = await timesReady(options.log);
      launched += 1;
      const start = 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$NODE" "$PROGRAM" serve >> "$LOG"';
      const pid = await tell(
        `sh -c '${start}' & echo "launched ${launched} $!"`,
        new RegExp(`^launched ${launched} (\\d+)$`, 'm'),
      );
      await until('the next service to listen', async () => (await timesReady(options.log)) > known);
      return pid;
    },
    stop: (pid) =>
      tell(
        `kill -TERM ${pid}; wait ${pid}; echo "ended ${pid} $?"`,
        new RegExp(`^ended ${pid} (\\d+)$`, 'm'),
      ),
    close: async () => {
      if (shell.pid !== undefined && !hasEnded(shell)) process.kill(-shell.pid, 'SIGKILL');
      await ended(shell);
    },
  };
}
