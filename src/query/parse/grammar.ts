import { addError, badQuery, Problem, type FieldErrors } from '../../errors.ts';
import { decode } from './percent-decoding.ts';

/** The budget of a query: see docs/reading.md. */
export const MAX_QUERY_BYTES = 8192;
const MAX_FILTERS = 50;
const MAX_ORDERINGS = 8;

export interface Parameter {
  readonly name: string;
  readonly value: string;
}

/** One filter of the request, its names not resolved yet. */
export interface FilterQuery {
  /** The parameter's name as it was sent, for error messages. */
  readonly parameter: string;
  /** `user__username__ilike` in its parts; what of it are columns and what an operator, only the model can tell. */
  readonly parts: readonly string[];
  readonly negated: boolean;
  /** More than one when the parameter is repeated. */
  readonly values: readonly string[];
}

export interface OrderingQuery {
  readonly parts: readonly string[];
  readonly descending: boolean;
}

/** What a request for a page asks for. */
export interface ListQuery {
  readonly filters: readonly FilterQuery[];
  /** Undefined when the request has none. */
  readonly orderings: readonly OrderingQuery[] | undefined;
  readonly page: bigint;
  readonly limit: number;
  /** The filters and the ordering as they stand in the links to other pages, each part followed by `&`. */
  readonly link: string;
}

/** The page sizes of a resource. */
export interface PageLimits {
  readonly limit: number;
  readonly maxLimit: number;
}

export interface EncodedParameter {
  /** The whole parameter, as it was sent. */
  readonly part: string;
  /** What stands before `=`, as it was sent. */
  readonly encoded: string;
  readonly name: string | undefined;
  readonly value: string | undefined;
}

/** Reads one part of a form or a query: `name=value` or `name`. */
function decodePart(part: string): EncodedParameter {
  const equals = part.indexOf('=');
  const encoded = equals < 0 ? part : part.slice(0, equals);
  return { part, encoded, name: decode(encoded), value: equals < 0 ? '' : decode(part.slice(equals + 1)) };
}

/**
 * The names and values of `application/x-www-form-urlencoded` in their order, undefined where they cannot be decoded.
 * @param most the most fields
 * @returns undefined for more fields than that
 */
export function decodeForm(text: string, most: number): EncodedParameter[] | undefined {
  const parameters: EncodedParameter[] = [];
  for (const part of partsOf(text)) {
    if (parameters.length === most) return undefined;
    parameters.push(decodePart(part));
  }
  return parameters;
}

/** Finds where a form has a field of a name in ASCII letters: each byte as it is, or percent-encoded. */
function fieldPattern(name: string): RegExp {
  const hexDigit = (digit: string): string => `[${digit}${digit.toUpperCase()}]`;
  const either = [...Buffer.from(name)].map((byte) => {
    const digits = [...byte.toString(16)].map(hexDigit);
    return `(?:${String.fromCharCode(byte)}|%${digits.join('')})`;
  });
  return new RegExp(`(?<=^|&)${either.join('')}(?=[=&]|$)`, 'g');
}

/**
 * The first values of the one field of a form that is wanted. The others are not even split: a body has room for half a million.
 * @param wanted a name in ASCII letters
 * @param most the most values
 */
export function decodeField(text: string, wanted: string, most: number): EncodedParameter[] {
  const found: EncodedParameter[] = [];
  for (const { index } of text.matchAll(fieldPattern(wanted))) {
    const end = text.indexOf('&', index);
    found.push(decodePart(text.slice(index, end < 0 ? text.length : end)));
    if (found.length === most) break;
  }
  return found;
}

const AMPERSAND = 0x26;

/** The parts of a form between its ampersands, except empty ones. */
function* partsOf(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    if (text.charCodeAt(start) === AMPERSAND) {
      start += 1;
      continue;
    }
    const next = text.indexOf('&', start);
    const end = next < 0 ? text.length : next;
    yield text.slice(start, end);
    start = end + 1;
  }
}

/** The parameters of a query string: its length is bounded, and so is their number. */
export const decodeQuery = (query: string): EncodedParameter[] => decodeForm(query, Infinity) ?? [];

/** The query string without what the links to other pages put at its end, so that no link is longer than the request was. */
const withoutPaging = (query: string): string =>
  query
    .split('&')
    .filter((part) => !/^(limit|page)=/.test(part))
    .join('&');

