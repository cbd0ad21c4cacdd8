// The table of column types: COLUMN_TYPES for columns, KEY_TYPES for primary keys.
import type { ColumnType, Facts } from './column-type.ts';
import {
  booleanSchema,
  dateSchema,
  dateTimeSchema,
  decimalSchema,
  digitsSchema,
  floatSchema,
  integerSchema,
  jsonSchema,
  passwordSchema,
  textSchema,
  timeSchema,
  uuidSchema,
} from './column-schemas.ts';
import {
  ORDERED,
  TEXTUAL,
  operators,
  EQUALITY,
  asItIs,
  asText,
  withoutPadding,
  fromString,
  fromDigits,
  keepHidden,
  allowInfinity,
  requirePlainDate,
  dateTimeOutput,
  timeOutput,
  uuid,
  jsonText,
  dateTimesOutput,
  timesOutput,
  timesInSeconds,
} from './column-type-parts.ts';
import { parseDate, parseDateTime, parseTime, withinBounds } from './dates.ts';
import { join, raw, sql, type Fragment } from '../fragment.ts';
import { cidr, inet, macaddr } from './network-types.ts';
import { checkPassword } from './password-text.ts';
import {
  checkJson,
  checkNumber,
  checkText,
  decimal,
  NON_FINITE,
  float,
  integer,
  notFinite,
  wholeText,
} from './json-values.ts';
import { messageOf } from '../../messages.ts';

const string: ColumnType = {
  operators: TEXTUAL,
  castType: 'varchar',
  declare: ({ maxLength }) => `varchar(${maxLength ?? 255})`,
  accepts: ['varchar', 'text', 'bpchar', 'citext', 'enum'],
  parse: (text, { labels }) => checkText(text, { labels }),
  fromJson: (value, _source, facts) => checkText(value, facts),
  output: withoutPadding,
  json: 'escaped',
  long: true,
  sized: true,
  array: {},
  input: { control: 'text', json: 'string' },
  schema: textSchema,
};

const bigint: ColumnType = {
  operators: ORDERED,
  castType: 'int8',
  declare: () => 'bigint',
  accepts: ['int8', 'int4', 'int2'],
  parse: integer,
  fromJson: (value, source, facts) => fromDigits(integer)(value, wholeText(source), facts),
  output: asText,
  json: 'quoted',
  bounded: true,
  isUnreserved: true,
  array: {},
  input: { control: 'number', json: 'string' },
  schema: digitsSchema,
};

