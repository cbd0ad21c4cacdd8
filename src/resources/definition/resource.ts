import type { AccessLevel } from '../../config.ts';
import type { ColumnDefinition, ModelDefinition, Name } from '../../db/schema/model-definition.ts';

export const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const;
export type Method = (typeof METHODS)[number];

/** What may be done with the records of a resource in the admin area, beside looking at them. */
export type AdminAction = 'add' | 'change' | 'delete';

/** How the admin area shows a resource (see docs/admin.md); the API does not use it. */
export interface AdminOptions {
  /** What people read for the resource: `Media types`. */
  readonly title?: string;
  /** The heading under which the dashboard lists it. */
  readonly group?: string;
  /** What people call a record: a column, or a template such as `{first_name} {last_name}`; columns may lie across foreign keys. */
  readonly label?: string;
  /** The columns of the list. */
  readonly list?: readonly Name[];
  /** Columns of text, also across foreign keys, that the search looks in. */
  readonly search?: readonly Name[];
  /** Columns, also across foreign keys, that the filter panel offers. */
  readonly filters?: readonly Name[];
  /** The date or date-time column by which the list can be narrowed to a year, a month, a day. */
  readonly dates?: Name;
  /** Columns that are shown and not set; the resource's own `readonly` does not count here. */
  readonly readonly?: readonly Name[];
  /** Columns that the admin area never shows; the resource's own `exclude` does not count here. */
  readonly exclude?: readonly Name[];
  /** What may be done; all of it when absent. */
  readonly allow?: readonly AdminAction[];
  /** The admin area leaves the resource out. */
  readonly hidden?: boolean;
}

/** One resource: a model and its rules (see docs/resources.md). */
export interface Resource extends ModelDefinition {
  /** Who may write; the service's setting ACCESS when absent. */
  readonly access?: AccessLevel;
  /** Who may GET; anyone when absent. */
  readonly read?: AccessLevel;
  /** Who may run queries that are known to be costly, and read streams; anyone who may GET when absent. */
  readonly costly?: AccessLevel;
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
  /** False: changes of the records are not written down in the history. */
  readonly history?: boolean;
}

/**
 * One resource, as the registry's author writes it. `satisfies Resource[]` finds misspelt keys and wrong values; that names fit
 * each other, `Registry` finds. In an array of literals TypeScript gives each the columns of the others, as undefined.
 */
export interface WrittenResource extends Omit<Resource, 'columns'> {
  readonly columns: Readonly<Record<string, ColumnDefinition | undefined>>;
}

/** The columns that a resource has itself. */
export type ColumnsOf<R extends WrittenResource> = {
  [C in keyof R['columns'] as R['columns'][C] extends undefined ? never : C]: R['columns'][C];
};

type ColumnName<R extends WrittenResource> = keyof ColumnsOf<R> & string;

type ForeignKeyName<R extends WrittenResource> = {
  [C in ColumnName<R>]: R['columns'][C] extends { type: 'foreignKey' } ? C : never;
}[ColumnName<R>];

/** The columns as a query names them: `id` and foreign keys by their `_id` name included. */
type PathEnd<R extends WrittenResource> = ColumnName<R> | `${ForeignKeyName<R>}_id` | 'id';

/** Whether a path leads to a column, its own or one behind foreign keys. */
type IsPath<R extends WrittenResource, All extends WrittenResource, Path extends string> =
  Path extends PathEnd<R>
    ? true
    : Path extends `${infer Head}__${infer Tail}`
      ? Head extends ForeignKeyName<R>
        ? IsPath<Referred<R['columns'][Head], All>, All, Tail>
        : Head extends `${infer Key extends ForeignKeyName<R>}_id`
          ? IsPath<Referred<R['columns'][Key], All>, All, Tail>
          : false
      : false;

type Referred<C, All extends WrittenResource> = C extends { references: infer M }
  ? Extract<All, { readonly model: M }>
  : never;

type IsOrdering<
  R extends WrittenResource,
  All extends WrittenResource,
  Text extends string,
> = Text extends `${infer Head},${infer Tail}`
  ? IsOrdering<R, All, Head> extends true
    ? IsOrdering<R, All, Tail>
    : false
  : IsPath<R, All, Text extends `-${infer Path}` ? Path : Text>;

type CheckedColumns<R extends WrittenResource, Models extends string> = {
  readonly [C in keyof R['columns']]: R['columns'][C] extends { type: 'foreignKey' }
    ? R['columns'][C] & { readonly references: Models }
    : R['columns'][C];
};

type Checked<R extends WrittenResource, All extends WrittenResource> = R extends WrittenResource
  ? {
      readonly model: R['model'];
      readonly columns: CheckedColumns<R, All['model']>;
      readonly exclude?: readonly ColumnName<R>[];
      readonly readonly?: readonly ColumnName<R>[];
      readonly owner?: ForeignKeyName<R>;
      readonly ordering?: R extends { ordering: infer Text extends string }
        ? IsOrdering<R, All, Text> extends true
          ? Text
          : PathEnd<R>
        : undefined;
    }
  : never;

/**
 * A registry whose names fit each other: `export default resources satisfies Registry<typeof resources>` finds an `owner`,
 * `exclude`, `readonly` or `ordering` that names no column, and a `references` that names no model. It is a second step,
 * because TypeScript cannot relate two keys of one object while it infers that very object.
 */
export type Registry<R extends readonly WrittenResource[]> = readonly Checked<R[number], R[number]>[];

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

type KeyValue<R extends WrittenResource> = R extends { primaryKey: { type: 'uuid' | 'string' } }
  ? string
  : number;

type ColumnValue<C extends ColumnDefinition, Models extends WrittenResource> = C extends {
  type: keyof Values;
}
  ? Values[C['type']]
  : C extends { references: infer Target }
    ? [Models] extends [never]
      ? number
      : KeyValue<Extract<Models, { model: Target }>>
    : never;

type Nullable<C extends ColumnDefinition, Value> = C extends { null: true } ? Value | null : Value;

type Excluded<R extends WrittenResource> = R extends { exclude: readonly (infer C)[] } ? C : never;

type RowKey<C extends ColumnDefinition, Name extends string> = C extends { type: 'foreignKey' }
  ? `${Name}_id`
  : Name;

/**
 * A record of the resource as the API outputs it: `Row<typeof message>`. Foreign keys are numbers, unless the union of
 * the registry's resources is given and says otherwise: `Row<typeof message, (typeof resources)[number]>`.
 */
export type Row<R extends WrittenResource, Models extends WrittenResource = never> = { id: KeyValue<R> } & {
  [C in Exclude<ColumnName<R>, Excluded<R>> as RowKey<R['columns'][C] & ColumnDefinition, C>]: Nullable<
    R['columns'][C] & ColumnDefinition,
    ColumnValue<R['columns'][C] & ColumnDefinition, Models>
  >;
};
