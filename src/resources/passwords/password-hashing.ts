// Hashes and verifies passwords with argon2.
import { hash, verify } from '@node-rs/argon2';
import { createHash, randomBytes } from 'node:crypto';
import { MAX_PASSWORD } from '../../db/types/password-text.ts';
import { createEqualWork } from './equal-work.ts';
import { createGate, GATE_LIMITS, type SlotRequest } from './password-gate.ts';
import { CURRENT_COSTS, costsOf, isSameCost, type HashCosts } from './hash-costs.ts';

/** The default requester: a command, or the service itself. */
const SERVICE: SlotRequest = { client: 'service', priority: 'network' };

interface Verification extends Partial<SlotRequest> {
  /** Called right before the verification. Throws to skip it. @returns whether the right password succeeds */
  readonly admit?: () => boolean;
}

/**
 * The form NFKC, in which keyboards and systems that encode a character differently agree. A text that is too long for a password
 * stays as it is: long runs of combining marks take quadratic time.
 */
const normalized = (password: string): string =>
  password.length <= MAX_PASSWORD ? password.normalize('NFKC') : password;

/**
 * `salt:digest`, the digest being the SHA-256 of the salt and the text. The database can compare it with a stored text, but
 * cannot recover the text from it: plain passwords are never sent to the database.
 */
export function saltedDigest(text: string): string {
  const salt = randomBytes(16).toString('hex');
  return `${salt}:${createHash('sha256').update(`${salt}${text}`).digest('hex')}`;
}

export type Passwords = ReturnType<typeof createPasswords>;

/** Argon2 is slow and uses much memory on purpose, so a gate limits how many hashes run at once. */
export function createPasswords() {
  const gate = createGate(GATE_LIMITS);
  const equalWork = createEqualWork();

  /** Whether the text matches the stored PHC string, and may. If not, it takes as long as for the costliest hash. */
  async function matches(stored: string | undefined, text: string, isUsable: boolean): Promise<boolean> {
    let verified = stored === undefined ? undefined : costsOf(stored);
    if (stored !== undefined && verified) {
      try {
        const isRight = await verify(stored, text);
        if (isRight && isUsable) return true;
        equalWork.note(verified);
      } catch {
        verified = undefined; // It is not a valid PHC string.
      }
    }
    await equalWork.complete(verified);
    return false;
  }

  return {
    /**
     * The PHC string of a password, in its form NFKC.
     * @param request defaults to a new password that the service sets
     */
    hash: (password: string, request?: Partial<SlotRequest>): Promise<string> =>
      gate({ ...SERVICE, priority: 'new', ...request }, () => hash(normalized(password), CURRENT_COSTS)),

    /**
     * Whether the password matches the stored PHC string, as it is or in its form NFKC. If not, if there is none, or if it cannot be
     * verified, all answers for the password take equally long.
     */
    verify: (
      stored: string | undefined,
      password: string,
      { admit, ...request }: Verification = {},
    ): Promise<boolean> =>
      gate({ ...SERVICE, ...request }, async () => {
        const isUsable = admit?.() ?? true;
        for (const text of new Set([password, normalized(password)]))
          if (await matches(stored, text, isUsable)) return true;
        return false;
      }),

    /** Whether a stored hash has the costs of new hashes. */
    isCurrent: (stored: string): boolean => {
      const costs = costsOf(stored);
      return costs !== undefined && isSameCost(costs, CURRENT_COSTS);
    },

    /** Lets failed logins cost as much as the costliest of these hashes. */
    matchCosts: (used: readonly HashCosts[]): Promise<void> => equalWork.matchCosts(used),
  };
}
