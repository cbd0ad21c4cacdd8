// The types of array columns, each made from the type of its elements.
import { arrayText, exactText, sql, type Fragment } from '../fragment.ts';
import type { ColumnType, ElementFacts, Facts, Parsed } from './column-type.ts';
import { arraySchema, isoDateTimeSchema } from './column-schemas.ts';
import {
  arrayOfTexts,
  EQUALITY,
  isoDateTimeOutput,
  isoDateTimesOutput,
  operators,
  timesInSeconds,
} from './column-type-parts.ts';
import { COLUMN_TYPES, type TypeName } from './column-types.ts';
import { checkChoice } from './choices.ts';
import { isRectangular, jsonElements, type JsonElement } from './json-elements.ts';
import { scanJson } from './json-scanner.ts';
import { messageOf, type Message } from '../../messages.ts';

/** Maximum elements of an array in a body. Parsing more would block the event loop. */
export const MAX_ELEMENTS = 10_000;
export const TOO_MANY_ELEMENTS = messageOf('tooManyElements', { max: MAX_ELEMENTS.toLocaleString('en-US') });

/** Parses one element from its JSON text; the value of `null` is null. */
type ParseElement = (source: string) => Parsed | null;

/** Most texts have no escapes, so that their characters are those between the quotes. */
const stringOf = (source: string): string =>
  source.includes('\\') ? (JSON.parse(source) as string) : source.slice(1, -1);

/** The value of a scalar; an empty object for an object. */
function valueOf(source: string): unknown {
  if (source.startsWith('"')) return stringOf(source);
  return source.startsWith('{') ? {} : (JSON.parse(source) as unknown);
}

/** Parses the elements of an array. The fault names the first invalid one; it has a value if PostgreSQL could store the array. */
class ElementParser {
  readonly #parse: ParseElement;
  readonly #nullable: boolean;
  #position = 0;
  #fault: Message | undefined;
  #isStorable = true;
  #addedDigits = 0;

  constructor(parse: ParseElement, nullable: boolean) {
    this.#parse = parse;
    this.#nullable = nullable;
  }

