import type { Facts, Parsed } from './column-type.ts';
import { checkText } from './json-values.ts';

/** Bytes. */
export const MAX_PASSWORD = 1024;

/** Characters as people count them: code points. */
export const passwordLength = (text: string): number => [...text].length;

export const tooShort = (least: number, length: number): string =>
  `must be at least ${least} characters (got ${length})`;

/** A plain password as a body has it. A stored hash is longer than any `minLength`, so it passes, too. */
export function checkPassword(value: unknown, _source: string, { minLength = 1 }: Facts): Parsed {
  const text = checkText(value, {});
  if ('fault' in text) return text;
  const bytes = Buffer.byteLength(text.value);
  if (bytes < 1 || bytes > MAX_PASSWORD) return { ...text, fault: 'must be 1 to 1,024 bytes long' };
  const length = passwordLength(text.value);
  return length < minLength ? { ...text, fault: tooShort(minLength, length) } : text;
}
