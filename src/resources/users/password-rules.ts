// The rules for new passwords that people choose.
import { readFileSync } from 'node:fs';
import type { Column } from '../../db/schema/model.ts';
import { lengthFault, MAX_PASSWORD } from '../../db/types/password-text.ts';
import { messageOf, type Message } from '../../messages.ts';

export interface PasswordRules {
  /** The user name, when the password is that of a user. */
  readonly name?: string | undefined;
  /** The `MIN_PASSWORD` setting, in characters. */
  readonly minPassword: number;
}

/**
 * Passwords that are tried first: the most frequent of published leaks, and keyboard rows, repetitions, and words with digits or a
 * year. In lower case, between blanks.
 */
const COMMON = ` ${readFileSync(new URL('common-passwords.txt', import.meta.url), 'latin1').replaceAll('\n', ' ')}`;

/** Makes names and passwords that look alike equal. */
const comparable = (text: string): string => text.normalize('NFKC').toLowerCase();

/**
 * The minimum length of a new password, in characters. Passwords of users have at least `minPassword`, whatever the column
 * allows. For other secrets, such as PINs, the column may allow fewer.
 */
export const minimumLength = (
  { minLength }: Pick<Column, 'minLength'>,
  { name, minPassword }: PasswordRules,
): number => (name === undefined ? (minLength ?? minPassword) : Math.max(minLength ?? 1, minPassword));

/**
 * Checks a new password that a person chose: in the admin area, with a link, on the command line or by `POST /api/-/password/`.
 * @returns the error message, or undefined
 */
export function passwordFault(
  password: string,
  column: Pick<Column, 'minLength'>,
  rules: PasswordRules,
): Message | undefined {
  const { name } = rules;
  const fault = lengthFault(password, minimumLength(column, rules));
  if (fault !== undefined || name === undefined) return fault;
  const text = comparable(password);
  // Normalizing long runs of combining marks takes quadratic time.
  if (name.length <= MAX_PASSWORD && text === comparable(name)) return messageOf('userName');
  return /^\S+$/.test(text) && COMMON.includes(` ${text} `) ? messageOf('commonPassword') : undefined;
}
