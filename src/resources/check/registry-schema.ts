// The schema of a registry file: one table of keys and types for each kind of object.
import { ACCESS_LEVELS } from '../../config.ts';
import { RESERVED_NAMES } from '../../db/schema/model-definition.ts';
import { ON_DELETE } from '../../db/schema/model.ts';
import { TONES, WIDGETS } from '../../db/schema/presentation.ts';
import { accentFault, type Accent } from '../definition/admin-area.ts';
import { ARRAY_TYPES } from '../../db/types/array-types.ts';
import type { ColumnType } from '../../db/types/column-type.ts';
import { COLUMN_TYPES, KEY_TYPE_NAMES } from '../../db/types/column-types.ts';
import { linearPattern } from '../../db/types/linear-pattern.ts';
import { MAX_QUERY_BYTES, parseParameters } from '../../query/parse/grammar.ts';
import { ACTIONS, METHODS } from '../definition/resource.ts';
import { GRANTED } from '../definition/roles.ts';
import { SYSTEM_PREFIX } from '../definition/system-tables.ts';
import {
  aBoolean,
  anything,
  arrayOf,
  both,
  isIn,
  isObject,
  isWhole,
  mapOf,
  objectOf,
  oneOf,
  printed,
  such,
  whole,
  type Validator,
} from '../definition/validators.ts';

/** Maximum columns of a key. */
const MAX_PARTS = 8;
/** PostgreSQL's maximum columns of an index. */
const MAX_TOGETHER = 32;
/** PostgreSQL's maximum length of a varchar. */
const MAX_CHARACTERS = 10_485_760;
/** PostgreSQL's maximum precision of a decimal. */
const MAX_DIGITS = 1000;
/** Maximum `minLength` of a password. Clients may send a stored hash back, which must not be too short. */
const MAX_MIN_LENGTH = 64;

export const OWNER_FAULT = 'must name a foreign key';
export const SCALE_FAULT = 'must be a whole number from 0 to precision';
const TOO_LONG = 'must have at most 63 bytes, because PostgreSQL truncates longer names';
const SYSTEM_NAME = `names that start with ${SYSTEM_PREFIX} are reserved for system tables`;

const isString = (value: unknown): value is string => typeof value === 'string';
const isNonEmpty = (value: unknown): boolean => isString(value) && value !== '';
const matches =
  (pattern: RegExp) =>
  (value: unknown): boolean =>
    isString(value) && pattern.test(value);

/** A text that PostgreSQL can store: without NUL characters and lone surrogates. */
const TEXT = such(matches(/^[^\0\p{Cs}]+$/u), 'must be a non-empty string without NUL characters');
/** The parts of `schema.table` count each. */
const fitsName = such(
  (value) =>
    String(value)
      .split('.')
      .every((part) => Buffer.byteLength(part) <= 63),
  TOO_LONG,
);
const FIELD = both(
  TEXT,
  such((value) => Buffer.byteLength(String(value)) <= 63, TOO_LONG),
);
const noSystemName = such(
  (value) => !String(value).split('.').at(-1)?.startsWith(SYSTEM_PREFIX),
  SYSTEM_NAME,
);

const isNames = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && Array.from(value as unknown[]).every(isNonEmpty);
const isSet = (value: unknown): boolean =>
  isNames(value) && isWhole((value as unknown[]).length, 2, MAX_TOGETHER);
export const LEVEL = such(
  (value) => isIn(ACCESS_LEVELS)(value) || isNames(value),
  `must be one of ${ACCESS_LEVELS.join(', ')}, or an array of roles`,
);
const BY_METHOD = objectOf({ POST: LEVEL, PUT: LEVEL, DELETE: LEVEL });
const ACCESS: Validator = (value, path) => (isObject(value) ? BY_METHOD : LEVEL)(value, path);
/** Whether the text has the form of a query string. */
function isQuery(text: unknown): boolean {
  try {
    parseParameters(String(text));
    return true;
  } catch {
    return false;
  }
}

const ENCODED = `must be encoded as in an address (a percent sign is %25), in at most ${MAX_QUERY_BYTES} bytes`;
const ROWS = both(
  such(
    (value) => isNonEmpty(value) || isNames(value),
    'must be filters such as user=$me, or an array of them',
  ),
  such((value) => [value].flat().every(isQuery), ENCODED),
);
const NAMES = arrayOf(isString, 'must be an array of column names');
const NON_EMPTY = such(isNonEmpty, 'must be a non-empty string');
const MODEL_NAME = such(isString, 'must be the name of a model');
const PARTS = arrayOf(isString, `must be an array of 1 to ${MAX_PARTS} columns`, 1, MAX_PARTS);

