// Second factors: time-based codes (TOTP, RFC 6238) of an authenticator app, and recovery codes.
import { createHash, createHmac, randomBytes, randomInt } from 'node:crypto';
import type { Database } from '../../db/connection/database.ts';
import type { Model } from '../../db/schema/model.ts';
import { secondFactorStatements } from '../../query/statements/credential-statements.ts';
import { sessionDigest } from './sessions.ts';

/** Seconds for which a code is shown. */
const PERIOD = 30;
const DIGITS = 6;
/** Bytes of a secret, as RFC 4226 recommends. */
const SECRET_BYTES = 20;

const RECOVERY_CODES = 10;
const RECOVERY_DIGITS = 20;

/**
 * Wrong codes in a row after which only a recovery code is accepted. Someone who knows the password could otherwise guess a code
 * within days, from many addresses.
 */
const MAX_FAILURES = 100;

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** A new secret in base32 (RFC 4648), as authenticator apps take it. Each byte gives one of 32 characters, of five bits each. */
export const newSecret = (): string =>
  [...randomBytes((SECRET_BYTES * 8) / 5)].map((byte) => BASE32[byte % 32]).join('');

/** The bytes of a text in base32. */
function fromBase32(text: string): Buffer {
  const bits = [...text].map((letter) => BASE32.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}

/** The code of a step of 30 seconds (HOTP, RFC 4226). @param secret in base32 */
export function codeOf(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', fromBase32(secret)).update(counter).digest();
  const number = mac.readUInt32BE((mac.at(-1) ?? 0) & 15) & 0x7fff_ffff;
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0');
}

/** The step whose code this is: of the present one and its neighbors, because clocks differ. Undefined for a wrong code. */
function stepOf(secret: string, code: string): number | undefined {
  const now = Math.floor(Date.now() / 1000 / PERIOD);
  return [now + 1, now, now - 1].find((step) => codeOf(secret, step) === code);
}

const isCode = (text: string): boolean => text.length === DIGITS;

/** The digits of a typed code, which people may group. */
const digitsOf = (text: string): string => text.slice(0, 100).replace(/[\s-]/g, '');

const recoveryHash = (digits: string): string => createHash('sha256').update(digits).digest('hex');

/** `1234-5678-9012-3456-7890`: digits only, so that the number pad of a phone suffices. */
const newRecoveryCode = (): string =>
  Array.from({ length: RECOVERY_DIGITS / 4 }, () => String(randomInt(10_000)).padStart(4, '0')).join('-');

/** Maximum characters of the host name and bytes of the user name in the address for apps. */
const MAX_HOST = 60;
const MAX_NAME = 60;

/** The address that a QR code carries to an authenticator app. @param host the name of the service there */
export function otpauthAddress(secret: string, host: string, name: string): string {
  const issuer = encodeURIComponent(host.slice(0, MAX_HOST));
  let label = '';
  for (const character of name.toWellFormed()) {
    const longer = label + encodeURIComponent(character);
    if (longer.length > MAX_NAME) break;
    label = longer;
  }
  return `otpauth://totp/${issuer}:${label}?secret=${secret}&issuer=${issuer}`;
}

/** What was given as a second factor. */
export type TakenCode = 'code' | 'recovery';

export type SecondFactors = ReturnType<typeof createSecondFactors>;

/** @param factors the table of second factors */
export function createSecondFactors(database: Database, factors: Model) {
  const statements = secondFactorStatements(factors);

  return {
    /** Deletes those of deleted users. A policy may hide users who are there. */
    prune: async (users: Model): Promise<void> => {
      if (!users.mayHideRows) await database.run(statements.prune(users), 'write');
    },

    /**
     * Sets up the second factor of a user, if the code is right.
     * @returns the recovery codes, of which the database has only hashes; undefined for a wrong code, and if there is a factor
     */
    async add(user: string, secret: string, code: string): Promise<readonly string[] | undefined> {
      const step = stepOf(secret, digitsOf(code));
      if (step === undefined) return undefined;
      const codes = Array.from({ length: RECOVERY_CODES }, newRecoveryCode);
      const hashes = codes.map((code) => recoveryHash(digitsOf(code)));
      const isAdded = await database.run(statements.add(user, secret, step, hashes), 'write');
      return isAdded ? codes : undefined;
    },

    /** Uses a code or a recovery code up. @returns which it was; undefined if it was wrong, or used before */
    async take(user: string, text: string): Promise<TakenCode | undefined> {
      const digits = digitsOf(text);
      if (!isCode(digits)) {
        const isRecovery = await database.run(statements.takeRecovery(user, recoveryHash(digits)), 'write');
        return isRecovery ? 'recovery' : undefined;
      }
      const secret = await database.run(statements.secret(user), 'quick');
      const step = secret === null ? undefined : stepOf(secret, digits);
      const isTaken =
        secret !== null &&
        step !== undefined &&
        (await database.run(statements.take(user, secret, step, MAX_FAILURES), 'write'));
      if (!isTaken) await database.run(statements.countFailure(user), 'write');
      return isTaken ? 'code' : undefined;
    },

    /** Notes that a code was given in this session, which replaces the session of the last one. */
    confirm: (user: string, token: string): Promise<void> =>
      database.run(statements.confirm(user, sessionDigest(token)), 'write'),

    /** The number of unused recovery codes; undefined without a second factor. */
    recoveryCodes: (user: string): Promise<number | undefined> =>
      database.run(statements.recoveryCodes(user), 'read'),

    /** @returns whether there was one */
    remove: (user: string): Promise<boolean> => database.run(statements.remove(user), 'write'),
  };
}
