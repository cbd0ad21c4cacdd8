import type { AccessLevel } from '../config.ts';
import type { ColumnDefinition, ModelDefinition, Name } from '../db/definition.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** Hints for pages that people look after records in; the API does not use them. */
export interface AdminOptions {
  readonly label?: string;
  readonly list?: readonly Name[];
  readonly search?: readonly Name[];
  readonly filters?: readonly Name[];
  readonly readonly?: readonly Name[];
  readonly hidden?: boolean;
}

/**
 * One resource, as the registry's author writes it: a model and its rules (see docs/resources.md). `satisfies Resource[]`
 * finds misspelt keys and wrong values; that names fit each other, `Registry` finds.
 */
export interface Resource extends ModelDefinition {
  /** Who may write; the service's setting ACCESS when absent. */
  readonly access?: AccessLevel;
  /** Who may GET; anyone when absent. */
  readonly read?: AccessLevel;
  /** Columns that no output, filter, ordering or join shows. */
  readonly exclude?: readonly Name[];
  /** Columns that clients may see but not set. */
  readonly readonly?: readonly Name[];
  /** The foreign key to the user model whose user alone may change or delete a record. */
  readonly owner?: Name;
  /** The page size without `?limit=`, and the most that it can ask for. */
  readonly limit?: number;
  readonly maxLimit?: number;
  readonly methods?: readonly Method[];
  /** As in the query string: `-pub_date,user__username`. */
  readonly ordering?: Name;
  readonly admin?: AdminOptions;
}

type ColumnName<R extends Resource> = keyof R['columns'] & string;

type ForeignKeyName<R extends Resource> = {
  [C in ColumnName<R>]: R['columns'][C] extends { type: 'foreignKey' } ? C : never;
}[ColumnName<R>];

/** The first column of each part of an ordering, `id` and foreign keys by their `_id` name included. */
type OrderingHead<R extends Resource> = ColumnName<R> | `${ForeignKeyName<R>}_id` | 'id';

type CheckedOrderingPart<R extends Resource, Part extends string> = Part extends `-${infer Rest}`
  ? CheckedOrderingPart<R, Rest>
  : Part extends OrderingHead<R> | `${ForeignKeyName<R>}__${string}` | `${ForeignKeyName<R>}_id__${string}`
    ? true
    : false;

type CheckedOrdering<R extends Resource, Text extends string> = Text extends `${infer Head},${infer Tail}`
  ? CheckedOrderingPart<R, Head> extends true
    ? CheckedOrdering<R, Tail>
    : false
  : CheckedOrderingPart<R, Text>;

type CheckedColumns<R extends Resource, Models extends string> = {
  readonly [C in keyof R['columns']]: R['columns'][C] extends { type: 'foreignKey' }
    ? R['columns'][C] & { readonly references: Models }
    : R['columns'][C];
};

type Checked<R extends Resource, Models extends string> = R extends Resource
  ? {
      readonly model: R['model'];
      readonly columns: CheckedColumns<R, Models>;
      readonly exclude?: readonly ColumnName<R>[];
      readonly readonly?: readonly ColumnName<R>[];
      readonly owner?: ForeignKeyName<R>;
      readonly ordering?: R extends { ordering: infer Text extends string }
        ? CheckedOrdering<R, Text> extends true
          ? Text
          : `${OrderingHead<R>}`
        : undefined;
    }
  : never;

/**
 * A registry whose names fit each other: `export default resources satisfies Registry<typeof resources>` finds an `owner`,
 * `exclude`, `readonly` or `ordering` that names no column, and a `references` that names no model. It is a second step,
 * because TypeScript cannot relate two keys of one object while it infers that very object.
 */
export type Registry<R extends readonly Resource[]> = readonly Checked<R[number], R[number]['model']>[];

interface Values {
  string: string;
  text: string;
  integer: number;
  bigint: string;
  float: number;
  decimal: string;
  boolean: boolean;
  datetime: string;
  date: string;
  time: string;
  uuid: string;
  json: unknown;
  password: string;
}

type KeyValue<R extends Resource> = R extends { primaryKey: { type: 'uuid' | 'string' } } ? string : number;

type ColumnValue<C extends ColumnDefinition, Models extends Resource> = C extends { type: keyof Values }
  ? Values[C['type']]
  : C extends { references: infer Target }
    ? [Models] extends [never]
      ? number
      : KeyValue<Extract<Models, { model: Target }>>
    : never;

type Nullable<C extends ColumnDefinition, Value> = C extends { null: true } ? Value | null : Value;

type Excluded<R extends Resource> = R extends { exclude: readonly (infer C)[] } ? C : never;

type RowKey<C extends ColumnDefinition, Name extends string> = C extends { type: 'foreignKey' }
  ? `${Name}_id`
  : Name;

/**
 * A record of the resource as the API outputs it: `Row<typeof message>`. Foreign keys are numbers, unless the union of
 * the registry's resources is given and says otherwise: `Row<typeof message, (typeof resources)[number]>`.
 */
export type Row<R extends Resource, Models extends Resource = never> = { id: KeyValue<R> } & {
  [C in Exclude<ColumnName<R>, Excluded<R>> as RowKey<R['columns'][C] & ColumnDefinition, C>]: Nullable<
    R['columns'][C] & ColumnDefinition,
    ColumnValue<R['columns'][C] & ColumnDefinition, Models>
  >;
};
