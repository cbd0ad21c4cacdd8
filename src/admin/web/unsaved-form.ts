// A form that was sent after its session had ended. The login page carries it, signed, until its user has logged in again.
import { Problem } from '../../errors.ts';
import { createForm, PASSWORD_FIELDS, type Form } from './form-data.ts';
import { t } from './language.ts';
import { createSignedTexts } from './signed-text.ts';

/** How long the login page can give the form back (milliseconds). */
const LIFETIME = 12 * 60 * 60_000;
/** Characters. Forms within `ANONYMOUS_LIMIT` fit, unless they have mostly control characters. */
const MAX_LENGTH = 131_072;

/** Passwords are never sent back. The CSRF token belongs to the ended session, and so does the confirmation of an action. */
const DROPPED_FIELDS = new Set(['_csrf', '_confirm', ...PASSWORD_FIELDS]);

/** A form without those fields. */
export const unconfirmed = ({ entries }: Form): Form =>
  createForm(entries.filter(([name]) => !DROPPED_FIELDS.has(name)));

/** The hidden field of the login form. */
export const UNSAVED = '_unsaved';

interface UnsavedForm {
  /** The key of the user whose session had ended. */
  readonly user: string;
  /** The page that the form was sent to. */
  readonly path: string;
  readonly entries: Form['entries'];
}

export type UnsavedForms = ReturnType<typeof createUnsavedForms>;

/**
 * Forms as signed texts. The signature proves that this service made the text, for this user: no page can plant a form.
 * @param secret that all processes on the database share
 */
export function createUnsavedForms(secret: Buffer) {
  const texts = createSignedTexts<UnsavedForm>(secret, 'unsaved form', LIFETIME);

  return {
    /** @throws Problem 413 */
    write(user: string, path: string, form: Form): string {
      const signed = texts.write({ user, path, entries: unconfirmed(form).entries });
      if (signed.length > MAX_LENGTH) throw new Problem(413, t('formTooLarge'));
      return signed;
    },

    /** Whether this service has signed the text. */
    isSigned: texts.isSigned,

    /** The form and its page; undefined for the form of another user, an expired one, and any other text. */
    read(signed: string, user: string): { readonly path: string; readonly form: Form } | undefined {
      const unsaved = texts.read(signed);
      if (unsaved?.user !== user) return undefined;
      return { path: unsaved.path, form: createForm(unsaved.entries) };
    },
  };
}
