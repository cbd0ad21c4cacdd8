// The JSON Schemas of the column types, for OpenAPI.
import type { ColumnSchema, ElementFacts, Facts, JsonSchema } from './column-type.ts';
import { isRelative } from './dates.ts';
import { INTEGERS } from './json-values.ts';
import { linearPattern } from './linear-pattern.ts';

/** Drops undefined keywords. */
const schema = (keywords: Record<string, unknown>): JsonSchema =>
  Object.fromEntries(Object.entries(keywords).filter(([, value]) => value !== undefined));

/** Adds `null` to the type, and to an `enum`, which must list it too. */
export function orNull(keywords: JsonSchema): JsonSchema {
  const { type, enum: values } = keywords;
  return {
    ...keywords,
    ...(type === undefined ? {} : { type: [type, 'null'].flat() }),
    ...(values === undefined ? {} : { enum: [...(values as unknown[]), null] }),
  };
}

/** Choices as an `enum`, or as text if a value has several JSON forms: a decimal can be 1.5 and "1.50". */
export function choicesOf(choices: readonly unknown[] | undefined, { type }: JsonSchema): JsonSchema {
  if (!choices) return {};
  return Array.isArray(type)
    ? { description: `One of ${choices.join(', ')}.` }
    : { enum: [...new Set(choices)] };
}

/** A number that the limits allow: 1 if possible, and a whole one if there is one. */
function numberIn({ precision = Infinity, scale = 0, min = -Infinity, max = Infinity }: Facts): number {
  const isAllowed = (value: number): boolean =>
    value >= min &&
    value <= max &&
    Math.abs(value) < 10 ** (precision - scale) &&
    (scale >= 0 || value % 10 ** -scale === 0);
  return [1, 0, Math.ceil(min), Math.floor(max), min, max].find(isAllowed) ?? 1;
}

const same = (keywords: JsonSchema, example: unknown): ColumnSchema => ({
  output: keywords,
  body: keywords,
  example,
});

const formatted = (example: string, keywords: JsonSchema) => (): ColumnSchema =>
  same({ type: 'string', ...keywords }, example);

export function textSchema({ labels, maxLength, pattern }: Facts): ColumnSchema {
  const text = 'text'.slice(0, maxLength);
  const known = pattern === undefined ? undefined : linearPattern(pattern);
  return {
    output: schema({ type: 'string', enum: labels }),
    body: schema({ type: 'string', enum: labels, maxLength, pattern }),
    example: labels?.[0] ?? (known?.test(text) === false ? (known.example() ?? text) : text),
  };
}

/** Whole numbers as JSON numbers. 64-bit limits are omitted, because JavaScript numbers cannot represent them exactly. */
export const integerSchema = (facts: Facts): ColumnSchema => {
  const isLarge = facts.castType === 'int8';
  const output = { type: 'integer', format: isLarge ? 'int64' : 'int32' };
  const [min, max] = isLarge ? [] : (INTEGERS[facts.castType] ?? []);
  const bounds = {
    minimum: facts.min ?? (min === undefined ? undefined : Number(min)),
    maximum: facts.max ?? (max === undefined ? undefined : Number(max)),
  };
  return { output, body: schema({ ...output, ...bounds }), example: numberIn(facts) };
};

const bounded = ({ min, max }: Facts): JsonSchema => schema({ minimum: min, maximum: max });

/** Whole numbers as strings of digits, because JavaScript numbers lose digits. */
export const digitsSchema = (facts: Facts): ColumnSchema => {
  const pattern = '^-?[0-9]+$';
  return {
    output: { type: 'string', format: 'int64', pattern },
    body: { type: ['string', 'integer'], pattern, ...bounded(facts) },
    example: String(numberIn(facts)),
  };
};

export const floatSchema = (facts: Facts): ColumnSchema => ({
  output: { type: 'number', format: 'double' },
  body: { type: 'number', format: 'double', ...bounded(facts) },
  example: numberIn(facts),
});

export const decimalSchema = (facts: Facts): ColumnSchema => ({
  output: { type: 'string', format: 'decimal' },
  body: {
    type: ['string', 'number'],
    pattern: '^[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?$',
    ...bounded(facts),
  },
  example: String(numberIn(facts)),
});

export const booleanSchema = (): ColumnSchema => same({ type: 'boolean' }, true);

/** Dates and times. JSON Schema has no keyword for their bounds, so a description names them. */
const dated = (example: string, keywords: JsonSchema, inIso = false) =>
  function schemaOf({ earliest, latest }: Facts): ColumnSchema {
    const shown = (bound: string): string =>
      inIso && !isRelative(bound) ? `${bound.replace(' ', 'T')}Z` : bound;
    const bounds = [
      earliest === undefined ? '' : `Not before ${shown(earliest)}.`,
      latest === undefined ? '' : `Not after ${shown(latest)}.`,
    ].filter((text) => text !== '');
    const body = { type: 'string', ...keywords };
    if (bounds.length === 0) return same(body, example);
    const [from = '', to = '~'] = [earliest, latest].map((one) =>
      one === undefined || isRelative(one) ? undefined : shown(one),
    );
    return {
      output: body,
      body: { ...body, description: [keywords['description'], ...bounds].filter(Boolean).join(' ') },
      example: example < from ? from : example > to ? to : example,
    };
  };

export const dateTimeSchema = dated('2026-01-15 09:30:00', { description: 'YYYY-MM-DD HH:MM:SS, in UTC.' });
export const isoDateTimeSchema = dated('2026-01-15T09:30:00Z', { format: 'date-time' }, true);
export const dateSchema = dated('2026-01-15', { format: 'date' });
export const timeSchema = dated('09:30:00', { description: 'HH:MM:SS.' });
export const uuidSchema = formatted('0b1f4a52-6a0c-4a5e-9c0e-2f6d7a1b3c4d', { format: 'uuid' });

export const inetSchema = formatted('192.0.2.7', { description: 'An IP address, with or without a prefix.' });
export const cidrSchema = formatted('192.0.2.0/24', { description: 'A network.' });
/** A column of the type macaddr8 has eight bytes. */
export const macaddrSchema = ({ castType }: Facts): ColumnSchema =>
  same({ type: 'string' }, castType === 'macaddr8' ? '08:00:2b:01:02:03:04:05' : '08:00:2b:01:02:03');

export const jsonSchema = (): ColumnSchema => same({ description: 'Any JSON value.' }, { any: 'value' });

/** An array of values with this schema. */
export function arraySchema(
  { output, body, example }: ColumnSchema,
  { nullable, choices }: ElementFacts,
  maxItems: number,
): ColumnSchema {
  const items = { ...body, ...choicesOf(choices, body) };
  const [choice] = choices ?? [];
  const shownChoice = output['type'] === 'string' ? String(choice) : choice;
  return {
    // A table may hold NULL elements whatever the registry allows.
    output: { type: 'array', items: orNull(output) },
    body: { type: 'array', items: nullable ? orNull(items) : items, maxItems },
    example: [choice === undefined ? example : shownChoice],
  };
}

export const passwordSchema = ({ minLength = 1 }: Facts): ColumnSchema => ({
  output: { type: 'string' },
  body: {
    type: 'string',
    format: 'password',
    minLength,
    description: 'The plain password, at most 1,024 bytes; its hash is stored.',
  },
  example: 'correct horse battery staple'.padEnd(minLength, '.'),
});