/** The fault of the name of a column or foreign key, if it has one. */
function nameFault(name: string): string | undefined {
  if (isIn(RESERVED_NAMES)(name)) return 'this name is reserved';
  if (name.includes('__')) return 'a name must not contain __, which separates the parts of a filter';
  if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || name.endsWith('_'))
    return 'a name must have only letters, digits and underscores, start with a letter and not end with an underscore';
  return name.length > 60 ? `a name must have at most 60 characters (got ${name.length})` : undefined;
}

/** The wrong value of a key for a message; '' if the key is absent. */
const got = (value: unknown): string => (value === undefined ? '' : ` (got ${printed(value)})`);
const typeIn = (names: readonly string[]): Validator =>
  such(isIn(names), (value) => `must be one of ${names.join(', ')}${got(value)}`);

const COMMON = {
  type: typeIn([...Object.keys(COLUMN_TYPES), 'array', 'foreignKey']),
  null: aBoolean,
  read: LEVEL,
  write: LEVEL,
  unique: aBoolean,
  index: aBoolean,
  column: FIELD,
  formerly: arrayOf(
    (name) => isString(name) && nameFault(name) === undefined,
    'must be an array of names that the column had before',
    1,
  ),
  label: TEXT,
  help: TEXT,
};
const LABELS = such(
  (labels) => isNames(Object.values(labels as object)),
  'must be an object of values and their labels, which are non-empty strings',
);
const VALUES = {
  default: anything,
  choices: ((choices, path, column) =>
    isObject(choices)
      ? LABELS(choices, path, column)
      : arrayOf(
          () => true,
          "must be an array of values, or an object such as { f: 'female' }",
          1,
        )(choices, path)) satisfies Validator,
};
const SCALAR_VALUES = {
  ...VALUES,
  tones: mapOf(oneOf(TONES), "must be an object such as { open: 'warning' }", () => undefined),
};
const BOUND = such(Number.isFinite, 'must be a number');
const PATTERN: Validator = (value, path) => {
  if (!isNonEmpty(value)) return [{ key: path, text: "must be a string such as '^[A-Z]{2}$'" }];
  try {
    linearPattern(String(value));
    return [];
  } catch (error) {
    return [{ key: path, text: (error as Error).message }];
  }
};
const LENGTH = { maxLength: whole(1, MAX_CHARACTERS) };
const BOUNDS = { min: BOUND, max: BOUND };
const MOMENT = such(isNonEmpty, "must be a date or time as a string, 'now' or 'today'");
const DIGITS = {
  precision: whole(1, MAX_DIGITS),
  scale: such((value) => isWhole(value, 0, MAX_DIGITS), SCALE_FAULT),
};
const PASSWORD = { minLength: whole(1, MAX_MIN_LENGTH) };
const FOREIGN_KEY = { references: MODEL_NAME, onDelete: oneOf(ON_DELETE) };

/** The limits that a type has. */
const limitsOf = (name: string, type: ColumnType): Readonly<Record<string, Validator>> => ({
  ...(type.sized ? LENGTH : {}),
  ...(type.bounded ? BOUNDS : {}),
  ...(type.now ? { min: MOMENT, max: MOMENT } : {}),
  ...(name === 'decimal' ? DIGITS : {}),
});

/** The validator with this name, if any. */
const named = (validators: Readonly<Record<string, Validator>>, name: unknown): Validator | undefined =>
  typeof name === 'string' && Object.hasOwn(validators, name) ? validators[name] : undefined;

const ELEMENTS_BY_TYPE = Object.fromEntries(
  Object.entries(ARRAY_TYPES).map(([name, { element }]) => [
    name,
    objectOf(
      { null: aBoolean, ...(element ? limitsOf(name, element) : {}) },
      {
        text: 'must be an object such as { null: false }',
        unknown: `elements of type ${name} have no such key`,
      },
    ),
  ]),
);
const ARRAY = {
  of: typeIn(Object.keys(ARRAY_TYPES)),
  elements: ((elements, path, column) =>
    named(ELEMENTS_BY_TYPE, column?.['of'])?.(elements, path) ?? []) satisfies Validator,
};

/**
 * The keys by type. A default password would be plain text in the schema. Choices cannot be compared in JSON, which has many
 * spellings for one value.
 */
const KEYS_BY_TYPE: Readonly<Record<string, Readonly<Record<string, Validator>>>> = {
  ...Object.fromEntries(
    Object.entries(COLUMN_TYPES).map(([name, type]) => [
      name,
      {
        ...SCALAR_VALUES,
        ...limitsOf(name, type),
        ...(['string', 'text'].includes(name) ? { pattern: PATTERN, widget: oneOf(WIDGETS) } : {}),
      },
    ]),
  ),
  password: { ...limitsOf('password', COLUMN_TYPES.password), ...PASSWORD },
  json: { default: anything },
  array: { ...VALUES, ...ARRAY },
  foreignKey: { ...VALUES, ...FOREIGN_KEY },
};

