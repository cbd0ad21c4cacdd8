// A reference implementation of filters and orderings, which tests compare with the service.

/** A record as it is stored. Keys are column names; absent and null both mean NULL. */
export interface Row {
  readonly id: number;
  readonly [column: string]: unknown;
}

export interface Filter {
  /** The name of the parameter as it is sent. */
  readonly parameter: string;
  readonly path: readonly string[];
  readonly operator: string;
  readonly negated: boolean;
  /** One for each occurrence of the parameter: its text, and its meaning. */
  readonly values: readonly { readonly text: string; readonly meaning: readonly unknown[] }[];
}

export interface Ordering {
  readonly path: readonly string[];
  readonly descending: boolean;
}

/** The foreign keys of the relation, which all reference it. */
export const FOREIGN_KEYS: readonly string[] = ['parent', 'friend'];

/** How the values of a type compare; the default is `<` and `>`. */
const COMPARISONS: Record<string, (one: never, other: never) => number> = {
  string: compareText,
  text: compareText,
  password: compareText,
  bigint: (one: string, other: string) => compare(BigInt(one), BigInt(other)),
  decimal: (one: string, other: string) => compare(Number(one), Number(other)),
  json: compareJson,
  words: compareJson,
  numbers: compareJson,
};

function compare<T>(one: T, other: T): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** By code point, like the collation C in UTF-8. `<` would compare surrogates. */
function compareText(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

function compareJson(one: unknown, other: unknown): number {
  return compare(canonical(one), canonical(other));
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`);
  return `{${fields.sort().join(',')}}`;
}

const comparison = (column: string): ((one: unknown, other: unknown) => number) =>
  (COMPARISONS[column] as ((one: unknown, other: unknown) => number) | undefined) ?? compare;

/** The value at the end of a path; NULL if a record on the path is missing. */
export function valueAt(row: Row, path: readonly string[], rows: ReadonlyMap<number, Row>): unknown {
  const [first = '', ...rest] = path;
  const value = row[first] ?? null;
  if (rest.length === 0) return value;
  const related = rows.get(value as number);
  return related ? valueAt(related, rest, rows) : null;
}

const foldAscii = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

/** LIKE: `%` matches any characters, `_` matches one, and `\` escapes the next one. */
function isLike(text: string, pattern: string): boolean {
  const source = pattern.replace(/\\?[\s\S]/gu, (part) => {
    if (part === '%') return '[\\s\\S]*';
    if (part === '_') return '[\\s\\S]';
    const literal = part.length > 1 && part.startsWith('\\') ? part.slice(1) : part;
    return literal.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  });
  return new RegExp(`^${source}$`, 'u').test(text);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether a JSON value contains another one, as `@>` of PostgreSQL says. */
function contains(value: unknown, part: unknown, isRoot = true): boolean {
  if (Array.isArray(value)) {
    if (!Array.isArray(part)) return isRoot && !isObject(part) && value.includes(part);
    return part.every((one) => value.some((each) => contains(each, one, false)));
  }
  if (!isObject(value) || !isObject(part)) return value === part;
  return Object.entries(part).every(
    ([key, one]) => Object.hasOwn(value, key) && contains(value[key], one, false),
  );
}

function matchesValue(
  operator: string,
  value: unknown,
  meaning: readonly unknown[],
  column: string,
): boolean {
  const [given] = meaning;
  if (operator === 'is') return value === given;
  if (operator === 'like') return isLike(value as string, given as string);
  if (operator === 'ilike') return isLike(foldAscii(value as string), foldAscii(given as string));
  if (operator === 'contains')
    return column === 'json'
      ? contains(value, given)
      : meaning.every((item) => (value as unknown[]).includes(item));
  const order = (other: unknown): number => comparison(column)(value, other);
  if (operator === 'in') return meaning.some((item) => order(item) === 0);
  const results: Record<string, boolean> = {
    eq: order(given) === 0,
    ne: order(given) !== 0,
    lt: order(given) < 0,
    lte: order(given) <= 0,
    gt: order(given) > 0,
    gte: order(given) >= 0,
  };
  return results[operator] ?? false;
}

/** Whether a filter selects a record: any value matches, for `ne` all. NULL matches only `is` and negated filters. */
export function matches(filter: Filter, row: Row, rows: ReadonlyMap<number, Row>): boolean {
  const { path, operator, values, negated } = filter;
  const value = valueAt(row, path, rows);
  const column = path.at(-1) ?? '';
  const one = ({ meaning }: Filter['values'][number]): boolean =>
    matchesValue(operator, value, meaning, column);
  const known = operator === 'is' || value !== null;
  const result = known && (operator === 'ne' ? values.every(one) : values.some(one));
  return result !== negated;
}

/** The order of two records: NULLs last ascending and first descending, ties by id. */
export function compareRows(
  one: Row,
  other: Row,
  orderings: readonly Ordering[],
  rows: ReadonlyMap<number, Row>,
): number {
  for (const { path, descending } of orderings) {
    const [left, right] = [valueAt(one, path, rows), valueAt(other, path, rows)];
    const nulls = Number(left === null) - Number(right === null);
    const order = nulls || (left === null ? 0 : comparison(path.at(-1) ?? '')(left, right));
    if (order !== 0) return descending ? -order : order;
  }
  return one.id - other.id;
}

/** Filters as a query string. */
export const queryOf = (list: readonly Filter[]): string =>
  list
    .flatMap(({ parameter, values }) =>
      values.map(({ text }) => `${encodeURIComponent(parameter)}=${encodeURIComponent(text)}`),
    )
    .join('&');

/** Orderings as the value of `ordering`. */
export const orderingOf = (by: readonly (Ordering & { readonly spelt: string })[]): string =>
  by.map(({ spelt, descending }) => `${descending ? '-' : ''}${spelt}`).join(',');
