// Encrypts the boundary of a page into the text of a cursor, and reads it back.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';
import { createTextCaches, type TextCache } from '../../db/text-cache.ts';

/** The record next to which a page begins, or ends if `isBackward`. It may be deleted by now. */
export interface Boundary {
  /** The record's values in the columns of the ordering, as texts. */
  readonly keys: readonly (string | null)[];
  /** Whether the page has the records before the boundary, and not those after it. */
  readonly isBackward: boolean;
  /** Whether the page includes the record of the boundary. */
  readonly isInclusive: boolean;
}

/** Makes and reads the cursors of one list. */
export interface CursorTokens {
  readonly seal: (boundary: Boundary) => string;
  /** @returns undefined for a text that is no cursor of this list */
  readonly open: (token: string) => Boundary | undefined;
}

/** Maximum number of lists whose tokens are cached: a client that follows the links asks for the same list with each page. */
const MAX_LISTS = 200;
/**
 * Maximum characters of cached tokens and their contents, in one generation (see text-cache.ts). They are cached because a client
 * sends back the cursors of its last page.
 */
const MAX_KEPT = 1024 * 1024;
const MAC_BYTES = 16;
const CIPHER = 'aes-256-ctr';

/**
 * Makes the cursors of lists. They are encrypted, so that the logs of proxies show no values. The initialization vector is an
 * HMAC of the content: equal pages get equal cursors, and `decrypt` recognizes a forged one.
 * @param secret that all processes on the database share
 * @returns the cursors of a list. `context` is what they are bound to: with another one they cannot be read.
 */
export function createCursorTokens(secret: Buffer): (context: string) => CursorTokens {
  const derive = (use: string): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', use, 32)));
  const keys = { mac: derive('vitrine cursor mac'), cipher: derive('vitrine cursor cipher') };
  const createCache = createTextCaches(MAX_KEPT);
  const recent = new Map<string, CursorTokens>();
  return (context) => {
    const known = recent.get(context);
    if (known) return known;
    if (recent.size >= MAX_LISTS) recent.clear();
    const tokens = tokensOf(encryption(keys, context), createCache(), createCache());
    recent.set(context, tokens);
    return tokens;
  };
}

function tokensOf({ encrypt, decrypt }: Encryption, sealed: TextCache, opened: TextCache): CursorTokens {
  return {
    seal({ keys, isBackward, isInclusive }) {
      const content = JSON.stringify([isBackward, isInclusive, ...keys]);
      const token = sealed(content, () => encrypt(content));
      opened(token, () => content);
      return token;
    },

    open(token) {
      const content = opened(token, () => decrypt(token) ?? '');
      if (content === '') return undefined;
      const [isBackward, isInclusive, ...keys] = JSON.parse(content) as [
        boolean,
        boolean,
        ...(string | null)[],
      ];
      return { keys, isBackward, isInclusive };
    },
  };
}

interface Encryption {
  readonly encrypt: (content: string) => string;
  /** @returns undefined for a text that `encrypt` has not made */
  readonly decrypt: (token: string) => string | undefined;
}

function encryption(
  { mac: macKey, cipher: cipherKey }: { readonly mac: KeyObject; readonly cipher: KeyObject },
  context: string,
): Encryption {
  const bound = createHmac('sha256', macKey).update(context).digest();
  const mac = (content: Buffer): Buffer =>
    createHmac('sha256', macKey).update(bound).update(content).digest().subarray(0, MAC_BYTES);

  return {
    encrypt(text) {
      const content = Buffer.from(text);
      const vector = mac(content);
      const cipher = createCipheriv(CIPHER, cipherKey, vector);
      // A stream cipher holds nothing back, so that `final`, which is slow, is not needed.
      return Buffer.concat([vector, cipher.update(content)]).toString('base64url');
    },

    decrypt(token) {
      const bytes = Buffer.from(token, 'base64url');
      if (bytes.length <= MAC_BYTES || bytes.toString('base64url') !== token) return undefined;
      const vector = bytes.subarray(0, MAC_BYTES);
      const decipher = createDecipheriv(CIPHER, cipherKey, vector);
      const content = decipher.update(bytes.subarray(MAC_BYTES));
      return timingSafeEqual(vector, mac(content)) ? content.toString() : undefined;
    },
  };
}