const COLUMN_BY_TYPE = Object.fromEntries(
  Object.entries(KEYS_BY_TYPE).map(([name, keys]) => [
    name,
    objectOf(
      { ...COMMON, ...keys },
      {
        required: ['references', 'of'].filter((key) => key in keys),
        unknown: `type ${name} has no such key`,
      },
    ),
  ]),
);
/** A column without a valid type, which decides what the other keys mean. */
const UNTYPED_COLUMN = objectOf(
  {
    ...Object.fromEntries(
      Object.values(KEYS_BY_TYPE)
        .flatMap(Object.keys)
        .map((key) => [key, anything]),
    ),
    ...COMMON,
  },
  {
    required: ['type'],
    text: 'must be an object such as { type: "string" }',
    unknown: 'no type has such a key',
  },
);
const COLUMN: Validator = (column, path) =>
  (named(COLUMN_BY_TYPE, isObject(column) ? column['type'] : undefined) ?? UNTYPED_COLUMN)(column, path);

const KEY_OF_COLUMNS = objectOf({ columns: PARTS }, { unknown: 'must not be given beside columns' });
const KEY = objectOf(
  { type: oneOf(KEY_TYPE_NAMES), column: FIELD },
  { required: ['type'], text: 'must be an object such as { type: "bigint", column: "user_id" }' },
);

const COMPOSITE_FOREIGN_KEY = objectOf(
  { columns: PARTS, ...FOREIGN_KEY },
  {
    required: ['columns', 'references'],
    text: 'must be an object such as { columns: ["film", "actor"], references: "cast" }',
  },
);

const VIEW = objectOf(
  {
    title: NON_EMPTY,
    query: both(
      such(isNonEmpty, 'must be the query of a list, such as status=open&ordering=-id'),
      such(isQuery, ENCODED),
    ),
  },
  { required: ['title', 'query'], text: "must be an object such as { title: 'Open', query: 'status=open' }" },
);

const CUSTOM_ACTION = objectOf(
  {
    name: such(
      matches(/^[a-z][a-z0-9_-]*$/),
      'must be a lower-case name of letters, digits, dashes and underscores',
    ),
    title: NON_EMPTY,
    on: arrayOf(isIn(['record', 'list']), 'must be an array of record and list', 1),
    fields: mapOf(COLUMN, 'must be an object of columns', nameFault),
    confirm: NON_EMPTY,
    level: LEVEL,
    changesUsers: aBoolean,
    run: such((run) => typeof run === 'function', 'must be a function'),
  },
  { required: ['name', 'title', 'on', 'run'] },
);

/** Maximum child tables on a form. */
const MAX_INLINES = 5;
const INLINE = objectOf(
  {
    model: MODEL_NAME,
    column: NON_EMPTY,
    columns: arrayOf(isString, 'must be an array of at least one column name', 1),
    extra: such((extra) => isWhole(extra, 0, 10), 'must be a whole number from 0 to 10'),
    readonly: aBoolean,
  },
  { required: ['model'], text: "must be an object such as { model: 'order_line' }" },
);
/** An array of objects. The position of each is part of its path. */
const listOf =
  (item: Validator, text: string, most = Infinity): Validator =>
  (value, path) =>
    Array.isArray(value) && value.length <= most
      ? Array.from(value as unknown[]).flatMap((one, index) => item(one, `${path}.${index}`))
      : [{ key: path, text }];

const ADMIN = objectOf({
  actions: listOf(CUSTOM_ACTION, 'must be an array of actions'),
  title: NON_EMPTY,
  group: NON_EMPTY,
  label: NON_EMPTY,
  dates: NON_EMPTY,
  focus: NON_EMPTY,
  views: listOf(VIEW, 'must be an array of views'),
  list: NAMES,
  search: NAMES,
  filters: NAMES,
  readonly: NAMES,
  exclude: NAMES,
  inlines: listOf(INLINE, `must be an array of at most ${MAX_INLINES} objects`, MAX_INLINES),
  allow: arrayOf(isIn(ACTIONS), `must be an array of actions (${ACTIONS.join(', ')})`),
  hidden: aBoolean,
});

