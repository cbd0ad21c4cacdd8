// Checks one column of a registry, which may be anything, since a registry file need not use types.
import { inspect } from 'node:util';
import type { ColumnType, Facts } from '../../db/types/column-type.ts';
import { checkKeys, isBoolean, isIn, isObject, unknownKeys, type Loose } from '../definition/check-keys.ts';
import { ON_DELETE } from '../../db/schema/model.ts';
import {
  declaredFacts,
  FILLED_BY_DATABASE,
  type ColumnDefinition,
} from '../../db/schema/model-definition.ts';
import { ARRAY_TYPES } from '../../db/types/array-types.ts';
import { COLUMN_TYPES } from '../../db/types/column-types.ts';
import { faultIf, type KeyFault } from '../../errors.ts';
import { checkSizes } from './check-sizes.ts';

/** The object without its faulty keys. `faulty` has their paths. */
export const withoutFaulty = (
  object: Loose,
  path: string,
  faulty: ReadonlySet<string>,
): Record<string, unknown> =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !faulty.has(`${path}${key}`)));

/** Whether a value is a non-empty text that PostgreSQL can store: without NUL characters and lone surrogates. */
export const isText = (value: unknown): boolean => typeof value === 'string' && /^[^\0\p{Cs}]+$/u.test(value);

/** Whether PostgreSQL would truncate the name. */
export const isTooLong = (name: unknown): boolean => typeof name === 'string' && Buffer.byteLength(name) > 63;
export const NOT_TEXT = 'must be a non-empty string without NUL characters';
export const TOO_LONG = 'must have at most 63 bytes, because PostgreSQL truncates longer names';

const COMMON_KEYS = ['type', 'null', 'default', 'unique', 'index', 'choices', 'column', 'label', 'help'];

/** The faults of a value that must be an array of column names. @param names of all columns; undefined if they are unknown */
export function checkNames(value: unknown, names: readonly string[] | undefined, key: string): KeyFault[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) return [{ key, text: 'must be an array of column names' }];
  return Array.from(value as unknown[]).flatMap((name) =>
    faultIf(
      typeof name !== 'string' || names?.includes(name) === false,
      key,
      `there is no column ${printed(name)}`,
    ),
  );
}

/**
 * Common keys that a type does not have. A default password would be plain text in the schema. Choices cannot be compared in
 * JSON, which has many spellings for one value.
 */
const KEYS_NOT_FOR_TYPE: Readonly<Record<string, readonly string[]>> = {
  password: ['default', 'choices'],
  json: ['choices'],
};

/** The keys that only some types have. */
const TYPE_KEYS = [
  'maxLength', 'minLength', 'min', 'max', 'precision', 'scale', 'references', 'onDelete', 'of', 'elements',
]; // prettier-ignore

/** The keys of the limits that a type has. */
const sizeKeys = (typeName: string, type: ColumnType | undefined): string[] => [
  ...(type?.sized ? ['maxLength'] : []),
  ...(type?.bounded ? ['min', 'max'] : []),
  ...(typeName === 'password' ? ['minLength'] : []),
  ...(typeName === 'decimal' ? ['precision', 'scale'] : []),
];

const allowedKeys = (typeName: string, type: ColumnType | undefined): string[] => [
  ...COMMON_KEYS.filter((key) => !KEYS_NOT_FOR_TYPE[typeName]?.includes(key)),
  ...sizeKeys(typeName, type),
  ...(typeName === 'foreignKey' ? ['references', 'onDelete'] : []),
  ...(typeName === 'array' ? ['of', 'elements'] : []),
];

/** The type with this name. Undefined for unknown names and for foreign keys, which have the type of the related key. */
const typeNamed = (name: unknown): ColumnType | undefined =>
  typeof name === 'string' && Object.hasOwn(COLUMN_TYPES, name)
    ? COLUMN_TYPES[name as keyof typeof COLUMN_TYPES]
    : undefined;

const arrayOf = (name: unknown): ColumnType | undefined =>
  typeof name === 'string' && Object.hasOwn(ARRAY_TYPES, name)
    ? ARRAY_TYPES[name as keyof typeof ARRAY_TYPES]
    : undefined;

/** The wrong value of a key for a message; '' if the key is absent. */
const got = (value: unknown): string => (value === undefined ? '' : ` (got ${printed(value)})`);

/** The faults of the keys that only arrays have. */
function checkArray({ of: element, elements }: Loose, type: ColumnType | undefined): KeyFault[] {
  if (!type)
    return [{ key: 'of', text: `must be one of ${Object.keys(ARRAY_TYPES).join(', ')}${got(element)}` }];
  if (elements === undefined) return [];
  if (!isObject(elements)) return [{ key: 'elements', text: 'must be an object such as { null: false }' }];
  const allowed = ['null', ...sizeKeys(String(element), type.element)];
  return [
    ...unknownKeys(elements, allowed, 'elements.', `elements of type ${String(element)} have no such key`),
    ...checkKeys(elements, ['null'], isBoolean, 'must be true or false', 'elements.'),
    ...checkSizes(elements, 'elements.'),
  ];
}

