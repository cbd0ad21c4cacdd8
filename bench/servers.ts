import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { freePort } from '../src/db/connection/embedded.ts';
import { processorTime, residentMemory, sumOf } from './processes.ts';
import { methodOf, type Row } from './rows.ts';

export interface Program {
  readonly name: string;
  readonly parameters: readonly string[];
  /** The path whose first 200 counts as the start. */
  readonly firstPath: string;
  /** The methods that it serves, if not all. */
  readonly methods?: readonly string[];
  /** Further settings. */
  readonly environment?: Readonly<Record<string, string>>;
}

export interface Server {
  readonly name: string;
  readonly port: number;
  readonly serves: (row: Row) => boolean;
  /** Milliseconds from the spawn to the first answer. */
  readonly start: number;
  readonly pid: number;
  /** Megabytes of resident memory, of the process and those that it started. */
  readonly memory: () => Promise<number>;
  /** Processor time so far of the same processes, microseconds. */
  readonly cpu: () => Promise<number>;
  readonly stop: () => Promise<void>;
}

export const VITRINE: Program = {
  name: 'Vitrine',
  parameters: [resolve('dist/main.js'), 'serve'],
  firstPath: '/api/',
};

/** Compiles a server that is written here, so that it starts and fits in memory like the compiled Vitrine. */
export async function compile(name: string, file: string, directory: string): Promise<Program> {
  const source = await readFile(new URL(file, import.meta.url), 'utf8');
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 },
  });
  const target = join(directory, file.replace(/\.ts$/, '.mjs'));
  await writeFile(target, outputText);
  return { name, parameters: [target], firstPath: '/api/message/1/' };
}

/** Lets what is compiled into the directory find the packages of this project. */
export const linkPackages = (directory: string): Promise<void> =>
  symlink(resolve('node_modules'), join(directory, 'node_modules'), 'junction');

/** The status of one GET, or undefined where nobody listens. */
function probe(port: number, path: string): Promise<number | undefined> {
  return new Promise((done) => {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    socket.on('connect', () =>
      socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`),
    );
    socket.on('data', (chunk) => {
      done(Number(chunk.toString('latin1', 9, 12)));
      socket.destroy();
    });
    socket.on('error', () => done(undefined));
    socket.on('close', () => done(undefined));
  });
}

const sleep = (milliseconds: number): Promise<void> => new Promise((done) => setTimeout(done, milliseconds));

/** Milliseconds. A first start may create thousands of tables. */
const MAX_START = 180_000;

async function untilAnswered(port: number, path: string, child: ChildProcess): Promise<void> {
  const until = performance.now() + MAX_START;
  while (performance.now() < until) {
    if ((await probe(port, path)) === 200) return;
    if (child.exitCode !== null) break;
    await sleep(3);
  }
  throw new Error(`GET ${path} is not answered`);
}

/** Starts a server and waits until it answers. */
export async function startServer(program: Program, databaseUrl: string): Promise<Server> {
  const port = await freePort();
  const spawned = performance.now();
  const child = spawn(process.execPath, program.parameters, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      LOG_LEVEL: 'warn',
      DATABASE_URL: databaseUrl,
      PORT: String(port),
      ...program.environment,
    },
  });
  const ended = once(child, 'exit');
  const stop = async (): Promise<void> => {
    child.kill();
    await ended;
  };
  try {
    await untilAnswered(port, program.firstPath, child);
  } catch (error) {
    await stop();
    throw new Error(`${program.name} does not start`, { cause: error });
  }
  const start = performance.now() - spawned;
  const pid = child.pid ?? 0;
  return {
    name: program.name,
    port,
    serves: (row) => !program.methods || program.methods.includes(methodOf(row)),
    start,
    pid,
    memory: () => sumOf(pid, residentMemory),
    cpu: () => sumOf(pid, processorTime),
    stop,
  };
}

/** Makes Vitrine create its tables and its first user, whose hash is a real one. */
export async function addFirstUser(
  databaseUrl: string,
  password: string,
  environment: Program['environment'] = {},
): Promise<void> {
  const child = spawn(process.execPath, [resolve('dist/main.js'), 'user', 'add', 'user1'], {
    stdio: ['pipe', 'inherit', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      DATABASE_URL: databaseUrl,
      LOG_LEVEL: 'warn',
      ...environment,
    },
  });
  child.stdin?.end(password);
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error('vitrine user add failed');
}
