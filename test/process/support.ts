// Runs the real executable as a child process, in a folder of its own.
import { spawn, type ChildProcess, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdtempSync, symlinkSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { REPOSITORY } from '../paths.ts';
import { cheapHash, eventually, type Sql } from '../support.ts';
import { after } from 'node:test';

export { REPOSITORY } from '../paths.ts';

/** The command of this checkout, which runs the sources and reads TypeScript on every Node. */
export const CHECKOUT = join(REPOSITORY, 'bin', 'vitrine.js');
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Program {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly ended: Promise<Ended>;
}

export interface Serving extends Program {
  readonly base: string;
  /** Sends the signal, and waits for the end. */
  readonly stop: (signal?: NodeJS.Signals) => Promise<Ended>;
}

export interface RunOptions {
  /** A new folder when absent. */
  readonly cwd?: string;
  /** The settings; nothing of this process's own environment but what programs need to be found is passed on. */
  readonly env?: Record<string, string>;
  /** What stands on standard input. */
  readonly input?: string | Uint8Array;
  readonly command?: string;
  /** Runs the sources of this checkout. */
  readonly fromSource?: boolean;
  /** In a process group of its own, which a test can then signal as a terminal does. */
  readonly detached?: boolean;
  /** The number of a socket that the program gets as its file 3. */
  readonly passed?: number;
}

const running = new Set<ChildProcess>();
const folders: string[] = [];
const killAll = (): void => {
  for (const child of running) child.kill('SIGKILL');
};
process.on('exit', killAll);
after(async () => {
  killAll();
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true, maxRetries: 5 })));
});

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'vitrine process-'));
  folders.push(folder);
  await chmod(folder, 0o755); // an embedded server runs as another user when this is root
  return folder;
}

/** A copy of the compiled package as it is installed, without the sources. Empty if nothing was compiled. */
export const INSTALLATION = existsSync(join(REPOSITORY, 'dist')) ? install() : '';
export const EXECUTABLE = join(INSTALLATION, 'bin', 'vitrine.js');

function install(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vitrine process-'));
  folders.push(folder);
  for (const name of ['bin', 'deploy', 'dist', 'template', 'package.json'])
    cpSync(join(REPOSITORY, name), join(folder, name), { recursive: true });
  symlinkSync(join(REPOSITORY, 'node_modules'), join(folder, 'node_modules'));
  chmodSync(folder, 0o755); // an embedded server runs as another user when this is root
  return folder;
}

/** A new folder with these files. */
export async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

/** Starts `vitrine …`, or another command. */
export async function start(words: readonly string[], options: RunOptions = {}): Promise<Program> {
  const {
    cwd = await temporaryFolder(),
    env = {},
    input = '',
    detached = false,
    fromSource = false,
  } = options;
  if (INSTALLATION === '' && !fromSource && !options.command)
    throw new Error('npm run build comes first: this test runs the compiled package');
  const { PATH = '', HOME = '' } = process.env;
  const [command, first] = options.command
    ? [options.command, []]
    : [process.execPath, [fromSource ? CHECKOUT : EXECUTABLE]];
  const child = spawn(command, [...first, ...words], {
    cwd,
    env: { PATH, HOME, ...env },
    detached,
    stdio: ['pipe', 'pipe', 'pipe', ...(options.passed === undefined ? [] : [options.passed])],
  }) as ChildProcessWithoutNullStreams;
  running.add(child);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.on('error', () => undefined); // a program that ends without reading its input
  child.stdin.end(input);
  const ended = once(child, 'close').then(([code, signal]): Ended => {
    running.delete(child);
    return { code: code as number | null, signal: signal as NodeJS.Signals | null, stdout, stderr };
  });
  return { child, stdout: () => stdout, stderr: () => stderr, ended };
}

/** Runs a command to its end. */
export async function run(words: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return (await start(words, options)).ended;
}

/** Like `eventually`, but only false and undefined are not yet a result, and so is what the attempt throws. */
export async function until<T>(what: string, attempt: () => T | Promise<T>, seconds = 120): Promise<T> {
  let last: unknown;
  const tryOnce = async (): Promise<{ readonly result: T } | undefined> => {
    try {
      const result = await attempt();
      if (result !== false && result !== undefined) return { result };
      last = result;
    } catch (error) {
      last = error;
    }
    return undefined;
  };
  const found = await eventually(tryOnce, what, seconds).catch((error: unknown) => {
    throw new Error(`waited in vain for ${what}; at last: ${String(last)}`, { cause: error });
  });
  return found.result;
}

/** Waits for the line on standard output that says where the program listens. */
export async function listening(program: Program): Promise<Serving> {
  const found = await until('the service to listen', () => {
    if (program.child.exitCode !== null || program.child.signalCode !== null) return 'ended';
    return /^listening on (http:\/\/\S+)$/m.exec(program.stdout())?.[1];
  });
  if (!found || found === 'ended') throw new Error(`the service ended: ${(await program.ended).stderr}`);
  return {
    ...program,
    base: found,
    stop: (signal = 'SIGTERM') => {
      program.child.kill(signal);
      return program.ended;
    },
  };
}

/** What `vitrine serve` prints when it listens at this address. */
export const addressesOf = (base: string): string =>
  `listening on ${base}\n  API         ${base}/api/\n  admin area  ${base}/admin/\n`;

/** Starts `vitrine serve` on a free port, and waits until it serves. */
export async function serve(options: RunOptions = {}): Promise<Serving> {
  return listening(await start(['serve'], { ...options, env: { PORT: '0', ...options.env } }));
}

/**
 * The first of as many ports in a row that nobody listens on now. They lie below those that the kernel gives to whoever
 * asks for any, so that no connection of another test takes one before it is used.
 */
export async function freePort(inARow = 1): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const first = randomInt(12_000, 32_000);
    const servers = Array.from({ length: inARow }, (_, at) => createServer().listen(first + at, '127.0.0.1'));
    const taken = await Promise.allSettled(servers.map((server) => once(server, 'listening')));
    await Promise.all(
      servers.filter((server) => server.listening).map((server) => once(server.close(), 'close')),
    );
    if (taken.every(({ status }) => status === 'fulfilled')) return first;
  }
  throw new Error('found no free port');
}

/** A user of the shipped user model whose password is `pw-` and the name. */
export async function addUser(sql: Sql, username: string): Promise<number> {
  const password = await cheapHash(`pw-${username}`);
  const [row] = await sql<{ id: number }[]>`
    insert into "user" (username, password, email) values (${username}, ${password}, '') returning id`;
  return row?.id ?? 0;
}

/** How many connections of the service the database of `sql` has, waiting for a lock or not. */
export async function connections(sql: Sql, condition = 'true'): Promise<number> {
  const [row] = await sql.unsafe<{ count: number }[]>(
    `select count(*)::int from pg_stat_activity
     where application_name = 'vitrine' and datname = current_database() and ${condition}`,
  );
  return row?.count ?? 0;
}
