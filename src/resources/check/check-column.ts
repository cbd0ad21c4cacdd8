// Checks one column of a registry, which may be anything, since a registry file need not use types.
import { inspect } from 'node:util';
import type { ColumnType, Facts } from '../../db/types/column-type.ts';
import { isObject } from '../definition/is-object.ts';
import { COLUMN_TYPES } from '../../db/types/column-types.ts';

/** The object without its faulty keys. `faulty` has their paths. */
export const withoutFaulty = (
  object: Readonly<Record<string, unknown>>,
  path: string,
  faulty: ReadonlySet<string>,
): Record<string, unknown> =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !faulty.has(`${path}${key}`)));

/** Whether a value is a non-empty text that PostgreSQL can store: without NUL characters and lone surrogates. */
export const isText = (value: unknown): boolean => typeof value === 'string' && /^[^\0\p{Cs}]+$/u.test(value);

/** Whether PostgreSQL would truncate the name. */
export const isTooLong = (name: unknown): boolean => typeof name === 'string' && Buffer.byteLength(name) > 63;
export const TOO_LONG = 'must have at most 63 bytes, because PostgreSQL truncates longer names';

const COMMON_KEYS = ['type', 'null', 'default', 'unique', 'index', 'choices', 'column', 'label', 'help'];
const FLAGS = ['null', 'unique', 'index'];
const TEXTS = ['column', 'label', 'help'];
const ON_DELETE = ['restrict', 'cascade', 'setNull'];

/** Takes a fault: the path of the faulty key and an error message. */
export type Report = (key: string, text: string) => void;

/**
 * Reports names that are not columns, and a value that is not an array of names.
 * @param names of the columns; undefined if they are unknown
 */
export function checkNames(
  value: unknown,
  names: readonly string[] | undefined,
  key: string,
  report: Report,
): void {
  if (value === undefined) return;
  if (!Array.isArray(value)) return report(key, 'must be an array of column names');
  for (const name of value as unknown[]) {
    if (typeof name !== 'string' || names?.includes(name) === false)
      report(key, `there is no column ${printed(name)}`);
  }
}

/**
 * Common keys that a type does not have. A default password would be plain text in the schema. Choices cannot be compared in
 * JSON, which has many spellings for one value.
 */
const KEYS_NOT_FOR_TYPE: Readonly<Record<string, readonly string[]>> = {
  password: ['default', 'choices'],
  json: ['choices'],
};

const allowedKeys = (typeName: string, type: ColumnType | undefined): Set<string> =>
  new Set([
    ...COMMON_KEYS.filter((key) => !KEYS_NOT_FOR_TYPE[typeName]?.includes(key)),
    ...(type?.sized ? ['maxLength'] : []),
    ...(type?.bounded ? ['min', 'max'] : []),
    ...(typeName === 'password' ? ['minLength'] : []),
    ...(typeName === 'decimal' ? ['precision', 'scale'] : []),
    ...(typeName === 'foreignKey' ? ['references', 'onDelete'] : []),
  ]);

/** All keys that a column of any type may have. */
const ANY_KEYS: ReadonlySet<string> = new Set([
  ...COMMON_KEYS,
  ...['maxLength', 'minLength', 'min', 'max', 'precision', 'scale', 'references', 'onDelete'],
]);

/** PostgreSQL's maximum length of a varchar. */
const MAX_CHARACTERS = 10_485_760;
/** PostgreSQL's maximum precision of a decimal. */
const MAX_DIGITS = 1000;
/** Maximum `minLength` of a password. Clients may send a stored hash back, which must not be too short. */
const MAX_MIN_LENGTH = 64;

/** The type with this name. Undefined for unknown names and for foreign keys, which have the type of the related key. */
const typeNamed = (name: unknown): ColumnType | undefined =>
  typeof name === 'string' && Object.hasOwn(COLUMN_TYPES, name)
    ? COLUMN_TYPES[name as keyof typeof COLUMN_TYPES]
    : undefined;

