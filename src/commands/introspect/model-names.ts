import { SYSTEM_PREFIX } from '../../resources/definition/system-tables.ts';

/** Columns called like this hold what nobody should see until somebody has decided otherwise. */
const SECRET =
  /(^|_)(pass(word|wd|phrase|code)?|pwd?|secret|token|hash|salt|(api|private|access|secret)_?key|credential|otp|pin|cvv|cvc|ssn|iban)s?([0-9]*)(_|$)/;
/** Names of columns that the service takes for itself. */
const RESERVED = new Set(['id', 'ordering', 'limit', 'page']);
/** Bytes; there is room for `_id` and a number behind it. */
const LONGEST = 50;

const words = (name: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .toLowerCase()
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .replace(/[^a-z0-9]+/g, '_');

/** Whether a column's name suggests that it holds a secret, however its words are put together. */
export const isSecret = (field: string): boolean => SECRET.test(words(field));

/** A name of the registry made of one of the database: `User Name` becomes `user_name`. */
function plainName(name: string, fallback: string): string {
  const plain = words(name)
    .replace(/^[^a-z]+|_+$/g, '')
    .slice(0, LONGEST)
    .replace(/_+$/, '');
  return plain === '' ? fallback : plain;
}

/** A name that is not taken yet, with a number behind it where it is. */
function unique(name: string, isTaken: (name: string) => boolean): string {
  let candidate = name;
  for (let count = 2; isTaken(candidate); count += 1) candidate = `${name}_${count}`;
  return candidate;
}

/** The name of a model, made of that of its table. */
export function nameModel(table: string, isTaken: (name: string) => boolean): string {
  const plain = plainName(table, 'model');
  return unique(plain.startsWith(SYSTEM_PREFIX) ? `the_${plain}` : plain, isTaken);
}

/**
 * The name of a column, made of the one that it has in the database. A foreign key `artist_id` is called `artist`, since its
 * name in JSON gets `_id`.
 * @param names those that are given already
 * @param fields all columns of the table: another one has the better right to its own name
 */
export function nameColumn(
  field: string,
  isForeignKey: boolean,
  names: ReadonlySet<string>,
  fields: readonly string[],
): string {
  const short = isForeignKey ? field.replace(/[ _-][iI][dD]$|(?<=[a-z0-9])I[dD]$/, '') : field;
  const keys = (name: string): string[] => (isForeignKey ? [name, `${name}_id`] : [name]);
  return unique(plainName(short, 'column'), (name) =>
    keys(name).some(
      (key) =>
        RESERVED.has(key) || names.has(key) || fields.some((other) => other === key && other !== field),
    ),
  );
}
