// Random rows of every type, and random filters and orderings over them.
import fc from 'fast-check';
import { FOREIGN_KEYS, type Filter, type Ordering, type Row } from './reference.ts';
import { uuid } from './samples.ts';

interface Kind {
  /** Few values, so that rows have duplicates and filters find them. */
  readonly stored: fc.Arbitrary<unknown>;
  /** Texts in a filter with the same meaning. */
  readonly spellings?: (value: never) => string[];
  readonly operators: readonly string[];
}

const EQUALITY = ['eq', 'ne', 'in', 'is'];
const ORDERED = [...EQUALITY, 'lt', 'lte', 'gt', 'gte'];
const TEXTUAL = [...ORDERED, 'like', 'ilike'];
const CONTAINING = [...EQUALITY, 'contains'];

const CHARACTERS = ['a', 'b', 'A', 'B', 'z', 'é', 'É', '%', '_', '\\', '"', ',', ' ', '+', '&', '-', '\n', '\u{FF5E}', '\u{1F600}']; // prettier-ignore
const text = fc.string({ unit: fc.constantFrom(...CHARACTERS), maxLength: 3 });

const DATE_TIMES = ['0001-01-01 00:00:00', '1969-12-31 23:59:59', '2024-02-29 00:00:00', '2024-02-29 12:30:00', '9999-12-31 23:59:59']; // prettier-ignore

function dateTimeSpellings(value: string): string[] {
  const [date = '', time = ''] = value.split(' ');
  const shifted = new Date(`${date}T${time}Z`);
  shifted.setUTCMinutes(shifted.getUTCMinutes() + 330);
  const isShort = time.endsWith(':00');
  return [
    value,
    `${date}T${time}`,
    `${date}T${time}Z`,
    ...(isShort ? [`${date} ${time.slice(0, 5)}`] : []),
    ...(time === '00:00:00' ? [date] : []),
    ...(date.startsWith('2024') ? [shifted.toISOString().replace(/\.\d+Z/, '+05:30')] : []),
  ];
}

/** The type of each column; a column is named like its type. */
const KINDS: Record<string, Kind> = {
  string: { stored: text, operators: TEXTUAL },
  text: { stored: text, operators: TEXTUAL },
  password: { stored: text, operators: EQUALITY },
  integer: {
    stored: fc.constantFrom(-(2 ** 31), -1, 0, 1, 2, 2 ** 31 - 1),
    spellings: (value: number) => [String(value), ...(value > 0 ? [`00${value}`] : [])],
    operators: ORDERED,
  },
  bigint: {
    stored: fc.constantFrom('-9223372036854775808', '-1', '0', '9007199254740992', '9007199254740993'),
    operators: ORDERED,
  },
  float: {
    stored: fc.constantFrom(-1e300, -0.5, 0, 5e-324, 0.1, 0.3, 100),
    spellings: (value: number) => [String(value), value.toExponential(20), ...(value === 0.5 ? ['.5'] : [])],
    operators: ORDERED,
  },
  decimal: {
    stored: fc.constantFrom('-99999999.9999', '-0.0001', '0', '0.3', '1.5', '1.5001', '1000'),
    spellings: (value: string) => [value, `${value}e0`, ...(value === '1.5' ? ['1.50000', '15e-1'] : [])],
    operators: ORDERED,
  },
  boolean: {
    stored: fc.boolean(),
    spellings: (value: boolean) =>
      value ? ['true', 't', '1', 'yes', 'on', 'TRUE', 'On'] : ['false', 'f', '0', 'no', 'off', 'False', 'NO'],
    operators: EQUALITY,
  },
  datetime: { stored: fc.constantFrom(...DATE_TIMES), spellings: dateTimeSpellings, operators: ORDERED },
  date: {
    stored: fc.constantFrom('0001-01-01', '1999-12-31', '2024-02-29', '9999-12-31'),
    operators: ORDERED,
  },
  time: {
    stored: fc.constantFrom('00:00:00', '09:30:00', '12:00:01', '23:59:59'),
    spellings: (value: string) => [value, ...(value.endsWith(':00') ? [value.slice(0, 5)] : [])],
    operators: ORDERED,
  },
  uuid: {
    stored: fc.constantFrom('0', '1', '9', 'a', 'f').map(uuid),
    spellings: (value: string) => [value, value.toUpperCase()],
    operators: ORDERED,
  },
  json: {
    stored: fc.constantFrom<unknown>(0, 1.5, 'a,"b', '', true, [], [1, null], {}, { a: 1, b: [false] }),
    spellings: (value: unknown) => [JSON.stringify(value), JSON.stringify(value, null, 2)],
    operators: CONTAINING,
  },
  words: {
    stored: fc.array(fc.option(fc.oneof(text, fc.constantFrom('NULL', '{}', '{a,b}', "'")), { freq: 4 }), { maxLength: 3 }),
    spellings: (value: unknown) => [JSON.stringify(value), JSON.stringify(value, null, 2)],
    operators: CONTAINING,
  },
  numbers: {
    stored: fc.array(fc.option(fc.constantFrom(-(2 ** 31), 0, 1, 2), { freq: 4 }), { maxLength: 3 }),
    spellings: (value: unknown) => [JSON.stringify(value), ` ${JSON.stringify(value)}`],
    operators: CONTAINING,
  },
}; // prettier-ignore

