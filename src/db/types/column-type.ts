import type { Fragment } from '../fragment.ts';

/**
 * A value as text that PostgreSQL can cast, or what is wrong with it. A fault with a value can be stored, but breaks a rule
 * of the registry (a bound, a length), or is one that JSON or the calendar cannot express (NaN, infinity): a record that has
 * it already keeps it, and none is written anew.
 */
export type Parsed =
  | { readonly value: string; readonly fault?: undefined }
  | { readonly fault: string; readonly value?: string };

export type Operator = 'eq' | 'ne' | 'lt' | 'lte' | 'gt' | 'gte' | 'in' | 'is' | 'like' | 'ilike';

/** What a type needs to know of the column that has it: how it is stored, and the bounds that the registry sets. */
export interface Facts {
  /** The PostgreSQL type that a text parameter is cast to, without a length. */
  readonly castType: string;
  /** Characters (code points). */
  readonly maxLength?: number | undefined;
  /** The fewest characters of a password. */
  readonly minLength?: number | undefined;
  readonly precision?: number | undefined;
  readonly scale?: number | undefined;
  /** The column keeps fractions of a second, which the output does not show. */
  readonly fractional?: boolean | undefined;
  /** The labels of an enum. */
  readonly labels?: readonly string[] | undefined;
  /** It is a domain over an enum, for which PostgreSQL has no operators, not even with itself. */
  readonly isEnumDomain?: boolean | undefined;
  /** Its collation takes different texts for equal; patterns are not for such ones. */
  readonly isNondeterministic?: boolean | undefined;
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

/** How people type a value: as data, so that pages decide how it looks. */
export interface FormInput {
  readonly control:
    'text' | 'textarea' | 'number' | 'checkbox' | 'datetime-local' | 'date' | 'time' | 'password';
  /** What the typed text is in JSON: a string, a number by its digits, a truth value, or JSON itself. */
  readonly json: 'string' | 'number' | 'boolean' | 'json';
}

/** A JSON Schema, as OpenAPI 3.1 has it. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** What a type's values are in JSON, for the API's description of itself. */
export interface ColumnSchema {
  /** As they are output. */
  readonly output: JsonSchema;
  /** As a body takes them, within the bounds of the column. */
  readonly body: JsonSchema;
  /** A value as the output has it, that a body takes, too. */
  readonly example: unknown;
}

/** One kind of column. A new type is one new object here; nothing else asks for a type's name. */
export interface ColumnType {
  readonly operators: ReadonlySet<Operator>;
  /** The type in `create table`. */
  readonly declare: (facts: Facts) => string;
  /** What `castType` is in a table that Vitrine makes. */
  readonly castType: string;
  /** Types of existing tables that it serves, as pg_type.typname; `enum` stands for every enum. */
  readonly accepts: readonly string[];
  /** A filter's value. */
  readonly parse: (text: string, facts: Facts) => Parsed;
  /** A value of a JSON body; `source` is its text as it was sent, so that no digit is lost. Null never comes here. */
  readonly fromJson: (value: unknown, source: string, facts: Facts) => Parsed;
  /** The SQL expression whose text is the output. */
  readonly output: (column: Fragment, facts: Facts) => Fragment;
  /** How that text becomes JSON: as it is, between quotes, or by PostgreSQL's own escaping. */
  readonly json: 'bare' | 'quoted' | 'escaped';
  /** The column as filters compare it, where that is not the bare column. */
  readonly comparable?: (column: Fragment) => Fragment;
  /** The value of an UPDATE, given the new one and the present one; where it is more than the new one. */
  readonly assign?: (value: Fragment, present: Fragment, facts: Facts) => Fragment;
  /** SQL of `default: 'now'`. */
  readonly now?: string;
  /** Its values are bounded by `min` and `max`. */
  readonly bounded?: true;
  /** Its values can be of any length. */
  readonly long?: true;
  /** It takes `maxLength`. */
  readonly sized?: true;
  /** The text of a value that is output as null and is not NULL. */
  readonly nullText?: string;
  /** Its values cannot be sorted. */
  readonly unordered?: true;
  readonly input: FormInput;
  /** Its OpenAPI schema. */
  readonly schema: (facts: Facts) => ColumnSchema;
}
