// The types of a resource: a model and its rules, as the registry file defines them.
import type { Level } from '../../config.ts';
import type { ColumnDefinition, ModelDefinition, Name } from '../../db/schema/model-definition.ts';
import type { KeyTypeName } from '../../db/types/column-types.ts';
import type { CustomAction } from './custom-action.ts';
import type { RowRules } from './roles.ts';

export const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const;
export type Method = (typeof METHODS)[number];

/** The actions on records that the admin area can allow, besides viewing. */
export const ACTIONS = ['add', 'change', 'delete'] as const;
export type AdminAction = (typeof ACTIONS)[number];

/** A list that has a tab: its query is that of the address, in which `$me` is the caller's key and `$me.team` a value of their record. */
export interface ListView {
  readonly title: string;
  readonly query: string;
}

/** Rows of a child table on the form of a record. */
export interface Inline {
  readonly model: string;
  /** Its foreign key to the record; needed if it has several. */
  readonly column?: Name;
  /** The columns that a row has; all but the key and the foreign key when absent. */
  readonly columns?: readonly Name[];
  /** How many empty rows the form begins with, from 0 to 10; 3 when absent. */
  readonly extra?: number;
  /** Whether the rows are only shown. */
  readonly readonly?: boolean;
}

/** How the admin area shows a resource (see docs/configuring-admin.md). The API does not use it. */
export interface AdminOptions {
  /** The title of the resource: `Media types`. */
  readonly title?: string;
  /** The heading under which the dashboard lists it. */
  readonly group?: string;
  /** The label of a record: a column, or a template such as `{first_name} {last_name}`. Columns across foreign keys are allowed. */
  readonly label?: string;
  /** The columns of the list. */
  readonly list?: readonly Name[];
  /** The text columns to search, also across foreign keys. */
  readonly search?: readonly Name[];
  /** The columns that the filter panel offers, also across foreign keys. */
  readonly filters?: readonly Name[];
  /** A date or date-time column that the filter panel offers, besides `filters`. */
  readonly dates?: Name;
  /** Tabs above the list. */
  readonly views?: readonly ListView[];
  /** The column whose field has the focus when a record is opened. */
  readonly focus?: Name;
  /** Columns that the admin area shows and does not set. The resource's own `readonly` does not apply here. */
  readonly readonly?: readonly Name[];
  /** Columns that the admin area never shows. The resource's own `exclude` does not apply here. */
  readonly exclude?: readonly Name[];
  /** What people can do with records beside that. */
  readonly actions?: readonly CustomAction[];
  /** The allowed actions; all of them when absent. */
  readonly allow?: readonly AdminAction[];
  /** Child tables whose rows are on the form of a record. */
  readonly inlines?: readonly Inline[];
  /** Whether the admin area leaves the resource out. */
  readonly hidden?: boolean;
}

/** One resource: a model and its rules (see docs/resources.md). */
export interface Resource extends ModelDefinition {
  /** Who may write; the setting ACCESS when absent. An object says it for each method, and no one may use those that it leaves out. */
  readonly access?: Level | { readonly [M in Exclude<Method, 'GET'>]?: Level };
  /** Who may GET; the setting READ when absent. */
  readonly read?: Level;
  /** Whether PostgreSQL knows the caller while statements reach the table: `current_setting('vitrine.user', true)`. */
  readonly identity?: boolean;
  /** Which records callers may read and write; all of them when absent. They do not bind admins. */
  readonly rows?: RowRules;
  /** Who may run costly queries and read streams; anyone who may GET when absent. */
  readonly costly?: Level;
  /** Columns that are in no output, filter, ordering or join. */
  readonly exclude?: readonly Name[];
  /** Columns that clients may see but not set. */
  readonly readonly?: readonly Name[];
  /** A foreign key to the user model. Only this user may change or delete the record. */
  readonly owner?: Name;
  /** The page size without `?limit=`. */
  readonly limit?: number;
  /** The maximum of `?limit=`. */
  readonly maxLimit?: number;
  /** The maximum that `Prefer: count=exact` counts to for callers below `countLevel`; no maximum when absent. */
  readonly maxCount?: number;
  /** Who gets exact counts past `maxCount`; admins when absent. */
  readonly countLevel?: Level;
  /** How long caches may keep what anonymous clients read (seconds); not at all when absent. */
  readonly cache?: number;
  /** Whether the API shows PostgreSQL's message when a rule of the database refuses a write. */
  readonly databaseErrors?: 'hidden' | 'shown';
  /** What the API says when a constraint of the database refuses a write, by the constraint's name. */
  readonly constraints?: Readonly<Record<string, string>>;
  readonly methods?: readonly Method[];
  /** As in the query string: `-pub_date,user__username`. */
  readonly ordering?: Name;
  readonly admin?: AdminOptions;
  /** The table holds nothing but the `choices` of its columns, so types of records narrow to them. */
  readonly strict?: boolean;
  /** False if the history does not record changes of this resource. */
  readonly history?: boolean;
}

