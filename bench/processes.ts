// Processes of this machine: their ends, their children, their memory and their processor time.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

/** Whether a process has ended, by itself or by a signal. */
export const hasEnded = (child: ChildProcess): boolean =>
  child.exitCode !== null || child.signalCode !== null;

/** Waits for the end of a process. */
export async function ended(child: ChildProcess): Promise<void> {
  if (!hasEnded(child)) await once(child, 'exit');
}

/** Sends a signal. The process may have ended already. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/**
 * Tries until the attempt gives something that is neither false nor undefined. What it throws counts as a failed try.
 * @throws Error after the given time, with the last reason
 */
export async function until<T>(
  what: string,
  attempt: () => T | false | undefined | Promise<T | false | undefined>,
  seconds = 60,
  pause = 20,
): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  let last: unknown;
  while (performance.now() < deadline) {
    try {
      const result = await attempt();
      if (result !== false && result !== undefined) return result;
    } catch (error) {
      last = error;
    }
    await sleep(pause);
  }
  throw new Error(`waited ${seconds} s in vain for ${what}`, { cause: last });
}

const read = (pid: number, file: string): Promise<string> =>
  readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '');

async function megabytes(pid: number, field: string): Promise<number> {
  const status = await read(pid, 'status');
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? NaN) / 1024;
}

/** Megabytes of resident memory; NaN where the system has no /proc. */
export const residentMemory = (pid: number): Promise<number> => megabytes(pid, 'VmRSS');

/** Megabytes of resident memory that the process shares with no other. */
export const privateMemory = (pid: number): Promise<number> => megabytes(pid, 'RssAnon');

/** Begins to watch the resident memory. @returns gives the megabytes at its peak since then; NaN where that is not possible */
export async function watchPeak(pid: number): Promise<() => Promise<number>> {
  const isReset = await writeFile(`/proc/${pid}/clear_refs`, '5').then(() => true, () => false); // prettier-ignore
  return () => (isReset ? megabytes(pid, 'VmHWM') : Promise.resolve(NaN));
}

/**
 * Processor time of a process so far, all its threads included, in microseconds; NaN where the system has no /proc.
 * Linux counts in hundredths of a second, as the 12th and 13th word after the name, which is in parentheses.
 * @param name NaN if the process has another name, because it is not the one that is meant
 */
export async function processorTime(pid: number, name = ''): Promise<number> {
  const stat = await read(pid, 'stat');
  if (!stat.includes(`(${name}`)) return NaN;
  const words = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(words[11] ?? NaN) + Number(words[12] ?? NaN)) * 10_000;
}

/** A process and all that it has started, directly or not. */
export async function familyOf(pid: number): Promise<number[]> {
  const all = (await readdir('/proc').catch(() => [])).map(Number).filter((one) => one > 0);
  const parents = new Map(
    await Promise.all(
      all.map(async (one) => [one, Number(/\) \S (\d+) /.exec(await read(one, 'stat'))?.[1])] as const),
    ),
  );
  const belongs = (one: number | undefined): boolean =>
    one === pid || (one !== undefined && belongs(parents.get(one)));
  return all.length === 0 ? [pid] : all.filter(belongs);
}

/** The sum of a value over a process and all that it has started. One that has just ended has no value. */
export async function sumOf(pid: number, valueOf: (pid: number) => Promise<number>): Promise<number> {
  const values = await Promise.all(
    (await familyOf(pid)).map(async (one) => [one, await valueOf(one)] as const),
  );
  return values.reduce((sum, [one, value]) => (Number.isNaN(value) && one !== pid ? sum : sum + value), 0);
}
