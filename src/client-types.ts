import type { Operator } from './db/types/column-type.ts';
import type { KeyTypeName } from './db/types/column-types.ts';
import type { ColumnsOf, Row, WrittenResource } from './resources/definition/resource.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface ChangeOptions extends CallOptions {
  /** The state that the record must still be in (see `etagOf`), else the error is a 412. */
  readonly etag?: string | undefined;
}

type Columns<R extends WrittenResource> = ColumnsOf<R>;
type Excluded<R extends WrittenResource> = R extends { exclude: readonly (infer C)[] } ? C : never;
type Readonly_<R extends WrittenResource> = R extends { readonly: readonly (infer C)[] } ? C : never;
type Owner<R extends WrittenResource> = R extends { owner: infer C } ? C : never;

type Find<All extends WrittenResource, M> = Extract<All, { readonly model: M }>;

/** The definition of a column by the name that a client uses: `user` and `user_id` are the same foreign key. */
type ColumnOf<R extends WrittenResource, Name extends string> = Name extends 'id'
  ? KeyColumn<R>
  : Name extends Excluded<R>
    ? never
    : Name extends keyof Columns<R>
      ? Columns<R>[Name]
      : Name extends `${infer Key}_id`
        ? Key extends Exclude<keyof Columns<R>, Excluded<R>>
          ? Columns<R>[Key] extends { type: 'foreignKey' }
            ? Columns<R>[Key]
            : never
          : never
        : never;

/** The primary key, as a column that filters and bodies know. */
type KeyColumn<R extends WrittenResource> = R extends { primaryKey: { type: infer T extends KeyTypeName } }
  ? { type: T }
  : { type: 'integer' };

/** A foreign key is of the type of the key that it refers to. */
type Resolved<C, All extends WrittenResource> = C extends { type: 'foreignKey'; references: infer M }
  ? KeyColumn<Find<All, M>>
  : C;

/** What a filter may be given for each type. */
interface FilterValues {
  string: string;
  text: string;
  integer: number;
  bigint: string | number | bigint;
  float: number;
  decimal: string | number;
  boolean: boolean;
  datetime: string;
  date: string;
  time: string;
  uuid: string;
  json: string;
  password: string;
}

type Equality = 'eq' | 'ne' | 'in' | 'is';
type Ordered = Equality | 'lt' | 'lte' | 'gt' | 'gte';
type OperatorsOf<C> = C extends { type: 'string' | 'text' }
  ? Operator
  : C extends { type: 'boolean' | 'json' | 'password' }
    ? Equality
    : Ordered;

type ValueOf<C, All extends WrittenResource> =
  Resolved<C, All> extends { type: infer T extends keyof FilterValues } ? FilterValues[T] : never;

type OneOrMore<T> = T | readonly T[];

/** The value of an operator; several values of one parameter mean any of them. */
type Operand<C, All extends WrittenResource, Op> = Op extends 'is'
  ? 'null' | 'none' | null | (C extends { type: 'boolean' } ? boolean : never)
  : Op extends 'in'
    ? readonly ValueOf<C, All>[] | string
    : Op extends 'like' | 'ilike'
      ? OneOrMore<string>
      : OneOrMore<ValueOf<C, All>>;

/** What a filter's name takes, from left to right: columns across foreign keys, then an operator. Never for a name that is none. */
type FilterValue<R extends WrittenResource, All extends WrittenResource, Name extends string> = [
  ColumnOf<R, Name>,
] extends [never]
  ? Name extends `${infer Head}__${infer Tail}`
    ? [ColumnOf<R, Head>] extends [never]
      ? never
      : Across<ColumnOf<R, Head>, All, Tail>
    : never
  : Operand<ColumnOf<R, Name>, All, 'eq'>;

/** Behind a foreign key a column of the related record goes before an operator. */
type Across<C, All extends WrittenResource, Tail extends string> = C extends {
  type: 'foreignKey';
  references: infer M;
}
  ? [FilterValue<Find<All, M>, All, Tail>] extends [never]
    ? OperatorValue<C, All, Tail>
    : FilterValue<Find<All, M>, All, Tail>
  : OperatorValue<C, All, Tail>;

type OperatorValue<C, All extends WrittenResource, Op extends string> =
  Op extends OperatorsOf<Resolved<C, All>> ? Operand<C, All, Op> : never;

/** Whether a path leads to a column that has an order. */
type IsSortable<R extends WrittenResource, All extends WrittenResource, Path extends string> = [
  ColumnOf<R, Path>,
] extends [never]
  ? Path extends `${infer Head}__${infer Tail}`
    ? ColumnOf<R, Head> extends { type: 'foreignKey'; references: infer M }
      ? IsSortable<Find<All, M>, All, Tail>
      : false
    : false
  : ColumnOf<R, Path> extends { type: 'json' }
    ? false
    : true;

type OrderingPart<R extends WrittenResource, All extends WrittenResource, Text extends string> = IsSortable<
  R,
  All,
  Text extends `-${infer Path}` ? Path : Text
>;

