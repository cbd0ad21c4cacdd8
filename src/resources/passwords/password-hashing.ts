// Hashes and verifies passwords with argon2.
import { hash, verify } from '@node-rs/argon2';
import { createHash, randomBytes } from 'node:crypto';
import { Lane, type LaneClient } from '../../db/lanes/lane.ts';
import { ClientGone, SERVICE } from '../../db/lanes/requester.ts';
import { MAX_PASSWORD } from '../../db/types/password-text.ts';
import { createEqualWork } from './equal-work.ts';
import { CURRENT_COSTS, costsOf, isSameCost, type HashCosts } from './hash-costs.ts';

const BUSY = 'Too many passwords are being checked. Try again.';
/**
 * Argon2 is slow and uses much memory on purpose, so few hashes run at once. Clients that have logged in lately have a lane of their
 * own, which those that try passwords or set new ones cannot fill.
 */
const LANES = {
  known: { connections: 2, maxWait: 10_000, full: BUSY },
  others: { connections: 1, maxWait: 10_000, full: BUSY },
};

/** Whose turn a hash takes, and in which lane. */
export interface HashTurn {
  readonly client: LaneClient;
  readonly lane: keyof typeof LANES;
}

interface Verification {
  /** Default: the service itself. */
  readonly turn?: HashTurn;
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

const OWN_TURN: HashTurn = { client: SERVICE, lane: 'known' };

export type Passwords = ReturnType<typeof createPasswords>;

export function createPasswords() {
  const lanes = { known: new Lane(LANES.known), others: new Lane(LANES.others) };
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

  async function inTurn<T>({ client, lane }: HashTurn, work: () => Promise<T>): Promise<T> {
    let isGone = false;
    const stopListening = client.onGone(() => (isGone = true));
    try {
      const leave = await lanes[lane].enter(client);
      try {
        if (isGone) throw new ClientGone();
        return await work();
      } finally {
        leave();
      }
    } finally {
      stopListening();
    }
  }

  return {
    /** The counters of the lanes. */
    lanes: () => ({ 'known-logins': lanes.known.state, passwords: lanes.others.state }),

    /**
     * The PHC string of a password, in its form NFKC.
     * @param turn default: that of the service itself
     * @throws Problem 503 when the wait is too long; ClientGone
     */
    hash: (password: string, turn: HashTurn = OWN_TURN): Promise<string> =>
      inTurn(turn, () => hash(normalized(password), CURRENT_COSTS)),

    /**
     * Whether the password matches the stored PHC string, as it is or in its form NFKC. If not, if there is none, or if it cannot be
     * verified, all answers for the password take equally long.
     * @throws Problem 503 when the wait is too long; ClientGone
     */
    verify: (
      stored: string | undefined,
      password: string,
      { admit, turn = OWN_TURN }: Verification = {},
    ): Promise<boolean> =>
      inTurn(turn, async () => {
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
