// Names for models and columns, made from the names in the database.
import { RESERVED_NAMES } from '../../db/schema/model-definition.ts';
import { SYSTEM_PREFIX } from '../../resources/definition/system-tables.ts';

/** Names of columns that probably hold secrets. They are excluded until the author decides otherwise. */
const SECRET =
  /(^|_)(pass(phrase|code)?|pwd?|hash|salt|(api|private|access|auth|encryption|enc)_?key|credential|otp|pin|cvv|cvc|ssn|iban)s?([0-9]*)(_|$)|(password|passwd|secret|token)s?([0-9]*)(_|$)/;
/** Bytes. Leaves room for `_id` and a number. */
const MAX_LENGTH = 50;

/** Letters that are no Latin letter with a mark, or that are usually written in another way. */
const LETTERS: Readonly<Record<string, string>> = {
  ä: 'ae', ö: 'oe', ü: 'ue', ß: 'ss', æ: 'ae', œ: 'oe', ø: 'oe', å: 'aa', ð: 'd', þ: 'th', ł: 'l',
}; // prettier-ignore

const words = (name: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .toLowerCase()
    .replace(/[äöüßæœøåðþł]/g, (letter) => LETTERS[letter] ?? letter)
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .replace(/[^a-z0-9]+/g, '_');

/** Whether the name of a column suggests a secret, in camel case or snake case. */
export const isSecret = (field: string): boolean => SECRET.test(words(field));

/** A valid registry name: `User Name` becomes `user_name`. */
function plainName(name: string, fallback: string): string {
  const plain = words(name)
    .replace(/^[^a-z]+|_+$/g, '')
    .slice(0, MAX_LENGTH)
    .replace(/_+$/, '');
  return plain === '' ? fallback : plain;
}

/** The name, with a number appended when it is taken. */
export function uniqueName(name: string, isTaken: (name: string) => boolean): string {
  let candidate = name;
  for (let count = 2; isTaken(candidate); count += 1) candidate = `${name}_${count}`;
  return candidate;
}

/** The model name for a table. */
export function nameModel(table: string, isTaken: (name: string) => boolean): string {
  const plain = plainName(table, 'model');
  return uniqueName(plain.startsWith(SYSTEM_PREFIX) ? `the_${plain}` : plain, isTaken);
}

/**
 * The registry name for a column of a table. A foreign key `artist_id` becomes `artist`, because JSON output appends `_id`.
 * @param names the names that are in use already
 * @param fields all columns of the table; their names are reserved for them
 */
export function nameColumn(
  field: string,
  isForeignKey: boolean,
  names: ReadonlySet<string>,
  fields: readonly string[],
): string {
  const short = isForeignKey ? field.replace(/[ _-][iI][dD]$|(?<=[a-z0-9])I[dD]$/, '') : field;
  const keys = (name: string): string[] => (isForeignKey ? [name, `${name}_id`] : [name]);
  return uniqueName(plainName(short, 'column'), (name) =>
    keys(name).some(
      (key) =>
        (RESERVED_NAMES as readonly string[]).includes(key) ||
        names.has(key) ||
        fields.some((other) => other === key && other !== field),
    ),
  );
}

/** Names in a sentence. */
export const listNames = (names: readonly string[]): string =>
  names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names.at(-1)}` : names.join();
