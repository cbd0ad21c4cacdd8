// Encrypts where a page ended into the text of a cursor, and reads it back.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

/** A place between two records: next to the record with these values, in the order of the list. */
export interface Boundary {
  /** The texts of the columns that the list is ordered by. */
  readonly keys: readonly (string | null)[];
  /** Whether the page is before the place and not after it. */
  readonly isBackward: boolean;
  /** Whether the record itself is on the page. */
  readonly isInclusive: boolean;
}

/** Makes and reads cursors. `context` is what a cursor is bound to: with another one it cannot be read. */
export interface CursorTokens {
  readonly seal: (boundary: Boundary, context: string) => string;
  /** @returns undefined for a text that is no cursor of this context */
  readonly open: (token: string, context: string) => Boundary | undefined;
}

const MAC_BYTES = 16;
const CIPHER = 'aes-256-ctr';

/**
 * The HMAC of the content is the initialization vector of its encryption, so that the same page always has the same cursor, and
 * the values of its records are in no log of a proxy.
 * @param secret that all processes on the database share
 */
export function createCursorTokens(secret: Buffer): CursorTokens {
  const derive = (use: string): Buffer => Buffer.from(hkdfSync('sha256', secret, '', use, 32));
  const macKey = derive('vitrine cursor mac');
  const cipherKey = derive('vitrine cursor cipher');

  const mac = (content: Buffer, context: string): Buffer => {
    const bound = createHmac('sha256', macKey).update(context).digest();
    return createHmac('sha256', macKey).update(bound).update(content).digest().subarray(0, MAC_BYTES);
  };

  return {
    seal({ keys, isBackward, isInclusive }, context) {
      const content = Buffer.from(JSON.stringify([isBackward, isInclusive, ...keys]));
      const vector = mac(content, context);
      const cipher = createCipheriv(CIPHER, cipherKey, vector);
      return Buffer.concat([vector, cipher.update(content), cipher.final()]).toString('base64url');
    },

    open(token, context) {
      const bytes = Buffer.from(token, 'base64url');
      if (bytes.length <= MAC_BYTES || bytes.toString('base64url') !== token) return undefined;
      const vector = bytes.subarray(0, MAC_BYTES);
      const decipher = createDecipheriv(CIPHER, cipherKey, vector);
      const content = Buffer.concat([decipher.update(bytes.subarray(MAC_BYTES)), decipher.final()]);
      if (!timingSafeEqual(vector, mac(content, context))) return undefined;
      const [isBackward, isInclusive, ...keys] = JSON.parse(content.toString()) as [
        boolean,
        boolean,
        ...(string | null)[],
      ];
      return { keys, isBackward, isInclusive };
    },
  };
}
