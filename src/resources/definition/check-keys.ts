// Checks of the keys of an object in a registry file, which may hold anything.
import { faultIf, type KeyFault } from '../../errors.ts';

export type Loose = Readonly<Record<string, unknown>>;

/** Whether a value is an object with keys: not an array and not null. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const isBoolean = (value: unknown): boolean => typeof value === 'boolean';
export const isIn =
  (allowed: readonly string[]) =>
  (value: unknown): boolean =>
    allowed.includes(value as string);

/** A fault for each of these keys that is given and whose value is not valid. @param path goes before the keys: `admin.` */
export const checkKeys = (
  object: Loose,
  keys: readonly string[],
  isValid: (value: unknown) => boolean,
  text: string,
  path = '',
): KeyFault[] =>
  keys.flatMap((key) => faultIf(object[key] !== undefined && !isValid(object[key]), `${path}${key}`, text));

/** A fault for each key that is not known. */
export const unknownKeys = (
  object: Loose,
  known: readonly string[],
  path = '',
  text = 'there is no such key',
): KeyFault[] => Object.keys(object).flatMap((key) => faultIf(!known.includes(key), `${path}${key}`, text));