export const RESOURCE = objectOf(
  {
    model: both(
      such(
        matches(/^(?!.*__)[a-z][a-z0-9_]*$/),
        'must be a lower-case name of letters, digits and single underscores',
      ),
      noSystemName,
      fitsName,
    ),
    table: both(
      such(matches(/^[^.\0\p{Cs}]+(\.[^.\0\p{Cs}]+)?$/u), 'must be the name of a table, or schema.table'),
      noSystemName,
      fitsName,
    ),
    view: aBoolean,
    primaryKey: (key, path) =>
      key === false ? [] : (isObject(key) && 'columns' in key ? KEY_OF_COLUMNS : KEY)(key, path),
    columns: mapOf(COLUMN, 'must be an object of columns', nameFault),
    unique: such(
      (value) => Array.isArray(value) && value.length > 0 && value.every(isSet),
      `must be an array of sets of 2 to ${MAX_TOGETHER} columns`,
    ),
    foreignKeys: mapOf(COMPOSITE_FOREIGN_KEY, 'must be an object of foreign keys', nameFault),
    access: ACCESS,
    rows: objectOf({ read: ROWS, write: ROWS }),
    identity: aBoolean,
    read: LEVEL,
    costly: LEVEL,
    exclude: NAMES,
    readonly: NAMES,
    owner: such(isString, OWNER_FAULT),
    limit: whole(1, 100_000),
    maxLimit: whole(1, 100_000),
    maxCount: whole(1, 1_000_000_000),
    countLevel: LEVEL,
    cache: whole(1, 31_536_000, ' of seconds'),
    databaseErrors: such(isIn(['hidden', 'shown']), 'must be hidden or shown'),
    constraints: such(
      (value) => isObject(value) && Object.values(value).every(isNonEmpty),
      'must be an object of constraint names and non-empty texts',
    ),
    methods: arrayOf(isIn(METHODS), `must be a non-empty array of methods (${METHODS.join(', ')})`, 1),
    ordering: such(isNonEmpty, 'must be a string such as -pub_date,id'),
    admin: ADMIN,
    strict: aBoolean,
    history: aBoolean,
    version: such(isString, 'must name a column'),
  },
  { required: ['model', 'columns'] },
);

/** A host as it is in an address and in a content security policy. */
const isHost = matches(/^[a-z\d]([a-z\d-]*[a-z\d])?(\.[a-z\d]([a-z\d-]*[a-z\d])?)*(:[1-9]\d{0,4})?$/);

const HEX = /^#[\da-f]{6}$/;
/** A color in which links can be read. @param accent the color with the one that it is checked with */
const colorOf =
  (accent: (color: string) => string | Accent = (color) => color): Validator =>
  (value, path) => {
    if (!matches(HEX)(value)) return [{ key: path, text: 'must be a color such as #0a58a6' }];
    const fault = accentFault(accent(String(value)));
    return fault === undefined ? [] : [{ key: path, text: fault }];
  };
const COLOR = colorOf();
const ACCENTS = objectOf(
  {
    light: colorOf((light) => ({ light, dark: '#ffffff' })),
    dark: colorOf((dark) => ({ light: '#000000', dark })),
  },
  { required: ['light', 'dark'] },
);
const RIBBON = objectOf({ text: NON_EMPTY, tone: oneOf(TONES) }, { required: ['text'] });

export const ADMIN_EXPORT = objectOf(
  {
    title: NON_EMPTY,
    logo: NON_EMPTY,
    accent: (value, path) => (isObject(value) ? ACCENTS : COLOR)(value, path),
    ribbon: (value, path) => (isObject(value) ? RIBBON : NON_EMPTY)(value, path),
    images: arrayOf(isHost, 'must be an array of lower-case hosts such as cdn.example.com or localhost:9000'),
  },
  { text: "must be an object such as { title: 'Shop', accent: '#0a58a6' }" },
);

export const PANEL = objectOf(
  {
    title: such((title) => isString(title) && title.trim() !== '', 'must be a non-empty string'),
    text: such(isString, 'must be a string'),
    load: such((load) => typeof load === 'function', 'must be a function'),
  },
  { required: ['title', 'load'] },
);

const LIMITS = objectOf({ columns: NAMES, exclude: NAMES, rows: ROWS });
const GRANT: Validator = (value, path) => (typeof value === 'boolean' ? [] : LIMITS(value, path));

export const ROLES = mapOf(
  objectOf({
    admin: aBoolean,
    grants: mapOf(
      objectOf(Object.fromEntries(GRANTED.map((action) => [action, GRANT]))),
      'must be an object of models and what the role may do with them',
      () => undefined,
    ),
  }),
  'must be an object of roles',
  (name) => faultOfRole(name),
);

/** Roles are joined by commas in keys of caches. */
const faultOfRole = (name: string): string | undefined =>
  /^[a-z][a-z0-9_-]*$/.test(name) ? undefined : 'a name must have only lower-case letters, digits, _ and -';