  #addFault(fault: Message, isStorable: boolean): void {
    this.#fault ??= messageOf('element', { position: this.#position, fault });
    this.#isStorable &&= isStorable;
  }

  #text(source: string): string | null {
    // The other elements cannot change the result.
    if (!this.#isStorable) return null;
    this.#position += 1;
    const parsed = this.#parse(source);
    if (parsed === null) {
      if (!this.#nullable) this.#addFault(messageOf('notNull'), true);
      return null;
    }
    this.#addedDigits += parsed.addedDigits ?? 0;
    if (parsed.fault !== undefined) this.#addFault(parsed.fault, parsed.value !== undefined);
    return parsed.value ?? null;
  }

  /** The array as PostgreSQL reads it. */
  #array(elements: readonly JsonElement[]): string {
    const isFlat = elements.every((element) => typeof element === 'string');
    if (isFlat) return arrayText(elements.map((source) => this.#text(source)));
    return `{${elements.map((element) => (typeof element === 'string' ? '' : this.#array(element))).join(',')}}`;
  }

  parse(elements: readonly JsonElement[]): Parsed {
    const nested = elements.findIndex((element) => typeof element !== 'string');
    const nestedFault =
      nested < 0
        ? undefined
        : messageOf('element', { position: nested + 1, fault: messageOf('nestedArray') });
    if (nestedFault !== undefined && !isRectangular(elements)) return { fault: nestedFault };
    const value = this.#array(elements);
    const fault = nestedFault ?? this.#fault;
    const added = this.#addedDigits > 0 ? { addedDigits: this.#addedDigits } : {};
    if (fault === undefined) return { value, ...added };
    return this.#isStorable ? { fault, value, ...added } : { fault: this.#fault ?? fault };
  }
}

/** @param source valid JSON */
function parseArray(source: string, nullable: boolean, parse: ParseElement): Parsed {
  if (!source.startsWith('[')) return { fault: messageOf('notArray') };
  const elements = jsonElements(source, MAX_ELEMENTS);
  return elements ? new ElementParser(parse, nullable).parse(elements) : { fault: TOO_MANY_ELEMENTS };
}

const isNull = (source: string): boolean => source === 'null';

/** The type of arrays whose elements have this type. */
function arrayOf(element: ColumnType): ColumnType {
  const { output, comparable, stored } = element.array ?? {};
  const factsOf = ({ elementFacts }: Facts): ElementFacts =>
    elementFacts ?? { castType: element.castType, nullable: true };
  const shown = (column: Fragment, facts: Facts): Fragment => {
    if (output) return output(column, factsOf(facts));
    return element.input.json === 'string' ? arrayOfTexts(column) : sql`to_json(${column})`;
  };
  return {
    operators: operators(EQUALITY, ['contains']),
    castType: `${element.castType}[]`,
    declare: (facts) => `${element.declare(factsOf(facts))}[]`,
    accepts: element.accepts.map((name) => `${name}[]`),
    parse: (text, facts) => {
      const source = text.trim();
      if (typeof scanJson(source) === 'number') return { fault: messageOf('notJsonArray') };
      const elements = factsOf(facts);
      // In a filter, the element "5" is the same as 5.
      return parseArray(source, true, (one) =>
        isNull(one) ? null : element.parse(one.startsWith('"') ? stringOf(one) : one, elements),
      );
    },
    fromJson: (_value, source, facts) => {
      const elements = factsOf(facts);
      const isAllowed = checkChoice(element, elements, elements.choices);
      return parseArray(source, elements.nullable, (one) =>
        isNull(one) ? null : isAllowed(element.fromJson(valueOf(one), one, elements)),
      );
    },
    output: shown,
    json: 'bare',
    ...(comparable ? { comparable: (column, facts) => comparable(column, factsOf(facts)) } : {}),
    // Sending back what was read changes nothing: not the fractions of seconds, and not other lower bounds than 1.
    assign: (value, present, facts) => {
      const cell = stored?.(value, factsOf(facts)) ?? value;
      return sql`case when ${exactText(shown(present, facts))} = ${exactText(shown(cell, facts))} then ${present} else ${cell} end`;
    },
    long: true,
    unordered: true,
    element,
    input: { control: 'textarea', json: 'json' },
    schema: (facts) => arraySchema(element.schema(factsOf(facts)), factsOf(facts), MAX_ELEMENTS),
  };
}

export type ElementTypeName = Exclude<TypeName, 'json' | 'password' | 'inet' | 'cidr' | 'macaddr'>;

/** The types that elements of an array can have, by name. */
const elementTypes = Object.entries<ColumnType>(COLUMN_TYPES).filter(([, { array }]) => array);

/** The types of arrays, by the type of their elements. */
export const ARRAY_TYPES = Object.fromEntries(
  elementTypes.map(([name, type]) => [name, arrayOf(type)]),
) as Record<ElementTypeName, ColumnType>;

/** The type of `datetime` columns in the API's output where it is ISO 8601. Input and filters are the same. */
const ISO_DATETIME: ColumnType = {
  ...COLUMN_TYPES.datetime,
  output: isoDateTimeOutput,
  array: { output: isoDateTimesOutput, comparable: timesInSeconds },
  schema: isoDateTimeSchema,
};

const ISO_TYPES: ReadonlyMap<ColumnType, ColumnType> = new Map<ColumnType, ColumnType>([
  [COLUMN_TYPES.datetime, ISO_DATETIME],
  [ARRAY_TYPES.datetime, arrayOf(ISO_DATETIME)],
]);

const allIsoTypes = new Set(ISO_TYPES.values());

/** Whether a type outputs date-times in ISO 8601. */
export const isIsoType = (type: ColumnType): boolean => allIsoTypes.has(type);

/** The type that outputs date-times in ISO 8601; undefined for types without date-times. */
export const isoTypeOf = (type: ColumnType): ColumnType | undefined => ISO_TYPES.get(type);