/** Whether a column is a foreign key or meant as one: its type is unknown, and it has a foreign key's keys or a similar type. */
export const isForeignKey = ({ type, references, onDelete }: Record<string, unknown>): boolean =>
  type === 'foreignKey' ||
  (!typeNamed(type) &&
    (references !== undefined ||
      onDelete !== undefined ||
      (typeof type === 'string' && /^foreign/i.test(type))));

/** The probable type of a column whose type is unknown, guessed from its other keys, to check its values. */
function likelyType({
  maxLength,
  precision,
  scale,
  min,
  max,
}: Record<string, unknown>): ColumnType | undefined {
  if (maxLength !== undefined) return COLUMN_TYPES.text;
  return [precision, scale, min, max].some((key) => key !== undefined) ? COLUMN_TYPES.decimal : undefined;
}

const isWhole = (value: unknown, min: number, max: number): boolean =>
  Number.isInteger(value) && (value as number) >= min && (value as number) <= max;

/** Reports all faults of one column of a registry by key. The key '' means the column itself. */
export function checkColumn(column: unknown, onFault: Report): void {
  if (!isObject(column)) return onFault('', 'must be an object such as { type: "string" }');
  const faulty = new Set<string>();
  const report: Report = (key, text) => {
    faulty.add(key);
    onFault(key, text);
  };
  const typeName = typeof column['type'] === 'string' ? column['type'] : '';
  const type = typeNamed(typeName);
  const isKnown = typeName === 'foreignKey' || type !== undefined;
  if (!isKnown) report('type', `must be one of ${[...Object.keys(COLUMN_TYPES), 'foreignKey'].join(', ')}`);
  const kind = isForeignKey(column) ? 'foreignKey' : typeName;
  const allowed = isKnown || kind === 'foreignKey' ? allowedKeys(kind, type) : ANY_KEYS;
  const unknown = allowed === ANY_KEYS ? 'no type has such a key' : `type ${kind} has no such key`;
  for (const key of Object.keys(column)) if (!allowed.has(key)) report(key, unknown);
  for (const key of FLAGS) {
    if (column[key] !== undefined && typeof column[key] !== 'boolean') report(key, 'must be true or false');
  }
  for (const key of TEXTS) {
    const value = column[key];
    if (value !== undefined && !isText(value))
      report(key, 'must be a non-empty string without NUL characters');
  }
  if (isTooLong(column['column'])) report('column', TOO_LONG);
  if (kind === 'foreignKey') checkForeignKey(column, report);
  checkSizes(column, report);
  const { choices } = column;
  if (choices !== undefined && !(Array.isArray(choices) && choices.length > 0))
    report('choices', 'must be an array of values');
  // Values of a foreign key are checked later, together with the related model.
  if (kind !== 'foreignKey')
    checkValues(withoutFaulty(column, '', faulty), type ?? likelyType(column), report);
}

function checkForeignKey(column: Record<string, unknown>, report: Report): void {
  const { references, onDelete } = column;
  if (typeof references !== 'string') report('references', 'must be the name of a model');
  if (onDelete === undefined) return;
  if (!ON_DELETE.includes(onDelete as string)) report('onDelete', `must be one of ${ON_DELETE.join(', ')}`);
  if (onDelete === 'setNull' && !column['null']) report('onDelete', 'setNull requires null: true');
}

