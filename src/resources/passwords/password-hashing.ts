import { hash, verify } from '@node-rs/argon2';
import { createHash, randomBytes } from 'node:crypto';
import { createDecoys } from './decoy-hashes.ts';
import { createGate, type Turn } from './password-gate.ts';
import { COSTS, costsOf, isSameCost, type UsedCosts } from './hash-costs.ts';

/** Two hashes at once, one of them at most for strangers, and one at most for new passwords. */
const GATE = { atOnce: 2, reserved: 1, maxWaiting: 200, maxWait: 2_000 };

/** Who waits for its turn where no client does: a command, or the service itself. */
const SERVICE: Turn = { client: 'service', standing: 'address' };

export interface Verification extends Partial<Turn> {
  /** The name that the client gave, which chooses the decoy of an unknown user. */
  readonly name?: string;
  /** Called when the turn has come; it may throw to give the turn up. */
  readonly admit?: () => void;
}

export interface Passwords {
  /**
   * The PHC string of a password.
   * @param turn its turn; what it leaves out is that of a new password of the service
   */
  readonly hash: (password: string, turn?: Partial<Turn>) => Promise<string>;
  /**
   * Whether the password matches the stored PHC string. Without one, or with one that cannot be verified, a decoy is verified, so
   * that the time does not tell.
   */
  readonly verify: (stored: string | undefined, password: string, how?: Verification) => Promise<boolean>;
  /** Whether a stored hash has the costs of new ones. */
  readonly isCurrent: (stored: string) => boolean;
  /** Makes decoys cost what the hashes of users cost. */
  readonly imitate: (used: readonly UsedCosts[]) => Promise<void>;
}

/**
 * A text in a form by which the database can tell whether it holds the very same one, and which tells nothing else of it:
 * `salt:digest`, the digest being the SHA-256 of the salt and the text. A plain password never goes to the database.
 */
export function saltedDigest(text: string): string {
  const salt = randomBytes(16).toString('hex');
  return `${salt}:${createHash('sha256').update(`${salt}${text}`).digest('hex')}`;
}

/** Argon2 is slow and needs much memory on purpose: a gate bounds what clients can take from the process. */
export function createPasswords(): Passwords {
  const gate = createGate(GATE);
  const decoys = createDecoys();

  return {
    hash: (password, turn) => gate({ ...SERVICE, standing: 'new', ...turn }, () => hash(password, COSTS)),

    verify: (stored, password, { name = '', admit, ...turn } = {}) =>
      gate({ ...SERVICE, ...turn }, async () => {
        admit?.();
        if (stored !== undefined && costsOf(stored)) {
          try {
            return await verify(stored, password);
          } catch {
            // not a PHC string after all
          }
        }
        await verify(await decoys.of(name), password);
        return false;
      }),

    isCurrent: (stored) => {
      const costs = costsOf(stored);
      return costs !== undefined && isSameCost(costs, COSTS);
    },

    imitate: (used) => decoys.imitate(used),
  };
}
