import type { Options } from '@node-rs/argon2';

/** What makes verifying an argon2 hash take its time. */
export type HashCosts = Required<
  Pick<Options, 'algorithm' | 'version' | 'memoryCost' | 'timeCost' | 'parallelism'>
>;

/** Costs, and how many of the users have a hash with them. */
export interface UsedCosts {
  readonly costs: HashCosts;
  readonly users: number;
}

/** OWASP's recommendation for argon2id (algorithm 2): 19 MiB, two passes, one lane. */
export const COSTS: HashCosts = {
  algorithm: 2,
  version: 1,
  memoryCost: 19_456,
  timeCost: 2,
  parallelism: 1,
};

/** Characters: a stored text that is longer is no hash. */
const MOST_CHARACTERS = 1024;
/** The most that verifying a stored hash may take: KiB, and KiB times passes, which is a few seconds. */
const MOST_MEMORY = 1_048_576;
const MOST_WORK = 4 * MOST_MEMORY;

const ALGORITHMS = ['argon2d', 'argon2i', 'argon2id'];
/** 0x10 and 0x13, as the library counts them. */
const VERSIONS = [16, 19];

/**
 * The costs of a stored text, or undefined where it is no argon2 hash or asks for so much that nothing else gets its turn. The
 * parameters may stand in any order. A text with one of them twice is not verified, since implementations differ in which counts.
 */
export function costsOf(stored: string): HashCosts | undefined {
  const name = /^\$(argon2(?:id|i|d))\$/.exec(stored.slice(0, 10))?.[1];
  if (name === undefined || stored.length > MOST_CHARACTERS) return undefined;
  const pairs = [...stored.matchAll(/[$,]([^$,=]+)=([^$,]*)/g)];
  const values = new Map(pairs.map(([, key = '', value]) => [key, Number(value)]));
  if (values.size !== pairs.length) return undefined;
  const [memoryCost = 0, timeCost = 0, parallelism = 1] = ['m', 't', 'p'].map((key) => values.get(key));
  const isAffordable = memoryCost <= MOST_MEMORY && memoryCost * timeCost <= MOST_WORK;
  if (!isAffordable || memoryCost < 1 || timeCost < 1) return undefined;
  const version = VERSIONS.indexOf(values.get('v') ?? 16);
  return { algorithm: ALGORITHMS.indexOf(name), version, memoryCost, timeCost, parallelism };
}

/** Whether two costs are the same. */
export const isSameCost = (one: HashCosts, other: HashCosts): boolean =>
  Object.entries(one).every(([key, value]) => other[key as keyof HashCosts] === value);
