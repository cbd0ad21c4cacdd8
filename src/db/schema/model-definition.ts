import type { ColumnType } from '../types/column-type.ts';
import { COLUMN_TYPES, KEY_TYPES, type KeyTypeName, type TypeName } from '../types/column-types.ts';
import type { OnDelete } from './model.ts';

/** A name that keeps its literal type when an object is written with `satisfies`, as a bare `string` would not. */
export type Name = Lowercase<string> | (string & {});

interface CommonColumn {
  /** NULL is allowed; else the column is required unless it has a default. */
  readonly null?: boolean;
  readonly unique?: boolean;
  readonly index?: boolean;
  /** The column's name in the database, where it differs. */
  readonly column?: string;
  /** What people read instead of the name. */
  readonly label?: string;
  readonly help?: string;
}

export interface ScalarColumn<Type extends string, Value> extends CommonColumn {
  readonly type: Type;
  readonly default?: Value;
  /** The only values that clients may write. Texts keep their literal types, see `Name`. */
  readonly choices?: readonly (string extends Value ? Exclude<Value, string> | Name : Value)[];
}

interface Bounds {
  readonly min?: number;
  readonly max?: number;
}

/** One column, as the registry's author writes it. */
export type ColumnDefinition =
  | (ScalarColumn<'string' | 'text', string> & { readonly maxLength?: number })
  | (ScalarColumn<'integer' | 'float', number> & Bounds)
  | (ScalarColumn<'bigint', number | string> & Bounds)
  | (ScalarColumn<'decimal', number | string> &
      Bounds & { readonly precision?: number; readonly scale?: number })
  | ScalarColumn<'boolean', boolean>
  | ScalarColumn<'datetime' | 'date' | 'time', 'now' | (string & {})>
  | ScalarColumn<'uuid', string>
  | (CommonColumn & {
      readonly type: 'password';
      /** The fewest characters of a plain password. */
      readonly minLength?: number;
      readonly default?: never;
      readonly choices?: never;
    })
  | (ScalarColumn<'json', unknown> & { readonly choices?: never })
  | (CommonColumn & {
      readonly type: 'foreignKey';
      /** The model whose primary key it holds. */
      readonly references: Name;
      readonly onDelete?: OnDelete;
      readonly default?: number | string;
      readonly choices?: readonly (number | string)[];
    });

/** The database half of a resource object. */
export interface ModelDefinition {
  readonly model: Name;
  /** The table's name, `table` or `schema.table`, where it differs from the model's. */
  readonly table?: string;
  readonly primaryKey?: {
    readonly type: KeyTypeName;
    /** The key's column in the database, where it is not `id`. */
    readonly column?: string;
  };
  readonly columns: Readonly<Record<string, ColumnDefinition>>;
}

export const tableOf = (definition: ModelDefinition): string => definition.table ?? definition.model;

export const keyFieldOf = (definition: ModelDefinition): string => definition.primaryKey?.column ?? 'id';

export const keyTypeOf = (definition: ModelDefinition): KeyTypeName =>
  definition.primaryKey?.type ?? 'integer';

/** The database's name of a column: a foreign key `user` is stored as `user_id`. */
export const fieldOf = (name: string, column: ColumnDefinition): string =>
  column.column ?? jsonKeyOf(name, column);

export const jsonKeyOf = (name: string, column: ColumnDefinition): string =>
  column.type === 'foreignKey' ? `${name}_id` : name;

export const isNullable = (column: ColumnDefinition): boolean => column.null === true;

/** Whether a table that may have rows can get such a column: there is a value for them. */
export const isAddable = (column: ColumnDefinition): boolean =>
  isNullable(column) || column.default !== undefined;

/** The type of a column; a foreign key has the type of the key that it refers to. */
export function typeOf(column: ColumnDefinition, definitions: readonly ModelDefinition[]): ColumnType {
  if (column.type !== 'foreignKey') return COLUMN_TYPES[column.type satisfies TypeName];
  const target = definitions.find(({ model }) => model === column.references);
  return KEY_TYPES[target ? keyTypeOf(target) : 'integer'];
}
