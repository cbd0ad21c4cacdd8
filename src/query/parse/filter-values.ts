// Checks the texts of one filter and turns them into the values that PostgreSQL compares with.
import { arrayText } from '../../db/fragment.ts';
import type { Operator, Parsed } from '../../db/types/column-type.ts';
import type { Column } from '../../db/schema/model.ts';
import { messageOf, type Message } from '../../messages.ts';

/** Maximum number of values in a list: of `in` and of `contains`. */
const MAX_ITEMS = 1000;

export const OPERATORS: ReadonlySet<string> = new Set<Operator>([
  'eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'in', 'is', 'like', 'ilike', 'contains',
]); // prettier-ignore

export type FilterValues =
  | {
      readonly values: readonly string[];
      /** The number of digits that exponents add to the values: PostgreSQL outputs 1e999 with 1,000 digits. */
      readonly addedDigits?: number;
      /** The number of different elements that arrays must have. */
      readonly elementCount?: number;
    }
  | { readonly fault: Message };

/** Splits a list by the rules of CSV. @returns undefined for bad quoting */
export function splitCsv(text: string): string[] | undefined {
  const values: string[] = [];
  const item = /(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/y;
  for (;;) {
    const match = item.exec(text);
    if (!match) return undefined;
    values.push(match[1] === undefined ? (match[2] ?? '') : match[1].replaceAll('""', '"'));
    if (match[3] === '') return item.lastIndex === text.length ? values : undefined;
  }
}

/** The items of a list: of `in` and of `contains`. */
function listItems(text: string): FilterValues {
  if (text === '') return { fault: messageOf('noValue') };
  const items = splitCsv(text);
  if (!items) return { fault: messageOf('notCsv') };
  if (items.length > MAX_ITEMS)
    return { fault: messageOf('tooManyValues', { max: MAX_ITEMS, got: items.length }) };
  return { values: items };
}

function inValues(text: string, column: Column): FilterValues {
  const items = listItems(text);
  return 'fault' in items ? items : allOf(items.values.map((item) => typedValue(item, column)));
}

/** The value of `contains`: the elements that an array must have, or a JSON value. */
function containedValue(text: string, column: Column): FilterValues {
  const { element: elementType } = column.type;
  const { elementFacts } = column;
  if (!elementType || !elementFacts) return typedValue(text, column);
  const items = listItems(text);
  if ('fault' in items) return items;
  const parsed = allOf(
    items.values.map((item, index) => {
      const value = valueOf(elementType.parse(item, elementFacts));
      return 'fault' in value
        ? { fault: messageOf('element', { position: index + 1, fault: value.fault }) }
        : value;
    }),
  );
  if ('fault' in parsed) return parsed;
  const different = [...new Set(parsed.values)];
  return { ...parsed, values: [arrayText(different)], elementCount: different.length };
}

function valuesOfIs(text: string, column: Column): FilterValues {
  const state = text.toLowerCase();
  if (state === 'null' || state === 'none') return { values: ['null'] };
  if (state !== 'true' && state !== 'false') return { fault: messageOf('notNullTrueOrFalse') };
  return column.castType === 'bool' ? { values: [state] } : { fault: messageOf('onlyNull') };
}

function patternValues(text: string): FilterValues {
  let lastBackslashes = 0;
  while (text[text.length - 1 - lastBackslashes] === '\\') lastBackslashes += 1;
  return lastBackslashes % 2 === 1 ? { fault: messageOf('loneBackslash') } : { values: [text] };
}

const valueOf = (parsed: Parsed): FilterValues =>
  parsed.fault !== undefined
    ? { fault: parsed.fault }
    : { values: [parsed.value], addedDigits: parsed.addedDigits ?? 0 };

const typedValue = (text: string, column: Column): FilterValues => valueOf(column.type.parse(text, column));

function allOf(results: readonly FilterValues[]): FilterValues {
  const values: string[] = [];
  let addedDigits = 0;
  let elementCount = 0;
  for (const result of results) {
    if ('fault' in result) return result;
    values.push(...result.values);
    addedDigits += result.addedDigits ?? 0;
    elementCount += result.elementCount ?? 0;
  }
  return { values, addedDigits, elementCount };
}

/** The values of one filter as the database takes them: of the column's type, or as the operator requires. */
export function filterValues(operator: Operator, texts: readonly string[], column: Column): FilterValues {
  if (operator === 'in') return allOf(texts.map((text) => inValues(text, column)));
  if (operator === 'contains') return allOf(texts.map((text) => containedValue(text, column)));
  if (operator === 'is') return allOf(texts.map((text) => valuesOfIs(text, column)));
  if (operator === 'like' || operator === 'ilike') return allOf(texts.map(patternValues));
  return allOf(texts.map((text) => typedValue(text, column)));
}

/** A value of a list, quoted where the grammar needs it. */
export const listItem = (text: string): string =>
  /[",]|^\s|\s$/.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text;