/** The faults of the keys that every column may have. */
const checkCommon = (column: Loose): KeyFault[] => [
  ...checkKeys(column, ['null', 'unique', 'index'], isBoolean, 'must be true or false'),
  ...checkKeys(column, ['column', 'label', 'help'], isText, NOT_TEXT),
  ...faultIf(isTooLong(column['column']), 'column', TOO_LONG),
];

/** All faults of one column of a registry. The key '' means the column itself. */
export function checkColumn(column: unknown): KeyFault[] {
  if (!isObject(column)) return [{ key: '', text: 'must be an object such as { type: "string" }' }];
  const { type: typeName } = column;
  const isForeignKey = typeName === 'foreignKey';
  const isArray = typeName === 'array';
  const type = isArray ? arrayOf(column['of']) : typeNamed(typeName);
  // The type decides what the other keys mean, so without it they are not checked.
  if (!type && !isForeignKey && !isArray)
    return [
      {
        key: 'type',
        text: `must be one of ${[...Object.keys(COLUMN_TYPES), 'array', 'foreignKey'].join(', ')}${got(typeName)}`,
      },
      ...unknownKeys(column, [...COMMON_KEYS, ...TYPE_KEYS], '', 'no type has such a key'),
      ...checkCommon(column),
    ];
  const faults = [
    ...unknownKeys(
      column,
      allowedKeys(String(typeName), type),
      '',
      `type ${String(typeName)} has no such key`,
    ),
    ...checkCommon(column),
    ...(isForeignKey ? checkForeignKey(column) : []),
    ...(isArray ? checkArray(column, type) : []),
    ...checkSizes(column),
    ...checkKeys(
      column,
      ['choices'],
      (all) => Array.isArray(all) && all.length > 0,
      'must be an array of values',
    ),
  ];
  // Values of a foreign key are checked later, together with the related model.
  if (isForeignKey || !type) return faults;
  const faulty = new Set(faults.map(({ key }) => key.replace(/^elements\..*/, 'elements')));
  return [...faults, ...checkValues(withoutFaulty(column, '', faulty), type)];
}

const checkForeignKey = ({ references, onDelete, null: isNullable }: Loose): KeyFault[] => [
  ...faultIf(typeof references !== 'string', 'references', 'must be the name of a model'),
  ...checkKeys({ onDelete }, ['onDelete'], isIn(ON_DELETE), `must be one of ${ON_DELETE.join(', ')}`),
  ...faultIf(onDelete === 'setNull' && !isNullable, 'onDelete', 'setNull requires null: true'),
];

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

/** Why a column cannot hold a value, if so. Without a type, rejects only values that no type of key accepts. */
function faultOf(value: unknown, column: Loose, type: ColumnType | undefined): string | undefined {
  const source = jsonOf(value);
  const notJson = source === undefined ? 'cannot be written as JSON' : undefined;
  if (!type) return ['string', 'number'].includes(typeof value) ? notJson : 'must be a string or a number';
  if (isUnsafe(value, type)) return 'may have lost digits: write it as a string';
  const declared = declaredFacts(column as unknown as ColumnDefinition, type);
  const facts: Facts = type.element ? declared : { ...declared, ...(column as Partial<Facts>) };
  if (notJson && type.input.json === 'json') return notJson;
  return type.fromJson(value, source ?? '', facts).fault ?? notJson;
}

/**
 * The faults of choices and of a default that the column cannot hold.
 * @param type undefined for a foreign key to an unknown model
 */
export function checkValues(column: Loose, type: ColumnType | undefined): KeyFault[] {
  const { choices, default: value } = column;
  const element = type?.element;
  const elements = { ...(column['elements'] as Loose | undefined), type: column['of'] };
  // `checkColumn` reports choices that are not an array.
  const all = Array.isArray(choices) ? (choices as unknown[]) : undefined;
  const faults = (all ?? []).flatMap((choice) => {
    const text = element ? faultOf(choice, elements, element) : faultOf(choice, column, type);
    return text ? [{ key: 'choices', text: `${printed(choice)} ${text}` }] : [];
  });
  if (value === undefined || (value === 'now' && type?.now)) return faults;
  if (value === FILLED_BY_DATABASE)
    return [
      ...faults,
      ...faultIf(column['null'] === true, 'default', "'database' is for columns that are NOT NULL"),
    ];
  // Faulty choices of elements say nothing about the default.
  const rest = element && faults.length > 0 ? { ...column, choices: undefined } : column;
  const text =
    value === null ? 'is not allowed: leave the default out and set null: true' : faultOf(value, rest, type);
  if (text) return [...faults, { key: 'default', text: `${printed(value)} ${text}` }];
  if (!all || element || all.includes(value)) return faults;
  // If a choice has the wrong type ("5" for 5), the default may well be one of the choices.
  const bare = (one: unknown): string => printed(one).replaceAll('"', '');
  const mayBeChoice = faults.length > 0 && all.map(bare).includes(bare(value));
  return [...faults, ...faultIf(!mayBeChoice, 'default', 'is not one of the choices')];
}
