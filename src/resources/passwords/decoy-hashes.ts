import { hash } from '@node-rs/argon2';
import { createHmac, randomBytes } from 'node:crypto';
import { COSTS, type HashCosts, type UsedCosts } from './hash-costs.ts';

interface Decoy {
  readonly stored: Promise<string>;
  readonly users: number;
}

/**
 * Hashes that no password matches, verified for unknown users. Each name has a decoy of its own choice, with the same costs as
 * often as users have them, so that the time of a failed login does not show whether there is such a user.
 */
export interface Decoys {
  readonly of: (name: string) => Promise<string>;
  /** Imitates the hashes of a sample of users from now on. */
  readonly imitate: (used: readonly UsedCosts[]) => Promise<void>;
}

export function createDecoys(): Decoys {
  const key = randomBytes(32);
  const made = new Map<string, Promise<string>>();

  /** Computed once for each kind of costs. */
  function make(costs: HashCosts): Promise<string> {
    const name = JSON.stringify(costs);
    const stored = made.get(name) ?? hash(randomBytes(18).toString('base64'), costs);
    made.set(name, stored);
    stored.catch(() => made.delete(name));
    return stored;
  }

  let decoys: readonly Decoy[] = [{ stored: make(COSTS), users: 1 }];

  return {
    of(name) {
      const total = decoys.reduce((sum, { users }) => sum + users, 0);
      const digest = createHmac('sha256', key).update(name).digest();
      let at = (digest.readUInt32BE(0) / 2 ** 32) * total;
      const chosen = decoys.find(({ users }) => (at -= users) < 0) ?? decoys[0];
      return chosen?.stored ?? make(COSTS);
    },

    async imitate(used) {
      const next: Decoy[] = [];
      for (const { costs, users } of used) {
        // Costs that the library cannot hash with cannot be verified either.
        const stored = make(costs);
        if (await stored.then(Boolean, () => false)) next.push({ stored, users });
      }
      if (next.length > 0) decoys = next;
      for (const name of made.keys())
        if (!used.some(({ costs }) => JSON.stringify(costs) === name)) made.delete(name);
    },
  };
}