type IsOrdering<
  R extends WrittenResource,
  All extends WrittenResource,
  Text extends string,
> = Text extends `${infer Head},${infer Rest}`
  ? OrderingPart<R, All, Head> extends true
    ? IsOrdering<R, All, Rest>
    : false
  : OrderingPart<R, All, Text>;

type Ordering<R extends WrittenResource, All extends WrittenResource, Value> = Value extends string
  ? IsOrdering<R, All, Value> extends true
    ? Value
    : never
  : Value extends readonly string[]
    ? { readonly [I in keyof Value]: OrderingPart<R, All, Value[I] & string> extends true ? Value[I] : never }
    : never;

/**
 * A query, checked name by name: columns that are there and not excluded, paths along foreign keys, operators that fit the type,
 * values of the type. What does not fit takes `never`.
 */
export type ListQuery<R extends WrittenResource, All extends WrittenResource, Q> = {
  readonly [Name in keyof Q]: Name extends 'limit' | 'page'
    ? number
    : Name extends 'ordering'
      ? Ordering<R, All, Q[Name]>
      : Name extends `-${infer Rest}`
        ? FilterValue<R, All, Rest>
        : FilterValue<R, All, Name & string>;
};

type Written<R extends WrittenResource> = Exclude<keyof Columns<R> & string, Readonly_<R> | Owner<R>>;

type IsOptional<C> = C extends { null: true } | { default: unknown } ? true : false;

type BodyKey<C, Name extends string> = C extends { type: 'foreignKey' } ? `${Name}_id` : Name;

type BodyValue<C, All extends WrittenResource> =
  | (C extends { choices: readonly unknown[] }
      ? C['choices'][number] | (C extends { type: 'bigint' } ? bigint : never)
      : C extends { type: 'json' }
        ? unknown
        : ValueOf<C, All>)
  | (C extends { null: true } ? null : never);

/** A natural key is the client's to give; one of another type is where the database does not make it. */
type NaturalKey<R extends WrittenResource> = R extends { primaryKey: { type: 'string' } }
  ? { readonly id: string }
  : R extends { primaryKey: { type: infer T extends KeyTypeName } }
    ? { readonly id?: FilterValues[T] }
    : unknown;

/** The columns that a new record takes: those without a default and NOT NULL have to be there. */
export type CreateBody<R extends WrittenResource, All extends WrittenResource> = NaturalKey<R> & {
  readonly [
    C in Written<R> as IsOptional<Columns<R>[C]> extends true ? never : BodyKey<Columns<R>[C], C>
  ]: BodyValue<Columns<R>[C], All>;
} & {
  readonly [
    C in Written<R> as IsOptional<Columns<R>[C]> extends true ? BodyKey<Columns<R>[C], C> : never
  ]?: BodyValue<Columns<R>[C], All>;
};

/** The columns that an update may change; a record as it was read fits, too. */
export type UpdateBody<R extends WrittenResource, All extends WrittenResource> =
  | {
      readonly [C in Written<R> as BodyKey<Columns<R>[C], C>]?: BodyValue<Columns<R>[C], All>;
    }
  | Row<R, All>;

export interface Page<T> {
  readonly meta: {
    readonly model: string;
    readonly page: number;
    readonly next: string;
    readonly previous: string;
  };
  readonly objects: T[];
}

export type Id = string | number | bigint;

/** What a record is asked for by: its key as a filter takes it; anything where the registry is not known. */
export type KeyOf<R extends WrittenResource> = string extends R['model']
  ? Id
  : KeyColumn<R>['type'] extends 'integer'
    ? number | bigint
    : FilterValues[KeyColumn<R>['type']];

export interface ResourceClient<R extends WrittenResource, All extends WrittenResource> {
  /** One page of the records that a query matches. */
  readonly list: <const Q extends ListQuery<R, All, Q>>(
    query?: Q,
    options?: CallOptions,
  ) => Promise<Page<Row<R, All>>>;
  /** All records that a query matches, page after page, as they are asked for. */
  readonly all: <const Q extends ListQuery<R, All, Q>>(
    query?: Q,
    options?: CallOptions,
  ) => AsyncGenerator<Row<R, All>, void>;
  /** How many records a query matches. */
  readonly count: <const Q extends ListQuery<R, All, Q>>(query?: Q, options?: CallOptions) => Promise<number>;
  readonly get: (id: KeyOf<R>, options?: CallOptions) => Promise<Row<R, All>>;
  readonly create: (body: CreateBody<R, All>, options?: CallOptions) => Promise<Row<R, All>>;
  /** Changes the columns of the body; the others keep their values. */
  readonly update: (id: KeyOf<R>, body: UpdateBody<R, All>, options?: ChangeOptions) => Promise<Row<R, All>>;
  readonly delete: (id: KeyOf<R>, options?: ChangeOptions) => Promise<void>;
}

/** A client of each resource, by the model's name. */
export type Client<Resources extends readonly WrittenResource[]> = {
  readonly [M in Resources[number]['model']]: ResourceClient<
    Extract<Resources[number], { readonly model: M }>,
    Resources[number]
  >;
};
