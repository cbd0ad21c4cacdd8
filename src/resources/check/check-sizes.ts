// Checks the limits of a column in a registry: lengths, bounds and digits.
import { faultIf, type KeyFault } from '../../errors.ts';
import { checkKeys, type Loose } from '../definition/check-keys.ts';

/** PostgreSQL's maximum length of a varchar. */
const MAX_CHARACTERS = 10_485_760;
/** PostgreSQL's maximum precision of a decimal. */
const MAX_DIGITS = 1000;
/** Maximum `minLength` of a password. Clients may send a stored hash back, which must not be too short. */
const MAX_MIN_LENGTH = 64;

const isWhole = (value: unknown, min: number, max: number): value is number =>
  Number.isInteger(value) && (value as number) >= min && (value as number) <= max;

/** The fault of a key whose value is not a whole number between two bounds. */
const checkWhole = (
  column: Loose,
  key: string,
  min: number,
  max: number,
  path: string,
  maxName = String(max),
): KeyFault[] =>
  checkKeys(
    column,
    [key],
    (value) => isWhole(value, min, max),
    `must be a whole number from ${min} to ${maxName}`,
    path,
  );

/** The faults of the limits of a column, or of the elements of an array. @param path goes before the keys: `elements.` */
export function checkSizes(column: Loose, path = ''): KeyFault[] {
  const { precision, scale, min, max } = column;
  const maxScale = isWhole(precision, 1, MAX_DIGITS) ? precision : MAX_DIGITS;
  const isReversed = typeof min === 'number' && typeof max === 'number' && min > max;
  return [
    ...checkWhole(column, 'maxLength', 1, MAX_CHARACTERS, path),
    ...checkWhole(column, 'minLength', 1, MAX_MIN_LENGTH, path),
    ...checkWhole(column, 'precision', 1, MAX_DIGITS, path),
    ...(scale !== undefined && precision === undefined
      ? [{ key: `${path}scale`, text: 'requires precision' }]
      : checkWhole(column, 'scale', 0, maxScale, path, 'precision')),
    ...checkKeys(column, ['min', 'max'], Number.isFinite, 'must be a number', path),
    ...faultIf(isReversed, `${path}min`, 'must not be greater than max'),
  ];
}
