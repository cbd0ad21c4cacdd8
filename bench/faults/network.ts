import { startProxy } from '../../test/process/proxy.ts';
import { SERVICE_SIDE, type Cluster } from './cluster.ts';
import { command, isIsolated } from './isolation.ts';

/** The network between the service and PostgreSQL. */
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
function createNamespaceNetwork({ port, url }: Cluster): Network {
  const drop = (...match: string[]): void => {
    const ports = [
      ['-d', SERVICE_SIDE, '-p', 'tcp', '--dport', String(port)],
      ['-s', SERVICE_SIDE, '-p', 'tcp', '--sport', String(port)],
    ];
    for (const packets of ports) command('iptables', '-w', '-A', 'INPUT', ...packets, ...match, '-j', 'DROP');
  };
  const heal = (): Promise<void> => Promise.resolve(command('iptables', '-w', '-F', 'INPUT'));
  return {
    kind: 'network namespace',
    url,
    disturb: () => drop('-m', 'statistic', '--mode', 'random', '--probability', LOSS),
    swallow: () => drop(),
    heal,
    close: heal,
  };
}

/** A TCP proxy, which cannot lose single packets: it cuts and silences connections. */
async function createProxyNetwork({ url }: Cluster): Promise<Network> {
  const proxy = await startProxy(url.replace(SERVICE_SIDE, '127.0.0.1'));
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
export const createNetwork = async (cluster: Cluster): Promise<Network> =>
  isIsolated() ? createNamespaceNetwork(cluster) : createProxyNetwork(cluster);