function checkSizes(column: Record<string, unknown>, report: Report): void {
  const { maxLength, minLength, precision, scale, min, max } = column;
  if (maxLength !== undefined && !isWhole(maxLength, 1, MAX_CHARACTERS))
    report('maxLength', `must be a whole number from 1 to ${MAX_CHARACTERS}`);
  if (minLength !== undefined && !isWhole(minLength, 1, MAX_MIN_LENGTH))
    report('minLength', `must be a whole number from 1 to ${MAX_MIN_LENGTH}`);
  if (precision !== undefined && !isWhole(precision, 1, MAX_DIGITS))
    report('precision', `must be a whole number from 1 to ${MAX_DIGITS}`);
  const maxScale = isWhole(precision, 1, MAX_DIGITS) ? (precision as number) : MAX_DIGITS;
  if (scale !== undefined && precision === undefined) report('scale', 'requires precision');
  else if (scale !== undefined && !isWhole(scale, 0, maxScale))
    report('scale', 'must be a whole number from 0 to precision');
  for (const [key, bound] of [
    ['min', min],
    ['max', max],
  ] as const) {
    if (bound !== undefined && !(typeof bound === 'number' && Number.isFinite(bound)))
      report(key, 'must be a number');
  }
  if (typeof min === 'number' && typeof max === 'number' && min > max)
    report('min', 'must not be greater than max');
}

/** Whether a value can be written as JSON, with everything in it: no functions, NaN, BigInts and the like. */
function isJson(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return typeof value === 'string' || typeof value === 'boolean';
  if (value === null) return true;
  const isPlain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  return isPlain && Object.values(value).every(isJson);
}

/** The JSON of a value; undefined if it cannot be written as JSON. */
function jsonOf(value: unknown): string | undefined {
  try {
    return isJson(value) ? JSON.stringify(value) : undefined;
  } catch {
    return undefined; // a circular reference
  }
}

/** A value as the registry file may write it, for messages. */
function printed(value: unknown): string {
  const text = jsonOf(value) ?? (typeof value === 'function' ? String(value) : inspect(value));
  return text.replace(/\s+/g, ' ');
}

/** Whether a number may have lost digits when JavaScript read the file, while its type would keep them all. */
const isUnsafe = (value: unknown, { input }: ColumnType): boolean =>
  typeof value === 'number' &&
  Number.isFinite(value) &&
  Math.abs(value) > Number.MAX_SAFE_INTEGER &&
  input.control === 'number' &&
  input.json === 'string';

/** The error message of a value of a column, if any. Without a type, only what is wrong for every type. */
function faultOf(
  value: unknown,
  column: Record<string, unknown>,
  type: ColumnType | undefined,
): string | undefined {
  const source = jsonOf(value);
  const notJson = source === undefined ? 'cannot be written as JSON' : undefined;
  if (!type) {
    // Keys of all types are strings or numbers.
    const mayBeKey = column['type'] !== 'foreignKey' || ['string', 'number'].includes(typeof value);
    return mayBeKey ? notJson : 'must be a string or a number';
  }
  if (isUnsafe(value, type)) return 'may have lost digits: write it as a string';
  const maxLength = column['type'] === 'string' ? 255 : undefined;
  const facts: Facts = { castType: type.castType, maxLength, ...(column as Partial<Facts>) };
  if (notJson && type.input.json === 'json') return notJson;
  return type.fromJson(value, source ?? '', facts).fault ?? notJson;
}

/**
 * Reports choices and a default that the column cannot hold.
 * @param type undefined if it is unknown
 */
export function checkValues(
  column: Record<string, unknown>,
  type: ColumnType | undefined,
  report: Report,
): void {
  const { choices } = column;
  // `checkColumn` reports choices that are not an array.
  const all = Array.isArray(choices) ? (choices as unknown[]) : undefined;
  const faults = (all ?? []).flatMap((choice) => {
    const text = faultOf(choice, column, type);
    return text ? [`${printed(choice)} ${text}`] : [];
  });
  for (const text of faults) report('choices', text);
  const value = column['default'];
  if (value === undefined || (value === 'now' && (!type || type.now))) return;
  const text =
    value === null
      ? 'is not allowed: leave the default out and set null: true'
      : faultOf(value, column, type);
  if (text) report('default', `${printed(value)} ${text}`);
  else if (all && !all.includes(value)) {
    // If a choice has the wrong type ("5" for 5), the default may well be one of the choices.
    const bare = (one: unknown): string => printed(one).replaceAll('"', '');
    if (faults.length === 0 || !all.map(bare).includes(bare(value)))
      report('default', 'is not one of the choices');
  }
}
