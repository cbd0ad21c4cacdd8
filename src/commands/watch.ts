// `vitrine serve --watch`: runs the service under Node's own `--watch`, which starts it again when a file that it imports changes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { INHERITED } from './env-file.ts';

/** Set for a service that is a single process and ends with the process that watches it. */
export const WATCHED_BY_PARENT = 'VITRINE_WATCHED';

/**
 * Runs the service until a signal ends it.
 * @param program the path of `vitrine`
 * @returns the exit code of the service
 */
export async function serveWatching(program: string): Promise<number> {
  const options = [...process.execArgv, '--watch', '--watch-preserve-output'];
  const watcher = spawn(process.execPath, [...options, program, 'serve'], {
    // Each start reads .env again.
    env: { ...INHERITED, [WATCHED_BY_PARENT]: '1' },
    stdio: 'inherit',
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    const earlyListeners = process.listeners(signal); // from bin/vitrine.js
    process.on(signal, () => watcher.kill(signal === 'SIGHUP' ? 'SIGTERM' : signal));
    for (const listener of earlyListeners) process.off(signal, listener);
  }
  const [code] = (await once(watcher, 'exit')) as [number | null];
  return code ?? 0;
}
