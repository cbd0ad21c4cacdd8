import { inspect } from 'node:util';
import type { ColumnType, Facts } from '../../db/types/column-type.ts';
import { isObject } from '../definition/is-object.ts';
import { COLUMN_TYPES } from '../../db/types/column-types.ts';

/** The object without the keys that are faulty, which are named by their paths. */
export const without = (
  object: Readonly<Record<string, unknown>>,
  path: string,
  faulty: ReadonlySet<string>,
): Record<string, unknown> =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !faulty.has(`${path}${key}`)));

/** Whether a value is a text that PostgreSQL can hold, and not the empty one. */
export const isText = (value: unknown): boolean => typeof value === 'string' && /^[^\0\p{Cs}]+$/u.test(value);

/** PostgreSQL cuts longer names off. */
export const isTooLong = (name: unknown): boolean => typeof name === 'string' && Buffer.byteLength(name) > 63;
export const TOO_LONG = 'is longer than the 63 bytes that PostgreSQL keeps of a name';

const COMMON_KEYS = ['type', 'null', 'default', 'unique', 'index', 'choices', 'column', 'label', 'help'];
const FLAGS = ['null', 'unique', 'index'];
const TEXTS = ['column', 'label', 'help'];
const ON_DELETE = ['restrict', 'cascade', 'setNull'];

export type Report = (key: string, text: string) => void;

/**
 * Reports names that are no columns, and what is no array of names.
 * @param names undefined where the columns are not known
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

/** A default password would stand in the schema as plain text; of JSON there are many spellings for one value. */
const NOT_FOR: Readonly<Record<string, readonly string[]>> = {
  password: ['default', 'choices'],
  json: ['choices'],
};

const allowedKeys = (typeName: string, type: ColumnType | undefined): Set<string> =>
  new Set([
    ...COMMON_KEYS.filter((key) => !NOT_FOR[typeName]?.includes(key)),
    ...(type?.sized ? ['maxLength'] : []),
    ...(type?.bounded ? ['min', 'max'] : []),
    ...(typeName === 'password' ? ['minLength'] : []),
    ...(typeName === 'decimal' ? ['precision', 'scale'] : []),
    ...(typeName === 'foreignKey' ? ['references', 'onDelete'] : []),
  ]);

/** What a column of some type may have. */
const ANY_KEYS: ReadonlySet<string> = new Set([
  ...COMMON_KEYS,
  ...['maxLength', 'minLength', 'min', 'max', 'precision', 'scale', 'references', 'onDelete'],
]);

const MOST_CHARACTERS = 10_485_760;
const MOST_DIGITS = 1000;
/** The longest `minLength`: a stored hash can be sent back, and must not be too short to be a password. */
const MOST_OF_PASSWORD = 64;

/** The type of a name; undefined where the name is that of none, and for foreign keys, which have that of a key. */
const typeNamed = (name: unknown): ColumnType | undefined =>
  typeof name === 'string' && Object.hasOwn(COLUMN_TYPES, name)
    ? COLUMN_TYPES[name as keyof typeof COLUMN_TYPES]
    : undefined;

/** Whether a column is a foreign key, or meant to be one: its type is none that there is, and it speaks of what it refers to. */
export const isForeignKey = ({ type, references, onDelete }: Record<string, unknown>): boolean =>
  type === 'foreignKey' ||
  (!typeNamed(type) &&
    (references !== undefined ||
      onDelete !== undefined ||
      (typeof type === 'string' && /^foreign/i.test(type))));

/** What holds for the values of a column whose type is none that there is, by what its other keys are for. */
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

const isWhole = (value: unknown, least: number, most: number): boolean =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= most;

/** Reports every fault of one column of a registry, by its key; the key '' stands for the column itself. */
export function checkColumn(column: unknown, tell: Report): void {
  if (!isObject(column)) return tell('', 'must be an object such as { type: "string" }');
  const faulty = new Set<string>();
  const report: Report = (key, text) => {
    faulty.add(key);
    tell(key, text);
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
    if (value !== undefined && !isText(value)) report(key, 'must be a text');
  }
  if (isTooLong(column['column'])) report('column', TOO_LONG);
  if (kind === 'foreignKey') checkForeignKey(column, report);
  checkSizes(column, report);
  const { choices } = column;
  if (choices !== undefined && !(Array.isArray(choices) && choices.length > 0))
    report('choices', 'must be an array of values');
  // Those of a foreign key are looked at together with the model that it refers to.
  if (kind !== 'foreignKey') checkValues(without(column, '', faulty), type ?? likelyType(column), report);
}

