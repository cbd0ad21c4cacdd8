import { hash, verify } from '@node-rs/argon2';
import { createHash, randomBytes } from 'node:crypto';
import { unavailable } from '../errors.ts';

/** OWASP's recommendation for argon2id (algorithm 2): 19 MiB, two passes, one lane. */
const OPTIONS = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 };
/** How many hashes are computed at once, how many more may wait, and for how long (milliseconds). */
const AT_ONCE = 2;
const MOST_WAITING = 64;
const PATIENCE = 3_000;
/** Bytes. */
export const MAX_PASSWORD = 1024;

export interface Passwords {
  /** The PHC string of a password. */
  readonly hash: (password: string) => Promise<string>;
  /**
   * Whether the password belongs to the stored PHC string. Without one, or with one that is none of ours, the same work is
   * done for nothing, so that the time does not tell.
   * @param admit is asked when the turn has come, and may throw to give the turn up
   */
  readonly verify: (stored: string | undefined, password: string, admit?: () => void) => Promise<boolean>;
}

/**
 * A text in a form by which the database can tell whether it holds the very same one, and which tells nothing else of it:
 * `salt:digest`, the digest being the SHA-256 of the salt and the text. A plain password never goes to the database.
 */
export function seal(text: string): string {
  const salt = randomBytes(16).toString('hex');
  return `${salt}:${createHash('sha256').update(`${salt}${text}`).digest('hex')}`;
}

/** The most that verifying a stored hash may take: KiB, and KiB times passes, which is a few seconds. */
const MOST_MEMORY = 1_048_576;
const MOST_WORK = 4 * MOST_MEMORY;

/**
 * Whether a stored hash, which may come from anywhere, does not ask for so much that nothing else gets its turn. Its parameters
 * may stand in any order, but none of them twice: it is not for us to guess which one is meant.
 */
function isAffordable(stored: string): boolean {
  const costs = [...stored.matchAll(/[$,]([^$,=]+)=([^$,]*)/g)];
  const parameters = new Map(costs.map(([, name = '', cost]) => [name, Number(cost)]));
  const { m: memory = 0, t: passes = 0 } = Object.fromEntries(parameters);
  return parameters.size === costs.length && memory <= MOST_MEMORY && memory * passes <= MOST_WORK;
}

/** Argon2 is slow and hungry on purpose: a gate bounds what it can take from the process, whoever asks. */
export function createPasswords(): Passwords {
  let running = 0;
  const waiting: (() => void)[] = [];
  /** A hash that no password belongs to, of the same cost as real ones. */
  const decoy = hash(randomBytes(18).toString('base64'), OPTIONS);

  async function enter(): Promise<void> {
    if (running < AT_ONCE) {
      running += 1;
      return;
    }
    if (waiting.length >= MOST_WAITING) throw unavailable('Too many passwords are being checked. Try again.');
    await new Promise<void>((resolve, reject) => {
      const turn = (): void => {
        clearTimeout(timer);
        resolve(); // the place is handed over: `running` stays as it is
      };
      const timer = setTimeout(() => {
        waiting.splice(waiting.indexOf(turn), 1);
        reject(unavailable('Too many passwords are being checked. Try again.'));
      }, PATIENCE);
      waiting.push(turn);
    });
  }

  function leave(): void {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }

  async function gated<T>(work: () => Promise<T>): Promise<T> {
    await enter();
    try {
      return await work();
    } finally {
      leave();
    }
  }

  return {
    hash: (password) => gated(() => hash(password, OPTIONS)),
    verify: (stored, password, admit) =>
      gated(async () => {
        admit?.();
        if (stored?.startsWith('$argon2') && isAffordable(stored)) {
          try {
            return await verify(stored, password);
          } catch {
            // not a PHC string after all
          }
        }
        await verify(await decoy, password);
        return false;
      }),
  };
}
