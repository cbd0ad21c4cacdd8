// Maps a client's address to the network that counters and queues use instead.
import { isIPv6 } from 'node:net';

/** Prefixes of IPv6 addresses that end with an IPv4 address: IPv4-mapped (`::ffff:0:0/96`) and NAT64 (`64:ff9b::/96`). */
const IPV4_PREFIXES: readonly (readonly number[])[] = [
  [0, 0, 0, 0, 0, 0xffff],
  [0x64, 0xff9b, 0, 0, 0, 0],
];

/** The eight 16-bit groups of a valid IPv6 address in any notation, with or without a zone. */
function groupsOf(address: string): number[] {
  const [text = ''] = address.split('%', 1);
  const parse = (part: string): number[] =>
    part.split(':').flatMap((group) => {
      if (!group.includes('.')) return group === '' ? [] : [parseInt(group, 16)];
      const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
      return [a * 256 + b, c * 256 + d];
    });
  const [head = '', tail = ''] = text.split('::');
  const [first, last] = [parse(head), parse(tail)];
  return [...first, ...Array<number>(Math.max(0, 8 - first.length - last.length)).fill(0), ...last];
}

const prefixOf = (groups: readonly number[], length: number): string =>
  `${groups.map((group) => group.toString(16)).join(':')}::/${length}`;

/**
 * The network by which a client is counted: an IPv4 address, or the /64 of an IPv6 address, because one host can use every
 * address in its /64. An IPv4 address embedded in an IPv6 address counts as that IPv4 address.
 */
export function clientNetwork(address: string): string {
  if (!isIPv6(address)) return address;
  const groups = groupsOf(address);
  const [high = 0, low = 0] = groups.slice(6);
  if (IPV4_PREFIXES.some((start) => start.every((group, index) => groups[index] === group)))
    return [high >> 8, high & 255, low >> 8, low & 255].join('.');
  return prefixOf(groups.slice(0, 4), 64);
}

/**
 * A client's network and the networks around it, the smallest first. For IPv6 these are the /64, /56 and /48, since providers
 * give a customer any of these sizes.
 */
export function enclosingNetworks(network: string): readonly string[] {
  if (!network.endsWith('::/64')) return [network];
  const [a = 0, b = 0, c = 0, d = 0] = network
    .slice(0, -'::/64'.length)
    .split(':')
    .map((group) => parseInt(group, 16));
  return [network, prefixOf([a, b, c, d & 0xff00], 56), prefixOf([a, b, c], 48)];
}
