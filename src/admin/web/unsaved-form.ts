// A form that was sent after its session had ended. The login page carries it, signed, until its user has logged in again.
import { hkdfSync } from 'node:crypto';
import { Problem } from '../../errors.ts';
import { isSigned, signature } from './cookies.ts';
import { createForm, PASSWORD_FIELDS, type Form } from './form-data.ts';

/** How long the login page can give the form back (milliseconds). */
const LIFETIME = 12 * 60 * 60_000;
/** Characters. Forms within `ANONYMOUS_LIMIT` fit, unless they have mostly control characters. */
const MAX_LENGTH = 131_072;

/** Passwords are never sent back. The CSRF token belongs to the ended session. */
const DROPPED_FIELDS = new Set(['_csrf', ...PASSWORD_FIELDS]);

/** The hidden field of the login form. */
export const UNSAVED = '_unsaved';

interface UnsavedForm {
  /** The key of the user whose session had ended. */
  readonly user: string;
  /** The page that the form was sent to. */
  readonly path: string;
  readonly entries: Form['entries'];
  /** Milliseconds since 1970. */
  readonly expires: number;
}

export type UnsavedForms = ReturnType<typeof createUnsavedForms>;

/**
 * Forms as signed texts. The signature proves that this service made the text, for this user: no page can plant a form.
 * @param secret that all processes on the database share
 */
export function createUnsavedForms(secret: Buffer) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'vitrine unsaved form', 32)).toString('base64');
  /** The text of a form without its signature; undefined unless this service has signed it. */
  function verified(signed: string): string | undefined {
    const [text = '', mac = '', rest] = signed.split('.', 3);
    return rest === undefined && isSigned(key, text, mac) ? text : undefined;
  }

  return {
    /** @throws Problem 413 */
    write(user: string, path: string, { entries }: Form): string {
      const kept = entries.filter(([name]) => !DROPPED_FIELDS.has(name));
      const unsaved: UnsavedForm = { user, path, entries: kept, expires: Date.now() + LIFETIME };
      // Browsers change line breaks in hidden fields, but not this encoding.
      const text = Buffer.from(JSON.stringify(unsaved)).toString('base64url');
      if (text.length > MAX_LENGTH) throw new Problem(413, 'The form is too large.');
      return `${text}.${signature(key, text)}`;
    },

    /** Whether this service has signed the text. */
    isSigned: (signed: string): boolean => verified(signed) !== undefined,

    /** The form and its page; undefined for the form of another user, an expired one, and any other text. */
    read(signed: string, user: string): { readonly path: string; readonly form: Form } | undefined {
      const text = verified(signed);
      if (text === undefined) return undefined;
      const unsaved = JSON.parse(Buffer.from(text, 'base64url').toString()) as UnsavedForm;
      if (unsaved.user !== user || unsaved.expires < Date.now()) return undefined;
      return { path: unsaved.path, form: createForm(unsaved.entries) };
    },
  };
}
