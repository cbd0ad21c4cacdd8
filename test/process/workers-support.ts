// Helpers for tests of several processes.
import { readFileSync, readdirSync } from 'node:fs';
import { request as send } from 'node:http';
import { once } from 'node:events';
import { until, type Program } from './support.ts';

/** The processes that a process has started and that run. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const [state, parent] = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
        return Number(parent) === pid && state !== 'Z' ? [Number(name)] : [];
      } catch {
        return []; // it has ended
      }
    });
}

/** The state of a process as a letter, such as T for one that is stopped; Z if it is gone. */
export const stateOf = (pid: number): string | undefined => {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.[0];
  } catch {
    return 'Z';
  }
};

export const isRunning = (pid: number): boolean => stateOf(pid) !== 'Z';

/** Works while the other processes are stopped, so that this one gets all new connections. */
export async function whileAlone<T>(pid: number, service: Program, work: () => Promise<T>): Promise<T> {
  const others = workersOf(service).filter((other) => other !== pid);
  for (const other of others) process.kill(other, 'SIGSTOP');
  try {
    await until('the others to stop', () => others.every((other) => stateOf(other) === 'T'));
    return await work();
  } finally {
    for (const other of others) process.kill(other, 'SIGCONT');
  }
}

/** The processes of WORKERS, in the order of their ids. */
export const workersOf = ({ child }: Pick<Program, 'child'>): number[] => childrenOf(child.pid ?? 0).sort();

/** How many lines of the log match. */
export const lines = ({ stderr }: Pick<Program, 'stderr'>, pattern: RegExp): number =>
  (stderr().match(new RegExp(pattern, 'gm')) ?? []).length;

export interface Got {
  readonly status: number;
  readonly text: string;
}

/** A request on a new connection, which any process may get. */
export async function ask(
  base: string,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
  body = '',
): Promise<Got> {
  const outgoing = send(`${base}${path}`, {
    agent: false,
    headers,
    method,
    signal: AbortSignal.timeout(30_000),
  });
  outgoing.end(body);
  const [response] = await once(outgoing, 'response');
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk as string;
  return { status: response.statusCode as number, text };
}

/** The value of a metric, from the address that the service has logged; NaN if it is absent. */
export async function metric({ stderr }: Pick<Program, 'stderr'>, sample: string): Promise<number> {
  const [, address = ''] = /"metrics at (http[^"]*)"/.exec(stderr()) ?? [];
  const { text } = await ask(address, '');
  const line = text.split('\n').find((one) => one.startsWith(`${sample} `));
  return line === undefined ? NaN : Number(line.slice(sample.length));
}

/** Waits until all processes that a service has started have ended. */
export const allEnded = (pids: readonly number[]): Promise<unknown> =>
  until('the processes to end', () => pids.every((pid) => !isRunning(pid)));
