// What a page carries for the next request, signed: no page of another site, and no user, can make it up.
import { hkdfSync } from 'node:crypto';
import { isSigned, signature } from './cookies.ts';

/** A login whose password was right, while its second factor is not yet. */
export interface PendingLogin {
  readonly name: string;
  /** See `Login`. */
  readonly mark: string;
  /** The token of the form, which binds the login to the browser. */
  readonly csrf: string;
}

/** How long the login waits for the second factor (milliseconds). */
export const PENDING_LOGIN_LIFE = 5 * 60_000;

export type SignedTexts<T extends object> = ReturnType<typeof createSignedTexts<T>>;

/**
 * @param secret that all processes on the database share
 * @param purpose a text of another purpose is not accepted
 * @param lifetime milliseconds
 */
export function createSignedTexts<T extends object>(secret: Buffer, purpose: string, lifetime: number) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', `vitrine ${purpose}`, 32)).toString('base64');
  /** The text without its signature; undefined unless this service has signed it. */
  function verified(signed: string): string | undefined {
    const [text = '', mac = '', rest] = signed.split('.', 3);
    return rest === undefined && isSigned(key, text, mac) ? text : undefined;
  }

  return {
    write(content: T): string {
      // Browsers change line breaks in hidden fields, but not this encoding.
      const text = Buffer.from(JSON.stringify({ ...content, expires: Date.now() + lifetime })).toString(
        'base64url',
      );
      return `${text}.${signature(key, text)}`;
    },

    /** Whether this service has signed the text. */
    isSigned: (signed: string): boolean => verified(signed) !== undefined,

    /** The content; undefined for an expired one, and for any other text. */
    read(signed: string): T | undefined {
      const text = verified(signed);
      if (text === undefined) return undefined;
      const content = JSON.parse(Buffer.from(text, 'base64url').toString()) as T & { expires: number };
      return content.expires < Date.now() ? undefined : content;
    },
  };
}
