// A model as the service uses it: one table, its columns, and their SQL expressions.
import type { ColumnType, Facts } from '../types/column-type.ts';
import { cast } from '../types/column-types.ts';
import { identifier, raw, sql, value as parameter, type Fragment } from '../fragment.ts';

export const ON_DELETE = ['restrict', 'cascade', 'setNull'] as const;
export type OnDelete = (typeof ON_DELETE)[number];

/** A column of a model with all names resolved. If it exists in the database, the facts come from there. */
export interface Column extends Facts {
  /** The registry's name: `user`, `content`, `id`. */
  readonly name: string;
  /** The name in JSON: `user_id` for a foreign key `user`, else the name. */
  readonly key: string;
  /** The name in the database. */
  readonly field: string;
  /** The name that people see. */
  readonly title: string;
  readonly help: string | undefined;
  readonly type: ColumnType;
  readonly isPassword: boolean;
  readonly nullable: boolean;
  readonly hasDefault: boolean;
  /** The default from the registry, unchanged; 'now' means the current time. */
  readonly initial: unknown;
  /** An index starts with this column. */
  readonly indexed: boolean;
  /** The database computes it (generated, or identity always), so it is never written. */
  readonly generated: boolean;
  readonly choices: readonly unknown[] | undefined;
  readonly references: Model | undefined;
  /** Foreign keys: what happens to this record when the referenced one is deleted. */
  readonly onDelete: OnDelete;
}

export interface Model {
  readonly name: string;
  /** `table` or `schema.table`. */
  readonly table: string;
  /** A subselect that replaces the table in reads, if only a part of the table is visible. */
  readonly relation?: Fragment;
  /** The schema where the table was found; undefined without a catalog entry. */
  readonly schema: string | undefined;
  readonly primaryKey: Column;
  /** All columns except the primary key, in output order. */
  readonly columns: readonly Column[];
  /** The columns of each unique index, by the index's name. */
  readonly uniques: ReadonlyMap<string, readonly Column[]>;
  /** The unique indexes of all rows and of columns alone: a query for the values of their columns uses them. */
  readonly wholeUniques: readonly (readonly Column[])[];
}

/** Turns a name into a label: `media_type` becomes "Media type". */
export const humanize = (name: string): string =>
  name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');

/** `alias."field"` as a comparable expression: a domain over an enum is cast to the enum. */
export function reference(alias: string, column: Column): Fragment {
  const bare = sql`${raw(alias)}.${identifier(column.field)}`;
  return column.isEnumDomain ? sql`${bare}::${raw(column.castType)}` : bare;
}

/** A parameter with the column's type. */
export const typed = (text: string | null, column: Column): Fragment => cast(parameter(text), column);

/** The column as an output expression. */
export const output = (alias: string, column: Column): Fragment =>
  column.type.output(reference(alias, column), column);

/** Finds a column by a name from a client. A foreign key has two names: `user` and `user_id`. */
export function findColumn(model: Model, name: string): Column | undefined {
  if (name === 'id') return model.primaryKey;
  return model.columns.find((column) => column.name === name || column.key === name);
}
