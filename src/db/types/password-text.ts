// The limits of a plain password, for every place that sets one.
import type { Facts, Parsed } from './column-type.ts';
import { checkText } from './json-values.ts';

/** Maximum size of a plain password (bytes). */
export const MAX_PASSWORD = 1024;

/** The length in characters (code points). */
export const passwordLength = (text: string): number => [...text].length;

export const tooShort = (minLength: number, length: number): string =>
  `must be at least ${minLength} characters (got ${length})`;

/** Validates the plain password of a body. */
export function checkPassword(value: unknown, _source: string, { minLength = 1 }: Facts): Parsed {
  const text = checkText(value, {});
  if ('fault' in text) return text;
  const bytes = Buffer.byteLength(text.value);
  if (bytes < 1 || bytes > MAX_PASSWORD) return { ...text, fault: 'must be 1 to 1,024 bytes long' };
  const length = passwordLength(text.value);
  return length < minLength ? { ...text, fault: tooShort(minLength, length) } : text;
}
