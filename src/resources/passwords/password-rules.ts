import type { Column } from '../../db/schema/model.ts';
import { passwordLength, MAX_PASSWORD, tooShort } from '../../db/types/password-text.ts';

export interface PasswordRules {
  /** The user's name, where the password is a user's. */
  readonly name?: string | undefined;
  /** The fewest characters, where the column does not say. */
  readonly minPassword: number;
}

const comparable = (text: string): string => text.normalize('NFKC').toLowerCase();

/** The fewest characters of a new password. */
export const leastCharacters = (
  { minLength }: Pick<Column, 'minLength'>,
  { name, minPassword }: PasswordRules,
): number => (name === undefined ? (minLength ?? minPassword) : Math.max(minLength ?? 1, minPassword));

/**
 * What is wrong with a new password that a person has chosen in the admin area or on the command line; undefined for nothing.
 * A user's password has at least `minPassword` characters, whatever its column says. Other passwords, such as PINs, may be shorter.
 */
export function passwordFault(
  password: string,
  column: Pick<Column, 'minLength'>,
  rules: PasswordRules,
): string | undefined {
  const { name } = rules;
  const bytes = Buffer.byteLength(password);
  if (bytes < 1 || bytes > MAX_PASSWORD) return 'must be 1 to 1,024 bytes long';
  const least = leastCharacters(column, rules);
  const length = passwordLength(password);
  if (length < least) return tooShort(least, length);
  // Normalizing takes quadratic time for long runs of combining marks.
  const isComparable = name !== undefined && name.length <= MAX_PASSWORD;
  if (isComparable && comparable(password) === comparable(name)) return 'must not be the user name';
  return undefined;
}