export const COLUMN_TYPES = {
  string,
  text: {
    ...string,
    castType: 'text',
    declare: () => 'text',
    input: { control: 'textarea', json: 'string' },
  },
  integer: {
    operators: ORDERED,
    castType: 'int4',
    declare: () => 'integer',
    accepts: ['int4', 'int2'],
    parse: integer,
    fromJson: (value, source, facts) =>
      typeof value === 'number'
        ? checkNumber(integer(wholeText(source), facts), facts)
        : { fault: messageOf('notWhole') },
    output: asItIs,
    json: 'bare',
    bounded: true,
    isUnreserved: true,
    array: {},
    input: { control: 'number', json: 'number' },
    schema: integerSchema,
  },
  bigint,
  float: {
    operators: ORDERED,
    castType: 'float8',
    declare: () => 'double precision',
    accepts: ['float8', 'float4'],
    parse: float,
    fromJson: (value, source, facts) => {
      if (typeof value === 'string' && NON_FINITE.has(value)) return notFinite(value);
      return typeof value === 'number'
        ? checkNumber(float(source, facts), facts)
        : { fault: messageOf('notNumber') };
    },
    output: asItIs,
    json: 'escaped',
    bounded: true,
    array: {},
    input: { control: 'number', json: 'number' },
    schema: floatSchema,
  },
  decimal: {
    operators: ORDERED,
    castType: 'numeric',
    declare: ({ precision, scale }) =>
      precision === undefined ? 'numeric' : `numeric(${precision},${scale ?? 0})`,
    accepts: ['numeric'],
    parse: (text) => decimal(text, {}),
    fromJson: fromDigits(decimal),
    output: asText,
    json: 'quoted',
    // Rounds to the column's scale, so that 5 instead of 5.00 does not count as a change.
    assign: (value, _present, { precision, scale = 0 }) =>
      precision === undefined ? value : sql`${value}::${raw(`numeric(${precision},${scale})`)}`,
    long: true,
    bounded: true,
    array: {
      stored: (array, { precision, scale = 0 }) =>
        precision === undefined ? array : sql`${array}::${raw(`numeric(${precision},${scale})[]`)}`,
    },
    input: { control: 'number', json: 'string' },
    schema: decimalSchema,
  },
  boolean: {
    operators: operators(EQUALITY),
    castType: 'bool',
    declare: () => 'boolean',
    accepts: ['bool'],
    parse: (text) => {
      if (/^(true|t|1|yes|on)$/i.test(text)) return { value: 'true' };
      if (/^(false|f|0|no|off)$/i.test(text)) return { value: 'false' };
      return { fault: messageOf('notBoolean') };
    },
    fromJson: (value) =>
      typeof value === 'boolean' ? { value: String(value) } : { fault: messageOf('notBoolean') },
    output: asText,
    json: 'bare',
    isUnreserved: true,
    array: {},
    input: { control: 'checkbox', json: 'boolean' },
    schema: booleanSchema,
  },
  datetime: {
    operators: ORDERED,
    castType: 'timestamp',
    declare: () => 'timestamp(0)',
    accepts: ['timestamp', 'timestamptz'],
    parse: allowInfinity(parseDateTime),
    fromJson: withinBounds(fromString(requirePlainDate(parseDateTime))),
    output: dateTimeOutput,
    json: 'quoted',
    assign: keepHidden(dateTimeOutput),
    now: "date_trunc('second', now() at time zone 'UTC')",
    array: { output: dateTimesOutput, comparable: timesInSeconds },
    input: { control: 'datetime-local', json: 'string' },
    schema: dateTimeSchema,
  },
  date: {
    operators: ORDERED,
    castType: 'date',
    declare: () => 'date',
    accepts: ['date'],
    parse: allowInfinity(parseDate),
    fromJson: withinBounds(fromString(requirePlainDate(parseDate))),
    output: asText,
    json: 'quoted',
    now: "(now() at time zone 'UTC')::date",
    array: {},
    input: { control: 'date', json: 'string' },
    schema: dateSchema,
  },
  time: {
    operators: ORDERED,
    castType: 'time',
    declare: () => 'time(0)',
    accepts: ['time'],
    parse: parseTime,
    fromJson: withinBounds(fromString(parseTime)),
    output: timeOutput,
    json: 'quoted',
    assign: keepHidden(timeOutput),
    now: "date_trunc('second', now() at time zone 'UTC')::time",
    array: { output: timesOutput, comparable: timesInSeconds },
    input: { control: 'time', json: 'string' },
    schema: timeSchema,
  },
  uuid: {
    operators: ORDERED,
    castType: 'uuid',
    declare: () => 'uuid',
    accepts: ['uuid'],
    parse: (text) => uuid(text),
    fromJson: fromString((text) => uuid(text)),
    output: asItIs,
    json: 'quoted',
    isUnreserved: true,
    array: {},
    input: { control: 'text', json: 'string' },
    schema: uuidSchema,
  },
  inet,
  cidr,
  macaddr,
  json: {
    operators: operators(EQUALITY, ['contains']),
    castType: 'jsonb',
    declare: () => 'jsonb',
    accepts: ['jsonb', 'json'],
    parse: (text) => {
      const parsed = checkJson(undefined, text);
      // A filter can have a value that a record may only keep.
      return parsed.value === undefined ? parsed : { ...parsed, value: parsed.value, fault: undefined };
    },
    fromJson: checkJson,
    output: asItIs,
    json: 'bare',
    comparable: (column) => sql`${column}::jsonb`,
    comparedAs: 'jsonb',
    nullText: 'null',
    long: true,
    unordered: true,
    input: { control: 'textarea', json: 'json' },
    schema: jsonSchema,
    // Sending back what was read changes nothing: JSON null does not become NULL, and outer whitespace stays.
    assign: (value, present) =>
      sql`case when ${jsonText(present)} = coalesce(${value}::text, 'null') then ${present} else ${value} end`,
  },
  password: {
    operators: operators(EQUALITY),
    castType: 'text',
    declare: () => 'text',
    accepts: ['text', 'varchar'],
    parse: (text) => checkText(text, {}),
    fromJson: checkPassword,
    output: asItIs,
    json: 'escaped',
    input: { control: 'password', json: 'string' },
    schema: passwordSchema,
  },
} satisfies Record<string, ColumnType>;

export type TypeName = keyof typeof COLUMN_TYPES;

export const KEY_TYPE_NAMES = ['integer', 'bigint', 'uuid', 'string'] as const;
export type KeyTypeName = (typeof KEY_TYPE_NAMES)[number];

/** The types of primary keys. A bigint `id` is a JSON number, unlike other bigint columns. */
export const KEY_TYPES = {
  integer: COLUMN_TYPES.integer,
  bigint: { ...bigint, json: 'bare', schema: integerSchema },
  uuid: COLUMN_TYPES.uuid,
  string: COLUMN_TYPES.string,
} satisfies Record<KeyTypeName, ColumnType>;

/** Casts a text parameter to the column's type. The value of several columns is an array of their texts, and becomes a row. */
export const cast = (value: Fragment, facts: Facts): Fragment =>
  facts.parts ? sql`(${join(castParts(value, facts), ', ')})` : castOne(value, facts);

/** Like `cast`, as the columns of a `select`. */
export const castParts = (value: Fragment, facts: Facts): Fragment[] =>
  facts.parts?.map((part, index) => castOne(sql`(${value}::text[])[${raw(String(index + 1))}]`, part)) ?? [
    castOne(value, facts),
  ];

function castOne(value: Fragment, { castType }: Facts): Fragment {
  // `json` also accepts what filters cannot read as `jsonb`, such as escapes of characters that the database's encoding lacks.
  if (castType === 'json') return sql`case when ${value}::jsonb is not null then ${value}::json end`;
  return castType === 'text' ? value : sql`${value}::${raw(castType)}`;
}
