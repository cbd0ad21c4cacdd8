import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChildProcess } from 'node:child_process';

/** Whether a process has ended, by itself or by a signal. */
export const hasEnded = (child: ChildProcess): boolean =>
  child.exitCode !== null || child.signalCode !== null;

/** Waits for the end of a process. */
export async function ended(child: ChildProcess): Promise<void> {
  if (!hasEnded(child)) await once(child, 'exit');
}

/**
 * Tries until the attempt gives something that is neither false nor undefined. What it throws counts as a failed try.
 * @throws Error after the given time, with the last reason
 */
export async function until<T>(
  what: string,
  attempt: () => T | false | undefined | Promise<T | false | undefined>,
  seconds = 60,
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
    await sleep(20);
  }
  throw new Error(`waited ${seconds} s in vain for ${what}`, { cause: last });
}
