// Makes all failed logins cost the same, so that their duration does not reveal which users exist.
import { hash } from '@node-rs/argon2';
import { CURRENT_COSTS, workOf, type HashCosts } from './hash-costs.ts';

/** Argon2 needs this much memory for each lane (KiB). */
const MIN_MEMORY = 8;
/** How long the costs of a verified hash count, if no sample of the users contains them (milliseconds). */
const LIFETIME = 24 * 60 * 60_000;

const costlier = (one: HashCosts, other: HashCosts): HashCosts => (workOf(other) > workOf(one) ? other : one);

/** Does as much work as a hash of these costs, apart from work that was done already. */
async function work(costs: HashCosts, done: number): Promise<void> {
  const { timeCost, parallelism } = costs;
  const memoryCost = Math.max(Math.ceil((workOf(costs) - done) / timeCost), MIN_MEMORY * parallelism);
  await hash('', { ...costs, memoryCost });
}

export function createEqualWork() {
  let sampled: HashCosts | undefined;
  /** The costliest hash that was verified, and when. */
  let seen: { readonly costs: HashCosts; readonly at: number } | undefined;

  /** The costs that every failed login has: those of the costliest hash. */
  function costs(): HashCosts {
    const known = sampled ? costlier(CURRENT_COSTS, sampled) : CURRENT_COSTS;
    return seen && seen.at + LIFETIME > Date.now() ? costlier(known, seen.costs) : known;
  }

  return {
    /** Notes the costs of a hash that was verified. */
    note(verified: HashCosts): void {
      if (workOf(verified) >= workOf(costs())) seen = { costs: verified, at: Date.now() };
    },

    /**
     * Does what is left of the work of a failed login.
     * @param verified the costs of the hash that was verified, if there was one
     */
    async complete(verified: HashCosts | undefined): Promise<void> {
      const all = costs();
      const done = verified ? workOf(verified) : 0;
      if (done < workOf(all)) await work(all, done);
    },

    /** Takes over the costs of the hashes of users. */
    async matchCosts(used: readonly HashCosts[]): Promise<void> {
      let most: HashCosts | undefined;
      for (const one of used.toSorted((a, b) => workOf(b) - workOf(a))) {
        // The library cannot verify a hash whose costs it cannot hash with.
        const isUsable = await hash('', one).then(Boolean, () => false);
        if (isUsable) {
          most = one;
          break;
        }
      }
      sampled = most;
    },
  };
}
