// An authenticator app for tests, written anew from RFC 4226 and RFC 6238.
import { createHash, createHmac } from 'node:crypto';
import type { TestDatabase } from './server.ts';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

function keyOf(secret: string): Buffer {
  let bits = 0n;
  for (const letter of secret) bits = (bits << 5n) | BigInt(ALPHABET.indexOf(letter));
  const bytes = Math.floor((secret.length * 5) / 8);
  return Buffer.from((bits >> BigInt((secret.length * 5) % 8)).toString(16).padStart(2 * bytes, '0'), 'hex');
}

/** The present step of 30 seconds. */
export const presentStep = (): number => Math.floor(Date.now() / 30_000);

/** The code that an app shows in a step. */
export function codeAt(secret: string, step = presentStep()): string {
  const message = Buffer.from(step.toString(16).padStart(16, '0'), 'hex');
  const mac = createHmac('sha1', keyOf(secret)).update(message).digest();
  const at = (mac[19] ?? 0) % 16;
  const number = Number.parseInt(mac.subarray(at, at + 4).toString('hex'), 16) % 2 ** 31;
  return String(number % 1_000_000).padStart(6, '0');
}

export const SECRET = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';
export const RECOVERY_CODE = '1111-2222-3333-4444-5555';

type Database = Pick<TestDatabase, 'sql'>;

/** Gives a user the second factor `SECRET` with one recovery code, as if it had been set up long ago. */
export async function addFactor({ sql }: Database, user: number): Promise<void> {
  const hash = createHash('sha256').update(RECOVERY_CODE.replaceAll('-', '')).digest('hex');
  await sql`insert into vitrine_second_factor (user_key, secret, last_step, recovery)
    values (${String(user)}, ${SECRET}, 0, ${[hash]})`;
}

/** A code that is right, also if one was given in this step before. */
export async function freshCode({ sql }: Database): Promise<string> {
  await sql`update vitrine_second_factor set last_step = 0`;
  return codeAt(SECRET);
}

/** Makes the last codes so old that sensitive actions ask for another one. */
export const outdateCodes = ({ sql }: Database): PromiseLike<unknown> =>
  sql`update vitrine_second_factor set confirmed = confirmed - interval '16 minutes'`;
