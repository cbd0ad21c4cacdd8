// The limits of a plain password, for every place that sets one.
import type { Facts, Parsed } from './column-type.ts';
import { checkText } from './json-values.ts';
import { messageOf, type Message } from '../../messages.ts';

/** Maximum size of a plain password (bytes). */
export const MAX_PASSWORD = 1024;

/**
 * The form NFKC, which is hashed: keyboards and systems that encode a character differently agree in it. A text that is too long for a
 * password stays as it is: long runs of combining marks take quadratic time.
 */
export const normalized = (password: string): string =>
  password.length <= MAX_PASSWORD ? password.normalize('NFKC') : password;

/** The error message of a plain password that is too long or too short, if it is. @param minLength in code points of what is hashed */
export function lengthFault(password: string, minLength: number): Message | undefined {
  const bytes = Buffer.byteLength(password);
  if (bytes > MAX_PASSWORD || (bytes < 1 && minLength <= 1)) return messageOf('passwordBytes');
  const { length } = [...normalized(password)];
  return length < minLength ? messageOf('tooShort', { min: minLength, got: length }) : undefined;
}

/** Validates the plain password of a body. */
export function checkPassword(value: unknown, _source: string, { minLength = 1 }: Facts): Parsed {
  const text = checkText(value, {});
  if ('fault' in text) return text;
  const fault = lengthFault(text.value, minLength);
  return fault === undefined ? text : { ...text, fault };
}
