// What a column type is: `ColumnType`, and the values and facts that it works with.
import type { Fragment } from '../fragment.ts';
import type { Message } from '../../messages.ts';

/**
 * A value as text that PostgreSQL can cast, or a fault. A fault with a value means that PostgreSQL could store it, but it
 * breaks a rule of the registry or JSON cannot express it (NaN, infinity). A record may keep such a value, but not get it.
 */
export type Parsed = (
  | { readonly value: string; readonly fault?: undefined }
  | { readonly fault: Message; readonly value?: string }
) & {
  /** The digits that exponents add to the value, see `DigitBudget`; none if left out. */
  readonly addedDigits?: number;
  /** Whether PostgreSQL can compare a value with a fault only as text. */
  readonly isText?: boolean;
};

export type Operator =
  'eq' | 'ne' | 'lt' | 'lte' | 'gt' | 'gte' | 'in' | 'is' | 'like' | 'ilike' | 'contains';

/** What a type needs to know about a column: how the database stores it, and the limits from the registry. */
export interface Facts {
  /** The PostgreSQL type to cast a text parameter to, without a length. */
  readonly castType: string;
  /** Maximum length in characters (code points). */
  readonly maxLength?: number | undefined;
  /** The maximum length that the database enforces. */
  readonly storedLength?: number | undefined;
  /** A regular expression that texts must match, see `linearPattern`. */
  readonly pattern?: string | undefined;
  /** Minimum length of a password in characters. */
  readonly minLength?: number | undefined;
  readonly precision?: number | undefined;
  readonly scale?: number | undefined;
  /** The decimal places of seconds that the column keeps and the output does not show. */
  readonly fractionalSecondDigits?: number | undefined;
  /** The labels of an enum. */
  readonly labels?: readonly string[] | undefined;
  /** A domain over an enum, or an array of a domain. PostgreSQL has no operators for it, not even `=`. */
  readonly needsCast?: boolean | undefined;
  /** The name of the collation as SQL; undefined for types without one, and for columns that are going to be created. */
  readonly collation?: string | undefined;
  /** The collation treats some different texts as equal, so patterns do not work. */
  readonly isNondeterministic?: boolean | undefined;
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  /** The bounds of dates and times: as the column stores them, or `now` or `today`. */
  readonly earliest?: string | undefined;
  readonly latest?: string | undefined;
  /** The columns of a key that has several: see `compositeType`. */
  readonly parts?: readonly Facts[] | undefined;
  /** Of an array: how the database stores its elements, and their limits. The other facts are those of the array itself. */
  readonly elementFacts?: ElementFacts | undefined;
}

/** What is known of the elements of an array. */
export interface ElementFacts extends Facts {
  /** Whether clients can write NULL elements. */
  readonly nullable: boolean;
  /** The only elements that clients may write. */
  readonly choices?: readonly unknown[] | undefined;
}

/** How arrays of a type differ from arrays whose elements PostgreSQL outputs, compares and stores as they are. */
export interface ArrayRules {
  /** The JSON of the array, if it is not that of its elements as PostgreSQL prints them. */
  readonly output?: (array: Fragment, elements: Facts) => Fragment;
  /** The array that filters compare. */
  readonly comparable?: (array: Fragment, elements: Facts) => Fragment;
  /** The array as the column stores it, so that 5 instead of 5.00 does not count as a change. */
  readonly stored?: (array: Fragment, elements: Facts) => Fragment;
}

/** The form input for a value, as data: pages decide how it looks. */
export interface FormInput {
  readonly control:
    'text' | 'textarea' | 'number' | 'checkbox' | 'datetime-local' | 'date' | 'time' | 'password';
  /** How the typed text becomes JSON: a string, a number with the same digits, a boolean, or JSON itself. */
  readonly json: 'string' | 'number' | 'boolean' | 'json';
}

/** A JSON Schema of OpenAPI 3.1. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The JSON form of a type's values, for OpenAPI. */
export interface ColumnSchema {
  /** In responses. */
  readonly output: JsonSchema;
  /** In request bodies, within the limits of the column. */
  readonly body: JsonSchema;
  /** A value that is valid in responses and bodies. */
  readonly example: unknown;
}

/** One column type. A new type is one new object in `column-types.ts`; other code does not check a type's name. */
export interface ColumnType {
  readonly operators: ReadonlySet<Operator>;
  /** The type in `create table`. */
  readonly declare: (facts: Facts) => string;
  /** The `castType` of a column that Vitrine creates. */
  readonly castType: string;
  /** Supported types of existing columns, as pg_type.typname; `enum` means every enum. */
  readonly accepts: readonly string[];
  /** Parses the value of a filter. */
  readonly parse: (text: string, facts: Facts) => Parsed;
  /** Validates a JSON value from a body. `source` is its original text, so no digit is lost. Never called with null. */
  readonly fromJson: (value: unknown, source: string, facts: Facts) => Parsed;
  /** The SQL expression whose text is the output. */
  readonly output: (column: Fragment, facts: Facts) => Fragment;
  /** How the output text becomes JSON: unchanged, in quotes, or escaped by PostgreSQL. */
  readonly json: 'bare' | 'quoted' | 'escaped';
  /** The expression that filters compare, if not the column itself. */
  readonly comparable?: (column: Fragment, facts: Facts) => Fragment;
  /** The type of `comparable`, if it is not the column's. Values are cast to it. */
  readonly comparedAs?: string;
  /** The SQL value to store in an UPDATE, given the new and the present value, if not simply the new one. */
  readonly assign?: (value: Fragment, present: Fragment, facts: Facts) => Fragment;
  /** The SQL expression for `default: 'now'`. Such a type accepts dates and times as `min` and `max`. */
  readonly now?: string;
  /** Accepts `min` and `max`. */
  readonly bounded?: true;
  /** Values can have any length. */
  readonly long?: true;
  /** Accepts `maxLength`. */
  readonly sized?: true;
  /** The text of a value that appears as null in JSON but is not NULL in SQL. */
  readonly nullText?: string;
  /** The output has only unreserved characters of RFC 3986. */
  readonly isUnreserved?: true;
  /** Values cannot be sorted. */
  readonly unordered?: true;
  /** Of an array type: the type of the elements. */
  readonly element?: ColumnType;
  /** Present if a type can be that of an array's elements. */
  readonly array?: ArrayRules;
  readonly input: FormInput;
  /** The OpenAPI schema. */
  readonly schema: (facts: Facts) => ColumnSchema;
}