/**
 * One resource as a registry file writes it. `satisfies Resource[]` finds misspelled keys and wrong values; `Registry` finds wrong
 * names. Columns may be undefined, because in an array of literals TypeScript gives each resource the columns of the others.
 */
export interface WrittenResource extends Omit<Resource, 'columns'> {
  readonly columns: Readonly<Record<string, ColumnDefinition | undefined>>;
}

/** The resource's own columns, without those that TypeScript adds as undefined. */
export type ColumnsOf<R extends WrittenResource> = {
  [C in keyof R['columns'] as R['columns'][C] extends undefined ? never : C]: R['columns'][C];
};

type ColumnName<R extends WrittenResource> = keyof ColumnsOf<R> & string;

type ForeignKeyName<R extends WrittenResource> = {
  [C in ColumnName<R>]: R['columns'][C] extends { type: 'foreignKey' } ? C : never;
}[ColumnName<R>];

export type ExcludedColumn<R extends WrittenResource> = R extends { exclude: readonly (infer C)[] }
  ? C
  : never;

/** The primary key as a column. A composite key has the values (strings) and the operators of `uuid`. `never` without a key. */
export type KeyColumn<R extends WrittenResource> = R extends {
  primaryKey: { type: infer T extends KeyTypeName };
}
  ? { type: T }
  : R extends { primaryKey: { columns: readonly string[] } }
    ? { type: 'uuid' }
    : R extends { primaryKey: false }
      ? never
      : { type: 'integer' };

/** Whether its records have a key. `never` for an unknown registry. */
export type HasKey<R extends WrittenResource> = R extends { primaryKey: false } ? false : true;

/** The models that the foreign keys of several columns refer to, by name. */
type CompositeForeignKeysOf<R extends WrittenResource> = R extends { foreignKeys: infer F } ? F : unknown;

/** The resource that a foreign key refers to. */
export type Referred<C, All extends WrittenResource> = C extends { references: infer M }
  ? Extract<All, { readonly model: M }>
  : never;

/** Whether names may be those of all columns, as in a registry, or only of those that clients see. */
type Scope = 'all' | 'visible';

type NameIn<R extends WrittenResource, S extends Scope> = S extends 'all'
  ? ColumnName<R>
  : Exclude<ColumnName<R>, ExcludedColumn<R>>;

/** The column that a name refers to: `user` and `user_id` are the same foreign key. `never` for an unknown name. */
export type ColumnOf<R extends WrittenResource, Name, S extends Scope = 'visible'> = Name extends 'id'
  ? KeyColumn<R>
  : Name extends NameIn<R, S>
    ? ColumnsOf<R>[Name]
    : Name extends `${infer Key extends NameIn<R, S> & ForeignKeyName<R>}_id`
      ? ColumnsOf<R>[Key]
      : Name extends keyof CompositeForeignKeysOf<R>
        ? ForeignKeyOf<CompositeForeignKeysOf<R>[Name]>
        : Name extends `${infer Key extends keyof CompositeForeignKeysOf<R> & string}_id`
          ? ForeignKeyOf<CompositeForeignKeysOf<R>[Key]>
          : never;

type ForeignKeyOf<F> = F extends { references: infer M } ? { type: 'foreignKey'; references: M } : never;

/** Whether a path leads to a column that can be sorted by, of the resource or across its foreign keys. */
type IsSortable<R extends WrittenResource, All extends WrittenResource, Path, S extends Scope> = [
  ColumnOf<R, Path, S>,
] extends [never]
  ? Path extends `${infer Head}__${infer Tail}`
    ? ColumnOf<R, Head, S> extends { type: 'foreignKey' }
      ? IsSortable<Referred<ColumnOf<R, Head, S>, All>, All, Tail, S>
      : false
    : false
  : ColumnOf<R, Path, S> extends { type: 'json' | 'array' }
    ? false
    : true;

/** Whether a text is an ordering: sortable paths, separated by commas, each with or without a `-`. */
export type IsOrdering<
  R extends WrittenResource,
  All extends WrittenResource,
  Text,
  S extends Scope = 'visible',
> = Text extends `${infer Head},${infer Rest}`
  ? IsOrdering<R, All, Head, S> extends true
    ? IsOrdering<R, All, Rest, S>
    : false
  : IsSortable<R, All, Text extends `-${infer Path}` ? Path : Text, S>;