/**
 * The parameters of a query string, in its order.
 * @throws Problem 414 for one that is too long, 400 for bad percent-encoding and NUL characters
 */
export function parseParameters(query: string): (Parameter & { readonly part: string })[] {
  if (Buffer.byteLength(query) > MAX_QUERY_BYTES && Buffer.byteLength(withoutPaging(query)) > MAX_QUERY_BYTES)
    throw new Problem(414, `The query string is longer than ${MAX_QUERY_BYTES} bytes.`);
  const errors: FieldErrors = {};
  const parameters = decodeQuery(query).flatMap(({ part, encoded, name, value }) => {
    if (name === undefined || value === undefined)
      addError(errors, name ?? encoded, 'is not percent-encoded UTF-8');
    else if (name.includes('\0') || value.includes('\0'))
      addError(errors, name, 'must not contain a NUL character');
    else return [{ name, value, part }];
    return [];
  });
  if (Object.keys(errors).length > 0) throw badQuery(errors);
  return parameters;
}

/** `-pub_date,user__username` in its parts. */
export function parseOrdering(text: string): OrderingQuery[] {
  return text.split(',').map((item) => {
    const descending = item.startsWith('-');
    return { parts: (descending ? item.slice(1) : item).split('__'), descending };
  });
}

/** Adds an error for an ordering of more columns than a query may have. */
export function checkOrderingLength(
  orderings: readonly OrderingQuery[] | undefined,
  errors: FieldErrors,
): void {
  if (orderings && orderings.length > MAX_ORDERINGS)
    addError(errors, 'ordering', `has ${orderings.length} columns; ${MAX_ORDERINGS} are allowed`);
}

/** A name or a value for a link. Commas stay: lists are full of them, and encoded they would make a link too long to be taken. */
const encode = (text: string): string => encodeURIComponent(text).replaceAll('%2C', ',');

const isPositive = (text: string): boolean => /^\d+$/.test(text) && /[1-9]/.test(text);

/**
 * Reads the query string of a collection; names are resolved later, by the plan.
 * @param errors takes what is wrong with `ordering`, `limit` and `page`
 */
export function parseListQuery(
  query: string,
  { limit, maxLimit }: PageLimits,
  errors: FieldErrors,
): ListQuery {
  const filters = new Map<string, string[]>();
  const reserved = new Map<string, string>();
  const links: string[] = [];
  const sent: string[] = [];
  let count = 0;
  for (const { name, value, part } of parseParameters(query)) {
    const isReserved = name === 'ordering' || name === 'limit' || name === 'page';
    if (isReserved && reserved.has(name)) addError(errors, name, 'is given more than once');
    if (isReserved) reserved.set(name, value);
    else {
      count += 1;
      if (count === MAX_FILTERS + 1)
        addError(errors, name, `is one filter too many; ${MAX_FILTERS} are allowed`);
      const values = filters.get(name);
      if (values) values.push(value);
      else filters.set(name, [value]);
    }
    if (!isReserved || name === 'ordering') {
      links.push(`${encode(name)}=${encode(value)}&`);
      sent.push(`${part}&`);
    }
  }
  const limitText = reserved.get('limit');
  const pageText = reserved.get('page');
  for (const [name, text] of [
    ['limit', limitText],
    ['page', pageText],
  ] as const) {
    if (text !== undefined && !isPositive(text)) addError(errors, name, 'must be a positive whole number');
  }
  const ordering = reserved.get('ordering');
  const orderings = ordering === undefined ? undefined : parseOrdering(ordering);
  checkOrderingLength(orderings, errors);
  return {
    // What exceeds the budget has its error above and is not planned.
    filters: [...filters].slice(0, MAX_FILTERS).map(([parameter, values]) => {
      const negated = parameter.startsWith('-');
      return { parameter, parts: (negated ? parameter.slice(1) : parameter).split('__'), negated, values };
    }),
    orderings: orderings?.slice(0, MAX_ORDERINGS),
    page: pageText !== undefined && isPositive(pageText) ? BigInt(pageText) : 1n,
    limit: limitText !== undefined && isPositive(limitText) ? Math.min(Number(limitText), maxLimit) : limit,
    link: linkOf(links, sent),
  };
}

/** What a client left unencoded can make a link longer than what may be asked for; then it stays as it was sent. */
function linkOf(links: readonly string[], sent: readonly string[]): string {
  const link = links.join('');
  return link.length <= MAX_QUERY_BYTES ? link : sent.join('');
}
