// Hashes and verifies passwords with argon2.
import { hash, verify, type Options } from '@node-rs/argon2';
import { createHash, randomBytes } from 'node:crypto';
import { Lane, type LaneClient } from '../../db/lanes/lane.ts';
import { ClientGone, SERVICE } from '../../db/lanes/requester.ts';
import { normalized } from '../../db/types/password-text.ts';
import { messageOf } from '../../messages.ts';

type HashCosts = Required<Pick<Options, 'algorithm' | 'version' | 'memoryCost' | 'timeCost' | 'parallelism'>>;

/** The costs of new hashes, as OWASP recommends for argon2id (algorithm 2): 19 MiB, two passes, one lane. */
export const CURRENT_COSTS: HashCosts = {
  algorithm: 2,
  version: 1,
  memoryCost: 19_456,
  timeCost: 2,
  parallelism: 1,
};

/** Limits for verifying a stored hash: characters, KiB of memory, and KiB times passes (a few seconds). */
const MAX_LENGTH = 1024;
const MAX_MEMORY = 1_048_576;
const MAX_WORK = 4 * MAX_MEMORY;

/** An argon2 hash whose parameters are in their fixed order. The library takes others, too: a repeated one would hide the costs. */
const ARGON2 = /^\$argon2(?:id|i|d)\$(?:v=\d+\$)?m=(\d+),t=(\d+),p=\d+\$/;

/** Whether a stored text is an argon2 hash that does not cost so much that other work would stall. */
function isVerifiable(stored: string): boolean {
  const costs = stored.length > MAX_LENGTH ? null : ARGON2.exec(stored);
  if (!costs) return false;
  const [memoryCost, timeCost] = [Number(costs[1]), Number(costs[2])];
  return memoryCost <= MAX_MEMORY && memoryCost * timeCost <= MAX_WORK;
}

/**
 * Argon2 is slow and uses much memory on purpose, so few hashes run at once. Clients that have logged in lately have a lane of their
 * own, which those that try passwords or set new ones cannot fill.
 */
const LANES = {
  known: { connections: 2, maxWait: 10_000, full: messageOf('tooManyChecks') },
  others: { connections: 1, maxWait: 10_000, full: messageOf('tooManyChecks') },
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

  /** Whether the text matches the stored PHC string. Without one that can be verified, it costs as much as a current hash. */
  async function matches(stored: string | undefined, text: string): Promise<boolean> {
    if (stored !== undefined && isVerifiable(stored)) {
      try {
        return await verify(stored, text);
      } catch {
        // It is not a valid PHC string.
      }
    }
    await hash('', CURRENT_COSTS); // as long as for any text, and a text that is too long is not hashed
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
     * Whether the password matches the stored PHC string, as it is or in its form NFKC. If there is none, or if it cannot be verified,
     * the answer takes as long as for a current hash, so that its duration does not reveal which users exist.
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
          if ((await matches(stored, text)) && isUsable) return true;
        return false;
      }),

    /** Whether a stored hash has the costs of new hashes. */
    isCurrent: (stored: string): boolean => {
      const { memoryCost, timeCost, parallelism } = CURRENT_COSTS;
      return stored.startsWith(`$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$`);
    },
  };
}