type CheckedColumns<R extends WrittenResource, Models extends string> = {
  readonly [C in keyof R['columns']]: R['columns'][C] extends { type: 'foreignKey' }
    ? R['columns'][C] & { readonly references: Models }
    : R['columns'][C];
};

type Checked<R extends WrittenResource, All extends WrittenResource> = R extends WrittenResource
  ? {
      readonly model: R['model'];
      readonly columns: CheckedColumns<R, All['model']>;
      readonly primaryKey?: R extends { primaryKey: { columns: readonly string[] } }
        ? { readonly columns: readonly ColumnName<R>[] }
        : R['primaryKey'];
      readonly foreignKeys?: {
        readonly [F in keyof CompositeForeignKeysOf<R>]: {
          readonly columns: readonly ColumnName<R>[];
          readonly references: All['model'];
        };
      };
      readonly exclude?: readonly ColumnName<R>[];
      readonly readonly?: readonly ColumnName<R>[];
      readonly owner?: ForeignKeyName<R>;
      readonly unique?: readonly (readonly ColumnName<R>[])[];
      readonly version?: ColumnName<R>;
      readonly ordering?: R extends { ordering: infer Text extends string }
        ? IsOrdering<R, All, Text, 'all'> extends true
          ? Text
          : Exclude<ColumnName<R>, Text> | 'id'
        : undefined;
    }
  : never;

/**
 * A registry with consistent names. `export default resources satisfies Registry<typeof resources>` finds an `owner`, `exclude`,
 * `readonly` or `ordering` that names no column, and a `references` that names no model. It is a second step, because TypeScript
 * cannot relate two keys of an object while it infers that object.
 */
export type Registry<R extends readonly WrittenResource[]> = readonly Checked<R[number], R[number]>[];

/** The values of each column type in a record. */
export interface Values {
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
  inet: string;
  cidr: string;
  macaddr: string;
  json: unknown;
  password: string;
}

export type KeyValue<R extends WrittenResource> = R extends {
  primaryKey: { type: 'uuid' | 'string' } | { columns: readonly string[] };
}
  ? string
  : number;

/** The choices of a column; `never` without any. The labels of texts have the values as keys. */
export type ChoiceOf<C> = C extends { choices: readonly (infer Choice)[] }
  ? Choice
  : C extends { choices: infer Labels; type: 'string' | 'text' }
    ? keyof Labels & string
    : C extends { choices: infer Labels; of: 'string' | 'text' }
      ? keyof Labels & string
      : never;

/** An array of these elements, which can be null unless `elements` says otherwise. */
export type ArrayValue<C, Element> = C extends { elements: { null: false } } ? Element[] : (Element | null)[];

type ColumnValue<C extends ColumnDefinition, Models extends WrittenResource> = C extends {
  type: keyof Values;
}
  ? Values[C['type']]
  : C extends { type: 'array' }
    ? ArrayValue<C, C extends { of: infer T extends keyof Values } ? Values[T] : never>
    : C extends { references: string }
      ? [Models] extends [never]
        ? number
        : KeyValue<Referred<C, Models>>
      : never;

type Nullable<C extends ColumnDefinition, Value> = C extends { null: true } ? Value | null : Value;

/** The name of a column in JSON. */
export type JsonKey<C, Name extends string> = C extends { type: 'foreignKey' } ? `${Name}_id` : Name;

/**
 * A record of the resource as the API outputs it: `Row<typeof message>`. Foreign keys are numbers. With the union of the
 * registry's resources they have their key's type: `Row<typeof message, (typeof resources)[number]>`.
 */
export type Row<R extends WrittenResource, Models extends WrittenResource = never> = ([HasKey<R>] extends [
  true,
]
  ? { id: KeyValue<R> }
  : unknown) & {
  [C in Exclude<ColumnName<R>, ExcludedColumn<R>> as JsonKey<R['columns'][C], C>]: Nullable<
    R['columns'][C] & ColumnDefinition,
    R extends { strict: true }
      ? Narrowed<R['columns'][C], ColumnValue<R['columns'][C] & ColumnDefinition, Models>>
      : ColumnValue<R['columns'][C] & ColumnDefinition, Models>
  >;
};

/** A value that is one of the choices of its column, as far as these are of the same type. */
type Narrowed<C, Value> = Value extends readonly (infer Element)[]
  ? Narrowed<C, Element>[]
  : [Extract<Value, string | number> & ChoiceOf<C>] extends [never]
    ? Value
    : (Value & ChoiceOf<C>) | Extract<Value, null>;