function checkForeignKey(column: Record<string, unknown>, report: Report): void {
  const { references, onDelete } = column;
  if (typeof references !== 'string') report('references', 'must name a model');
  if (onDelete === undefined) return;
  if (!ON_DELETE.includes(onDelete as string)) report('onDelete', `must be one of ${ON_DELETE.join(', ')}`);
  if (onDelete === 'setNull' && !column['null']) report('onDelete', 'setNull needs null: true');
}

function checkSizes(column: Record<string, unknown>, report: Report): void {
  const { maxLength, minLength, precision, scale, min, max } = column;
  if (maxLength !== undefined && !isWhole(maxLength, 1, MOST_CHARACTERS))
    report('maxLength', `must be a whole number from 1 to ${MOST_CHARACTERS}`);
  if (minLength !== undefined && !isWhole(minLength, 1, MOST_OF_PASSWORD))
    report('minLength', `must be a whole number from 1 to ${MOST_OF_PASSWORD}`);
  if (precision !== undefined && !isWhole(precision, 1, MOST_DIGITS))
    report('precision', `must be a whole number from 1 to ${MOST_DIGITS}`);
  const most = isWhole(precision, 1, MOST_DIGITS) ? (precision as number) : MOST_DIGITS;
  if (scale !== undefined && precision === undefined) report('scale', 'needs precision');
  else if (scale !== undefined && !isWhole(scale, 0, most))
    report('scale', 'must be a whole number from 0 to precision');
  for (const [key, bound] of [
    ['min', min],
    ['max', max],
  ] as const) {
    if (bound !== undefined && !(typeof bound === 'number' && Number.isFinite(bound)))
      report(key, 'must be a number');
  }
  if (typeof min === 'number' && typeof max === 'number' && min > max) report('min', 'must not be above max');
}

/** Whether JSON has a text for a value and all that is in it, which it has not for functions, NaN, BigInts and the like. */
function isJson(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return typeof value === 'string' || typeof value === 'boolean';
  if (value === null) return true;
  const isPlain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  return isPlain && Object.values(value).every(isJson);
}

/** The text of a value in JSON; undefined where JSON has none for it. */
function jsonOf(value: unknown): string | undefined {
  try {
    return isJson(value) ? JSON.stringify(value) : undefined;
  } catch {
    return undefined; // it has itself in it
  }
}

/** A value as it stands in the registry's file. */
function printed(value: unknown): string {
  const text = jsonOf(value) ?? (typeof value === 'function' ? String(value) : inspect(value));
  return text.replace(/\s+/g, ' ');
}

/** A number that may have lost digits when JavaScript read the file, for a type that would keep them all. */
const isUnsafe = (value: unknown, { input }: ColumnType): boolean =>
  typeof value === 'number' &&
  Number.isFinite(value) &&
  Math.abs(value) > Number.MAX_SAFE_INTEGER &&
  input.control === 'number' &&
  input.json === 'string';

/** What is wrong with a value of a column, as far as that can be told where its type is not known. */
function faultOf(
  value: unknown,
  column: Record<string, unknown>,
  type: ColumnType | undefined,
): string | undefined {
  const source = jsonOf(value);
  const notJson = source === undefined ? 'cannot be written as JSON' : undefined;
  if (!type) {
    // Whatever key it refers to, it is a text or a number.
    const isKey = column['type'] !== 'foreignKey' || ['string', 'number'].includes(typeof value);
    return isKey ? notJson : 'is no key';
  }
  if (isUnsafe(value, type)) return 'may have lost digits: write it as a string';
  const maxLength = column['type'] === 'string' ? 255 : undefined;
  const facts: Facts = { castType: type.castType, maxLength, ...(column as Partial<Facts>) };
  if (notJson && type.input.json === 'json') return notJson;
  return type.fromJson(value, source ?? '', facts).fault ?? notJson;
}

/**
 * Reports choices and a default that a column could not hold.
 * @param type undefined where it is not known
 */
export function checkValues(
  column: Record<string, unknown>,
  type: ColumnType | undefined,
  report: Report,
): void {
  const { choices } = column;
  // That they are an array was looked at whatever the type.
  const all = Array.isArray(choices) ? (choices as unknown[]) : undefined;
  const faults = (all ?? []).flatMap((choice) => {
    const text = faultOf(choice, column, type);
    return text ? [`${printed(choice)} ${text}`] : [];
  });
  for (const text of faults) report('choices', text);
  const value = column['default'];
  if (value === undefined || (value === 'now' && (!type || type.now))) return;
  const text = value === null ? 'is null: leave it out and say null: true' : faultOf(value, column, type);
  if (text) report('default', `${printed(value)} ${text}`);
  else if (all && !all.includes(value)) {
    // A choice of the wrong type may be meant for the right one: "5" for 5.
    const bare = (one: unknown): string => printed(one).replaceAll('"', '');
    if (faults.length === 0 || !all.map(bare).includes(bare(value)))
      report('default', 'is none of the choices');
  }
}
