import { readFile } from 'node:fs/promises';

const read = (pid: number, file: string): Promise<string> =>
  readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '');

/** Megabytes of resident memory; NaN where the system has no /proc. */
export async function residentMemory(pid: number): Promise<number> {
  return Number(/VmRSS:\s+(\d+) kB/.exec(await read(pid, 'status'))?.[1] ?? NaN) / 1024;
}

/**
 * Processor time of a process so far, all its threads included, in microseconds; NaN where the system has no /proc.
 * Linux counts in hundredths of a second, as the 12th and 13th word after the name, which stands in parentheses.
 * @param name NaN if the process has another name, because it is not the one that is meant
 */
export async function processorTime(pid: number, name = ''): Promise<number> {
  const stat = await read(pid, 'stat');
  if (!stat.includes(`(${name}`)) return NaN;
  const words = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(words[11] ?? NaN) + Number(words[12] ?? NaN)) * 10_000;
}
