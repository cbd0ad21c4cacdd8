import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

const MARK = 'FAULTS_ISOLATED';

/** Whether this process has a network and mounts of its own. */
export const isIsolated = (): boolean => process.env[MARK] === '1';

const succeeds = (command: string, ...words: string[]): boolean =>
  spawnSync(command, words, { stdio: 'ignore' }).status === 0;

/** Whether the system lets this user drop packets and mount file systems in namespaces. */
const mayIsolate = (): boolean =>
  succeeds(
    'unshare',
    '--net',
    '--mount',
    'sh',
    '-c',
    'ip link set lo up && iptables -w -A INPUT -p tcp -m statistic --mode random --probability 0.5 -j DROP',
  );

/**
 * Runs this program again in a network namespace and a mount namespace, where both are permitted. They end with it, and no
 * other process notices what it does there.
 * @returns the exit code, or undefined where the program has to go on in this process
 */
export async function runIsolated(): Promise<number | undefined> {
  if (isIsolated() || !mayIsolate()) return undefined;
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn(
    'unshare',
    ['--net', '--mount', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...words],
    {
      stdio: 'inherit',
      env: { ...process.env, [MARK]: '1' },
    },
  );
  // The child is in the terminal's process group, and ends what it has started.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}

/** Runs a command of the system, which must succeed. */
export function command(name: string, ...words: string[]): void {
  const { status, stderr } = spawnSync(name, words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${name} ${words.join(' ')} failed: ${stderr}`);
}