const COLUMNS = Object.keys(KINDS);
const SORTABLE = COLUMNS.filter((name) => !['json', 'words', 'numbers'].includes(name));

/** How keys are written in a query, and whether a foreign key has a second name with `_id`. */
export interface Keys {
  readonly spellings: ((key: number) => string[]) | undefined;
  readonly hasIdName: boolean;
}

const PLAIN_KEYS: Keys = { spellings: undefined, hasIdName: true };

const kindOf = (column: string, { spellings }: Keys): Kind =>
  KINDS[column] ?? {
    stored: fc.integer({ min: 0, max: 14 }),
    operators: ORDERED,
    ...(spellings && { spellings }),
  };

/** Rows with the keys 1, 2, 3 and so on. A foreign key is NULL or one of them. */
export const rows: fc.Arbitrary<Row[]> = fc.integer({ min: 0, max: 12 }).chain((count) => {
  const key = fc.option(fc.integer({ min: 1, max: Math.max(1, count) }), { freq: 4 });
  const columns = Object.entries(KINDS).map(
    ([name, { stored }]) => [name, fc.option(stored, { freq: 4 })] as const,
  );
  const keys = FOREIGN_KEYS.map((name) => [name, key] as const);
  const row = fc.record(Object.fromEntries<fc.Arbitrary<unknown>>([...columns, ...keys]));
  return fc
    .array(row, { minLength: count, maxLength: count })
    .map((list) => list.map((values, index) => ({ ...values, id: index + 1 })));
});

const foreignKeys = fc.array(fc.constantFrom(...FOREIGN_KEYS), { maxLength: 2 });

/** A path to one of the columns, with each foreign key in one of its two spellings. */
const pathTo = (
  names: readonly string[],
  { hasIdName }: Keys,
): fc.Arbitrary<{ path: string[]; spelt: string }> =>
  fc
    .tuple(foreignKeys, fc.constantFrom(...names), fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }))
    .map(([keys, column, withId]) => {
      const path = [...keys, column];
      const spell = (name: string, index: number): string =>
        hasIdName && FOREIGN_KEYS.includes(name) && withId[index] ? `${name}_id` : name;
      return { path, spelt: path.map(spell).join('__') };
    });

const spell = ({ spellings }: Kind, value: unknown): fc.Arbitrary<string> =>
  fc.constantFrom(...(spellings?.(value as never) ?? [String(value)]));

const inAnyCase = (word: string): fc.Arbitrary<string> =>
  fc.constantFrom(word, word.toUpperCase(), `${word[0]?.toUpperCase()}${word.slice(1)}`);

type Value = Filter['values'][number];

