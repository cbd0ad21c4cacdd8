// The costs of new and of stored argon2 hashes.
import type { Options } from '@node-rs/argon2';

/** The parameters of an argon2 hash. They determine how long a verification takes. */
export type HashCosts = Required<
  Pick<Options, 'algorithm' | 'version' | 'memoryCost' | 'timeCost' | 'parallelism'>
>;

/** The costs of new hashes, as OWASP recommends for argon2id (algorithm 2): 19 MiB, two passes, one lane. */
export const CURRENT_COSTS: HashCosts = {
  algorithm: 2,
  version: 1,
  memoryCost: 19_456,
  timeCost: 2,
  parallelism: 1,
};

/** Characters. A longer text is not a hash. */
const MAX_LENGTH = 1024;
/** Limits for verifying a stored hash: KiB of memory, and KiB times passes (a few seconds). */
const MAX_MEMORY = 1_048_576;
const MAX_WORK = 4 * MAX_MEMORY;

const ALGORITHMS = ['argon2d', 'argon2i', 'argon2id'];
/** Argon2 versions 0x10 and 0x13; the library takes their index. */
const VERSIONS = [16, 19];

/**
 * The costs of a stored hash, with its parameters in any order. Undefined when the text is not an argon2 hash, or when it costs
 * so much that other work would stall. Also undefined for a repeated parameter: implementations differ in which one counts.
 */
export function costsOf(stored: string): HashCosts | undefined {
  const name = /^\$(argon2(?:id|i|d))\$/.exec(stored.slice(0, 10))?.[1];
  if (name === undefined || stored.length > MAX_LENGTH) return undefined;
  const pairs = [...stored.matchAll(/[$,]([^$,=]+)=([^$,]*)/g)];
  const values = new Map(pairs.map(([, key = '', value]) => [key, Number(value)]));
  if (values.size !== pairs.length) return undefined;
  const [memoryCost = 0, timeCost = 0, parallelism = 1] = ['m', 't', 'p'].map((key) => values.get(key));
  const isAffordable = memoryCost <= MAX_MEMORY && memoryCost * timeCost <= MAX_WORK;
  if (!isAffordable || memoryCost < 1 || timeCost < 1) return undefined;
  const version = VERSIONS.indexOf(values.get('v') ?? 16);
  return { algorithm: ALGORITHMS.indexOf(name), version, memoryCost, timeCost, parallelism };
}

/** What a hash costs: KiB times passes. The time is in proportion to it. */
export const workOf = ({ memoryCost, timeCost }: HashCosts): number => memoryCost * timeCost;

export const isSameCost = (one: HashCosts, other: HashCosts): boolean =>
  Object.entries(one).every(([key, value]) => other[key as keyof HashCosts] === value);
