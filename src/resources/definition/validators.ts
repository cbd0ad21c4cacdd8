// Validators of the objects in a registry file: each finds the faults of a value.
import { inspect } from 'node:util';
import { faultIf, type KeyFault } from '../../errors.ts';
import { similarName } from '../../similar-names.ts';

export type Loose = Readonly<Record<string, unknown>>;

/** Finds the faults of a value of an object. `path` leads to the value, such as `columns.email.type`. */
export type Validator = (value: unknown, path: string, object?: Loose) => KeyFault[];

/** Whether a value is an object with keys: not an array and not null. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const isIn =
  (allowed: readonly string[]) =>
  (value: unknown): boolean =>
    allowed.includes(value as string);

/** A value that passes a test. */
export const such =
  (isValid: (value: unknown) => boolean, text: string | ((value: unknown) => string)): Validator =>
  (value, path) =>
    faultIf(!isValid(value), path, typeof text === 'string' ? text : text(value));

/** A value that passes several tests. Only the first faults count. */
export const both =
  (...validators: readonly Validator[]): Validator =>
  (value, path) =>
    validators.map((validate) => validate(value, path)).find(({ length }) => length > 0) ?? [];

export const anything: Validator = () => [];
export const aBoolean = such((value) => typeof value === 'boolean', 'must be true or false');
export const oneOf = (values: readonly string[]): Validator =>
  such(isIn(values), `must be one of ${values.join(', ')}`);

export const isWhole = (value: unknown, min: number, max: number): boolean =>
  Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
export const whole = (min: number, max: number, unit = '', maxName = String(max)): Validator =>
  such((value) => isWhole(value, min, max), `must be a whole number${unit} from ${min} to ${maxName}`);

/** An array whose elements pass a test. */
export const arrayOf = (
  isValid: (value: unknown) => boolean,
  text: string,
  min = 0,
  max = Infinity,
): Validator =>
  such((value) => {
    if (!Array.isArray(value)) return false;
    const { length } = value;
    // An array may have holes, which `every` would leave out.
    return length >= min && length <= max && Array.from(value as unknown[]).every(isValid);
  }, text);

/** Whether a value can be written as JSON, with everything in it: no functions, NaN, BigInts and the like. */
function isJson(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return typeof value === 'string' || typeof value === 'boolean';
  if (value === null) return true;
  const isPlain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  return isPlain && Object.values(value).every(isJson);
}

/** The JSON of a value; undefined if it cannot be written as JSON. */
export function jsonOf(value: unknown): string | undefined {
  try {
    return isJson(value) ? JSON.stringify(value) : undefined;
  } catch {
    return undefined; // a circular reference
  }
}

/** @throws TypeError for a value that JSON would leave out or turn into null, named by its path */
function assertInJson(given: unknown, path: readonly string[]): void {
  // An invalid date becomes null.
  const value = given instanceof Date ? given.toJSON() : given;
  const isLost =
    ['undefined', 'function', 'symbol'].includes(typeof value) ||
    (value === null && given !== null) ||
    (typeof value === 'number' && !Number.isFinite(value)) ||
    value instanceof Map ||
    value instanceof Set;
  if (isLost) throw new TypeError(`${path.join('.')} is ${inspect(given)}, which JSON cannot contain`);
  if (typeof value !== 'object' || value === null) return;
  const entries = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [key, one] of entries) assertInJson(one, [...path, String(key)]);
}

/** The JSON of what a program writes. Bigints become strings, since numbers would lose digits. @throws TypeError */
export function exactJson(body: object): string {
  assertInJson(body, []);
  return JSON.stringify(body, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
}

/** A value as the registry file may write it, for messages. */
export function printed(value: unknown): string {
  const text = jsonOf(value) ?? (typeof value === 'function' ? String(value) : inspect(value));
  return text.replace(/\s+/g, ' ');
}

const pathOf = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`);

/** An object with any keys. @param nameFault the fault of a key, if it has one */
export const mapOf =
  (validate: Validator, text: string, nameFault: (name: string) => string | undefined): Validator =>
  (value, path) => {
    if (!isObject(value)) return [{ key: path, text }];
    return Object.entries(value).flatMap(([name, one]) => {
      const fault = nameFault(name);
      return [
        ...validate(one, pathOf(path, name)),
        ...faultIf(fault !== undefined, pathOf(path, name), fault ?? ''),
      ];
    });
  };

interface ObjectOptions {
  /** The keys that must be there. The others may be absent or undefined. */
  readonly required?: readonly string[];
  /** The fault of a value that is no object. */
  readonly text?: string;
  /** The fault of a key that is not in the table. */
  readonly unknown?: string;
}

/** An object with these keys and no others. */
export const objectOf =
  (
    keys: Readonly<Record<string, Validator>>,
    { required = [], text = 'must be an object', unknown = 'there is no such key' }: ObjectOptions = {},
  ): Validator =>
  (value, path) => {
    if (!isObject(value)) return [{ key: path, text }];
    const unknownKeys = Object.keys(value).filter((key) => !Object.hasOwn(keys, key));
    return [
      ...unknownKeys.map((key) => {
        const similar = similarName(key, Object.keys(keys).filter((one) => !Object.hasOwn(value, one))); // prettier-ignore
        return {
          key: pathOf(path, key),
          text: similar === undefined ? unknown : `${unknown}; did you mean ${similar}?`,
        };
      }),
      ...Object.entries(keys).flatMap(([key, validate]) =>
        value[key] === undefined && !required.includes(key)
          ? []
          : validate(value[key], pathOf(path, key), value),
      ),
    ];
  };
