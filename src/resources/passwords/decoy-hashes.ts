import { hash } from '@node-rs/argon2';
import { createHmac, randomBytes } from 'node:crypto';
import { CURRENT_COSTS, type HashCosts, type UsedCosts } from './hash-costs.ts';

interface Decoy {
  readonly hash: Promise<string>;
  readonly users: number;
}

/**
 * Hashes that no password matches. A login with an unknown name verifies one of them, so that its duration does not reveal
 * whether the user exists. The decoys have the same mix of costs as the hashes of real users.
 */
export function createDecoys(secret: Buffer = randomBytes(32)) {
  /** One hash for each combination of costs, by the JSON of the costs. */
  const hashes = new Map<string, Promise<string>>();

  function hashWith(costs: HashCosts): Promise<string> {
    const key = JSON.stringify(costs);
    const made = hashes.get(key) ?? hash(randomBytes(18).toString('base64'), costs);
    hashes.set(key, made);
    made.catch(() => hashes.delete(key));
    return made;
  }

  let decoys: readonly Decoy[] = [{ hash: hashWith(CURRENT_COSTS), users: 1 }];

  return {
    /** The decoy of a name, always the same one while the mix of costs stays. */
    hashFor: (name: string): Promise<string> => {
      const total = decoys.reduce((sum, { users }) => sum + users, 0);
      const digest = createHmac('sha256', secret).update(name).digest();
      let position = (digest.readUInt32BE(0) / 2 ** 32) * total;
      const chosen = decoys.find(({ users }) => (position -= users) < 0) ?? decoys[0];
      return chosen?.hash ?? hashWith(CURRENT_COSTS);
    },

    /** Replaces the mix of costs by that of a sample of users. */
    imitate: async (used: readonly UsedCosts[]): Promise<void> => {
      const next: Decoy[] = [];
      for (const { costs, users } of used) {
        // The library cannot verify a hash whose costs it cannot hash with.
        const made = hashWith(costs);
        if (await made.then(Boolean, () => false)) next.push({ hash: made, users });
      }
      if (next.length > 0) decoys = next;
      for (const key of hashes.keys())
        if (!used.some(({ costs }) => JSON.stringify(costs) === key)) hashes.delete(key);
    },
  };
}
