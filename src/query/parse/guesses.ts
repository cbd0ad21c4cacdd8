// Guesses at what a client means by a name that a query cannot use.
import type { Column } from '../../db/schema/model.ts';
import type { Operator } from '../../db/types/column-type.ts';
import { excerpt, type FieldErrors } from '../../errors.ts';
import { messageOf, type Message } from '../../messages.ts';
import { similarName } from '../../similar-names.ts';
import { filterValues, OPERATORS } from './filter-values.ts';
import type { FilterQuery } from './grammar.ts';

/** Maximum guesses at what the names of a query mean. */
const MAX_GUESSES = 5;
const MIN_LENGTH = 4;
/** The parameters that are no filters, and what other systems call them. */
const PARAMETERS: readonly string[] = ['ordering', 'limit', 'page'];
const PARAMETER_WORDS: ReadonlyMap<string, string> = new Map([
  ...['sort', 'sort_by', 'order', 'order_by', '_sort'].map((word) => [word, 'ordering'] as const),
  ...['page_size', 'per_page', 'size', 'count'].map((word) => [word, 'limit'] as const),
  ...['offset', 'skip'].map((word) => [word, 'page'] as const),
]);
const SEARCH_WORDS: ReadonlySet<string> = new Set(['search', 'q', 'query']);
const RELATED_WORDS: ReadonlySet<string> = new Set(['expand', 'include', 'embed', 'populate']);
const OPERATOR_WORDS: ReadonlyMap<string, Operator> = new Map([
  ...['icontains', 'istartswith', 'iendswith', 'iexact', 'contains'].map((word) => [word, 'ilike'] as const),
  ...['startswith', 'endswith'].map((word) => [word, 'like'] as const),
  ['exact', 'eq'],
  ['not', 'ne'],
  ['isnull', 'is'],
]);

/** The name that a mistyped one probably means. Shorter ones are similar to too many. */
export const guessName = (name: string, known: readonly string[]): string | undefined =>
  name.length < MIN_LENGTH ? undefined : similarName(name, known);

/** Why a name cannot be used, and the same with a guess at what it means, which takes longer. */
export interface Fault {
  readonly fault: Message;
  readonly withGuess?: () => Message;
}

/** The fault, with a guess if it is one of the first. */
export const guessed = ({ fault, withGuess: guess }: Fault, errors: FieldErrors): Message =>
  guess && Object.keys(errors).length < MAX_GUESSES ? guess() : fault;

export const withGuess = (fault: Message, name: string | undefined): Message =>
  name === undefined ? fault : messageOf('didYouMean', { fault, name });

/**
 * The fault of a path that starts with no column. A parameter alone may be one of another system.
 * @param namesOf the names of the columns
 */
export function unknownName([name = '', ...rest]: readonly string[], namesOf: () => string[]): Fault {
  const fault = messageOf('noColumn');
  const isAlone = rest.length === 0;
  if (isAlone && RELATED_WORDS.has(name)) return { fault, withGuess: () => messageOf('noRelated') };
  if (isAlone && SEARCH_WORDS.has(name)) return { fault, withGuess: () => messageOf('noSearch') };
  const word = isAlone ? PARAMETER_WORDS.get(name) : undefined;
  const guess = (): string | undefined =>
    word ?? guessName(name, [...namesOf(), ...(isAlone ? PARAMETERS : [])]);
  return { fault, withGuess: () => withGuess(fault, guess()) };
}

/**
 * The fault of what follows a column.
 * @param namesOf the names of the columns of the related record
 */
export function unknownRest(
  rest: readonly string[],
  operators: ReadonlySet<Operator>,
  namesOf: () => string[] = () => [],
): Fault {
  const [name = ''] = rest;
  const isOperator = rest.length === 1 && OPERATORS.has(name);
  const fault = isOperator
    ? messageOf('noOperator', { operator: name })
    : messageOf('neitherNor', { name: excerpt(rest.join('__')) });
  const word = OPERATOR_WORDS.get(name.toLowerCase());
  const guess = (): string | undefined => {
    if (word && operators.has(word)) return word;
    return isOperator ? undefined : guessName(name, [...operators, ...namesOf()]);
  };
  return { fault, withGuess: () => withGuess(fault, guess()) };
}

/** The fault of the values of a filter, and of a column of arrays whose elements they are, the filter that takes them. */
export function elementsInstead(
  fault: Message,
  { parts, values }: Pick<FilterQuery, 'parts' | 'values'>,
  rest: readonly string[],
  column: Column,
): Fault {
  const path = parts.slice(0, parts.length - rest.length);
  const isElement = (): boolean =>
    column.type.element !== undefined && !('fault' in filterValues('contains', values, column));
  return {
    fault,
    withGuess: () => withGuess(fault, isElement() ? [...path, 'contains'].join('__') : undefined),
  };
}
