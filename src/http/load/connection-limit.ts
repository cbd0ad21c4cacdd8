// How many connections may be open at once, because each of them takes memory and a file.
import { readFileSync } from 'node:fs';
import { memoryLimit } from './overload.ts';

/** Bytes that a connection takes while it sends the largest head: Node keeps it in two forms. */
const CONNECTION_SIZE = 64 * 1024;
/** The part of the memory that connections may take, if they are between these numbers. */
const SHARE = 1 / 4;
const [MIN_CONNECTIONS, MAX_CONNECTIONS] = [1_024, 4_096];
/** Files of a process beside its connections to clients: the program, the log, and connections to PostgreSQL. */
const OTHER_FILES = 200;

/** How many files this process may have open; Infinity if the system does not say. Node.js raises the limit to its maximum. */
function openFileLimit(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return Number(limit ?? Infinity);
  } catch {
    return Infinity;
  }
}

/** Maximum open connections of one of several processes, which have this memory (bytes) together, and so many files each. */
export function maxConnections(processes = 1, memory = memoryLimit(), files = openFileLimit()): number {
  const fitting = Math.floor((memory * SHARE) / CONNECTION_SIZE / processes);
  const affordable = Math.min(MAX_CONNECTIONS, Math.max(MIN_CONNECTIONS, fitting));
  return Math.max(1, Math.min(affordable, files - OTHER_FILES));
}

/** The warning about a limit of open files that lowers the number of connections; undefined if it does not. */
export function openFilesWarning(processes: number, files = openFileLimit()): string | undefined {
  const wanted = maxConnections(processes, undefined, Infinity);
  const possible = maxConnections(processes, undefined, files);
  if (possible === wanted) return undefined;
  return `only ${possible} connections at once, because a process may have ${files} files open; allow ${wanted + OTHER_FILES} (LimitNOFILE of systemd, ulimit -n)`;
}
