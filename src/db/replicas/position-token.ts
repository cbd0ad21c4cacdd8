// Turns the position of a write into the text that its client sends with later reads, and back.
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes } from 'node:crypto';
import type { Reached } from '../connection/server-guard.ts';

/** The position after a client's last write, from its token. */
export interface WrittenPosition {
  /** Undefined if it is not known, so that only the primary has it for certain. */
  readonly reached: Reached | undefined;
  /** When it was issued (milliseconds since 1970). */
  readonly issued: number;
}

export interface PositionTokens {
  readonly encode: (position: WrittenPosition) => string;
  /**
   * The positions of writes that ran at the same time, separated by commas.
   * @returns undefined if this service did not issue one of them
   */
  readonly decodeAll: (tokens: string) => readonly WrittenPosition[] | undefined;
}

/** The timeline (4 bytes), the position (8) and the second of issue (4). */
const CONTENT_BYTES = 16;
const VECTOR_BYTES = 16;
/** Its tag, which shows that this service has encrypted a token, has 16 bytes. */
const CIPHER = 'aes-256-gcm';
const TOKEN = /^[\w-]{64}$/;
/** Maximum characters of several tokens. */
const MAX_LENGTH = 1_450;
/** PostgreSQL has no timeline 0. */
const NO_TIMELINE = 0;

/**
 * Tokens are encrypted with a random initialization vector. A readable position would reveal how much PostgreSQL wrote before it
 * refused a write, and that depends on hidden data.
 * @param secret that all processes on the database share
 * @param identity of the database, so that a copy of it with the same secret does not take its positions
 */
export function createPositionTokens(secret: Buffer, identity: string): PositionTokens {
  const key = createSecretKey(
    Buffer.from(hkdfSync('sha256', secret, '', `vitrine position ${identity}`, 32)),
  );
  function decode(token: string): WrittenPosition | undefined {
    if (!TOKEN.test(token)) return undefined;
    const bytes = Buffer.from(token, 'base64url');
    const end = VECTOR_BYTES + CONTENT_BYTES;
    const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, VECTOR_BYTES));
    const content = decipher.setAuthTag(bytes.subarray(end)).update(bytes.subarray(VECTOR_BYTES, end));
    try {
      decipher.final();
    } catch {
      return undefined;
    }
    const timeline = content.readUInt32BE(0);
    const position = content.readBigUInt64BE(4);
    return {
      reached: timeline === NO_TIMELINE ? undefined : { timeline, position },
      issued: content.readUInt32BE(12) * 1000,
    };
  }

  return {
    encode: ({ reached, issued }) => {
      const content = Buffer.alloc(CONTENT_BYTES);
      content.writeUInt32BE(reached?.timeline ?? NO_TIMELINE, 0);
      content.writeBigUInt64BE(reached?.position ?? 0n, 4);
      content.writeUInt32BE(Math.floor(issued / 1000), 12);
      const vector = randomBytes(VECTOR_BYTES);
      const cipher = createCipheriv(CIPHER, key, vector);
      const parts = [vector, cipher.update(content), cipher.final(), cipher.getAuthTag()];
      return Buffer.concat(parts).toString('base64url');
    },
    decodeAll: (tokens) => {
      if (tokens.length > MAX_LENGTH) return undefined;
      const all: WrittenPosition[] = [];
      for (const token of tokens.split(',')) {
        const written = decode(token.trim());
        if (!written) return undefined;
        all.push(written);
      }
      return all;
    },
  };
}
