// The column types of network addresses. PostgreSQL reads more forms; these are the ones that it outputs, and their variants.
import { isIPv4, isIPv6 } from 'node:net';
import type { ColumnType, Parsed } from './column-type.ts';
import { cidrSchema, inetSchema, macaddrSchema } from './column-schemas.ts';
import { asText, fromString, ORDERED } from './column-type-parts.ts';
import { sql } from '../fragment.ts';
import { messageOf } from '../../messages.ts';

/** Characters. The longest address has 45, and its prefix 4. */
const MAX_LENGTH = 49;

interface Network {
  readonly address: string;
  /** The bits of the whole address. */
  readonly bits: 32 | 128;
  readonly prefix: number;
}

/** An address with an optional prefix; undefined for anything else, such as an address with a zone. */
function parseNetwork(text: string): Network | undefined {
  if (text.length > MAX_LENGTH || text.includes('%')) return undefined;
  const [address = '', prefix, ...more] = text.split('/');
  const bits = isIPv4(address) ? 32 : isIPv6(address) ? 128 : undefined;
  if (bits === undefined || more.length > 0) return undefined;
  if (prefix === undefined) return { address, bits, prefix: bits };
  return /^(0|[1-9]\d{0,2})$/.test(prefix) && Number(prefix) <= bits
    ? { address, bits, prefix: Number(prefix) }
    : undefined;
}

const bitsOfIPv4 = (address: string): string =>
  address
    .split('.')
    .map((part) => Number(part).toString(2).padStart(8, '0'))
    .join('');

/** The bits of an address, as a text of zeros and ones. */
function bitsOf({ address, bits }: Network): string {
  if (bits === 32) return bitsOfIPv4(address);
  const groups = (half: string): string[] =>
    half === ''
      ? []
      : half
          .split(':')
          .map((group) =>
            group.includes('.') ? bitsOfIPv4(group) : parseInt(group, 16).toString(2).padStart(16, '0'),
          );
  const [head = '', tail = ''] = address.split('::');
  const [before, after] = [groups(head).join(''), groups(tail).join('')];
  return before + '0'.repeat(bits - before.length - after.length) + after;
}

function parseInet(text: string): Parsed {
  return parseNetwork(text) ? { value: text } : { fault: messageOf('notAddress') };
}

function parseCidr(text: string): Parsed {
  const network = parseNetwork(text);
  if (!network) return { fault: messageOf('notNetwork') };
  return bitsOf(network).includes('1', network.prefix)
    ? { fault: messageOf('hostBits', { prefix: network.prefix }) }
    : { value: text };
}

/** Six bytes, or eight in a column of the type macaddr8. PostgreSQL would change six bytes to other eight there. */
function parseMacaddr(text: string, { castType }: { readonly castType: string }): Parsed {
  const bytes = castType === 'macaddr8' ? 8 : 6;
  const value = text.slice(0, MAX_LENGTH).toLowerCase().replaceAll('-', ':');
  const isValid = text.length === 3 * bytes - 1 && /^[0-9a-f]{2}(:[0-9a-f]{2})+$/.test(value);
  const example = '08:00:2b:01:02:03:04:05'.slice(0, 3 * bytes - 1);
  return isValid ? { value } : { fault: messageOf('notMacAddress', { example }) };
}

const address = {
  operators: ORDERED,
  json: 'quoted',
  input: { control: 'text', json: 'string' },
} as const;

export const inet: ColumnType = {
  ...address,
  castType: 'inet',
  declare: () => 'inet',
  accepts: ['inet'],
  parse: parseInet,
  fromJson: fromString(parseInet),
  // A cast to text would add the prefix of a single address.
  output: (column) => sql`abbrev(${column}::inet)`,
  schema: inetSchema,
};

export const cidr: ColumnType = {
  ...address,
  castType: 'cidr',
  declare: () => 'cidr',
  accepts: ['cidr'],
  parse: parseCidr,
  fromJson: fromString(parseCidr),
  output: asText,
  schema: cidrSchema,
};

export const macaddr: ColumnType = {
  ...address,
  castType: 'macaddr',
  declare: () => 'macaddr',
  accepts: ['macaddr', 'macaddr8'],
  parse: parseMacaddr,
  fromJson: fromString(parseMacaddr),
  output: asText,
  schema: macaddrSchema,
};
