// The network between the service and PostgreSQL, which can fail.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { startProxy } from '../../test/process/proxy.ts';
import { HOST, SERVICE_SIDE, type Server } from '../postgres.ts';

const MARK = 'FAULTS_ISOLATED';

/** Whether this process has a network and mounts of its own. */
export const isIsolated = (): boolean => process.env[MARK] === '1';

/** Runs a command of the system, which must succeed. */
export function command(name: string, ...words: string[]): void {
  const { status, stderr } = spawnSync(name, words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${name} ${words.join(' ')} failed: ${stderr}`);
}

const UNSHARE = ['--net', '--mount', 'sh', '-c'];
/** Whether the system lets this user drop packets and mount file systems in namespaces. */
const TRY =
  'ip link set lo up && iptables -w -A INPUT -p tcp -m statistic --mode random --probability 0.5 -j DROP';

/**
 * Runs this program again in a network namespace and a mount namespace, where both are permitted. They end with it, and no
 * other process notices what it does there.
 * @returns the exit code, or undefined where the program has to go on in this process
 */
export async function runIsolated(): Promise<number | undefined> {
  if (isIsolated() || spawnSync('unshare', [...UNSHARE, TRY], { stdio: 'ignore' }).status !== 0)
    return undefined;
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn('unshare', [...UNSHARE, 'ip link set lo up && exec "$@"', 'sh', ...words], {
    stdio: 'inherit',
    env: { ...process.env, [MARK]: '1' },
  });
  // The child is in the terminal's process group, and ends what it has started.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}

export interface Network {
  readonly kind: 'network namespace' | 'proxy';
  /** The address of the database through it. */
  readonly url: string;
  /** Loses some of the packets, or without packets lets connections break one after the other. */
  readonly disturb: () => void;
  /** Loses everything, and reports nothing to either side. */
  readonly swallow: () => void;
  readonly heal: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** The share of packets that get lost. */
const LOSS = '0.4';

/** Rules of iptables, in the namespace of this process alone. */
function createNamespaceNetwork({ port, url }: Server): Network {
  const drop = (...match: string[]): void => {
    for (const [address, direction] of [
      ['-d', '--dport'],
      ['-s', '--sport'],
    ] as const) {
      const packets = [address, SERVICE_SIDE, '-p', 'tcp', direction, String(port)];
      command('iptables', '-w', '-A', 'INPUT', ...packets, ...match, '-j', 'DROP');
    }
  };
  const heal = (): Promise<void> => Promise.resolve(command('iptables', '-w', '-F', 'INPUT'));
  return {
    kind: 'network namespace',
    url: url.replace(HOST, SERVICE_SIDE),
    disturb: () => drop('-m', 'statistic', '--mode', 'random', '--probability', LOSS),
    swallow: () => drop(),
    heal,
    close: heal,
  };
}

/** A TCP proxy, which cannot lose single packets: it cuts and silences connections. */
async function createProxyNetwork({ url }: Server): Promise<Network> {
  const proxy = await startProxy(url);
  let disturbing: NodeJS.Timeout | undefined;
  return {
    kind: 'proxy',
    url: proxy.url,
    disturb: () => {
      disturbing = setInterval(() => {
        if (Math.random() < 0.2) proxy.cut();
        else proxy.silence(() => Math.random() < 0.2);
      }, 100);
    },
    swallow: proxy.swallow,
    heal: async () => {
      clearInterval(disturbing);
      await proxy.open();
      // What was swallowed never arrives: a network that comes back has forgotten these connections.
      proxy.cut();
    },
    close: async () => {
      clearInterval(disturbing);
      await proxy.close();
    },
  };
}

/** Puts the network that this system permits between the service and PostgreSQL. */
export const createNetwork = async (server: Server): Promise<Network> =>
  isIsolated() ? createNamespaceNetwork(server) : createProxyNetwork(server);