const isValue = (column: string): fc.Arbitrary<Value> =>
  fc
    .constantFrom<[string, unknown]>(
      ['null', null],
      ['none', null],
      ...(column === 'boolean'
        ? ([
            ['true', true],
            ['false', false],
          ] as [string, unknown][])
        : []),
    ) // prettier-ignore
    .chain(([word, meaning]) => inAnyCase(word).map((written) => ({ text: written, meaning: [meaning] })));

/** Values with commas between them, quoted as in CSV where it is necessary, and sometimes elsewhere. */
const listOf = (kind: Kind): fc.Arbitrary<Value> =>
  fc
    .array(
      kind.stored.chain((value) =>
        fc.tuple(fc.constant(value), spell(kind, value), fc.boolean()).map(([meaning, written, quoted]) => {
          const needed = quoted || /[",]/.test(written) || written === '';
          return { meaning, text: needed ? `"${written.replaceAll('"', '""')}"` : written };
        }),
      ),
      { minLength: 1, maxLength: 4 },
    )
    .map((items) => ({
      text: items.map((item) => item.text).join(','),
      meaning: items.map(({ meaning }) => meaning),
    }));

const pattern: fc.Arbitrary<Value> = fc
  .array(fc.oneof(text, fc.constantFrom('%', '_', '\\%', '\\_', '\\\\', '\\a')), { maxLength: 3 })
  .map((parts) => parts.join(''))
  .filter((written) => (/\\*$/.exec(written)?.[0].length ?? 0) % 2 === 0)
  .map((written) => ({ text: written, meaning: [written] }));

/** The elements of arrays that filters look for. */
const ELEMENTS: Record<string, Kind> = {
  words: { ...kindOf('text', PLAIN_KEYS), stored: fc.oneof(text, fc.constantFrom('NULL', '{}')) },
  numbers: kindOf('integer', PLAIN_KEYS),
};

function valueFor(operator: string, column: string, keys: Keys): fc.Arbitrary<Value> {
  const kind = kindOf(column, keys);
  const element = ELEMENTS[column];
  if (operator === 'is') return isValue(column);
  if (operator === 'in') return listOf(kind);
  if (operator === 'contains' && element) return listOf(element);
  if (operator === 'like' || operator === 'ilike') return pattern;
  return kind.stored.chain((value) =>
    spell(kind, value).map((written) => ({ text: written, meaning: [value] })),
  );
}

const filterWith = (keys: Keys): fc.Arbitrary<Filter> =>
  pathTo([...COLUMNS, ...FOREIGN_KEYS, 'id'], keys)
    .chain(({ path, spelt }) => {
      const column = path.at(-1) ?? '';
      return fc.record({
        path: fc.constant(path),
        spelt: fc.constant(spelt),
        operator: fc.constantFrom(...kindOf(column, keys).operators),
        negated: fc.boolean(),
        bare: fc.boolean(),
      });
    })
    .chain(({ path, spelt, operator, negated, bare }) => {
      const suffix = operator === 'eq' && bare ? '' : `__${operator}`;
      const value = valueFor(operator, path.at(-1) ?? '', keys);
      return fc.array(value, { minLength: 1, maxLength: 3 }).map((values) => ({
        path,
        operator,
        negated,
        values,
        parameter: `${negated ? '-' : ''}${spelt}${suffix}`,
      }));
    });

/** Filters of one query, each with a different name. */
export const filtersWith = (keys: Keys): fc.Arbitrary<Filter[]> =>
  fc.uniqueArray(filterWith(keys), { minLength: 1, maxLength: 3, selector: ({ parameter }) => parameter });

export const orderingsWith = (keys: Keys): fc.Arbitrary<(Ordering & { spelt: string })[]> =>
  fc.array(
    fc
      .tuple(pathTo([...SORTABLE, ...FOREIGN_KEYS, 'id'], keys), fc.boolean())
      .map(([{ path, spelt }, descending]) => ({ path, spelt, descending })),
    { maxLength: 4 },
  );
