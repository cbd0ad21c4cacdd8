// The types of the queries of the client: they check filters and orderings against the registry.
import type {
  ChoiceOf,
  ColumnOf,
  IsOrdering,
  KeyColumn,
  Referred,
  Values,
  WrittenResource,
} from './resources/definition/resource.ts';

/** A foreign key has the type of the primary key that it refers to. */
type Resolved<C, All extends WrittenResource> = C extends { type: 'foreignKey' }
  ? KeyColumn<Referred<C, All>>
  : C;

/** The filter values of each column type. An array is its JSON text: an array of values would be several filters. */
export interface FilterValues extends Omit<Values, 'bigint' | 'decimal' | 'json'> {
  bigint: string | number | bigint;
  decimal: string | number;
  json: string;
}

type Equality = 'eq' | 'ne' | 'in' | 'is';
type Comparison = Equality | 'lt' | 'lte' | 'gt' | 'gte';
type OperatorsOf<C> = C extends { type: 'string' | 'text' }
  ? Comparison | 'like' | 'ilike'
  : C extends { type: 'json' | 'array' }
    ? Equality | 'contains'
    : C extends { type: 'boolean' | 'password' }
      ? Equality
      : Comparison;

export type ValueOf<C, All extends WrittenResource> =
  Resolved<C, All> extends { type: infer T extends keyof FilterValues }
    ? FilterValues[T]
    : C extends { type: 'array' }
      ? string
      : never;

/** The value of one element of an array. */
export type ElementValue<C> = [ChoiceOf<C>] extends [never]
  ? C extends { of: infer T extends keyof FilterValues }
    ? FilterValues[T]
    : never
  : ChoiceOf<C> | (C extends { of: 'bigint' } ? bigint : never);

/** The service reads one text as a list, so an element with a comma must be in an array, which the client quotes. */
type SingleElement<C> = C extends { of: 'string' | 'text' } ? never : ElementValue<C>;

type OneOrMore<T> = T | readonly T[];

/** The value of an operator. A filter with several values matches any of them. */
type Operand<C, All extends WrittenResource, Op> = Op extends 'is'
  ? 'null' | 'none' | null | (C extends { type: 'boolean' } ? boolean : never)
  : Op extends 'in'
    ? readonly ValueOf<C, All>[] | string
    : Op extends 'contains'
      ? C extends { type: 'array' }
        ? readonly ElementValue<C>[] | SingleElement<C>
        : string | number | boolean
      : Op extends 'like' | 'ilike'
        ? OneOrMore<string>
        : OneOrMore<ValueOf<C, All>>;

/** The value type for the name of a filter: columns through foreign keys, then an operator. `never` for an invalid name. */
type FilterValue<R extends WrittenResource, All extends WrittenResource, Name extends string> = [
  ColumnOf<R, Name>,
] extends [never]
  ? Name extends `${infer Head}__${infer Tail}`
    ? [ColumnOf<R, Head>] extends [never]
      ? never
      : PathValue<ColumnOf<R, Head>, All, Tail>
    : never
  : Operand<ColumnOf<R, Name>, All, 'eq'>;

/** After a foreign key, a column of the related record takes precedence over an operator of the same name. */
type PathValue<C, All extends WrittenResource, Tail extends string> = C extends { type: 'foreignKey' }
  ? [FilterValue<Referred<C, All>, All, Tail>] extends [never]
    ? OperatorValue<C, All, Tail>
    : RelatedValue<FilterValue<Referred<C, All>, All, Tail>, Tail>
  : OperatorValue<C, All, Tail>;

/** The client sends an array for `in` or `contains` as one list, even if this is the name of a column. */
type RelatedValue<Value, Tail> = Tail extends 'in' | 'contains' ? Exclude<Value, readonly unknown[]> : Value;

type OperatorValue<C, All extends WrittenResource, Op extends string> =
  Op extends OperatorsOf<Resolved<C, All>> ? Operand<C, All, Op> : never;

type Ordering<R extends WrittenResource, All extends WrittenResource, Value> = Value extends string
  ? IsOrdering<R, All, Value> extends true
    ? Value
    : never
  : Value extends readonly string[]
    ? { readonly [I in keyof Value]: IsOrdering<R, All, Value[I]> extends true ? Value[I] : never }
    : never;

/**
 * A checked query: existing columns that are not excluded, paths through foreign keys, and operators and values that fit the
 * type. An invalid parameter gets the type `never`.
 */
export type ListParameters<R extends WrittenResource, All extends WrittenResource, Q> = {
  readonly [Name in keyof Q]: Name extends 'limit' | 'page'
    ? number
    : Name extends 'ordering'
      ? Ordering<R, All, Q[Name]>
      : Name extends `-${infer Rest}`
        ? FilterValue<R, All, Rest>
        : FilterValue<R, All, Name & string>;
};
