// Services one after the other on a listening socket that outlives each of them, as systemd passes it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { ended, hasEnded, signal, until } from '../processes.ts';
import { programOf, type Service } from '../service.ts';

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
  return once(server, 'listening').then(() => server, () => undefined); // prettier-ignore
}

/** Opens the socket at the address of a service. A shell holds it, since what a shell starts inherits its open files. */
export async function createHandover({ port, environment }: Service): Promise<Handover> {
  const socket = await until('the port', () => tryToListen(port));
  const shell = spawn('sh', [], {
    // Node has no public name for the descriptor of a listening socket.
    stdio: ['pipe', 'pipe', 'ignore', (socket as unknown as { _handle: { fd: number } })._handle.fd],
    env: { ...environment, NODE: process.execPath, PROGRAM: programOf() },
    detached: true,
  });
  socket.close();
  let said = '';
  shell.stdout?.setEncoding('utf8').on('data', (text: string) => (said += text));
  const timesReady = (): number => (said.match(/listening on /g) ?? []).length;
  let launched = 0;
  const run = async (line: string, mark: RegExp): Promise<number> => {
    shell.stdin?.write(`${line}\n`);
    return Number(await until('the shell', () => mark.exec(said)?.[1]));
  };
  return {
    launch: async () => {
      const known = timesReady();
      launched += 1;
      const start = 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$NODE" "$PROGRAM" serve';
      const mark = new RegExp(`^launched ${launched} (\\d+)$`, 'm');
      const pid = await run(`sh -c '${start}' & echo "launched ${launched} $!"`, mark);
      await until('the next service to listen', () => timesReady() > known);
      return pid;
    },
    stop: (pid) => {
      const mark = new RegExp(`^ended ${pid} (\\d+)$`, 'm');
      return run(`kill -TERM ${pid}; wait ${pid}; echo "ended ${pid} $?"`, mark);
    },
    close: async () => {
      if (shell.pid !== undefined && !hasEnded(shell)) signal(-shell.pid, 'SIGKILL');
      await ended(shell);
    },
  };
}
