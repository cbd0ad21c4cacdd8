import { readdir, readFile, writeFile } from 'node:fs/promises';

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
 * Linux counts in hundredths of a second, as the 12th and 13th word after the name, which stands in parentheses.
 * @param name NaN if the process has another name, because it is not the one that is meant
 */
export async function processorTime(pid: number, name = ''): Promise<number> {
  const stat = await read(pid, 'stat');
  if (!stat.includes(`(${name}`)) return NaN;
  const words = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(words[11] ?? NaN) + Number(words[12] ?? NaN)) * 10_000;
}

const parentOf = (text: string): number => Number(/\) \S (\d+) /.exec(text)?.[1]);

/** The sum of a value over a process and all that it has started. */
export async function sumOf(pid: number, valueOf: (pid: number) => Promise<number>): Promise<number> {
  const all = (await readdir('/proc').catch(() => [])).map(Number).filter((one) => one > 0);
  const parents = new Map(
    await Promise.all(all.map(async (one) => [one, parentOf(await read(one, 'stat'))] as const)),
  );
  const isInFamily = (one: number | undefined): boolean =>
    one === pid || (one !== undefined && isInFamily(parents.get(one)));
  const family = all.length === 0 ? [pid] : all.filter(isInFamily);
  const values = await Promise.all(
    // One that has just ended has no value.
    family.map(async (one) => [one, await valueOf(one)] as const),
  );
  return values.reduce((sum, [one, value]) => (Number.isNaN(value) && one !== pid ? sum : sum + value), 0);
}
